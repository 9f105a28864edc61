"""Reliability diagrams: accuracy against confidence, how far chance reaches, and where the confidences lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from socrates.metrics import BinStats, predict
from socrates.metrics.binning import bin_edges, bin_stats
from socrates.metrics.inputs import Top, open_samples
from socrates.metrics.predictions import READINGS, Reading
from socrates.records import Predictions
from socrates.report.aggregate import Group, mean_std
from socrates.report.figures.ink import GREY, LINES, tidy, wrapped
from socrates.report.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]

Z = 1.959964  # two-sided 95 % of a normal distribution

_HISTOGRAM = 0.24  # height of the strip below the diagram
_TICKS = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class ReliabilityData:
    """The bins of a diagram, pooled over the runs of a group; NaN in an empty bin.

    `low` and `high` enclose the accuracy that a calibrated model would show in that bin, 95 % of the time, by chance:
    confidence -/+ z sqrt(confidence (1 - confidence) / n). A bin outside is miscalibrated, one inside need not be.
    The band belongs to the claim that is tested; one around the measured accuracy would have no width where that is 0
    or 1, which is where small bins are. The runs of a group answer the same questions, so they are not independent: n
    is the bin's count in one run on average, which keeps the band honest and errs to the wide side.

    `ece` is the mean of the runs' own values, as in tables; `floor` what it would be if they were calibrated.
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


def reliability_data(group: Group, split: str = "test", reading: str = "answer") -> ReliabilityData:
    """The diagram of a group under one reading of the unknown class; all counts are 0 if no run can be read."""
    return _pooled(group, _tops(group, split, (reading,)), split)[reading]


def reliability_readings(group: Group, split: str = "test") -> dict[str, ReliabilityData]:
    """The diagrams under the four readings; each file of logits is read once.

    Without an unknown class they are the same, computed once.
    """
    return _pooled(group, _tops(group, split, tuple(READINGS)), split)


def chance_band(confidence: Array, count: Array) -> tuple[Array, Array]:
    """Between which accuracies a calibrated bin lies by chance, 95 % of the time; NaN for an empty bin.

    >>> low, high = chance_band(np.array([0.5, 0.9, np.nan]), np.array([100.0, 9.0, 0.0]))
    >>> low.round(3), high.round(3)
    (array([0.402, 0.704, nan]), array([0.598, 1. , nan]))
    """
    variance = np.divide(
        confidence * (1 - confidence), count, out=np.full(np.shape(count), np.nan), where=np.asarray(count) > 0
    )
    reach = Z * np.sqrt(np.maximum(variance, 0.0))  # a float32 confidence may exceed 1 by its rounding
    return np.clip(confidence - reach, 0, 1), np.clip(confidence + reach, 0, 1)


def _tops(group: Group, split: str, readings: Sequence[str]) -> dict[str, list[Top]]:
    """Confidence and correctness of every sample, for each reading a list over the runs that can be read."""
    tops: dict[str, list[Top]] = {reading: [] for reading in readings}
    for run in group.runs:
        try:
            stored = run.predictions(split)
            own = {reading: _top(stored, reading) for reading in (readings if run.unknown_class else readings[:1])}
        except (OSError, ValueError):  # no such file, a damaged one, or logits that are not finite
            continue
        for reading in readings:
            tops[reading].append(own.get(reading) or own[readings[0]])
    return tops


def _top(stored: Predictions, reading: str) -> Top:
    unknown = stored.logits.shape[1] > stored.num_classes
    prediction = predict(stored.logits, unknown=cast("Reading", reading) if unknown else None)
    return open_samples(prediction, stored.labels).top()


def _pooled(group: Group, tops: dict[str, list[Top]], split: str) -> dict[str, ReliabilityData]:
    num_bins = group.runs[0].evaluation.num_bins
    diagrams: dict[str, ReliabilityData] = {}
    for reading, of_runs in tops.items():
        floor, _ = mean_std(group.values("ece_floor", split=split, reading=reading))
        diagrams[reading] = _diagram(group.label, [bin_stats(top, num_bins) for top in of_runs], num_bins, floor)
    return diagrams


def _diagram(label: str, of_runs: list[BinStats], num_bins: int, floor: float) -> ReliabilityData:
    pooled = sum(of_runs[1:], start=of_runs[0]) if of_runs else BinStats(*np.zeros((3, num_bins)))
    edges = bin_edges(num_bins)
    confidence, accuracy = pooled.mean(pooled.confidence), pooled.mean(pooled.correct)
    runs = len(of_runs)
    low, high = chance_band(confidence, pooled.count / max(runs, 1))
    return ReliabilityData(
        label=label,
        lower=edges[:-1],
        upper=edges[1:],
        confidence=confidence,
        accuracy=accuracy,
        low=low,
        high=high,
        share=pooled.count / max(pooled.count.sum(), 1),
        ece=float(np.mean([stats.ece for stats in of_runs])) if of_runs else float("nan"),
        floor=floor,
        count=pooled.count,
        runs=runs,
    )


def draw_reliability(axes: Axes, data: ReliabilityData, style: Style) -> None:
    """Accuracy of each bin as steps, dots at its mean confidence, the band of chance, and below, the confidences."""
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=LINES["dash"], zorder=2)
    filled = data.count > 0
    if filled.any():
        edges = np.append(data.lower, data.upper[-1])
        axes.stairs(data.accuracy, edges, baseline=0, fill=True, color=style.colour, alpha=0.35, linewidth=0)
        height = data.share / data.share.max() * 0.86 * _HISTOGRAM - _HISTOGRAM
        axes.stairs(height, edges, baseline=-_HISTOGRAM, fill=True, color=GREY, alpha=0.8, linewidth=0)
        reach = np.stack([data.confidence - data.low, data.high - data.confidence])[:, filled]
        axes.errorbar(
            data.confidence[filled], data.confidence[filled], reach, fmt="none", ecolor=GREY, elinewidth=3.2, alpha=0.45
        )
        axes.plot(data.confidence[filled], data.accuracy[filled], "o", color=style.colour, markersize=3.2, zorder=3)
    else:
        axes.text(0.5, 0.5, "no logits to read", ha="center", va="center", fontsize=7.5, color=GREY)
    axes.axhline(0, color=GREY, linewidth=0.8)
    tidy(axes)
    axes.set(xlim=(0, 1), ylim=(-_HISTOGRAM, 1), xticks=_TICKS, yticks=_TICKS, xlabel="confidence", ylabel="accuracy")
    axes.set_title(f"{wrapped(data.label)}\n{_in_words(data)}", fontsize=8)


def legend_handles() -> list[Any]:
    """What the marks of a diagram mean, for a legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [
        Patch(color=GREY, alpha=0.35, label="accuracy"),
        Line2D([], [], color=GREY, linewidth=1, linestyle=LINES["dash"], label="calibrated"),
        Line2D([], [], color=GREY, linewidth=3.2, alpha=0.45, label="95 % by chance"),
        Patch(color=GREY, alpha=0.8, label="confidences"),
    ]


def _in_words(data: ReliabilityData) -> str:
    """ECE and what of it is chance.

    >>> nothing = np.zeros(0)
    >>> _in_words(ReliabilityData("CE", *[nothing] * 7, ece=0.0312, floor=0.008, count=nothing, runs=5))
    'ECE 3.12 %, by chance 0.80 %'
    """
    if not np.isfinite(data.ece):
        return ""
    chance = f", by chance {100 * data.floor:.2f} %" if np.isfinite(data.floor) else ""
    return f"ECE {100 * data.ece:.2f} %{chance}"
