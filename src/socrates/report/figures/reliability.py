"""Reliability diagrams: accuracy against confidence, and how far chance reaches."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from socrates.plots import ink
from socrates.plots.diagram import (
    ReliabilityData,
    ece_in_words,
    gap_in_words,
    reliability_data,
    root_shares,
    smoothed,
)

from ...palette import DASHES, GREY, RED
from ..markup import asset
from ..results import Members, Results
from ..statistics import mean_std
from ..style import Look, Style
from ..vocabulary import USUAL_READING
from .chart import (
    SYMBOLS,
    Chart,
    Json,
    by_reading,
    figure,
    mark,
    numbers,
    outline,
    pen,
    scatter,
    silent_line,
)
from .compose import Drawing, Handles, Panel, line_handle, method_handle, method_look

BAND = "#80808030"
FEW = 10  # predictions of a bin in one run, below which it is drawn hollow
PANELS_PER_FILE = 6  # more fit no page
PANELS_PER_ROW = 3
NO_LOGITS = "no logits to read"
HOVER = (
    "confidence %{customdata[0]:.1%}<br>accuracy %{customdata[1]:.1%}"
    "<br>by chance %{customdata[2]:.1%} – %{customdata[3]:.1%}"
    "<br>%{customdata[5]:,.0f} predictions, %{customdata[4]:.1%}<extra></extra>"
)


class Diagram(NamedTuple):
    """A reliability diagram with its look, and how many of its runs collapsed."""

    data: ReliabilityData
    style: Style
    collapsed: str = ""


def drawings(members: Members, look: Look) -> Iterator[Drawing]:
    """Yield the diagrams of all methods, six to a file, if any logits can be read."""
    diagrams = [
        Diagram(reliability_of(results), look[results.label], results.collapse_count)
        for results in members
    ]
    if not any(diagram.data.runs for diagram in diagrams):
        return
    words = "reliability on the test set; ECE and its floor in percent"
    for first in range(0, len(diagrams), PANELS_PER_FILE):
        page = diagrams[first : first + PANELS_PER_FILE]
        panels = [Panel(diagram.data.label, draw_diagram, diagram) for diagram in page]
        number = first // PANELS_PER_FILE + 1
        name = "reliability" if number == 1 else f"reliability-{number}"
        yield Drawing(name, words, panels, PANELS_PER_ROW, (2.15, 2.3), shared=True)


def charts(members: Members, look: Look) -> list[Chart]:
    """Return a card for each method."""
    return [_card(results, look[results.label], place) for place, results in enumerate(members)]


def _card(results: Results, style: Style, place: int) -> Chart:
    """Return the diagram of one method for each reading."""
    diagrams: dict[str, ReliabilityData] = by_reading(
        [results], lambda reading: reliability_of(results, reading=reading)
    )
    captions = {reading: _in_words(data) for reading, data in diagrams.items()}
    return Chart(
        f"reliability-{place}",
        results.label,
        {reading: _figure(data, style) for reading, data in diagrams.items()},
        captions,
        place,
        summary=f"Reliability of {results.label}: {captions[USUAL_READING] or NO_LOGITS}.",
    )


def reliability_of(
    results: Results, split: str = "test", reading: str = USUAL_READING
) -> ReliabilityData:
    """Return the diagram of labelled results under one reading of the unknown class."""
    floor, _ = mean_std(results.values("ece_floor", split=split, reading=reading))
    return reliability_data(results.label, results.bins(split, reading), floor)


def draw_diagram(axes: Axes, diagram: Diagram) -> Handles:
    """Draw a diagram in the colour of its method; the legend, which serves all methods, is grey."""
    data = diagram.data
    ink.draw_reliability(axes, data, diagram.style.colour)
    if not data.runs:
        axes.text(0.5, 0.5, NO_LOGITS, ha="center", va="center", fontsize=7.5, color=GREY)
    collapsed = f"collapsed: {diagram.collapsed}" if diagram.collapsed else ""
    measured = ece_in_words(data).replace("%", "").replace(" ", "\u00a0")  # on one line
    axes.set_title("\n".join(filter(None, (measured, collapsed))), color=RED if collapsed else GREY)
    return [
        line_handle(ink.SMOOTH_LABEL, linewidth=1.4),
        line_handle("calibrated", linewidth=1, linestyle=DASHES["dash"]),
        Patch(color=GREY, alpha=0.2, label=ink.CHANCE_LABEL),
        Patch(color=GREY, alpha=0.8, label=ink.CONFIDENCES_LABEL),
    ]


def draw_lines(axes: Axes, diagrams: Sequence[Diagram]) -> Handles:
    """Draw one line per method through its bins, and the diagonal of perfect calibration."""
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=DASHES["dash"])
    for data, style, _ in diagrams:
        filled = data.count > 0
        look = method_look(style, markersize=3.5, linewidth=1.2)
        axes.plot(data.confidence[filled], data.accuracy[filled], **look)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
    return [method_handle(diagram.data.label, diagram.style) for diagram in diagrams]


def _figure(data: ReliabilityData, style: Style) -> Json:
    """Return the chart of a diagram: chance, a smooth line, the bins, and the confidences below."""
    filled = data.count > 0
    points = _points(data, style)
    width = (data.upper - data.lower)[filled]
    bar = {
        "type": "bar",
        "x": numbers(((data.lower + data.upper) / 2)[filled]),
        "customdata": points["customdata"],
        "hovertemplate": HOVER,
    }
    chance = {
        "y": numbers((data.high - data.low)[filled]),
        "base": numbers(data.low[filled]),
        "width": numbers(width),
        "marker": {"color": BAND},
    }
    strip = {
        "y": numbers(root_shares(data.share[filled])),
        "width": numbers(0.86 * width),
        "marker": {"color": f"f{style.place}"},
        "yaxis": "y2",
    }
    traces = [{**bar, **chance}, *_smooth_line(data, style), points, {**bar, **strip}]
    return figure(traces, **json.loads(asset("reliability.json")))


def _points(data: ReliabilityData, style: Style) -> Json:
    """Return a mark per bin that grows with its count, hollow where predictions are few."""
    names = ("confidence", "accuracy", "low", "high", "share", "count")
    shown = [getattr(data, name)[data.count > 0] for name in names]
    confidence, accuracy, _, _, share, count = shown
    few = count / max(data.runs, 1) < FEW
    symbol = SYMBOLS[style.marker]
    edge = {
        "color": [f"m{style.place}" if hollow else "card" for hollow in few],
        "width": [2.0 if hollow else 0.5 for hollow in few],
    }
    marker = {
        **mark(style, 0),
        "size": numbers(np.maximum(17 * root_shares(share), 7)),
        "symbol": [f"{symbol}-open" if hollow else symbol for hollow in few],
        "opacity": 1,
        "line": edge,
    }
    return scatter(
        data.label,
        style,
        confidence,
        accuracy,
        shown,
        HOVER,
        mode="markers",
        marker=marker,
        cliponaxis=False,
    )


def _smooth_line(data: ReliabilityData, style: Style) -> list[Json]:
    """Return the smooth line through the bins, after its band."""
    x, middle, bottom, top = smoothed(data)
    band = outline(style, x, bottom, top, "38")
    solid = pen(replace(style, dash="solid"), 2)
    return [band, silent_line(numbers(x), numbers(middle), meta=style.place, line=solid)]


def _in_words(data: ReliabilityData) -> str:
    """Return the ECE, how much of it is chance, and the signed gap."""
    return "; ".join(filter(None, (ece_in_words(data), gap_in_words(data))))
