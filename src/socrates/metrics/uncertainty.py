"""How far to trust a measured value: its confidence interval, and what perfect calibration would have measured."""

from __future__ import annotations  # numpy.random is loaded only where numbers are drawn

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch

from .calibration import ada_ece, debiased_ece, ece, mce, smooth_ece
from .inputs import Array, LabelsLike, Samples, Top, TopLike, check_positive, open_probs, open_samples, open_top
from .predictions import Prediction
from .scoring import accuracy, brier, brier_of_each, nll, nll_of_each

Metric = Callable[..., float]

# Metrics that take a `Top`, and means of one value a sample: the rows need not be copied for each resample.
_OF_TOP: tuple[Metric, ...] = (ece, mce, ada_ece, debiased_ece, smooth_ece, accuracy)
_MEANS: tuple[Metric, ...] = (nll, brier)

# A mean over resamples within this many of its standard errors of the estimate is no sign of a bias.
_CHANCE = 3


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
    probs: TopLike,
    labels: LabelsLike | None = None,
    *,
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
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
    lambda cannot be.

    Args:
        metric: any `metric(probs, labels)`; `functools.partial(ece, num_bins=10)` sets options.
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`; for metrics of the top class a `Top` alone.
        labels: (N,) class numbers.
        num_resamples: number of resamples.
        confidence: level of the interval: how often it shall hold the true value.
        seed: the same seed gives the same interval.

    >>> from socrates.metrics import accuracy
    >>> bootstrap(accuracy, [[0.9, 0.1], [0.6, 0.4]] * 50, [0, 1] * 50)
    Interval(estimate=0.5, low=0.4, high=0.6)
    """
    check_positive("num_resamples", num_resamples)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence!r}, expected a share between 0 and 1, such as 0.95")
    num_samples, of_index = _of_index(metric, probs, labels)
    estimate = of_index(slice(None))  # before the resamples: its errors name the rows as they were given
    rng = np.random.default_rng(seed)
    values = np.array([of_index(rng.integers(0, num_samples, num_samples)) for _ in range(num_resamples)])
    return _interval(estimate, values, confidence)


def floor(
    metric: Metric, probs: TopLike, *, num_draws: int = 100, seed: int = 0, quantile: float | None = None
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
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`; for metrics of the top class a `Top` alone.
        num_draws: number of sets of labels drawn.
        seed: the same seed gives the same value.
        quantile: this quantile of the draws in the place of their mean; 0.95 gives a test at the level of 5 %.

    >>> from socrates.metrics import ece
    >>> round(floor(ece, [[0.7, 0.3]] * 100), 2)
    0.04
    """
    check_positive("num_draws", num_draws)
    if quantile is not None and not 0 <= quantile <= 1:
        raise ValueError(f"quantile={quantile!r}, expected None or a share from 0 to 1")
    rng = np.random.default_rng(seed)
    if _base(metric) in _OF_TOP:
        top = probs if isinstance(probs, Top) else open_probs(probs).top()
        draws = (rng.random(len(top.confidence)) < top.confidence for _ in range(num_draws))
        values = [float(metric(Top(top.confidence, correct))) for correct in draws]
    else:
        drawn = _draw_labels(open_probs(probs), num_draws, rng)
        values = [float(metric(probs, labels)) for labels in drawn]
    return float(np.mean(values) if quantile is None else np.quantile(values, quantile))


def _interval(estimate: float, values: Array, confidence: float) -> Interval:
    """The quantiles of the resamples, less twice the noise that resampling added, in squares; see `bootstrap`."""
    low, high = (float(q) for q in np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2]))
    mean = float(values.mean())
    by_chance = _CHANCE * float(values.std()) / math.sqrt(len(values))
    if values.min() >= 0 and mean > estimate + by_chance:
        added = 2 * (mean**2 - estimate**2)
        low, high = math.sqrt(max(0.0, low**2 - added)), math.sqrt(max(0.0, high**2 - added))
    return Interval(estimate, min(low, estimate), max(high, estimate))


def _of_index(metric: Metric, probs: Any, labels: Any) -> tuple[int, Callable[[Any], float]]:
    """The number of samples, and the metric as a function of the positions of a resample."""
    base = _base(metric)
    if base in _OF_TOP:
        top = open_top(probs, labels)
        return len(top.confidence), lambda index: float(metric(top.take(index)))
    samples = open_samples(probs, labels)
    if base in _MEANS:
        scores = nll_of_each(samples) if base is nll else brier_of_each(samples)
        return len(samples), lambda index: float(scores[index].mean())
    keywords: dict[str, Any] = cast("Any", metric).keywords if _is_partial(metric) else {}
    shape: Callable[[object], tuple[int, ...]] = cast("Any", np).shape
    per_sample = {name: value for name, value in keywords.items() if shape(value)[:1] == (len(samples),)}

    def of_rows_at(index: Any) -> float:
        along = {name: _take(value, index) for name, value in per_sample.items()}
        return float(metric(_take(probs, index), samples.labels[index], **along))

    return len(samples), of_rows_at


def _take(probs: Any, index: Any) -> Any:
    """The rows at these positions, of the kind that was given."""
    if isinstance(probs, Prediction):
        parts = {name: _take(getattr(probs, name), index) for name in ("probs", "confidence", "predicted")}
        return replace(probs, **parts, logits=None if probs.logits is None else probs.logits[index])
    return probs[index] if isinstance(probs, torch.Tensor) else np.asarray(probs)[index]


def _base(metric: Metric) -> Metric:
    """The metric of which a partial sets keywords."""
    return cast("Any", metric).func if _is_partial(metric) and not cast("Any", metric).args else metric


def _is_partial(metric: object) -> bool:
    return isinstance(metric, partial)


def _draw_labels(samples: Samples, num_draws: int, rng: np.random.Generator) -> Array:
    """Labels drawn from the rows, (num_draws, N): the place of a uniform number among the row's cumulative sums."""
    labels = np.empty((num_draws, len(samples)), np.int32)
    for rows, chunk in samples.chunks():
        reached = np.cumsum(chunk[:, : samples.num_classes], axis=1, dtype=np.float64)
        if np.abs(reached[:, -1] - 1).max() > 0.05:
            given = f"rows sum to {reached[:, -1].min():.6g} over the known classes: labels cannot be drawn from them"
            raise ValueError(f'{given}, read the unknown class with predict(logits, unknown="renormalize") or "spread"')
        # Row r is moved to [r, r + 1), so that one search serves all rows.
        row = np.arange(len(chunk))[:, None]
        steps = (reached / reached[:, -1:] + row).ravel()
        place = np.searchsorted(steps, (rng.random((len(chunk), num_draws)) + row).ravel(), side="right")
        label = np.reshape(place, (len(chunk), num_draws)) - row * samples.num_classes
        labels[:, rows] = np.transpose(np.minimum(label, samples.num_classes - 1))
    return labels
