"""Isotonic regression: the blocks by hand and as scikit-learn finds them, and what happens to
answers and order."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scaling_cases import confident, ece, nll, sampled

from socrates.scaling import IsotonicScaling
from socrates.scaling.isotonic import _interpolated, pool_adjacent_violators, rising_log_odds


def test_blocks_by_hand():
    # In the order of the odds: 0 1 0 | 1 1, and the imagined samples make it 1 0 1 0 | 1 1 0.
    odds = torch.tensor([-2.0, -1.0, 0.0, 1.0, 3.0])
    centres, levels = rising_log_odds(odds, torch.tensor([0, 1, 0, 1, 1]))
    assert centres.tolist() == [-1.0, 2.0]
    assert levels.sigmoid().tolist() == pytest.approx([1 / 2, 2 / 3])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), min_size=1, max_size=60))
def test_blocks_are_those_of_scikit_learn(samples):
    isotonic = pytest.importorskip("sklearn.isotonic")
    values, weights = (np.array(column, dtype=float) for column in zip(*samples, strict=True))
    blocks = pool_adjacent_violators((values * weights).tolist(), weights.tolist())
    ours = np.repeat(
        [total / weight for total, weight, _ in blocks], [size for _, _, size in blocks]
    )
    theirs = isotonic.IsotonicRegression().fit_transform(
        np.arange(len(values)), values, sample_weight=weights
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert np.all(np.diff([total / weight for total, weight, _ in blocks]) > 0)


def test_the_function_through_the_blocks_is_linear_between_and_constant_beyond():
    knots, levels = torch.tensor([-2.0, 0.0, 1.0, 5.0]), torch.tensor([-3.0, -1.0, 4.0, 4.5])
    x = torch.linspace(-4, 7, 45)
    expected = np.interp(x.numpy(), knots.numpy(), levels.numpy())
    assert _interpolated(x, knots, levels).numpy() == pytest.approx(expected, abs=1e-6)
    assert _interpolated(x, knots[:1], levels[:1]).tolist() == [-3.0] * 45


def test_the_report_is_of_one_exact_step():
    report = IsotonicScaling().fit(*sampled(100, 2, 2.0)).report
    assert (report.num_samples, report.num_iterations, report.gradient_norm) == (100, 1, 0.0)


def test_two_columns_recalibrate_the_second():
    logits, labels = sampled(4000, 2, 2.0)
    scaler = IsotonicScaling().fit(logits[:2000], labels[:2000])
    assert ece(scaler(logits[2000:]), labels[2000:]) < 0.6 * ece(logits[2000:], labels[2000:])
    assert nll(scaler(logits[2000:]), labels[2000:]) < nll(logits[2000:], labels[2000:])
    probability = scaler(logits)[:, 1]
    order = (logits[:, 1] - logits[:, 0]).argsort()
    assert bool((probability[order].diff() >= -1e-6).all())
    shifted = torch.stack([logits[:, 0] + 5, logits[:, 1] + 5], dim=1)
    torch.testing.assert_close(scaler(shifted), scaler(logits), rtol=0, atol=1e-4)


def test_more_columns_recalibrate_the_confidence():
    logits, labels = confident(4000, 8)
    scaler = IsotonicScaling().fit(logits[:2000], labels[:2000])
    held_out, truth = logits[2000:].double(), labels[2000:]
    scaled = scaler(held_out)
    assert ece(scaled, truth) < 0.5 * ece(held_out, truth)
    assert torch.equal(scaled.argmax(dim=1), held_out.argmax(dim=1))
    # The other classes keep their proportions.
    answer = held_out.argmax(dim=1, keepdim=True)
    shares = [z.scatter(1, answer, -torch.inf).softmax(dim=1) for z in (held_out, scaled)]
    torch.testing.assert_close(*shares, rtol=0, atol=1e-12)
    # Confidence rises with the old one, and strictly between the ends.
    old, new = (z.softmax(dim=1).amax(dim=1) for z in (held_out, scaled))
    answers_stay = new > scaled.softmax(dim=1).topk(2, dim=1).values[:, 1] + 1e-3
    rising = new[answers_stay][old[answers_stay].argsort()]
    assert bool((rising.diff() >= -1e-9).all())
    assert len(rising.unique()) > 0.5 * len(rising)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(2, 6), st.floats(-2, 3), st.integers(0, 10_000))
def test_finite_and_the_same_answers(n, c, log_scale, seed):
    generator = np.random.default_rng(seed)
    logits = torch.from_numpy(10**log_scale * generator.normal(size=(n, c))).float()
    labels = torch.from_numpy(generator.integers(0, c, size=n))
    scaler = IsotonicScaling().fit(logits, labels)
    new = torch.from_numpy(10**log_scale * generator.normal(size=(50, c))).float()
    scaled = scaler(new)
    assert torch.isfinite(scaled).all()
    torch.testing.assert_close(scaled.exp().sum(dim=1), torch.ones(50))
    confidence = scaled.exp().amax(dim=1)
    assert float(confidence.max()) < 1
    assert scaler.report.nll_after == pytest.approx(
        float(nll(scaler(logits.double()), labels)), abs=1e-6
    )
    if c > 2:
        assert torch.equal(scaled.argmax(dim=1), new.argmax(dim=1))


@pytest.mark.parametrize("columns", [2, 4])
def test_all_right_and_all_wrong_stay_off_the_ends(columns):
    logits, _ = sampled(30, columns, 1.0)
    right = IsotonicScaling().fit(logits, logits.argmax(dim=1))
    assert float(right(logits).exp().amax()) < 1
    wrong = IsotonicScaling().fit(logits, logits.argmin(dim=1))
    assert torch.isfinite(wrong(logits)).all()


def test_one_block_is_one_confidence():
    logits = torch.tensor([[2.0, 0.0, 0.0]] * 8)
    scaler = IsotonicScaling().fit(logits, torch.tensor([0, 0, 0, 0, 0, 0, 1, 2]))
    assert repr(scaler) == "IsotonicScaling(blocks=1, columns=3)"
    # 6 + 1 of 8 + 2
    torch.testing.assert_close(scaler(logits).exp()[0], torch.tensor([0.7, 0.15, 0.15]))
