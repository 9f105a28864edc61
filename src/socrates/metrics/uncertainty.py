"""How far to trust a measured value: its confidence interval, and what perfect calibration would have measured."""

from __future__ import annotations  # numpy.random is loaded only where numbers are drawn

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from .arrays import ArrayLike, check_positive, check_share, open_scores, random_numbers
from .entry import Door
from .inputs import LabelsLike, Ranked, TopLike, Unpack, open_probs, open_samples, refuse_unknown
from .samples import Array, Samples, Top, take_rows

Metric = Callable[..., float]

# A mean over resamples within this many of its standard errors of the estimate is no sign of a bias.
_CHANCE = 3

Z = 1.959964  # two-sided 95 % of a normal distribution


@dataclass(frozen=True)
class Interval:
    """A measured value and its confidence interval, which holds it.

    >>> Interval(estimate=0.05, low=0.04, high=0.07).high
    0.07
    """

    estimate: float
    low: float
    high: float


def bootstrap(
    metric: Metric,
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    num_resamples: int = 1000,
    confidence: float | ArrayLike | None = None,
    level: float = 0.95,
    seed: int = 0,
    **entry: Unpack[Ranked],
) -> Interval:
    """Confidence interval of a metric over resamples of the samples, drawn with replacement.

    Means (`accuracy`, `nll`, `brier`) have the percentile interval. To a calibration error, an average of absolute
    values, sampling noise only adds, and a resample holds it twice: its mean lies above the estimate about as far as
    the estimate lies above the truth. Twice that rise is taken off the quantiles of the resamples, in squares, for it
    is the squares of independent noise that add up:

        bound^2 = max(0, quantile^2 - 2 (mean^2 - estimate^2))

    and the interval is widened where the estimate, which is itself too high, would lie outside. A metric that can be
    negative has the percentile interval, too.

    How often, in percent, intervals at 95 % held the true value, for 10 classes and logits too large by a factor:

    | N = 1000   | 1 (calibrated) | 1.2 | 1.5 | 2  |
    |------------|----------------|-----|-----|----|
    | accuracy   | 96             | 94  | 94  | 94 |
    | nll        | 93             | 94  | 94  | 94 |
    | brier      | 94             | 94  | 92  | 94 |
    | ece        | 99             | 94  | 94  | 94 |
    | ada_ece    | 98             | 93  | 93  | 93 |
    | cw_ece     | 98             | 98  | 100 | 97 |
    | smooth_ece | 90             | 92  | 95  | 95 |

    (60 to 200 sets each, so give or take 2 to 4.) The true error of a calibrated model is 0, the edge of what an error
    can be: no interval has its level there, this one reaches down to 0 nearly always. The level does not hold for
    `cw_ece` with few samples a class: 85 at N = 200 and factor 1, 52 with 100 classes at N = 2000 and factor 1.5.

    The metrics of this package that read only the top class, or average over samples, are computed without copying
    `probs` for each resample; `cw_ece` and any other callable are called on resampled rows. Values with one entry a
    sample that a `functools.partial` sets, such as the `confidence` of `aurc`, are resampled along; those inside a
    lambda cannot be. Weights go with their samples, of which a resample has as many: a weight of 2 is one observation.

    Args:
        metric: any `metric(probs, labels)`; `functools.partial(ece, num_bins=10)` sets options.
        probs: as for the metric.
        labels: as for the metric.
        num_resamples: number of resamples.
        confidence: (N,) confidences beside `correct`, as for `ece`; a single number is the level of the interval.
        correct: as for `ece`.
        sample_weight: as for `ece`; a metric from elsewhere is given it by keyword.
        classes: as for `ece`.
        level: how often the interval shall hold the true value.
        seed: the same seed gives the same interval.

    >>> from socrates.metrics import accuracy
    >>> bootstrap(accuracy, [[0.9, 0.1], [0.6, 0.4]] * 50, [0, 1] * 50)
    Interval(estimate=0.5, low=0.4, high=0.6)
    """
    check_positive("num_resamples", num_resamples)
    name = "level"
    if confidence is not None and np.ndim(cast("Any", confidence)) == 0:
        name, level, confidence = "confidence", cast("float", confidence), None
    check_share(name, level, "a share between 0 and 1, such as 0.95")
    refuse_unknown(entry)
    num_samples, value_at = _of_index(metric, probs, labels, given(confidence=confidence, **entry))
    estimate = number(metric, value_at(None))  # before the resamples: its errors name the rows as they were given
    rng = random_numbers(seed)
    resamples = (rng.integers(0, num_samples, num_samples) for _ in range(num_resamples))
    return _interval(estimate, np.array([float(value_at(index)) for index in resamples]), level)


def floor(
    metric: Metric,
    probs: TopLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    num_draws: int = 100,
    seed: int = 0,
    quantile: float | None = None,
) -> float:
    """What the metric would be if the model were perfectly calibrated: labels are drawn from the probabilities.

    A finite sample never measures 0: an ECE is bad news only as far as it stands above this floor. For metrics of the
    top class, every answer is right with a chance of exactly its confidence, under every reading of the unknown class.
    Give them the `Prediction` itself: its `probs` alone do not sum to 1 under "abstain". Other metrics need rows that
    sum to 1 over the known classes.

    Under "answer" the answer unknown counts as right with a chance of its probability here, though the metrics never
    count it as right: the floor of a model that mostly answers unknown means little.

    Args:
        metric: any `metric(probs, labels)`.
        probs: as for the metric; no labels are needed.
        confidence: (N,) probabilities of the predicted classes in the place of probs, for metrics of the top class.
        sample_weight: as for `bootstrap`: every draw has the same weights.
        num_draws: number of sets of labels drawn.
        seed: the same seed gives the same value.
        quantile: this quantile of the draws in the place of their mean; 0.95 gives a test at the level of 5 %.

    >>> from socrates.metrics import ece
    >>> round(floor(ece, [[0.7, 0.3]] * 100), 2)
    0.04
    """
    if quantile is not None:
        check_share("quantile", quantile, "None or a share from 0 to 1", zero=True, one=True)
    values = drawn_values(metric, probs, num_draws, seed, confidence, sample_weight)
    return float(np.mean(values) if quantile is None else np.quantile(values, quantile))


def drawn_values(
    metric: Metric, probs: TopLike | None, num_draws: int, seed: int, confidence: Any, sample_weight: Any
) -> Array:
    """The metric of each set of labels that is drawn from the probabilities; see `floor`."""
    check_positive("num_draws", num_draws)
    rng = random_numbers(seed)
    keywords, door = known_metric(metric)
    if door is not None and "correct" in door.takes and not keywords.keys() & door.takes:
        top = _unlabelled(probs, confidence, sample_weight)
        draws = (rng.random(len(top)) < top.confidence for _ in range(num_draws))
        return np.array([door.read(Top(top.confidence, correct, top.weight), **keywords) for correct in draws])
    if confidence is not None:
        open_samples(probs, None, confidence=confidence)  # raises, for this metric reads rows
    drawn = _draw_labels(open_probs(probs, sample_weight), num_draws, rng)
    weights = given(sample_weight=sample_weight)
    return np.array([number(metric, metric(probs, labels, **weights)) for labels in drawn])


def given(**entry: Any) -> dict[str, Any]:
    """What is not None: a metric from elsewhere need not know the other keywords."""
    return {name: value for name, value in entry.items() if value is not None}


def number(metric: Metric, value: Any) -> float:
    """The value of a metric as a number."""
    try:
        return float(value)
    except TypeError as error:
        name, kind = getattr(metric, "__name__", repr(metric)), type(value).__name__
        todo = "pass a metric such as ece, and without groups"
        raise ValueError(f"{name} gives a {kind}, expected a metric that gives a number: {todo}") from error


def _unlabelled(probs: TopLike | None, confidence: ArrayLike | None, sample_weight: ArrayLike | None) -> Top:
    """Confidences of which nobody knows yet whether they are right."""
    if confidence is None:
        return probs.weighted(sample_weight) if isinstance(probs, Top) else open_probs(probs, sample_weight).top()
    if probs is not None:
        raise ValueError("got probs beside confidence=: expected one of them")
    return Top.of(confidence, np.zeros(len(open_scores(confidence, "confidence", sample_weight))), sample_weight)


def _interval(estimate: float, values: Array, confidence: float) -> Interval:
    """The quantiles of the resamples, less twice the noise that resampling added, in squares; see `bootstrap`."""
    low, high = (float(q) for q in np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2]))
    mean = float(values.mean())
    by_chance = _CHANCE * float(values.std()) / math.sqrt(len(values))
    if values.min() >= 0 and mean > estimate + by_chance:
        added = 2 * (mean**2 - estimate**2)
        low, high = math.sqrt(max(0.0, low**2 - added)), math.sqrt(max(0.0, high**2 - added))
    return Interval(estimate, min(low, estimate), max(high, estimate))


def _of_index(metric: Metric, probs: Any, labels: Any, entry: dict[str, Any]) -> tuple[int, Callable[[Any], float]]:
    """The number of samples, and the metric as a function of the positions of a resample; None stands for all."""
    keywords, door = known_metric(metric)
    if door is not None:
        entry = {name: value for name, value in keywords.items() if name in door.takes} | entry
        opened = door.open(probs, labels, **entry)
        return len(opened), door.at(opened, **{name: keywords[name] for name in keywords.keys() - entry.keys()})
    samples = open_samples(probs, labels, **entry)
    shape: Callable[[object], tuple[int, ...]] = cast("Any", np).shape
    per_sample = {name: value for name, value in keywords.items() if shape(value)[:1] == (samples.num_given,)}

    def of_rows_at(index: Any) -> float:
        part = samples if index is None else samples.take(index)
        rows = slice(None) if part.positions is None else part.positions
        along = {name: take_rows(value, rows) for name, value in per_sample.items()}
        weights = {} if part.weight is None else {"sample_weight": part.weight}
        return metric(take_rows(probs, rows), part.labels, **along, **weights)

    return len(samples), of_rows_at


def known_metric(metric: Metric) -> tuple[dict[str, Any], Door | None]:
    """The keywords that a partial sets, and how a metric of this package opens and reads its samples."""
    base: Any = metric
    if not callable(metric):
        raise ValueError(f"metric={metric!r}, expected a function such as smooth_ece or ece: pass it without quotes")
    if isinstance(metric, partial) and not base.args:
        if "groups" in base.keywords:
            raise ValueError("got a metric with groups, expected one number: call this with the samples of each group")
        return base.keywords, getattr(base.func, "door", None)
    return {}, getattr(base, "door", None)


def _draw_labels(samples: Samples, num_draws: int, rng: np.random.Generator) -> Array:
    """Labels drawn from the rows, (num_draws, N): the place of a uniform number among the row's cumulative sums.

    Rows that were left out for their weight of 0 have label 0.
    """
    labels = np.zeros((num_draws, samples.num_given), np.int32)
    positions = np.arange(len(samples)) if samples.positions is None else samples.positions
    for rows, chunk in samples.chunks():
        reached = np.cumsum(chunk[:, : samples.num_classes], axis=1, dtype=np.float64)
        if np.abs(reached[:, -1] - 1).max() > 0.05:
            sums = f"rows sum to {reached[:, -1].min():.6g} over the known classes: labels cannot be drawn from them"
            raise ValueError(f'{sums}, read the unknown class with predict(logits, unknown="renormalize") or "spread"')
        # Row r is moved to [r, r + 1), so that one search serves all rows.
        row = np.arange(len(chunk))[:, None]
        steps = (reached / reached[:, -1:] + row).ravel()
        place = np.searchsorted(steps, (rng.random((len(chunk), num_draws)) + row).ravel(), side="right")
        label = np.reshape(place, (len(chunk), num_draws)) - row * samples.num_classes
        labels[:, positions[rows]] = np.transpose(np.minimum(label, samples.num_classes - 1))
    return labels
