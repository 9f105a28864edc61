"""Beta calibration against its definition, scikit-learn's logistic regression and the limits of its
parameters."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scaling_cases import nll, sampled

from socrates.scaling import BetaScaling


def features(logits):
    log_p = logits.double().log_softmax(dim=1)
    return torch.stack([log_p[:, 1], -log_p[:, 0]], dim=1)


def drawn(n, a, b, c, seed=0):
    """Logits of two classes, and labels that have the log-odds a log p - b log(1 - p) + c."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.stack([torch.zeros(n), 2 * torch.randn(n, generator=generator)], dim=1)
    odds = features(logits) @ torch.tensor([a, b], dtype=torch.float64) + c
    return logits, (torch.rand(n, generator=generator) < odds.sigmoid()).long()


def test_the_parameters_that_made_the_labels_are_found():
    scaler = BetaScaling().fit(*drawn(100_000, 1.8, 0.4, 0.3))
    assert [float(scaler.a), float(scaler.b), float(scaler.c)] == pytest.approx(
        [1.8, 0.4, 0.3], abs=0.05
    )
    assert scaler.report.converged


def test_it_is_the_map_that_it_says():
    logits, labels = drawn(500, 1.5, 0.5, -0.5)
    scaler = BetaScaling().fit(logits, labels)
    odds = features(logits) @ torch.stack([scaler.a, scaler.b]) + scaler.c
    torch.testing.assert_close(scaler(logits.double()).exp()[:, 1], odds.sigmoid())
    assert scaler.report.nll_after == pytest.approx(
        float(nll(scaler(logits.double()), labels)), abs=1e-9
    )
    assert (
        scaler.report.nll_after
        < scaler.report.nll_before
        == pytest.approx(float(nll(logits, labels)))
    )


def test_unbounded_fits_are_logistic_regressions():
    linear_model = pytest.importorskip("sklearn.linear_model")
    logits, labels = drawn(800, 1.2, 0.9, 0.1)
    scaler = BetaScaling().fit(logits, labels)
    theirs = linear_model.LogisticRegression(C=1e12, tol=1e-12, max_iter=1000).fit(
        features(logits), labels
    )
    assert [float(scaler.a), float(scaler.b)] == pytest.approx(theirs.coef_[0].tolist(), rel=1e-3)
    assert float(scaler.c) == pytest.approx(float(theirs.intercept_[0]), rel=1e-2)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.floats(-2, 2), st.floats(-2, 2), st.integers(0, 10_000))
def test_rising_and_no_better_parameters_nearby(n, a, b, seed):
    logits, labels = drawn(n, a, b, 0.2, seed)
    if len(labels.unique()) < 2:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few samples are often separable
        scaler = BetaScaling().fit(logits, labels)
    found = torch.stack([scaler.a, scaler.b, scaler.c])
    assert float(found[:2].min()) >= 0
    order = (logits[:, 1] - logits[:, 0]).argsort()
    assert bool((scaler(logits.double())[order, 1].diff() >= -1e-9).all())
    inputs = torch.cat([features(logits), torch.ones(n, 1, dtype=torch.float64)], dim=1)
    signs = 2.0 * labels - 1
    for change in (
        torch.randn(50, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 0.1
    ):
        other = found + change
        other[:2].clamp_(min=0)
        value = torch.nn.functional.softplus(-signs * (inputs @ other)).mean()
        assert scaler.report.nll_after <= float(value) + 1e-6


@pytest.mark.parametrize(("a", "b", "held", "free"), [(1.5, -1.0, "b", "a"), (-1.0, 1.5, "a", "b")])
def test_no_parameter_becomes_negative(a, b, held, free):
    scaler = BetaScaling().fit(*drawn(20_000, a, b, 0.0))
    assert float(getattr(scaler, held)) == 0
    assert float(getattr(scaler, free)) > 0.4


def test_a_falling_map_becomes_the_share_of_the_class():
    scaler = BetaScaling().fit(*drawn(5000, -1.0, -1.0, 0.7))
    assert (float(scaler.a), float(scaler.b)) == (0, 0)
    logits, labels = drawn(5000, -1.0, -1.0, 0.7)
    assert float(scaler(logits).exp()[0, 1]) == pytest.approx(
        float(labels.double().mean()), abs=1e-5
    )


def test_separable_labels_end_in_a_warning():
    logits, _ = sampled(100, 2, 1.0)
    with pytest.warns(UserWarning, match="BetaScaling: .*separated"):
        scaler = BetaScaling().fit(logits, logits.argmax(dim=1))
    assert torch.isfinite(scaler(logits)).all()


def test_misuse_is_refused_in_words():
    with pytest.raises(ValueError, match=r"\b3 columns: .*TemperatureScaling"):
        BetaScaling().fit(torch.randn(4, 3), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(ValueError, match=r"\b4 labels .*\b1:"):
        BetaScaling().fit(torch.randn(4, 2), torch.ones(4, dtype=torch.long))


def test_extreme_logits():
    logits, labels = drawn(400, 1.0, 1.0, 0.0)
    scaler = BetaScaling().fit(1e6 * logits.double(), labels)
    assert scaler.report.converged
    assert np.isfinite(scaler([[0.0, 1e30], [1e30, 0.0]])).all()
