"""The numbers of a reliability diagram, what chance explains of them, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from .. import metrics
from ..arrays.open import Array
from ..arrays.samples import Top
from ..metrics.binning import BinStats, bin_edges, bin_index, bin_stats
from ..metrics.uncertainty import Z

# At most this many random answers make a floor, but never fewer than ten sets of labels.
MOST_DRAWN = 2_000_000


@dataclass(frozen=True)
class ReliabilityData:
    """The bins of a reliability diagram, pooled over the runs of a label; NaN in an empty bin.

    `low` and `high` enclose the accuracy that a calibrated model would show in that bin by chance,
    95% of the time: confidence -/+ z sqrt(confidence (1 - confidence) / n). A bin outside is
    miscalibrated, a bin inside need not be. The band belongs to the claim that is tested; a band
    around the measured accuracy would have no width where that is 0 or 1, which is where small bins
    are. The runs of a method answer the same questions, so they are not independent: n is the bin's
    mean count per run, which keeps the band honest and errs on the wide side. For weighted samples
    n is the number of equal ones that vary as much.

    `ece` is the mean of the runs' values, as in tables, and `floor` what it would be if they were
    calibrated; `gap` is mean confidence minus accuracy over all bins, and `reach` how far chance
    takes it from 0.
    """

    label: str
    lower: Array  # (M,)
    upper: Array
    confidence: Array
    accuracy: Array
    low: Array
    high: Array
    share: Array  # of all samples
    ece: float
    floor: float
    count: Array
    runs: int  # whose logits could be read
    gap: float
    reach: float


def reliability_data(
    label: str, runs: Sequence[BinStats], floor: float = math.nan, effective: Array | None = None
) -> ReliabilityData:
    """Return the diagram of the bins of one or more runs; without runs all counts are 0."""
    total = sum(runs[1:], start=runs[0]) if runs else BinStats(*np.zeros((3, 1)))
    edges = bin_edges(len(total.count))
    confidence = total.mean(total.confidence)
    accuracy = total.mean(total.correct)
    share = total.count / max(total.count.sum(), 1e-300)
    size = total.count / max(len(runs), 1) if effective is None else effective
    low, high = chance_band(confidence, size)
    return ReliabilityData(
        label=label,
        lower=edges[:-1],
        upper=edges[1:],
        confidence=confidence,
        accuracy=accuracy,
        low=low,
        high=high,
        share=share,
        ece=float(np.mean([stats.ece for stats in runs])) if runs else math.nan,
        floor=floor,
        count=total.count,
        runs=len(runs),
        gap=float(np.nansum(share * (confidence - accuracy))),
        reach=Z * math.sqrt(np.nansum(share**2 * _variance(confidence, size))),
    )


def diagram_of(top: Top, num_bins: int = 15, floor: bool = True) -> ReliabilityData:
    """Return the diagram of samples, with or without the floor of their ECE."""
    bins = bin_stats(top, num_bins)
    squares = np.bincount(bin_index(top.confidence, num_bins), weight_of(top) ** 2, num_bins)
    effective = np.divide(bins.count**2, squares, out=np.zeros(num_bins), where=squares > 0)
    return reliability_data("", [bins], _floor(top, num_bins) if floor else math.nan, effective)


def _floor(top: Top, num_bins: int) -> float:
    """Return the ECE that chance alone would measure; many samples need fewer draws."""
    draws = min(max(MOST_DRAWN // len(top), 10), 100)
    return metrics.floor(partial(metrics.ece, num_bins=num_bins), top, num_draws=draws)


def weight_of(top: Top) -> Array:
    """Return the weight of each sample, 1 by default."""
    return np.ones(len(top)) if top.weight is None else top.weight


def root_shares(share: Array) -> Array:
    """Return the square roots of shares, the largest as 1.

    Without the root, the few unsure answers could not be seen beside the many sure ones.

    >>> root_shares(np.array([0.01, 0.04, 0.95 / 0.95]))
    array([0.1, 0.2, 1. ])
    """
    return np.sqrt(share / max(share.max(initial=0.0), 1e-300))


def chance_band(confidence: Array, count: Array) -> tuple[Array, Array]:
    """Return the accuracies between which a calibrated bin lies by chance, 95% of the time.

    Both are NaN for an empty bin.

    >>> low, high = chance_band(np.array([0.5, 0.9, np.nan]), np.array([100.0, 9.0, 0.0]))
    >>> low.round(3), high.round(3)
    (array([0.402, 0.704, nan]), array([0.598, 1. , nan]))
    """
    reach = Z * np.sqrt(_variance(confidence, count))
    return np.clip(confidence - reach, 0, 1), np.clip(confidence + reach, 0, 1)


def _variance(confidence: Array, count: Array) -> Array:
    """Return the variance of a calibrated bin's accuracy; rounding may take a confidence past 1."""
    return np.maximum(confidence * (1 - confidence), 0.0) / np.where(count > 0, count, np.nan)


def smoothed(
    data: ReliabilityData, num_points: int = 61, num_draws: int = 200
) -> tuple[Array, Array, Array, Array]:
    """Return a smooth line through a diagram's bins: confidence, accuracy, and its 95% band.

    What is smoothed is the gap between accuracy and confidence, with a Gaussian kernel weighted by
    counts: a calibrated model lies on the diagonal up to both ends. The bootstrap draws the right
    answers of each bin of one run again. The line is NaN where no bin is near.

    >>> bins = [BinStats(*np.array([[0, 0, 80, 120], [0, 0, 50, 108], [0, 0, 50, 108]]))]
    >>> x, y, low, high = smoothed(reliability_data("", bins), num_points=5)
    >>> x.round(2), bool((low[-2:] < y[-2:]).all())
    (array([0. , 0.25, 0.5 , 0.75, 1. ]), True)
    """
    x = np.linspace(0, 1, num_points)
    filled = data.count > 0
    if not filled.any():
        nothing = np.full(num_points, np.nan)
        return x, nothing, nothing, nothing
    confidence = data.confidence[filled]
    accuracy = data.accuracy[filled]
    size = np.maximum(np.rint(data.count[filled] / max(data.runs, 1)), 1).astype(int)
    distance = x[:, None] - confidence
    bin_width = data.upper[0]
    weight = size * np.exp(-((distance / (0.75 * bin_width)) ** 2) / 2) + 1e-300
    weight /= weight.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    drawn = rng.binomial(size, np.clip(accuracy, 0, 1), (num_draws, len(size))) / size
    gaps = np.vstack([accuracy, drawn]) - confidence
    near = np.abs(distance).min(axis=1) <= bin_width
    lines = np.where(near, x + gaps @ weight.T, np.nan).clip(0, 1)
    low, high = np.quantile(lines[1:], [0.025, 0.975], axis=0)
    return x, lines[0], low, high


def ece_in_words(data: ReliabilityData) -> str:
    """Return the ECE and how much of it is chance.

    >>> ece_in_words(diagram_of(Top.of([0.9, 0.6] * 50, [1, 0] * 50)))
    'ECE 35.00%, floor 4.34%'
    """
    if not np.isfinite(data.ece):
        return ""
    chance = f", floor {100 * data.floor:.2f}%" if np.isfinite(data.floor) else ""
    return f"ECE {100 * data.ece:.2f}%{chance}"


def gap_in_words(
    data: ReliabilityData, over: str = "overconfident", under: str = "underconfident"
) -> str:
    """Return by how much confidence and accuracy differ overall, and whether chance explains it.

    >>> gap_in_words(diagram_of(Top.of([0.9, 0.6], [1, 0])))
    'overconfident by 25.0 points, within chance'
    """
    if not data.runs:
        return ""
    if data.gap == 0:
        return "no gap overall"
    points = 100 * abs(data.gap)
    amount = f"{points:.1f}" if points >= 0.05 else "less than 0.1"
    within = ", within chance" if abs(data.gap) <= data.reach else ""
    return f"{over if data.gap > 0 else under} by {amount} points{within}"
