"""Curves over the epochs with a band for the seeds: losses, accuracy, calibration errors, anything recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from ..results import Band, Results, bands
from ..style import Style
from ..vocabulary import CURVES, USUAL_READING, Curve
from .chart import Chart, Json, axis_title, figure, log_axis, numbers, pen, scatter
from .compose import SINGLE, Drawing, Panel
from .ink import GREY, LINES, Handles, line_handle, method_handle, tidy

DRAWN = {  # by the name of the figure
    "accuracy": "val_accuracy",
    "ece": "val_ece",
    "ada-ece": "val_ada_ece",
    "cw-ece": "val_cw_ece",
    "nll": "val_nll",
    "weight-norm": "weight_norm",
}
SHOWN = ("train_loss", "val_loss", "val_nll", "train_accuracy", "val_accuracy", "val_ece")  # on the page
MOST_SHADED = 8  # methods in one panel; from here on their bands would hide each other
MAX_POINTS = 150  # of a curve on the page: more cannot be seen at its width
STEEP = 0.05  # the share of the first epochs that may leave the frame, or all that follows would look flat


@dataclass(frozen=True)
class Line:
    """A band with its colour, and what else matplotlib should know of its line."""

    band: Band
    colour: str
    look: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Lines:
    """What a panel of curves shows: lines, limits, a legend, and the epochs at which a method changes its loss."""

    lines: Sequence[Line]
    ylabel: str
    limits: tuple[float | None, float | None] = (0, None)
    switches: Sequence[int] = ()
    handles: Handles = field(default_factory=list)  # those of the lines themselves if there are none
    shaded: bool = True


def drawings(members: Sequence[Results], look: Mapping[str, Style]) -> Iterator[Drawing]:
    """Losses, in two panels if the methods are many, then one figure a number."""
    losses = losses_data(members, look)
    if losses.lines:
        many = len(members) > MOST_SHADED
        cut = sum(line.look["linestyle"] == LINES["solid"] for line in losses.lines)  # those of training come first
        halves = [losses.lines[:cut], losses.lines[cut:]] if many else [losses.lines]
        panels = [Panel("", draw_lines, replace(losses, lines=half)) for half in halves]
        size = (4.2, 3.8) if many else SINGLE
        yield Drawing("losses", "training and validation loss", panels, size=size, shared=True)
    for name, key in DRAWN.items():
        curve = CURVES[key]
        found = bands(members, key, curve.factor)
        if found:
            data = Lines(method_lines(found, look), curve.title, _limits(curve, found), switch_epochs(members))
            data = replace(data, handles=_handles(found, look), shaded=len(members) <= MOST_SHADED)
            yield Drawing(name, curve.title.removesuffix(", %"), [Panel("", draw_lines, data)])


def charts(members: Sequence[Results], look: Mapping[str, Style]) -> list[Chart]:
    """A small panel for each number of the page."""
    return curve_charts(members, look, SHOWN, steep=True)


def losses_data(members: Sequence[Results], look: Mapping[str, Style]) -> Lines:
    """Training losses solid, validation losses dashed."""
    solid = {label: replace(style, dash="solid") for label, style in look.items()}
    dashed = {label: replace(style, dash="dash") for label, style in look.items()}
    train, val = bands(members, "train_loss"), bands(members, "val_loss")
    kinds = [
        line_handle(words, linestyle=LINES[dash]) for words, dash in (("training", "solid"), ("validation", "dash"))
    ]
    return Lines(
        method_lines(train, solid) + method_lines(val, dashed),
        "loss",
        (0, ceiling([*train, *val])),
        switch_epochs(members),
        [*kinds, *_handles([*train, *val], solid)],
        len(members) <= MOST_SHADED,
    )


def switch_epochs(members: Sequence[Results]) -> list[int]:
    """Where some method changes its loss."""
    return sorted({epoch for one in members if (epoch := one.switch_epoch) is not None})


def method_lines(found: Sequence[Band], look: Mapping[str, Style]) -> list[Line]:
    """Each curve in its method's look: its dash, and a few markers that start at different places."""
    lines: list[Line] = []
    for rank, curve in enumerate(found):
        style, step = look[curve.label], max(1, len(curve.epochs) // 6)
        marks = {"marker": style.marker, "markersize": 3.5, "markevery": ((rank * step) // 4 % step, step)}
        lines.append(Line(curve, style.colour, {"linestyle": LINES[style.dash], **marks}))
    return lines


def draw_lines(axes: Axes, data: Lines) -> Handles:
    """Each mean as a line, the deviation of its seeds as a shade, a grey box where a method changes its loss."""
    drawn: Handles = []
    curves = [line.band for line in data.lines]
    for line, curve in zip(data.lines, curves, strict=True):
        drawn += axes.plot(curve.epochs, curve.mean, color=line.colour, **{"linewidth": 1.4, **line.look})
        if data.shaded and np.any(curve.high > curve.low):
            axes.fill_between(curve.epochs, curve.low, curve.high, color=line.colour, alpha=0.16, linewidth=0)
    if curves:
        first, last = min(c.epochs[0] for c in curves), max(c.epochs[-1] for c in curves)
        axes.set_xlim(float(first), float(max(last, first + 1)))
        for epoch in data.switches:
            axes.axvspan(epoch - 0.01 * last, epoch + 0.01 * last, color=GREY, alpha=0.22, linewidth=0, zorder=0.5)
    axes.set(xlabel="epoch", ylabel=data.ylabel, ylim=data.limits)
    tidy(axes)
    box = [Patch(color=GREY, alpha=0.22, label="change of loss")] if data.switches else []
    return [*(data.handles or drawn), *box]


def ceiling(curves: Sequence[Band]) -> float | None:
    """An upper limit that neither the first epochs nor one diverging curve can push away.

    In the second half of training, three quarters of the curves stay below some value: the limit holds four times that
    value, and all that stays below ten times it.
    """
    finite = [curve.mean[np.isfinite(curve.mean)] for curve in curves]
    finite = [mean for mean in finite if len(mean)]
    if not finite:
        return None
    late = np.array([mean[len(mean) // 2 :].max() for mean in finite])
    usual = float(np.quantile(late, 0.75))
    reach = max(4 * usual, 1.1 * float(late[late <= 10 * usual].max(initial=0.0)))
    top = min(max(float(mean.max()) for mean in finite), reach)
    return 1.05 * top if top > 0 else None


def _limits(curve: Curve, found: Sequence[Band]) -> tuple[float | None, float | None]:
    """From 0 on; accuracy has its ceiling at 100, and the distance from there is what is limited."""
    if "accuracy" not in curve.name:
        return 0, ceiling(found)
    return max(0.0, 100 - (ceiling([replace(own, mean=100 - own.mean) for own in found]) or 100.0)), 100.0


def _handles(found: Sequence[Band], look: Mapping[str, Style]) -> Handles:
    return [method_handle(label, look[label]) for label in dict.fromkeys(curve.label for curve in found)]


def curve_charts(
    members: Sequence[Results],
    look: Mapping[str, Style],
    names: Sequence[str],
    steep: bool = False,
    only: Callable[[Results], bool] = lambda one: True,
) -> list[Chart]:
    """A chart for each number that some of them recorded."""
    made: list[Chart] = []
    for curve in map(CURVES.__getitem__, names):
        found = bands([one for one in members if only(one)], curve.name, curve.factor)
        if not found:
            continue
        linear = {"range": _range(found, steep), "tickformat": ".3~g"}
        log, at = log_axis(np.concatenate([own.mean for own in found])) if curve.log else (None, numbers)
        traces = [trace for own in found for trace in _traces(own, look[own.label], at)]
        shown = figure(traces, xaxis={"title": axis_title("epoch")}, yaxis=log or linear)
        title = curve.title[0].upper() + curve.title[1:]
        made.append(Chart(curve.name, title, {USUAL_READING: shown}, linear=linear if log else None))
    return made


def _traces(curve: Band, style: Style, at: Any) -> list[Json]:
    kept = thinned(len(curve.epochs))
    epochs, mean, low, high = (values[kept] for values in (curve.epochs, curve.mean, curve.low, curve.high))
    hover = "epoch %{x}<br>%{customdata[0]:.4~g}"
    middle = scatter(curve.label, style, epochs.tolist(), at(mean), (mean,), hover, mode="lines", line=pen(style, 2))
    if not np.nan_to_num(high - low).max(initial=0.0) > 0:
        return [middle]
    edge = {**middle, "line": {"width": 0}, "hoverinfo": "skip", "hovertemplate": None}
    filled = {"fill": "tonexty", "fillcolor": f"m{style.place} 26"}
    return [{**edge, "y": at(low)}, {**edge, "y": at(high), **filled}, middle]


def _range(found: Sequence[Band], steep: bool) -> list[float | None]:
    values = np.concatenate([own.mean[int(STEEP * len(own.mean)) if steep else 0 :] for own in found])
    low, high = np.nanmin(values), np.nanmax(values)
    room = 0.06 * (high - low) or 0.5 * abs(high) or 1.0
    return numbers(np.array([max(low - room, -0.03 * (high + room)) if low >= 0 else low - room, high + room]))


def thinned(length: int) -> Any:
    """Places of at most MAX_POINTS of `length` values, evenly spread, both ends among them.

    >>> thinned(3), len(thinned(1000))
    (array([0, 1, 2]), 150)
    """
    return np.unique(np.linspace(0, length - 1, min(length, MAX_POINTS)).round().astype(int))
