"""Intervals and floors: fast paths equal the plain way, and the numbers mean what they say."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from socrates.metrics import (
    Interval,
    accuracy,
    ada_ece,
    augrc,
    aurc,
    bootstrap,
    brier,
    coverage_at_risk,
    cw_ece,
    debiased_ece,
    ece,
    floor,
    mce,
    nll,
    predict,
    smooth_ece,
)
from socrates.metrics.interval import wilson
from socrates.metrics.uncertainty import _interval

METRICS = [accuracy, nll, brier, ece, mce, ada_ece, debiased_ece, smooth_ece, cw_ece]


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.full(5, 0.4), 200)
    labels = (probs.cumsum(axis=1) < rng.random((200, 1))).sum(axis=1).clip(max=4)
    return probs, labels


@pytest.mark.parametrize("metric", METRICS[1:], ids=lambda metric: metric.__name__)
def test_bootstrap_equals_the_plain_way(metric, case):
    fast = bootstrap(metric, *case, num_resamples=40, seed=3)
    plain = bootstrap(lambda probs, labels: metric(probs, labels), *case, num_resamples=40, seed=3)
    assert (fast.low, fast.high) == pytest.approx((plain.low, plain.high), abs=1e-12)
    assert fast.estimate == plain.estimate == metric(*case)
    assert fast.low < fast.high


def test_bootstrap_never_copies_the_rows_for_our_metrics(case, monkeypatch):
    def refuse(samples, index):
        raise AssertionError("rows were copied")

    monkeypatch.setattr("socrates.arrays.samples.Samples.take", refuse)
    for metric in (
        accuracy,
        nll,
        brier,
        ece,
        mce,
        ada_ece,
        debiased_ece,
        smooth_ece,
        partial(ece, num_bins=5),
    ):
        assert isinstance(bootstrap(metric, *case, num_resamples=2), Interval)
    with pytest.raises(AssertionError):
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


def drawn(num_samples, temperature, seed):
    """Probabilities, too sure by the temperature, and what they should be."""
    logits = 2 * np.random.default_rng(seed).normal(size=(num_samples, 10))
    exponentials = np.exp(logits), np.exp(temperature * logits)
    should, probs = (values / values.sum(axis=1, keepdims=True) for values in exponentials)
    return probs, should


def with_labels(probs, should, seed):
    uniform = np.random.default_rng(seed).random((len(should), 1))
    return probs, (should.cumsum(axis=1) < uniform).sum(axis=1).clip(max=9)


def true_value(metric, probs, should):
    """The value at infinitely many labels a row: each right with its own chance."""
    if metric is nll:
        return -(should * np.log(probs)).sum(axis=1).mean()
    if metric is brier:
        return ((probs**2).sum(axis=1) - 2 * (probs * should).sum(axis=1) + 1).mean()
    top = np.arange(len(probs)), probs.argmax(axis=1)
    if metric is accuracy:
        return should[top].mean()
    pairs = [(probs[top], should[top])] if metric is ece else zip(probs.T, should.T, strict=True)
    errors = [np.abs(np.bincount((15 * p).astype(int), p - q)).sum() / len(probs) for p, q in pairs]
    return np.mean(errors)


@pytest.mark.parametrize(
    ("metric", "temperature"),
    [
        (accuracy, 1.5),
        (nll, 1.5),
        (brier, 1.5),
        (ece, 1.0),
        (ece, 1.2),
        (ece, 1.5),
        (cw_ece, 1.0),
        (cw_ece, 1.5),
    ],
)
def test_intervals_hold_the_true_value(metric, temperature):
    """The percentile interval holds it never for ece at 1 and for cw_ece."""
    truth = true_value(metric, *drawn(50_000, temperature, seed=99))
    held = 0
    for seed in range(20):
        data = with_labels(*drawn(1000, temperature, seed), seed + 1000)
        interval = bootstrap(
            metric, *data, num_resamples=40 if metric is cw_ece else 150, seed=seed
        )
        assert interval.low <= interval.estimate <= interval.high
        held += interval.low <= truth + 1e-9 and truth <= interval.high
    assert held >= 17


def test_interval_of_a_calibrated_model_reaches_zero():
    data = with_labels(*drawn(1000, 1.0, seed=1), 2)
    for metric in (ece, ada_ece, cw_ece):
        interval = bootstrap(metric, *data, num_resamples=100)
        assert interval.low == 0
        assert interval.high < 2.5 * interval.estimate
    sure = with_labels(*drawn(1000, 2.0, seed=1), 2)
    assert bootstrap(ece, *sure, num_resamples=100).low > 0.15


def test_interval_by_hand():
    values = np.repeat([3.0, 4.0, 5.0, 6.0, 7.0], 100)
    # quantiles 4 and 6, mean 5, estimate 4: twice 25 - 16 is taken off 16 and 36.
    interval = _interval(4.0, values, 0.5)
    assert (interval.low, interval.high) == pytest.approx((0.0, np.sqrt(18)))
    # A mean that is no higher than chance leaves the quantiles alone, as do negative values.
    assert _interval(4.9, values, 0.5) == Interval(4.9, 4.0, 6.0)
    assert _interval(-2.0, values - 6, 0.5) == Interval(-2.0, -2.0, 0.0)
    # The estimate is always inside.
    assert _interval(9.0, values, 0.5) == Interval(9.0, 4.0, 9.0)


def test_a_metric_with_negative_values(case):
    positive, negative = (
        bootstrap(
            lambda probs, labels, sign=sign: sign * accuracy(probs, labels), *case, num_resamples=50
        )
        for sign in (1, -1)
    )
    assert (negative.low, negative.high) == pytest.approx((-positive.high, -positive.low))


SELECTIVE = [aurc, augrc, partial(coverage_at_risk, max_risk=0.3)]


@pytest.mark.parametrize("metric", SELECTIVE, ids=["aurc", "augrc", "coverage_at_risk"])
@pytest.mark.parametrize(
    "kind", [np.asarray, torch.tensor, np.ndarray.tolist], ids=["numpy", "torch", "list"]
)
def test_scores_of_the_samples_are_resampled_with_them(metric, kind, case):
    probs, labels = case
    own = bootstrap(metric, probs, labels, num_resamples=60)
    given = bootstrap(
        partial(metric, confidence=kind(probs.max(axis=1))), probs, labels, num_resamples=60
    )
    assert (given.estimate, given.low, given.high) == pytest.approx(
        (own.estimate, own.low, own.high), abs=1e-12
    )
    shuffled = bootstrap(
        partial(metric, confidence=kind(probs.max(axis=1)[::-1].copy())), probs, labels
    )
    assert shuffled.estimate != given.estimate


def test_scores_of_a_prediction_are_resampled_with_it(case):
    prediction = predict(torch.tensor(np.log(case[0])), unknown="renormalize")
    labels = case[1] % 4
    own = bootstrap(aurc, prediction, labels, num_resamples=30)
    assert (
        bootstrap(
            partial(aurc, confidence=prediction.confidence), prediction, labels, num_resamples=30
        )
        == own
    )


def test_options_of_ones_own_metric_are_resampled_if_they_have_an_entry_per_sample(case):
    def mean_of(probs, labels, scores, offset):
        np.testing.assert_array_equal(scores, probs.max(axis=1))
        return scores.mean() + offset[0]

    metric = partial(mean_of, scores=case[0].max(axis=1), offset=[3.0])
    interval = bootstrap(metric, *case, num_resamples=5)
    assert interval.low < interval.high
    assert interval.estimate == pytest.approx(3 + case[0].max(axis=1).mean())


def test_scores_of_another_number_are_refused(case):
    with pytest.raises(ValueError, match=r"199 .* 200"):
        bootstrap(partial(aurc, confidence=np.ones(199)), *case)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_errors_name_the_row_of_the_data(metric, case):
    probs = case[0].copy()
    probs[123] *= 2
    with pytest.raises(ValueError, match=r"row 123 .*probs"):
        bootstrap(lambda probs, labels: metric(probs, labels), probs, case[1])


def test_seeds(case):
    assert bootstrap(ece, *case, num_resamples=20) == bootstrap(ece, *case, num_resamples=20)
    assert bootstrap(ece, *case, num_resamples=20) != bootstrap(
        ece, *case, num_resamples=20, seed=1
    )
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
    assert floor(accuracy, probs, num_draws=300) == pytest.approx(
        probs.max(axis=1).mean(), rel=0.01
    )
    assert floor(brier, probs, num_draws=300) == pytest.approx(
        (1 - (probs**2).sum(axis=1)).mean(), rel=0.01
    )


def test_floor_never_draws_an_impossible_label():
    probs = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]] * 50)
    assert floor(nll, probs, num_draws=20) == 0.0


def test_floor_draws_from_rounded_rows_as_if_they_summed_to_1():
    def share_of_the_last(probs, labels):
        return float(np.mean(labels == 3))

    rows = np.tile([0.25, 0.25, 0.25, 0.23], (4000, 1))
    assert floor(share_of_the_last, rows) == pytest.approx(0.23 / 0.98, abs=0.003)


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
    for metric in METRICS[3:-1]:
        assert 0 <= floor(metric, prediction, num_draws=20) < 1
    assert 0 < floor(ece, prediction) < 0.2
    if reading in ("renormalize", "spread"):
        assert 0 < floor(cw_ece, prediction, num_draws=5) < 0.2
    else:
        with pytest.raises(ValueError, match="known classes"):
            floor(cw_ece, prediction)


def test_floor_counts_the_answer_unknown_as_right_with_its_probability():
    """As the docstring says: the metrics themselves never count it as right."""
    unknown = predict(np.array([[0.0, 0.0, 3.0]] * 400), unknown="answer")
    assert floor(accuracy, unknown) == pytest.approx(unknown.confidence[0], abs=0.01)
    assert accuracy(unknown, [0] * 400) == 0


def test_any_callable_will_do(case):
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, probs, labels):
            return ece(probs, labels)

    expected = bootstrap(ece, *case, num_resamples=10)
    assert bootstrap(Unhashable(), *case, num_resamples=10).low == pytest.approx(
        expected.low, abs=1e-12
    )


@pytest.mark.parametrize("weight", [None, np.full(30, 2.0)])
def test_an_accuracy_of_all_or_nothing_has_a_width(weight):
    probs = [[0.9, 0.1]] * 30
    for label, ends in ((0, (0.8865, 1.0)), (1, (0.0, 0.1135))):
        interval = bootstrap(accuracy, probs, [label] * 30, sample_weight=weight)
        assert (interval.low, interval.high) == pytest.approx(ends, abs=1e-4)
        assert interval.estimate == 1 - label


def test_weights_that_differ_are_fewer_observations():
    correct = np.arange(40) % 4 > 0
    weight = np.where(np.arange(40) < 20, 1.0, 3.0)
    interval = bootstrap(
        accuracy, confidence=np.full(40, 0.8), correct=correct, sample_weight=weight
    )
    assert interval == wilson(0.75, 80**2 / 200)


@pytest.mark.parametrize("num_samples", [30, 100, 1000])
@pytest.mark.parametrize("share", [0.95, 0.99, 0.999])
def test_the_interval_of_an_accuracy_contains_it_as_often_as_said(num_samples, share):
    # the percentile interval had 0.63 at (100, 0.99) and (1000, 0.999), 0.78 at (30, 0.95)
    covered = 0.0
    for right in range(num_samples + 1):
        interval = wilson(right / num_samples, num_samples)
        assert 0 <= interval.low <= interval.high <= 1
        if interval.low <= share <= interval.high:
            wrong = num_samples - right
            ways = math.lgamma(num_samples + 1) - math.lgamma(right + 1) - math.lgamma(wrong + 1)
            covered += math.exp(ways + right * math.log(share) + wrong * math.log1p(-share))
    assert 0.9 < covered < 0.98
