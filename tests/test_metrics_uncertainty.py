"""Intervals and floors: fast paths equal the plain way, and the numbers mean what they say."""

from functools import partial

import numpy as np
import pytest
import torch

from socrates.metrics import (
    Interval,
    accuracy,
    ada_ece,
    bootstrap,
    brier,
    cw_ece,
    debiased_ece,
    ece,
    floor,
    mce,
    nll,
    predict,
    smooth_ece,
)

METRICS = [accuracy, nll, brier, ece, mce, ada_ece, debiased_ece, smooth_ece, cw_ece]


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.full(5, 0.4), 200)
    labels = (probs.cumsum(axis=1) < rng.random((200, 1))).sum(axis=1).clip(max=4)
    return probs, labels


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_bootstrap_equals_the_plain_way(metric, case):
    fast = bootstrap(metric, *case, num_resamples=40, seed=3)
    plain = bootstrap(lambda probs, labels: metric(probs, labels), *case, num_resamples=40, seed=3)
    assert (fast.low, fast.high) == pytest.approx((plain.low, plain.high), abs=1e-12)
    assert fast.estimate == plain.estimate == metric(*case)
    assert fast.low < fast.high


def test_bootstrap_never_copies_the_rows_for_our_metrics(case, monkeypatch):
    def refuse(probs, index):
        raise AssertionError("rows were copied")

    monkeypatch.setattr("socrates.metrics.uncertainty._take", refuse)
    for metric in (accuracy, nll, brier, ece, mce, ada_ece, debiased_ece, smooth_ece, partial(ece, num_bins=5)):
        assert isinstance(bootstrap(metric, *case, num_resamples=2), Interval)
    with pytest.raises(AssertionError, match="rows were copied"):
        bootstrap(cw_ece, *case, num_resamples=2)


def test_bootstrap_takes_options_by_partial(case):
    five = bootstrap(partial(ece, num_bins=5), *case, num_resamples=30)
    assert five == bootstrap(lambda probs, labels: ece(probs, labels, 5), *case, num_resamples=30)
    assert five.estimate == ece(*case, num_bins=5)
    with pytest.raises(ValueError, match="num_bins=0"):
        bootstrap(partial(ece, num_bins=0), *case)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_bootstrap_of_rows_keeps_their_kind(case, dtype):
    kinds = []

    def kind(probs, labels):
        kinds.append((type(probs), probs.dtype))
        return cw_ece(probs, labels)

    bootstrap(kind, torch.tensor(case[0], dtype=dtype), case[1], num_resamples=3)
    assert set(kinds) == {(torch.Tensor, dtype)}


def test_bootstrap_of_predictions(case):
    logits = torch.tensor(np.log(case[0]))
    labels = case[1] % 4
    answer = predict(logits, unknown="answer")
    for metric in (ece, cw_ece, nll, accuracy):
        interval = bootstrap(metric, answer, labels, num_resamples=50)
        assert interval.low <= interval.high
        assert interval.estimate == metric(answer, labels)


def test_bootstrap_interval_of_the_accuracy_has_the_right_width(case):
    interval = bootstrap(accuracy, *case, num_resamples=2000)
    share = accuracy(*case)
    half = 1.96 * np.sqrt(share * (1 - share) / 200)
    assert interval.high - share == pytest.approx(half, rel=0.15)
    assert share - interval.low == pytest.approx(half, rel=0.15)
    narrow = bootstrap(accuracy, *case, num_resamples=2000, confidence=0.5)
    assert narrow.high - narrow.low < 0.5 * (interval.high - interval.low)


def test_seeds(case):
    assert bootstrap(ece, *case, num_resamples=20) == bootstrap(ece, *case, num_resamples=20)
    assert bootstrap(ece, *case, num_resamples=20) != bootstrap(ece, *case, num_resamples=20, seed=1)
    assert floor(ece, case[0]) == floor(ece, case[0])
    assert floor(ece, case[0]) != floor(ece, case[0], seed=1)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_floor_of_top_class_metrics_equals_drawing_whole_labels(metric, case):
    fast = floor(metric, case[0], num_draws=400)
    plain = floor(lambda probs, labels: metric(probs, labels), case[0], num_draws=400, seed=9)
    assert fast == pytest.approx(plain, rel=0.06)


def test_floor_of_scores_is_their_expectation(case):
    probs, _ = case
    entropy = -(probs * np.log(np.maximum(probs, 1e-300))).sum(axis=1).mean()
    assert floor(nll, probs, num_draws=300) == pytest.approx(entropy, rel=0.01)
    assert floor(accuracy, probs, num_draws=300) == pytest.approx(probs.max(axis=1).mean(), rel=0.01)
    assert floor(brier, probs, num_draws=300) == pytest.approx((1 - (probs**2).sum(axis=1)).mean(), rel=0.01)


def test_floor_never_draws_an_impossible_label():
    probs = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]] * 50)
    assert floor(nll, probs, num_draws=20) == 0.0


def test_floor_falls_with_the_number_of_samples(case):
    few, many = floor(ece, case[0]), floor(ece, np.repeat(case[0], 100, axis=0))
    assert many == pytest.approx(few / 10, rel=0.15)


def test_floor_quantile_is_a_test_of_calibration(case):
    probs, labels = case  # drawn from probs: calibrated
    assert ece(probs, labels) < floor(ece, probs, quantile=0.95)
    sharper = probs**3 / (probs**3).sum(axis=1, keepdims=True)
    assert ece(sharper, labels) > floor(ece, sharper, quantile=0.999, num_draws=500)
    assert floor(ece, probs, quantile=0.1) < floor(ece, probs) < floor(ece, probs, quantile=0.9)


@pytest.mark.parametrize("reading", ["answer", "abstain", "renormalize", "spread"])
def test_floor_of_predictions(case, reading):
    prediction = predict(np.log(case[0]), unknown=reading)
    assert 0 < floor(ece, prediction) < 0.2
    if reading in ("renormalize", "spread"):
        assert 0 < floor(cw_ece, prediction, num_draws=5) < 0.2
    else:
        with pytest.raises(ValueError, match=r"rows sum to .* over the known classes"):
            floor(cw_ece, prediction)


def test_any_callable_will_do(case):
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, probs, labels):
            return ece(probs, labels)

    expected = bootstrap(ece, *case, num_resamples=10)
    assert bootstrap(Unhashable(), *case, num_resamples=10).low == pytest.approx(expected.low, abs=1e-12)
