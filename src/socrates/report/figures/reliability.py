"""Reliability diagrams: accuracy against confidence, how far chance reaches, and where the confidences lie."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from socrates.plots import ink
from socrates.plots.diagram import ReliabilityData, ece_in_words, gap_in_words, reliability_data, smoothed

from ..markup import asset
from ..results import Results
from ..statistics import mean_std
from ..style import Style
from ..vocabulary import USUAL_READING
from .chart import SYMBOLS, Chart, Json, by_reading, figure, mark, numbers, outline, pen, scatter
from .compose import GREY, LINES, RED, Drawing, Handles, Panel, line_handle, method_handle, method_look

BAND = "#80808030"
FEW = 10  # predictions of a bin in one run, below which it is drawn hollow


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
        captions = {reading: _in_words(data) for reading, data in found.items()}
        said = f"Reliability of {one.label}: {captions[USUAL_READING] or 'no logits to read'}."
        made.append(Chart(f"reliability-{place}", one.label, figures, captions, place, summary=said))
    return made


def reliability_of(results: Results, split: str = "test", reading: str = USUAL_READING) -> ReliabilityData:
    """The diagram of labelled results under one reading of the unknown class."""
    floor, _ = mean_std(results.values("ece_floor", split=split, reading=reading))
    return reliability_data(results.label, results.bins(split, reading), floor)


def draw_reliability(axes: Axes, diagram: Diagram) -> Handles:
    """The diagram in the colour of its method; the legend, which serves all methods, is grey."""
    data, collapsed = diagram.data, diagram.collapsed
    ink.draw_reliability(axes, data, diagram.style.colour)
    if not data.runs:
        axes.text(0.5, 0.5, "no logits to read", ha="center", va="center", fontsize=7.5, color=GREY)
    gap = gap_in_words(data).replace(", ", ",\n")  # panels are narrow
    words = [ece_in_words(data), gap, f"collapsed: {collapsed}" if collapsed else ""]
    axes.set_title("\n".join(filter(None, words)), color=RED if collapsed else GREY)
    return [
        Patch(color=GREY, alpha=0.35, label="accuracy"),
        line_handle("calibrated", linewidth=1, linestyle=LINES["dash"]),
        line_handle("95 % by chance", linewidth=3.2, alpha=0.45),
        Patch(color=GREY, alpha=0.8, label="confidences (square root)"),
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


def _figure(data: ReliabilityData, style: Style) -> Json:
    """The band of chance, the smooth line with its own, the bins by their counts, and below the confidences."""
    names = ("lower", "upper", "confidence", "accuracy", "low", "high", "share", "count")
    lower, upper, *shown = (getattr(data, name)[data.count > 0] for name in names)
    confidence, accuracy, low, high, share, count = shown
    hover = (
        "confidence %{customdata[0]:.1%}<br>accuracy %{customdata[1]:.1%}<br>by chance %{customdata[2]:.1%} – "
        "%{customdata[3]:.1%}<br>%{customdata[5]:,.0f} predictions, %{customdata[4]:.1%}<extra></extra>"
    )
    few = count / max(data.runs, 1) < FEW
    symbol = SYMBOLS[style.marker]
    sizes = numbers(np.maximum(17 * np.sqrt(share / max(share.max(initial=0.0), 1e-9)), 7))
    symbols = [f"{symbol}-open" if hollow else symbol for hollow in few]
    edges = [2.0 if hollow else 0.5 for hollow in few]
    marker = mark(style, 0, width=edges) | {"size": sizes, "symbol": symbols, "opacity": 1}
    points = scatter(data.label, style, confidence, accuracy, shown, hover, mode="markers", marker=marker)
    points["marker"]["line"]["color"] = [f"m{style.place}" if hollow else "card" for hollow in few]
    points["cliponaxis"] = False
    x, middle, bottom, top = smoothed(data)
    line = {"type": "scatter", "mode": "lines", "meta": style.place, "hoverinfo": "skip"}
    line |= {"x": numbers(x), "y": numbers(middle), "line": pen(replace(style, dash="solid"), 2)}
    around = outline(style, x, bottom, top, "38")
    width, at = upper - lower, numbers((lower + upper) / 2)
    bars = {"type": "bar", "x": at, "customdata": points["customdata"], "hovertemplate": hover}
    chance = {"y": numbers(high - low), "base": numbers(low), "width": numbers(width), "marker": {"color": BAND}}
    heights = numbers(np.sqrt(share / max(share.max(initial=0.0), 1e-9)))
    strip = {"y": heights, "width": numbers(0.86 * width), "marker": {"color": f"f{style.place}"}}
    layout = json.loads(asset("reliability.json"))
    return figure([{**bars, **chance}, around, line, points, {**bars, **strip, "yaxis": "y2"}], **layout)


def _in_words(data: ReliabilityData) -> str:
    """ECE, what of it is chance, and the signed gap."""
    return "; ".join(filter(None, (ece_in_words(data), gap_in_words(data))))
