"""Reliability diagrams: accuracy against confidence, how far chance reaches, and where the confidences lie."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from socrates.metrics import BinStats
from socrates.metrics.binning import bin_edges

from ..markup import asset
from ..results import Array, Results
from ..statistics import mean_std
from ..style import Style
from ..vocabulary import USUAL_READING
from .chart import Chart, Json, by_reading, figure, mark, numbers, pen, scatter
from .compose import GREY, LINES, RED, Drawing, Handles, Panel, line_handle, method_handle, method_look

Z = 1.959964  # two-sided 95 % of a normal distribution
BAND = "#8080803D"

_HISTOGRAM = 0.24  # height of the strip below the diagram
_TICKS = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class ReliabilityData:
    """The bins of a diagram, pooled over the runs of a label; NaN in an empty bin.

    `low` and `high` enclose the accuracy that a calibrated model would show in that bin, 95 % of the time, by chance:
    confidence -/+ z sqrt(confidence (1 - confidence) / n). A bin outside is miscalibrated, one inside need not be.
    The band belongs to the claim that is tested; one around the measured accuracy would have no width where that is 0
    or 1, which is where small bins are. The runs of a method answer the same questions, so they are not independent: n
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


class Diagram(NamedTuple):
    """A reliability diagram with its look, and how many of its runs collapsed."""

    data: ReliabilityData
    style: Style
    collapsed: str = ""


def drawings(members: Sequence[Results], look: Mapping[str, Style]) -> Iterator[Drawing]:
    """The diagrams of all methods, side by side; none if no logits can be read."""
    diagrams = [Diagram(reliability_of(one), look[one.label], one.collapse_count) for one in members]
    if any(diagram.data.runs for diagram in diagrams):
        panels = [Panel(diagram.data.label, draw_reliability, diagram) for diagram in diagrams]
        yield Drawing("reliability", "reliability on the test set", panels, size=(2.15, 2.55), shared=True)


def charts(members: Sequence[Results], look: Mapping[str, Style]) -> list[Chart]:
    """A card for each method."""
    made: list[Chart] = []
    for place, one in enumerate(members):
        found = by_reading([one], lambda reading, one=one: reliability_of(one, reading=reading))
        figures = {reading: _figure(data, look[one.label]) for reading, data in found.items()}
        captions = {reading: in_words(data) for reading, data in found.items()}
        made.append(Chart(f"reliability-{place}", one.label, figures, captions, place))
    return made


def reliability_of(results: Results, split: str = "test", reading: str = USUAL_READING) -> ReliabilityData:
    """The diagram of labelled results under one reading of the unknown class."""
    floor, _ = mean_std(results.values("ece_floor", split=split, reading=reading))
    return reliability_data(results.label, results.bins(split, reading), floor)


def reliability_data(label: str, runs: Sequence[BinStats], floor: float = float("nan")) -> ReliabilityData:
    """The diagram of the bins of one or more runs; all counts are 0 if there are none."""
    pooled = sum(runs[1:], start=runs[0]) if runs else BinStats(*np.zeros((3, 1)))
    edges = bin_edges(len(pooled.count))
    confidence, accuracy = pooled.mean(pooled.confidence), pooled.mean(pooled.correct)
    low, high = chance_band(confidence, pooled.count / max(len(runs), 1))
    ece = float(np.mean([stats.ece for stats in runs])) if runs else float("nan")
    bins = (edges[:-1], edges[1:], confidence, accuracy, low, high, pooled.count / max(pooled.count.sum(), 1))
    return ReliabilityData(label, *bins, ece, floor, pooled.count, len(runs))


def chance_band(confidence: Array, count: Array) -> tuple[Array, Array]:
    """Between which accuracies a calibrated bin lies by chance, 95 % of the time; NaN for an empty bin.

    >>> low, high = chance_band(np.array([0.5, 0.9, np.nan]), np.array([100.0, 9.0, 0.0]))
    >>> low.round(3), high.round(3)
    (array([0.402, 0.704, nan]), array([0.598, 1. , nan]))
    """
    variance = confidence * (1 - confidence) / np.where(count > 0, count, np.nan)
    reach = Z * np.sqrt(np.maximum(variance, 0.0))  # a float32 confidence may exceed 1 by its rounding
    return np.clip(confidence - reach, 0, 1), np.clip(confidence + reach, 0, 1)


def draw_reliability(axes: Axes, diagram: Diagram) -> Handles:
    """Accuracy of each bin as steps, dots at its mean confidence, the band of chance, and below, the confidences."""
    data, style = diagram.data, diagram.style
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=LINES["dash"], zorder=2)
    filled = data.count > 0
    if filled.any():
        edges = np.append(data.lower, data.upper[-1])
        axes.stairs(data.accuracy, edges, baseline=0, fill=True, color=style.colour, alpha=0.35, linewidth=0)
        height = data.share / data.share.max() * 0.86 * _HISTOGRAM - _HISTOGRAM
        axes.stairs(height, edges, baseline=-_HISTOGRAM, fill=True, color=GREY, alpha=0.8, linewidth=0)
        reach = np.stack([data.confidence - data.low, data.high - data.confidence])[:, filled]
        confidence = data.confidence[filled]
        axes.errorbar(confidence, confidence, reach, fmt="none", ecolor=GREY, elinewidth=3.2, alpha=0.45)
        axes.plot(confidence, data.accuracy[filled], "o", color=style.colour, markersize=3.2, zorder=3)
    else:
        axes.text(0.5, 0.5, "no logits to read", ha="center", va="center", fontsize=7.5, color=GREY)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set(xlim=(0, 1), ylim=(-_HISTOGRAM, 1), xticks=_TICKS, yticks=_TICKS, xlabel="confidence", ylabel="accuracy")
    words = [in_words(data), *([f"collapsed: {diagram.collapsed}"] if diagram.collapsed else [])]
    axes.set_title("\n".join(filter(None, words)), color=RED if diagram.collapsed else GREY)
    return [
        Patch(color=GREY, alpha=0.35, label="accuracy"),
        line_handle("calibrated", linewidth=1, linestyle=LINES["dash"]),
        line_handle("95 % by chance", linewidth=3.2, alpha=0.45),
        Patch(color=GREY, alpha=0.8, label="confidences"),
    ]


def draw_lines(axes: Axes, diagrams: Sequence[Diagram]) -> Handles:
    """One line a method through its bins, and the diagonal of perfect calibration."""
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=LINES["dash"])
    for data, style, _ in diagrams:
        filled = data.count > 0
        look = method_look(style, markersize=3.5, linewidth=1.2)
        axes.plot(data.confidence[filled], data.accuracy[filled], **look)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
    return [method_handle(diagram.data.label, diagram.style) for diagram in diagrams]


def in_words(data: ReliabilityData) -> str:
    """ECE and what of it is chance.

    >>> nothing = np.zeros(0)
    >>> in_words(ReliabilityData("CE", *[nothing] * 7, ece=0.0312, floor=0.008, count=nothing, runs=5))
    'ECE 3.12 %, by chance 0.80 %'
    """
    if not np.isfinite(data.ece):
        return ""
    chance = f", by chance {100 * data.floor:.2f} %" if np.isfinite(data.floor) else ""
    return f"ECE {100 * data.ece:.2f} %{chance}"


def _figure(data: ReliabilityData, style: Style) -> Json:
    """The band of chance, the line through the bins, and the strip of confidences below."""
    names = ("lower", "upper", "confidence", "accuracy", "low", "high", "share")
    lower, upper, *shown = (getattr(data, name)[data.count > 0] for name in names)
    confidence, accuracy, low, high, share = shown
    hover = (
        "confidence %{customdata[0]:.1%}<br>accuracy %{customdata[1]:.1%}<br>by chance %{customdata[2]:.1%} – "
        "%{customdata[3]:.1%}<br>%{customdata[4]:.1%} of the predictions<extra></extra>"
    )
    drawn = {"line": pen(replace(style, dash="solid"), 1.5), "marker": mark(style, 7.5, width=1), "cliponaxis": False}
    points = scatter(data.label, style, confidence, accuracy, shown, hover, mode="lines+markers", **drawn)
    width, middle = upper - lower, numbers((lower + upper) / 2)
    bars = {"type": "bar", "x": middle, "customdata": points["customdata"], "hovertemplate": hover}
    chance = {"y": numbers(high - low), "base": numbers(low), "width": numbers(width), "marker": {"color": BAND}}
    strip = {"y": numbers(share), "width": numbers(0.86 * width), "marker": {"color": f"m{style.place} B3"}}
    layout = json.loads(asset("reliability.json"))
    return figure([{**bars, **chance}, points, {**bars, **strip, "yaxis": "y2"}], **layout)
