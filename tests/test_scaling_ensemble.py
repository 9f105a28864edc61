"""Ensemble temperature scaling: the best mixture, never worse than temperature scaling, and the
same answers."""

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scaling_cases import confident, nll, sampled, with_unknown

from socrates.scaling import EnsembleTemperatureScaling, TemperatureScaling
from socrates.scaling.ensemble import mixing_weights


def mixture(logits, temperature, weights):
    """The definition, in probabilities."""
    scaled, given_probs = ((logits.double() / t).softmax(dim=1) for t in (temperature, 1.0))
    return weights[0] * scaled + weights[1] * given_probs + weights[2] / logits.shape[1]


def test_it_is_the_mixture_that_it_says():
    logits, labels = confident(800, 6)
    scaler = EnsembleTemperatureScaling().fit(logits, labels)
    weights = scaler.weights.tolist()
    assert min(weights) >= 0
    assert sum(weights) == pytest.approx(1)
    expected = mixture(logits, float(scaler.temperature), weights)
    torch.testing.assert_close(scaler(logits.double()).exp(), expected, rtol=1e-12, atol=1e-15)
    assert scaler.report.nll_after == pytest.approx(
        float(nll(scaler(logits.double()), labels)), abs=1e-9
    )
    assert repr(scaler).startswith(
        f"EnsembleTemperatureScaling(weights=({weights[0]:.3g}, {weights[1]:.3g}, "
    )
    assert repr(scaler).endswith(f"temperature={float(scaler.temperature):.4g}, columns=6)")


def test_pixels_are_mixed_class_by_class():
    logits, labels = confident(60, 4)
    scaler = EnsembleTemperatureScaling().fit(logits, labels)
    scaler.weights = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    torch.testing.assert_close(scaler(logits.reshape(5, 12, 4)).reshape(60, 4), scaler(logits))
    expected = mixture(logits, float(scaler.temperature), [0.5, 0.3, 0.2])
    torch.testing.assert_close(scaler(logits.double()).exp(), expected)


@pytest.mark.parametrize(
    "data", [confident(700, 5), sampled(700, 5, 1.7), sampled(700, 3, 0.6), confident(300, 40, 3)]
)
def test_no_mixture_on_a_grid_is_better(data):
    logits, labels = data
    scaler = EnsembleTemperatureScaling().fit(logits, labels)
    assert scaler.report.converged
    shares = np.linspace(0, 1, 11)
    for t in np.geomspace(0.2, 5, 24):
        for w1, w2 in itertools.product(shares, shares):
            if w1 + w2 <= 1:
                p = mixture(logits, t, (w1, w2, 1 - w1 - w2)).gather(1, labels[:, None])
                assert scaler.report.nll_after <= float(-p.log().mean()) + 1e-9


def test_a_known_mixture_is_found():
    logits, _ = sampled(60_000, 4, 1.0)
    truth = mixture(logits, 2.0, (0.7, 0.0, 0.3))
    labels = torch.multinomial(truth, 1, generator=torch.Generator().manual_seed(7)).squeeze(1)
    scaler = EnsembleTemperatureScaling().fit(logits, labels)
    torch.testing.assert_close(scaler(logits).exp().double(), truth, rtol=0, atol=0.02)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(2, 6), st.floats(-3, 3), st.integers(0, 10_000))
def test_never_worse_than_temperature_scaling_and_the_order_is_kept(n, c, log_scale, seed):
    generator = np.random.default_rng(seed)
    logits = torch.from_numpy(10**log_scale * generator.normal(size=(n, c)))
    labels = torch.from_numpy(generator.integers(0, c, size=n))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny samples are often separable
        scaler, plain = (
            EnsembleTemperatureScaling().fit(logits, labels),
            TemperatureScaling().fit(logits, labels),
        )
    assert scaler.report.nll_after <= plain.report.nll_after + 1e-12
    assert scaler.report.nll_after == pytest.approx(float(nll(scaler(logits), labels)), abs=1e-6)
    scaled = scaler(logits)
    assert not scaled.isnan().any()
    rising = logits.argsort(dim=1)
    assert bool((scaled.gather(1, rising).diff(dim=1) >= -1e-9).all())


def test_the_unknown_class_has_no_share_of_the_uniform_part():
    logits, labels = with_unknown(900, 3, 1.3, 1.0)
    logits[:, -1] -= 30  # as good as no unknown class
    scaler = EnsembleTemperatureScaling().fit(logits, labels, unknown_class=True)
    known = EnsembleTemperatureScaling().fit(logits[:, :-1], labels)
    torch.testing.assert_close(scaler(logits)[:, :-1], known(logits[:, :-1]), rtol=0, atol=1e-3)
    assert scaler.uniform.tolist() == pytest.approx([1 / 3] * 3 + [0.0])


def test_a_guess_leaves_the_unknown_column_finite():
    logits, _ = with_unknown(200, 3, 1.3, 1.0)
    scaler = EnsembleTemperatureScaling().fit(
        logits, logits[:, :-1].argmin(dim=1), unknown_class=True
    )
    assert scaler.weights.tolist() == [0.0, 0.0, 1.0]
    assert bool(torch.isfinite(scaler(logits)).all())
    assert float(scaler(logits).softmax(dim=1)[:, -1].max()) < 1e-30


def test_separable_labels_are_those_of_temperature_scaling():
    logits = torch.tensor([[5.0, 0.0, 0.0], [0.0, 3.0, 1.0], [0.0, 0.0, 2.0]])
    with pytest.warns(UserWarning, match=r"EnsembleTemperatureScaling: .*largest"):
        scaler = EnsembleTemperatureScaling().fit(logits, torch.tensor([0, 1, 2]))
    assert scaler.weights.tolist() == [1.0, 0.0, 0.0]


def test_logits_worse_than_a_guess_become_a_guess():
    logits, _ = sampled(500, 4, 1.0)
    scaler = EnsembleTemperatureScaling().fit(logits, logits.argmin(dim=1))
    assert scaler.report.nll_after == pytest.approx(math.log(4), abs=1e-6)
    torch.testing.assert_close(scaler(logits).exp(), torch.full((500, 4), 0.25), rtol=0, atol=1e-3)


def test_answers_that_are_right_whatever_their_confidence():
    logits, _ = sampled(2000, 5, 1.0)
    generator = torch.Generator().manual_seed(3)
    other = torch.randint(0, 5, (2000,), generator=generator)
    labels = torch.where(torch.rand(2000, generator=generator) < 0.6, logits.argmax(dim=1), other)
    plain = TemperatureScaling().fit(logits, labels)
    with pytest.warns(UserWarning, match=r"EnsembleTemperatureScaling: .*T = 0\.0002"):
        scaler = EnsembleTemperatureScaling().fit(logits, labels)
    assert float(scaler.temperature) == pytest.approx(1e-4 * float(plain.temperature))
    assert scaler.report.nll_after < plain.report.nll_after - 0.02
    confidence = scaler(logits).exp().amax(dim=1)
    assert float(confidence.median()) == pytest.approx(
        float((logits.argmax(dim=1) == labels).double().mean()), abs=0.02
    )


def test_labels_that_only_the_uniform_part_can_explain():
    logits, labels = confident(2000, 10)
    logits[:5] = 300 * torch.nn.functional.one_hot((labels[:5] + 1) % 10, 10)
    scaler = EnsembleTemperatureScaling().fit(logits, labels)
    assert 1e-3 < float(scaler.weights[2]) < 0.1
    plain = TemperatureScaling().fit(logits, labels)
    assert scaler.report.nll_after < plain.report.nll_after - 0.1


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_a_mixture(seed):
    parts = (
        torch.rand(400, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** 4
    )
    weights, gradient = mixing_weights(parts, torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))
    assert gradient < 1e-8
    best = (parts @ weights).log().mean()
    for other in torch.distributions.Dirichlet(torch.ones(3, dtype=torch.float64)).sample((200,)):
        assert (parts @ other).log().mean() <= best + 1e-12
