"""The numbers of a reliability diagram, what chance explains of them, and how that is said in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from .. import metrics
from ..metrics.binning import BinStats, bin_edges, bin_index, bin_stats
from ..metrics.samples import Array, Top
from ..metrics.uncertainty import Z

MOST_DRAWN = 2_000_000  # random answers for a floor, at most, as far as ten sets of labels are enough


@dataclass(frozen=True)
class ReliabilityData:
    """The bins of a diagram, pooled over the runs of a label; NaN in an empty bin.

    `low` and `high` enclose the accuracy that a calibrated model would show in that bin, 95 % of the time, by chance:
    confidence -/+ z sqrt(confidence (1 - confidence) / n). A bin outside is miscalibrated, one inside need not be.
    The band belongs to the claim that is tested; one around the measured accuracy would have no width where that is 0
    or 1, which is where small bins are. The runs of a method answer the same questions, so they are not independent: n
    is the bin's count in one run on average, which keeps the band honest and errs to the wide side. Of weighted samples
    n is the number of equal ones that vary as much.

    `ece` is the mean of the runs' own values, as in tables; `floor` what it would be if they were calibrated; `gap` is
    mean confidence less accuracy over all bins, and `reach` how far that is from 0 by chance.
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
    """The diagram of the bins of one or more runs; all counts are 0 if there are none."""
    pooled = sum(runs[1:], start=runs[0]) if runs else BinStats(*np.zeros((3, 1)))
    edges = bin_edges(len(pooled.count))
    confidence, accuracy = pooled.mean(pooled.confidence), pooled.mean(pooled.correct)
    share, size = pooled.count / max(pooled.count.sum(), 1e-300), pooled.count / max(len(runs), 1)
    low, high = chance_band(confidence, size if effective is None else effective)
    ece = float(np.mean([stats.ece for stats in runs])) if runs else math.nan
    variance = _variance(confidence, size if effective is None else effective)
    gap, reach = np.nansum(share * (confidence - accuracy)), Z * math.sqrt(np.nansum(share**2 * variance))
    bins = (edges[:-1], edges[1:], confidence, accuracy, low, high, share)
    return ReliabilityData(label, *bins, ece, floor, pooled.count, len(runs), float(gap), reach)


def diagram_of(top: Top, num_bins: int = 15, floor: bool = True) -> ReliabilityData:
    """The diagram of samples, with the floor of their ECE or without."""
    bins = bin_stats(top, num_bins)
    squares = np.bincount(bin_index(top.confidence, num_bins), weight_of(top) ** 2, num_bins)
    effective = np.divide(bins.count**2, squares, out=np.zeros(num_bins), where=squares > 0)
    draws = min(max(MOST_DRAWN // len(top), 10), 100)
    chance = metrics.floor(partial(metrics.ece, num_bins=num_bins), top, num_draws=draws) if floor else math.nan
    return reliability_data("", [bins], chance, effective)


def weight_of(top: Top) -> Array:
    """The weight of each sample, 1 unless told."""
    return np.ones(len(top)) if top.weight is None else top.weight


def chance_band(confidence: Array, count: Array) -> tuple[Array, Array]:
    """Between which accuracies a calibrated bin lies by chance, 95 % of the time; NaN for an empty bin.

    >>> low, high = chance_band(np.array([0.5, 0.9, np.nan]), np.array([100.0, 9.0, 0.0]))
    >>> low.round(3), high.round(3)
    (array([0.402, 0.704, nan]), array([0.598, 1. , nan]))
    """
    reach = Z * np.sqrt(_variance(confidence, count))
    return np.clip(confidence - reach, 0, 1), np.clip(confidence + reach, 0, 1)


def _variance(confidence: Array, count: Array) -> Array:
    """Of the accuracy of a calibrated bin; a float32 confidence may exceed 1 by its rounding."""
    return np.maximum(confidence * (1 - confidence), 0.0) / np.where(count > 0, count, np.nan)


def smoothed(data: ReliabilityData, num_points: int = 61, num_draws: int = 200) -> tuple[Array, Array, Array, Array]:
    """A smooth line through a diagram's bins: confidence, accuracy, and its 95 % band by the bootstrap; NaN in gaps.

    What is smoothed is the gap between accuracy and confidence, with a Gaussian kernel weighted by counts: a calibrated
    model lies on the diagonal up to both ends. The bootstrap draws the right answers of each bin of one run again.

    >>> bins = [BinStats(*np.array([[0, 0, 80, 120], [0, 0, 50, 108], [0, 0, 50, 108]]))]
    >>> x, y, low, high = smoothed(reliability_data("", bins), num_points=5)
    >>> x.round(2), bool((low[-2:] < y[-2:]).all())
    (array([0. , 0.25, 0.5 , 0.75, 1. ]), True)
    """
    x, filled = np.linspace(0, 1, num_points), data.count > 0
    if not filled.any():
        none = np.full(num_points, np.nan)
        return x, none, none, none
    centre, right, width = data.confidence[filled], data.accuracy[filled], 0.75 * data.upper[0]
    size = np.maximum(np.rint(data.count[filled] / max(data.runs, 1)), 1).astype(int)
    distance = x[:, None] - centre
    weight = size * np.exp(-((distance / width) ** 2) / 2) + 1e-300
    weight /= weight.sum(axis=1, keepdims=True)
    drawn = np.random.default_rng(0).binomial(size, np.clip(right, 0, 1), (num_draws, len(size))) / size
    near = np.abs(distance).min(axis=1) <= data.upper[0]
    lines = np.where(near, x + (np.vstack([right, drawn]) - centre) @ weight.T, np.nan).clip(0, 1)
    low, high = np.quantile(lines[1:], [0.025, 0.975], axis=0)
    return x, lines[0], low, high


def ece_in_words(data: ReliabilityData) -> str:
    """ECE and what of it is chance.

    >>> ece_in_words(diagram_of(Top.of([0.9, 0.6] * 50, [1, 0] * 50)))
    'ECE 35.00 %, floor 4.34 %'
    """
    if not np.isfinite(data.ece):
        return ""
    chance = f", floor {100 * data.floor:.2f} %" if np.isfinite(data.floor) else ""
    return f"ECE {100 * data.ece:.2f} %{chance}"


def gap_in_words(data: ReliabilityData, over: str = "overconfident", under: str = "underconfident") -> str:
    """How far confidence and accuracy differ overall, in which direction, and whether chance explains it.

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
