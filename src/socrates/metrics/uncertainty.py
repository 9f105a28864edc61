"""Confidence intervals of metrics, and the values that a calibrated model would have by chance."""

from __future__ import annotations  # numpy.random is loaded only where numbers are drawn

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any, TypeAlias, cast

import numpy as np

from ..arrays.content import Classes
from ..arrays.entries import LabelsLike, TopLike, open_probs, open_samples, open_top
from ..arrays.open import Array, ArrayLike, check_positive, check_share, open_scores, random_numbers
from ..arrays.samples import Prediction, Rows, Samples, SamplesView, Top, take_rows
from .interval import Interval, effective_size, wilson
from .scoring import accuracy

MetricFunction: TypeAlias = Callable[..., float]

# The mean over the resamples counts as biased only if it is further from the estimate than this
# many of its standard errors.
_CHANCE = 3

Z = 1.959964  # two-sided 95% of a normal distribution


def bootstrap(
    metric: MetricFunction,
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    num_resamples: int = 1000,
    confidence: float | ArrayLike | None = None,
    level: float = 0.95,
    seed: int = 0,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Interval:
    """Return a bootstrap confidence interval of a metric (Efron, 1979), corrected for noise bias.

    `accuracy` is a share, for which no resamples are needed: it has Wilson's interval, which stays
    in [0, 1] and has a width also where all answers are right (`wilson`). Other means (`nll`,
    `brier`) and metrics that can be negative have the percentile interval. Sampling noise only
    adds to a calibration error, because that is a mean of absolute values. A resample contains
    this noise twice, so the mean over the resamples lies above the estimate about as far as the
    estimate lies above the true value. Twice this excess is subtracted from the quantiles. The
    subtraction uses squares, because the squares of independent noise add up:

        bound^2 = max(0, quantile^2 - 2 (mean^2 - estimate^2))

    The interval is then widened to contain the estimate.

    How often intervals at 95% contained the true value, in percent, for 10 classes and logits that
    are too large by a factor:

    | N = 1000   | 1 (calibrated) | 1.2 | 1.5 | 2  |
    |------------|----------------|-----|-----|----|
    | accuracy   | 96             | 94  | 94  | 94 |
    | nll        | 93             | 94  | 94  | 94 |
    | brier      | 94             | 94  | 92  | 94 |
    | ece        | 99             | 94  | 94  | 94 |
    | ada_ece    | 98             | 93  | 93  | 93 |
    | cw_ece     | 98             | 98  | 100 | 97 |
    | smooth_ece | 90             | 92  | 95  | 95 |

    Each number is from 60 to 200 sets, with an error of 2 to 4. The true error of a calibrated
    model is 0, at the edge of the possible values: no interval has its nominal level there, and
    this one almost always reaches down to 0. The level does not hold for `cw_ece` with few samples
    per
    class: it was 85 at N = 200 and factor 1, and 52 with 100 classes at N = 2000 and factor 1.5.

    The metrics of this package that use only the top class, or are means over samples, are computed
    without copying `probs` for each resample. `cw_ece` and all other functions are called on
    resampled rows. Options with one entry per sample, such as the `confidence` of `aurc`, are
    resampled too if they are set by `functools.partial`, but not inside a lambda. Each sample keeps
    its weight, and a weight of 2 is one observation.

    Args:
        metric: any function `metric(probs, labels)`; set options with
            `functools.partial(ece, num_bins=10)`.
        probs: as for the metric.
        labels: as for the metric.
        num_resamples: number of resamples, drawn with replacement.
        confidence: (N,) confidences with `correct`, as for `ece`; a single number is taken as the
            level.
        level: how often the interval should contain the true value.
        seed: the same seed gives the same interval.
        correct: as for `ece`.
        sample_weight: as for `ece`; a function of your own gets it as a keyword.
        classes: as for `ece`.

    >>> from socrates.metrics import accuracy
    >>> bootstrap(accuracy, [[0.9, 0.1], [0.6, 0.4]] * 50, [0, 1] * 50)
    Interval(estimate=0.5, low=0.4038..., high=0.5961...)
    """
    check_positive("num_resamples", num_resamples)
    level_name = "level"
    if confidence is not None and np.ndim(cast("Any", confidence)) == 0:
        level_name = "confidence"
        level = cast("float", confidence)
        confidence = None
    check_share(level_name, level, "a share between 0 and 1, such as 0.95")
    data = without_none(
        confidence=confidence, correct=correct, sample_weight=sample_weight, classes=classes
    )
    num_samples, measure = measure_of_resample(metric, probs, labels, data)
    # Computed before the resamples, so that errors name the rows as they were passed in.
    estimate = as_number(metric, measure(None))
    function, options, _ = unwrap(metric)
    if function is accuracy:
        top = open_top(probs, labels, **{**options, **data})
        return wilson(estimate, effective_size(top), level)
    rng = random_numbers(seed)
    values = np.empty(num_resamples)
    for draw in range(num_resamples):
        values[draw] = float(measure(rng.integers(0, num_samples, num_samples)))
    return _interval(estimate, values, level)


def floor(
    metric: MetricFunction,
    probs: TopLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    num_draws: int = 100,
    seed: int = 0,
    quantile: float | None = None,
) -> float:
    """Return the mean of the metric for a perfectly calibrated model with the same probabilities.

    Labels are drawn from the probabilities (Broecker and Smith, 2007). The ECE of a finite sample
    is never 0, so an ECE shows miscalibration only by how far it is above this floor. For metrics
    of the top class, every prediction is correct with a probability equal to its confidence, for
    every reading of the unknown class. Pass them the `Prediction` itself, because its `probs` do
    not sum to 1 with the reading "abstain". Other metrics need rows that sum to 1 over the known
    classes.

    With the reading "answer", the prediction unknown counts here as correct with its probability,
    although the metrics never count it as correct. So the floor means little for a model that
    mostly predicts unknown.

    Args:
        metric: any function `metric(probs, labels)`.
        probs: as for the metric; no labels are needed.
        confidence: (N,) probabilities of the predicted classes instead of probs, for metrics of the
            top class.
        sample_weight: as for `bootstrap`; every draw has the same weights.
        num_draws: number of sets of labels drawn.
        seed: the same seed gives the same value.
        quantile: quantile of the draws to return instead of their mean; 0.95 gives the critical
            value of a test at a level of 5%.

    >>> from socrates.metrics import ece
    >>> round(floor(ece, [[0.7, 0.3]] * 100), 2)
    0.04
    """
    if quantile is not None:
        check_share("quantile", quantile, "None or a share from 0 to 1", allow_0=True, allow_1=True)
    values = values_if_calibrated(metric, probs, num_draws, seed, confidence, sample_weight)
    return float(np.mean(values) if quantile is None else np.quantile(values, quantile))


def values_if_calibrated(
    metric: MetricFunction,
    probs: TopLike | None,
    num_draws: int,
    seed: int,
    confidence: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> Array:
    """Return the metric for each set of labels drawn from the probabilities; see `floor`."""
    check_positive("num_draws", num_draws)
    rng = random_numbers(seed)
    function, options, opener = unwrap(metric)
    opened_by = _parameters(opener)
    if "correct" in opened_by and opener is not open_samples and not options.keys() & opened_by:
        top = _without_labels(probs, confidence, sample_weight)
        draws = (rng.random(len(top)) < top.confidence for _ in range(num_draws))
        tops = (Top(top.confidence, correct, top.weight) for correct in draws)
        return np.array([function(drawn, **options) for drawn in tops])
    if confidence is not None:
        open_samples(probs, None, confidence=confidence)  # raises, for this metric reads rows
    samples = open_probs(probs, sample_weight)
    rows: Any = probs
    weights = without_none(sample_weight=sample_weight)
    if isinstance(probs, Samples | SamplesView):
        samples, rows = _as_passed_in(probs)
        weights = without_none(sample_weight=samples.weight)
    drawn_labels = _draw_labels(samples, num_draws, rng)
    values = [metric(rows, labels, **weights) for labels in drawn_labels]
    return np.array([as_number(metric, value) for value in values])


def without_none(**entries: Any) -> dict[str, Any]:
    """Return the entries that are not None, so that a user's metric need not accept the others."""
    return {name: value for name, value in entries.items() if value is not None}


def as_number(metric: MetricFunction, value: Any) -> float:
    """Return the value of a metric as a float, or raise an error if it is not a number."""
    try:
        return float(value)
    except TypeError as error:
        name = getattr(metric, "__name__", repr(metric))
        raise ValueError(
            f"{name} gives a {type(value).__name__}, expected a metric that gives a number: "
            f"pass a metric such as ece, and without groups"
        ) from error


def unwrap(
    metric: MetricFunction,
) -> tuple[MetricFunction, dict[str, Any], Callable[..., Rows | Top] | None]:
    """Return the function of a metric, the options that a partial sets, and what opens its samples.

    The last is None for a metric that is not of this package.
    """
    if not callable(metric):
        raise ValueError(
            f"metric={metric!r}, expected a function such as smooth_ece or ece: "
            f"pass it without quotes"
        )
    function: Any = metric
    options: dict[str, Any] = {}
    if isinstance(metric, partial) and not function.args:
        options = function.keywords
        function = function.func
        if "groups" in options:
            raise ValueError(
                "got a metric with groups, expected one number: "
                "call this with the samples of each group"
            )
    return function, options, getattr(function, "opener", None)


def _parameters(opener: Callable[..., Any] | None) -> set[str]:
    """Return the parameters of an opener; all other options belong to the metric itself."""
    return set() if opener is None else {*signature(opener).parameters}


def measure_of_resample(
    metric: MetricFunction, probs: TopLike | None, labels: Any, data: dict[str, Any]
) -> tuple[int, Callable[[Array | None], float]]:
    """Return the number of samples, and the metric as a function of the indices of a resample.

    None stands for all samples.
    """
    function, options, opener = unwrap(metric)
    if opener is None:
        return _measure_of_arrays(metric, options, probs, labels, data)
    opened_by = _parameters(opener)
    data = {name: value for name, value in options.items() if name in opened_by} | data
    samples = opener(probs, labels, **data)
    rest = {name: value for name, value in options.items() if name not in data}

    def measure(index: Array | None) -> float:
        return function(samples if index is None else samples.view(index), **rest)

    return len(samples), measure


def _measure_of_arrays(
    metric: MetricFunction,
    options: dict[str, Any],
    probs: TopLike | None,
    labels: Any,
    data: dict[str, Any],
) -> tuple[int, Callable[[Array | None], float]]:
    """Return the same for a user's metric, which takes plain arrays."""
    opened = open_samples(probs, labels, **data)
    if isinstance(probs, Samples | SamplesView) or isinstance(opened, SamplesView):
        samples, rows = _as_passed_in(opened)
    else:
        samples, rows = opened, probs
    shape: Callable[[object], tuple[int, ...]] = cast("Any", np).shape
    per_sample = {
        name: value for name, value in options.items() if shape(value)[:1] == (samples.num_given,)
    }

    def measure(index: Array | None) -> float:
        part = samples if index is None else samples.take(index)
        place = slice(None) if part.positions is None else part.positions
        keywords = {name: take_rows(value, place) for name, value in per_sample.items()}
        if part.weight is not None:
            keywords["sample_weight"] = part.weight
        drawn = rows.take(place) if isinstance(rows, Prediction) else take_rows(rows, place)
        return metric(drawn, part.labels, **keywords)

    return len(samples), measure


def _as_passed_in(samples: Rows) -> tuple[Samples, Any]:
    """Return opened samples with their rows, as if exactly these rows had been passed in."""
    if isinstance(samples, SamplesView):
        samples = samples.source.take(samples.index)
    rows = samples.probs if samples.prediction is None else samples.prediction
    return replace(samples, positions=None, num_given=len(samples)), rows


def _without_labels(
    probs: TopLike | None, confidence: ArrayLike | None, sample_weight: ArrayLike | None
) -> Top:
    """Return the confidences; their correctness is a placeholder until labels are drawn."""
    if confidence is None:
        if isinstance(probs, Top):
            return probs.weighted(sample_weight)
        return open_probs(probs, sample_weight).top()
    if probs is not None:
        raise ValueError("got probs beside confidence=: expected one of them")
    num_samples = len(open_scores(confidence, "confidence", sample_weight))
    return Top.of(confidence, np.zeros(num_samples), sample_weight)


def _interval(estimate: float, values: Array, level: float) -> Interval:
    """Return the interval from the values of the resamples, by the formula in `bootstrap`."""
    quantiles = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    low = float(quantiles[0])
    high = float(quantiles[1])
    mean = float(values.mean())
    tolerance = _CHANCE * float(values.std()) / math.sqrt(len(values))
    if values.min() >= 0 and mean > estimate + tolerance:
        excess = 2 * (mean**2 - estimate**2)
        low = math.sqrt(max(0.0, low**2 - excess))
        high = math.sqrt(max(0.0, high**2 - excess))
    return Interval(estimate, min(low, estimate), max(high, estimate))


def _draw_labels(samples: Samples, num_draws: int, rng: np.random.Generator) -> Array:
    """Draw labels from the probabilities of the rows, of shape (num_draws, N).

    A label is the position of a uniform random number among the cumulative sums of its row. Rows
    that were left out because of a weight of 0 have label 0.
    """
    labels = np.zeros((num_draws, samples.num_given), np.int32)
    positions = np.arange(len(samples)) if samples.positions is None else samples.positions
    for place, chunk in samples.chunks():
        reached = np.cumsum(chunk[:, : samples.num_classes], axis=1, dtype=np.float64)
        if np.abs(reached[:, -1] - 1).max() > 0.05:
            raise ValueError(
                f"rows sum to {reached[:, -1].min():.6g} over the known classes: "
                f"labels cannot be drawn from them, read the unknown class with "
                f'predict(logits, unknown="renormalize") or "spread"'
            )
        # Row r is shifted to [r, r + 1), so that one search is enough for all rows.
        row = np.arange(len(chunk))[:, None]
        steps = (reached / reached[:, -1:] + row).ravel()
        uniform = (rng.random((len(chunk), num_draws)) + row).ravel()
        cell = np.searchsorted(steps, uniform, side="right")
        label = np.reshape(cell, (len(chunk), num_draws)) - row * samples.num_classes
        labels[:, positions[place]] = np.transpose(np.minimum(label, samples.num_classes - 1))
    return labels
