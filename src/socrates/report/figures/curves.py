"""Curves over the epochs with a band for the seeds: losses, accuracy, calibration errors, anything recorded."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..results import Band, Results, bands
from ..style import Style
from ..vocabulary import CURVES, METRICS, USUAL_READING, Curve
from ..words import capitalised
from .chart import CAPTIONS, Chart, Json, figure, log_axis, mark, numbers, outline, pen, scatter
from .compose import GREY, SINGLE, Drawing, Handles, Panel, line_handle, method_look

LOSSES = {"train_loss": "solid", "val_loss": "dash"}
DRAWN = ("val_accuracy", "val_ece", "val_ada_ece", "val_cw_ece", "val_nll", "weight_norm")  # each in its own figure
SHOWN = ("train_loss", "val_loss", "val_nll", "train_accuracy", "val_accuracy", "val_ece")  # on the page
MOST_SHADED = 8  # methods in one panel; from here on their bands would hide each other
MAX_POINTS = 150  # of a curve on the page: more cannot be seen at its width
EPOCHS = {"title": {"text": "epoch"}, "unifiedhovertitle": {"text": "epoch %{x}"}}
STEEP = 0.05  # the share of the first epochs that may leave the frame, or all that follows would look flat


@dataclass(frozen=True)
class Line:
    """A band, its look, and what it is called in the legend, if it is there."""

    band: Band
    style: Style
    label: str = ""


@dataclass(frozen=True)
class Lines:
    """What a panel of curves shows: lines, limits, the epochs at which a method changes its loss, what dashes mean."""

    lines: Sequence[Line]
    ylabel: str
    limits: tuple[float | None, float | None] = (0, None)
    switches: Sequence[int] = ()
    dashes: Mapping[str, str] = field(default_factory=dict)


def drawings(members: Sequence[Results], look: Mapping[str, Style]) -> Iterator[Drawing]:
    """Losses, in two panels if the methods are many, then one figure a number."""
    losses = losses_data(members, look)
    if losses.lines:
        many = len(members) > MOST_SHADED
        kinds = [{dash} for dash in LOSSES.values()] if many else [{*LOSSES.values()}]
        parts = [[line for line in losses.lines if line.style.dash in kind] for kind in kinds]
        panels = [Panel("", draw_lines, replace(losses, lines=part)) for part in parts]
        size = (4.2, 3.8) if many else SINGLE
        yield Drawing("losses", "training and validation loss", panels, size=size, shared=True)
    for curve in map(CURVES.__getitem__, DRAWN):
        found = bands(members, curve.name, curve.factor)
        if found:
            lines = [Line(band, look[band.label], band.label) for band in found]
            data = Lines(lines, curve.title, _limits(curve, found), switch_epochs(members))
            name = curve.name.removeprefix("val_").replace("_", "-")
            yield Drawing(name, curve.title.removesuffix(", %"), [Panel("", draw_lines, data)])


def charts(members: Sequence[Results], look: Mapping[str, Style]) -> list[Chart]:
    """A small panel for each number of the page."""
    return curve_charts(members, look, SHOWN, STEEP)


def losses_data(members: Sequence[Results], look: Mapping[str, Style]) -> Lines:
    """Training losses solid, validation losses dashed."""
    lines = [
        Line(band, replace(look[band.label], dash=dash), band.label)
        for name, dash in LOSSES.items()
        for band in bands(members, name)
    ]
    words = {CURVES[name].title.removesuffix(" loss"): dash for name, dash in LOSSES.items()}
    return Lines(lines, "loss", (0, ceiling([line.band for line in lines])), switch_epochs(members), words)


def switch_epochs(members: Sequence[Results]) -> list[int]:
    """Where some method changes its loss."""
    return sorted({epoch for one in members if (epoch := one.switch_epoch) is not None})


def draw_lines(axes: Axes, data: Lines) -> Handles:
    """Each mean as a line, the deviation of its seeds as a shade, a grey box where a method changes its loss.

    Lines have a few markers that start at different places.
    """
    legend = {words: line_handle(words, **method_look(Style(GREY, dash))) for words, dash in data.dashes.items()}
    shaded = len({line.band.label for line in data.lines}) <= MOST_SHADED
    for rank, line in enumerate(data.lines):
        curve, step = line.band, max(1, len(line.band.epochs) // 6)
        marks = {"markersize": 3.5, "markevery": (rank * step // 4 % step, step)}
        look = method_look(line.style, linewidth=1.4, label=line.label, **marks)
        (drawn,) = axes.plot(curve.epochs, curve.mean, **look)
        legend.setdefault(line.label, drawn)
        if shaded and np.any(curve.high > curve.low):
            axes.fill_between(curve.epochs, curve.low, curve.high, color=line.style.colour, alpha=0.16, linewidth=0)
    if data.lines:
        first = min(line.band.epochs[0] for line in data.lines)
        last = max(line.band.epochs[-1] for line in data.lines)
        axes.set_xlim(float(first), float(max(last, first + 1)))
        for epoch in data.switches:
            box: dict[str, Any] = {"color": GREY, "alpha": 0.22, "linewidth": 0, "label": "change of loss"}
            legend["change of loss"] = axes.axvspan(epoch - 0.01 * last, epoch + 0.01 * last, zorder=0.5, **box)
    axes.set(xlabel="epoch", ylabel=data.ylabel, ylim=data.limits)
    return [handle for label, handle in legend.items() if label]


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


def curve_charts(
    members: Sequence[Results], look: Mapping[str, Style], names: Sequence[str], steep: float = 0.0
) -> list[Chart]:
    """A chart for each number that some of them recorded; the first `steep` share of epochs may leave the frame."""
    made: list[Chart] = []
    for curve in map(CURVES.__getitem__, names):
        found = bands(members, curve.name, curve.factor)
        if not found:
            continue
        linear = {"range": _range(found, steep), "tickformat": ".3~g"}
        traces = [trace for own in found for trace in _traces(own, look[own.label])]
        good = _good_end(curve)
        order = "value ascending" if good == "↓" else "value descending"
        pointed = {"hovermode": "x unified", "hoversort": order}
        shown = figure(traces, xaxis=EPOCHS, yaxis=linear, **pointed)
        shown, linear = (log_axis(shown, "y"), linear) if curve.log else (shown, None)
        title = f"{capitalised(curve.title)} {good}".strip()
        words = {USUAL_READING: CAPTIONS.get(curve.name, "")}
        said = _ends_in_words(curve, found, good)
        made.append(Chart(curve.name, title, {USUAL_READING: shown}, words, linear=linear, summary=said))
    return made


def _good_end(curve: Curve) -> str:
    """An arrow to the good end of a number, if it has one."""
    name = curve.name.removeprefix("val_").removeprefix("train_")
    if name in METRICS:
        return "↑" if METRICS[name].larger_is_better else "↓"
    return "↓" if name in ("loss", "error") else ""


def _ends_in_words(curve: Curve, found: Sequence[Band], good: str) -> str:
    """The first and the last method at the end of training, with their deviation."""
    ends: list[tuple[float, str]] = []
    for own in found:
        place = int(np.flatnonzero(np.isfinite(own.mean))[-1])
        spread = own.high[place] - own.mean[place]
        deviation = f" ± {spread:.2g}" if spread > 0 else ""
        ends.append((float(own.mean[place]), f"{own.label} with {own.mean[place]:.4g}{deviation}"))
    ends.sort(reverse=good == "↑")
    first, last = ("best", "worst") if good else ("lowest", "highest")
    rest = f", the {last} {ends[-1][1]}" if len(ends) > 1 else ""
    return f"{capitalised(curve.title)} at the last epoch: the {first} is {ends[0][1]}{rest}."


def _traces(curve: Band, style: Style) -> list[Json]:
    """A line with a few marks; and its band, unless it is not shown at first, as many bands would hide each other."""
    kept = thinned(len(curve.epochs))
    epochs, mean, low, high = (values[kept] for values in (curve.epochs, curve.mean, curve.low, curve.high))
    spread = np.nan_to_num(high - mean)
    varied = bool(spread.max(initial=0.0) > 0)
    hover = "%{customdata[0]:.4~g}" + " ± %{customdata[1]:.2~g}" * varied
    marks = mark(style, 6.5, width=1, maxdisplayed=6)
    drawn = {"mode": "lines+markers", "line": pen(style, 2), "marker": marks}
    middle = scatter(curve.label, style, epochs, mean, (mean, spread) if varied else (mean,), hover, **drawn)
    if not (varied and style.shown_first):
        return [middle]
    return [{**outline(style, epochs, low, high, "26"), "name": middle["name"]}, middle]


def _range(found: Sequence[Band], steep: float) -> list[float | None]:
    values = np.concatenate([own.mean[int(steep * len(own.mean)) :] for own in found])
    low, high = np.nanmin(values), np.nanmax(values)
    room = 0.06 * (high - low) or 0.5 * abs(high) or 1.0
    return numbers(np.array([max(low - room, -0.03 * (high + room)) if low >= 0 else low - room, high + room]))


def thinned(length: int) -> Any:
    """Places of at most MAX_POINTS of `length` values, evenly spread, both ends among them.

    >>> thinned(3), len(thinned(1000))
    (array([0, 1, 2]), 150)
    """
    return np.unique(np.linspace(0, length - 1, min(length, MAX_POINTS)).round().astype(int))
