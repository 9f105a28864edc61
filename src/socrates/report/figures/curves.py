"""Curves over the epochs with a band for the seeds: losses, accuracy, calibration errors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ...palette import GREY
from ..results import Band, Members, bands
from ..style import Look, Style
from ..vocabulary import CURVES, METRICS, USUAL_READING, Curve
from ..words import capitalised
from .chart import Chart, Json, figure, mark, numbers, on_log_axis, outline, pen, scatter
from .compose import SINGLE, Drawing, Handles, Panel, line_handle, method_look
from .log_axis import LogAxis

LOSSES = {"train_loss": "solid", "val_loss": "dash"}
# Numbers that have a figure.
DRAWN = ("val_accuracy", "val_ece", "val_ada_ece", "val_cw_ece", "val_nll", "weight_norm")
# Numbers that have a chart on the page.
SHOWN = ("train_loss", "val_loss", "val_nll", "train_accuracy", "val_accuracy", "val_ece")
MOST_SHADED = 8  # methods in one panel; from here on their bands would hide each other
MAX_POINTS = 150  # of a curve on the page: more cannot be seen at its width
EPOCHS = {"title": {"text": "epoch"}, "unifiedhovertitle": {"text": "epoch %{x}"}}
SWITCH = "change of loss"
# The share of the first epochs that may leave the frame, or all that follows would look flat.
STEEP = 0.05


@dataclass(frozen=True)
class CurveLine:
    """A band, its look, and its name in the legend, if it is there."""

    band: Band
    style: Style
    label: str = ""


@dataclass(frozen=True)
class CurvePanel:
    """The data of a panel of curves.

    `switches` are the epochs at which a method changes its loss, `dashes` the meaning of dashes.
    """

    lines: Sequence[CurveLine]
    ylabel: str
    limits: tuple[float | None, float | None] = (0, None)
    switches: Sequence[int] = ()
    dashes: Mapping[str, str] = field(default_factory=dict)


def drawings(members: Members, look: Look) -> Iterator[Drawing]:
    """Yield the losses, in two panels if the methods are many, then one figure per number."""
    losses = losses_data(members, look)
    if losses.lines:
        many = len(members) > MOST_SHADED
        panels = [Panel("", draw_lines, part) for part in (_by_dash(losses) if many else [losses])]
        size = (4.2, 3.8) if many else SINGLE
        yield Drawing("losses", "training and validation loss", panels, size=size, shared=True)
    for name in DRAWN:
        curve = CURVES[name]
        if recorded := bands(members, name, curve.factor):
            panel = Panel("", draw_lines, _one_number(curve, recorded, look, members))
            file = name.removeprefix("val_").replace("_", "-")
            yield Drawing(file, curve.title.removesuffix(", %"), [panel])


def _by_dash(panel: CurvePanel) -> list[CurvePanel]:
    """Return a panel for each kind of loss."""
    return [
        replace(panel, lines=[line for line in panel.lines if line.style.dash == dash])
        for dash in LOSSES.values()
    ]


def _one_number(curve: Curve, recorded: Sequence[Band], look: Look, members: Members) -> CurvePanel:
    """Return the panel of one number of all methods."""
    lines = [CurveLine(band, look[band.label], band.label) for band in recorded]
    return CurvePanel(lines, curve.title, limits_of(curve, recorded), switch_epochs(members))


def charts(members: Members, look: Look) -> list[Chart]:
    """Return a small chart for each number of the page."""
    return curve_charts(members, look, SHOWN)


def losses_data(members: Members, look: Look) -> CurvePanel:
    """Return a panel of training losses, solid, and validation losses, dashed."""
    lines = [
        CurveLine(band, replace(look[band.label], dash=dash), band.label)
        for name, dash in LOSSES.items()
        for band in bands(members, name)
    ]
    top = ceiling([line.band for line in lines])
    words = {CURVES[name].title.removesuffix(" loss"): dash for name, dash in LOSSES.items()}
    return CurvePanel(lines, "loss", (0, top), switch_epochs(members), words)


def switch_epochs(members: Members) -> list[int]:
    """Return the epochs at which some method changes its loss."""
    epochs = {results.switch_epoch for results in members}
    return sorted(epoch for epoch in epochs if epoch is not None)


def draw_lines(axes: Axes, panel: CurvePanel) -> Handles:
    """Draw each mean as a line, the deviation of its seeds as a shade, and boxes at switches.

    Lines have a few markers that start at different places.
    """
    legend = {
        words: line_handle(words, **method_look(Style(GREY, dash)))
        for words, dash in panel.dashes.items()
    }
    shaded = len({line.band.label for line in panel.lines}) <= MOST_SHADED
    for rank, line in enumerate(panel.lines):
        legend.setdefault(line.label, _draw_line(axes, line, rank, shaded))
    if panel.lines:
        first = min(line.band.epochs[0] for line in panel.lines)
        last = max(line.band.epochs[-1] for line in panel.lines)
        axes.set_xlim(float(first), float(max(last, first + 1)))
        for epoch in panel.switches:
            half = 0.01 * last
            legend[SWITCH] = axes.axvspan(
                epoch - half,
                epoch + half,
                label=SWITCH,
                color=GREY,
                alpha=0.22,
                linewidth=0,
                zorder=0.5,
            )
    axes.set(xlabel="epoch", ylabel=panel.ylabel, ylim=panel.limits)
    return [handle for label, handle in legend.items() if label]


def _draw_line(axes: Axes, line: CurveLine, rank: int, shaded: bool) -> Any:
    """Draw a line with its shade, and return the line."""
    band = line.band
    step = max(1, len(band.epochs) // 6)
    look = method_look(
        line.style,
        linewidth=1.4,
        label=line.label,
        markersize=3.5,
        markevery=(rank * step // 4 % step, step),
    )
    (drawn,) = axes.plot(band.epochs, band.mean, **look)
    if shaded and np.any(band.high > band.low):
        axes.fill_between(
            band.epochs,
            band.low,
            band.high,
            color=line.style.colour,
            alpha=0.16,
            linewidth=0,
        )
    return drawn


def ceiling(curves: Sequence[Band]) -> float | None:
    """Return an upper limit that neither the first epochs nor one diverging curve pushes away.

    In the second half of training, three quarters of the curves stay below some value: the limit
    holds four times that value, and all that stays below ten times it.
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


def limits_of(curve: Curve, recorded: Sequence[Band], whole: bool = False) -> tuple[float, float]:
    """Return the limits of a number in figures and charts, from 0 on where that is near.

    Unless the `whole` must be seen, the steep first epochs and what lies above the ceiling may
    leave the frame. Accuracy ends at 100, and its distance from there has the ceiling.
    """
    steep = 0.0 if whole else STEEP
    values = np.concatenate([band.mean[int(steep * len(band.mean)) :] for band in recorded])
    low = float(np.nanmin(values))
    high = float(np.nanmax(values))
    is_accuracy = "accuracy" in curve.name
    if is_accuracy:
        errors = [replace(band, mean=100 - band.mean) for band in recorded]
        low = max(low, 100 - (ceiling(errors) or 100.0))
    elif not whole:
        high = min(high, ceiling(recorded) or high)
    if 0 <= low < 0.5 * high:
        return -0.02 * high, 1.05 * high
    room = 0.06 * (high - low) or 0.5 * abs(high) or 1.0
    return low - room, min(high + room, 100.0) if is_accuracy else high + room


def curve_charts(
    members: Members,
    look: Look,
    names: Sequence[str],
    whole: bool = False,
) -> list[Chart]:
    """Return a chart for each number that some members recorded; `whole` cuts nothing off."""
    shown: list[Chart] = []
    for name in names:
        curve = CURVES[name]
        if recorded := bands(members, name, curve.factor):
            limits = limits_of(curve, recorded, whole)
            shown.append(_curve_chart(curve, recorded, look, limits))
    return shown


def _curve_chart(
    curve: Curve,
    recorded: Sequence[Band],
    look: Look,
    limits: tuple[float, float],
) -> Chart:
    """Return the chart of one number, with its linear axis if it has a logarithmic one."""
    good = _good_end(curve)
    linear = {"range": numbers(np.array(limits)), "tickformat": ".3~g"}
    lines = figure(
        [trace for band in recorded for trace in _traces(band, look[band.label])],
        xaxis=EPOCHS,
        yaxis=linear,
        hovermode="x unified",
        hoversort="value ascending" if good == "↓" else "value descending",
    )
    if curve.log:
        values = np.concatenate([band.mean for band in recorded])
        lines = on_log_axis(lines, "y", LogAxis.around(values))
    return Chart(
        curve.name,
        f"{capitalised(curve.title)} {good}".strip(),
        {USUAL_READING: lines},
        linear=linear if curve.log else None,
        summary=_ends_in_words(curve, recorded, good),
    )


def _good_end(curve: Curve) -> str:
    """Return an arrow to the good end of a number, if it has one."""
    name = curve.name.removeprefix("val_").removeprefix("train_")
    if name in METRICS:
        return "↑" if METRICS[name].larger_is_better else "↓"
    return "↓" if name in ("loss", "error") else ""


def _ends_in_words(curve: Curve, recorded: Sequence[Band], good: str) -> str:
    """Return the first and the last method at the end of training, with their deviation."""
    ends: list[tuple[float, str]] = []
    for band in recorded:
        last = int(np.flatnonzero(np.isfinite(band.mean))[-1])
        mean = float(band.mean[last])
        spread = band.high[last] - mean
        deviation = f" ± {spread:.2g}" if spread > 0 else ""
        ends.append((mean, f"{band.label} with {mean:.4g}{deviation}"))
    ends.sort(reverse=good == "↑")
    first, last = ("best", "worst") if good else ("lowest", "highest")
    rest = f", the {last} {ends[-1][1]}" if len(ends) > 1 else ""
    return f"{capitalised(curve.title)} at the last epoch: the {first} is {ends[0][1]}{rest}."


def _traces(band: Band, style: Style) -> list[Json]:
    """Return a line with a few marks, and its shade if it is shown first.

    The shades of many methods would hide each other.
    """
    kept = thinned(len(band.epochs))
    epochs = band.epochs[kept]
    mean = band.mean[kept]
    spread = np.nan_to_num(band.high[kept] - mean)
    varied = bool(spread.max(initial=0.0) > 0)
    line = scatter(
        band.label,
        style,
        epochs,
        mean,
        (mean, spread) if varied else (mean,),
        "%{customdata[0]:.4~g}" + (" ± %{customdata[1]:.2~g}" if varied else ""),
        mode="lines+markers",
        line=pen(style, 2),
        marker=mark(style, 6.5, width=1, maxdisplayed=6),
    )
    if not (varied and style.shown_first):
        return [line]
    shade = outline(style, epochs, band.low[kept], band.high[kept], "26")
    return [{**shade, "name": line["name"]}, line]


def thinned(length: int) -> Any:
    """Return places of at most MAX_POINTS of `length` values, evenly spread, with both ends.

    >>> thinned(3), len(thinned(1000))
    (array([0, 1, 2]), 150)
    """
    return np.unique(np.linspace(0, length - 1, min(length, MAX_POINTS)).round().astype(int))
