"""What goes into a scaler: probabilities with zeros, probabilities that were taken for logits, and
the reverse."""

import io
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scaling_cases import confident, nll, sampled, with_unknown
from torch import nn

from socrates.scaling import ReadoutScaling, TemperatureScaling, VectorScaling

LOGITS, LABELS = sampled(400, 5, 1.7, dtype=torch.float64)
PROBS = LOGITS.softmax(dim=1)


@pytest.mark.parametrize("make", [TemperatureScaling, VectorScaling])
def test_probabilities_are_fitted_as_their_logarithms(make):
    by_logits, by_probs = (
        make().fit(LOGITS.log_softmax(dim=1), LABELS),
        make().fit(PROBS, LABELS, from_probs=True),
    )
    torch.testing.assert_close(
        by_probs(PROBS, from_probs=True).softmax(dim=1),
        by_logits(PROBS.log()).softmax(dim=1),
        rtol=0,
        atol=1e-6,
    )
    torch.testing.assert_close(
        by_logits(PROBS, from_probs=True).softmax(dim=1),
        by_logits(PROBS.log()).softmax(dim=1),
        rtol=0,
        atol=1e-9,
    )
    assert by_probs.report.converged


def test_arrays_and_lists_of_probabilities():
    scaler = TemperatureScaling().fit(PROBS.numpy(), LABELS.numpy(), from_probs=True)
    expected = scaler(PROBS, from_probs=True)
    scaled = scaler(PROBS.numpy(), from_probs=True)
    assert isinstance(scaled, np.ndarray)
    np.testing.assert_array_equal(scaled, expected.numpy())
    np.testing.assert_array_equal(scaler(PROBS.tolist(), from_probs=True), expected.numpy())
    assert torch.equal(
        TemperatureScaling().fit(PROBS.tolist(), LABELS.tolist(), from_probs=True).temperature,
        scaler.temperature,
    )


def test_labels_and_weights_that_may_not_be_written_to_are_taken_without_a_warning():
    """Those of a pandas Series are such arrays. By default torch warns once per process only."""
    labels = LABELS.numpy().copy()
    weight = np.arange(1.0, len(labels) + 1)
    for array in (labels, weight):
        array.setflags(write=False)
    was_always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        scaler = TemperatureScaling().fit(LOGITS, labels, sample_weight=weight)
    finally:
        torch.set_warn_always(was_always)
    expected = TemperatureScaling().fit(LOGITS, LABELS, sample_weight=weight.copy())
    assert scaler.temperature == expected.temperature


def test_a_zero_counts_as_a_tenth_of_the_smallest_other():
    probs = torch.tensor([[0.5, 0.5, 0.0], [0.99, 0.01, 0.0], [0.0, 0.002, 0.998], [0.3, 0.3, 0.4]])
    scaler = TemperatureScaling().fit(probs, torch.tensor([0, 0, 2, 1]), from_probs=True)
    assert scaler.floor == pytest.approx(2e-4)
    by_hand = TemperatureScaling().fit(probs.clamp(min=2e-4).log(), torch.tensor([0, 0, 2, 1]))
    assert float(scaler.temperature) == pytest.approx(float(by_hand.temperature), rel=1e-5)
    one = torch.tensor([[1.0, 0.0, 0.0]])  # one row is scaled as it would be among others
    expected = torch.tensor([[0.0, 2e-4, 2e-4]]).clamp(min=2e-4).log() / float(by_hand.temperature)
    expected[0, 0] = 0.0
    torch.testing.assert_close(scaler(one, from_probs=True), expected, rtol=1e-5, atol=1e-6)
    assert repr(scaler).endswith("columns=3, floor=0.0002)")


@pytest.mark.parametrize(("smallest", "floor"), [(1e-300, 1e-37), (1e-9, 1e-10), (0.1, 1e-3)])
def test_the_floor_has_limits(smallest, floor):
    probs = torch.tensor(
        [[1 - smallest, smallest], [0.5, 0.5], [1.0, 0.0], *[[0.9, 0.1]] * 9], dtype=torch.float64
    )
    scaler = TemperatureScaling().fit(probs, torch.tensor([0, 1, 0, 1] + 8 * [0]), from_probs=True)
    assert scaler.floor == pytest.approx(floor, rel=1e-9, abs=0)


def test_a_fit_on_logits_forgets_the_floor():
    scaler = TemperatureScaling().fit(PROBS, LABELS, from_probs=True)
    assert scaler.floor != 1e-37
    assert scaler.fit(LOGITS, LABELS).floor == 1e-37
    assert "floor" not in repr(scaler)


@pytest.mark.parametrize("digits", [3, 4, 6])
def test_rounded_probabilities_are_nearly_as_good_as_exact_ones(digits):
    logits, labels = confident(4000, 10)
    exact = logits.double().softmax(dim=1)
    rounded = exact.mul(10**digits).round() / 10**digits
    at_label = rounded.gather(1, labels[:, None])
    assert digits > 4 or bool((at_label == 0).any())
    scaler = TemperatureScaling().fit(rounded[:2000], labels[:2000], from_probs=True)
    found = nll(scaler(rounded[2000:], from_probs=True), labels[2000:])
    best = nll(
        TemperatureScaling().fit(exact[:2000], labels[:2000], from_probs=True)(
            exact[2000:], from_probs=True
        ),
        labels[2000:],
    )
    fixed = rounded.clamp(min=1e-30).log()
    assert found < best + 0.05
    assert digits > 4 or found < nll(
        TemperatureScaling().fit(fixed[:2000], labels[:2000])(fixed[2000:]), labels[2000:]
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_probabilities_of_less_precision(dtype):
    logits, labels = confident(3000, 100)
    probs = (3 * logits).softmax(dim=1).to(dtype)
    assert dtype != torch.float16 or 0.1 < float((probs == 0).float().mean()) < 0.9
    scaler = TemperatureScaling().fit(probs, labels, from_probs=True)
    out = scaler(probs, from_probs=True)
    assert out.dtype == dtype
    assert torch.isfinite(out).all()
    exact = TemperatureScaling().fit(3 * logits, labels)
    assert float(nll(out, labels)) == pytest.approx(float(nll(exact(logits * 3), labels)), abs=0.05)


def test_hard_answers_are_probabilities_too():
    labels = torch.arange(40) % 4
    hard = torch.eye(4)[(labels + (torch.arange(40) >= 30)) % 4]  # right 3 times of 4
    scaler = TemperatureScaling().fit(hard, labels, from_probs=True)
    assert float(scaler(hard, from_probs=True).softmax(dim=1).amax()) == pytest.approx(
        0.75, abs=1e-4
    )


def test_the_floor_travels_with_the_state():
    scaler, fresh = TemperatureScaling().fit(PROBS, LABELS, from_probs=True), TemperatureScaling()
    file = io.BytesIO()
    torch.save(scaler.state_dict(), file)
    file.seek(0)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert fresh.floor == scaler.floor
    assert fresh.columns == 5
    assert torch.equal(fresh(PROBS, from_probs=True), scaler(PROBS, from_probs=True))
    # as it always was
    assert torch.equal(TemperatureScaling().fit(LOGITS, LABELS).get_extra_state(), torch.tensor(5))


def test_probabilities_with_an_unknown_column():
    logits, labels = with_unknown(500, 4, 1.5, 1.0)
    scaler = ReadoutScaling().fit(logits.double().softmax(dim=1), labels, from_probs=True)
    exact = ReadoutScaling().fit(logits.double(), labels)
    assert float(scaler.temperature) == pytest.approx(float(exact.temperature), rel=1e-4)
    read = exact.probs(logits.numpy())
    assert isinstance(read, np.ndarray)
    np.testing.assert_array_equal(read, exact.probs(logits).numpy())


@pytest.mark.parametrize(
    "kind", [torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16, torch.Tensor.numpy]
)
def test_probabilities_taken_for_logits_are_refused(kind):
    with pytest.raises(ValueError, match=r"fit: .*\b400 rows .*from_probs=True"):
        TemperatureScaling().fit(kind(PROBS), LABELS)
    scaler = TemperatureScaling().fit(LOGITS, LABELS)
    with pytest.warns(UserWarning, match="from_probs=True"):
        scaler(kind(PROBS))
    with pytest.warns(UserWarning, match="from_probs=True"):
        scaler(kind(PROBS[:400].reshape(4, 100, 5)))


def test_what_only_resembles_probabilities_is_taken():
    scaler = TemperatureScaling().fit(PROBS + 1, LABELS)  # the way out that the error names
    np.testing.assert_allclose(
        scaler(PROBS + 1).softmax(dim=1), scaler(PROBS + 3).softmax(dim=1), rtol=1e-9
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler(PROBS[:1])  # one row may be so by chance
        scaler(PROBS[0])
        scaler(PROBS[:0])
        scaler(torch.cat([PROBS, LOGITS]))
        scaler(PROBS.log())
        TemperatureScaling().fit(torch.cat([PROBS, LOGITS[:1]]), torch.cat([LABELS, LABELS[:1]]))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.integers(2, 5), st.floats(0.01, 50), st.integers(0, 10_000))
def test_no_false_alarm_on_logits(n, c, scale, seed):
    logits = scale * np.random.default_rng(seed).normal(size=(n, c))
    scaler = TemperatureScaling().fit(LOGITS[:, :c], LABELS % c)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler(logits)
        scaler(np.abs(logits))


NONE = {
    "logits": (LOGITS, r"row 0 holds -"),
    "NaN": (
        PROBS.clone().index_fill_(0, torch.tensor([3]), np.nan),
        "row 3 holds NaN or infinity",
    ),
    "percent": (
        100 * PROBS,
        r"row 0 .*100, .*divide each row",
    ),
    "unnormalised": (PROBS * torch.linspace(1, 1.04, 400)[:, None], r"row 10 sums to 1\.001"),
    "integers": (
        torch.ones(400, 5, dtype=torch.long),
        r"torch.int64, expected floating point.*probs.float\(\)",
    ),
}


@pytest.mark.parametrize("case", NONE.values(), ids=NONE.keys())
def test_what_is_no_probabilities_is_refused(case):
    probs, message = case
    with pytest.raises(ValueError, match=message) as caught:
        TemperatureScaling().fit(probs, LABELS, from_probs=True)
    assert "TemperatureScaling.fit" in str(caught.value)
    if probs.ndim == 2 and probs.is_floating_point():
        with pytest.raises(ValueError, match=f"TemperatureScaling .*: {message}"):
            TemperatureScaling().fit(LOGITS, LABELS)(probs, from_probs=True)


def test_no_look_at_what_has_no_values():
    scaler = TemperatureScaling().fit(LOGITS, LABELS)
    out = torch.func.vmap(scaler)(PROBS[:6].reshape(3, 2, 5))
    torch.testing.assert_close(out.reshape(6, 5), PROBS[:6] / scaler.temperature)
    assert scaler(torch.zeros(3, 5, device="meta")).device.type == "meta"
    assert scaler(torch.zeros(3, 5, device="meta"), from_probs=True).shape == (3, 5)

    class FromProbs(nn.Module):
        def __init__(self):
            super().__init__()
            self.scaler = TemperatureScaling().fit(PROBS, LABELS, from_probs=True)

        def forward(self, probs):
            return self.scaler(probs, from_probs=True)

    exported = torch.export.export(FromProbs(), (PROBS[:4],)).module()
    torch.testing.assert_close(exported(PROBS[4:8]), FromProbs()(PROBS[4:8]))


def test_features_in_the_place_of_logits_are_noticed():
    random = np.random.default_rng(0)
    features = random.normal(size=(700, 64))
    labels = np.arange(700) % 10
    with pytest.warns(UserWarning, match="features.*64 columns"):
        TemperatureScaling().fit(features, labels)
    standard = features[:, :3]
    standard = (standard - standard.mean(axis=0)) / standard.std(axis=0)
    with pytest.warns(UserWarning, match="features.*mean 0"):
        TemperatureScaling().fit(standard, labels % 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TemperatureScaling().fit(features[:, :10], labels)
