"""The ink of the plots and of the report's figures: each function draws data on given axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..arrays.open import Array
from ..palette import DASHES, GREY, INK, SERIES
from .diagram import ReliabilityData, root_shares, smoothed

CHANCE_LABEL = "95% by chance"
SMOOTH_LABEL = "accuracy (smooth, 95% band)"
CHANCE: dict[str, Any] = {"color": GREY, "alpha": 0.4, "linewidth": 0, "label": CHANCE_LABEL}
CONFIDENCES_LABEL = "confidences (square root)"
FRONT_LABEL = "not dominated"
STRIP = 0.24  # height of the confidences below a reliability diagram
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": "small"}
ACCEPTABLE_ECE = 10.0  # percent: the paper's threshold, a dotted line


def draw_reliability(axes: Axes, data: ReliabilityData, colour: str = SERIES[0]) -> None:
    """Draw the accuracy of each bin, what chance explains of it, and the confidences below.

    It is the drawing of the report's page: a smooth line through the bins with its 95% band, and
    dots at the mean confidence of each bin, with an area that grows with its count.
    """
    filled = data.count > 0
    if filled.any():
        edges = np.append(data.lower, data.upper[-1])
        height = (data.high - data.low)[filled]
        width = (data.upper - data.lower)[filled]
        middle = (data.lower + data.upper)[filled] / 2
        axes.bar(middle, height, width, data.low[filled], zorder=1, **{**CHANCE, "alpha": 0.2})
        x, line, low, high = smoothed(data)
        axes.fill_between(x, low, high, color=colour, alpha=0.22, linewidth=0, zorder=1.5)
        axes.plot(x, line, color=colour, linewidth=1.4, zorder=2.5, label=SMOOTH_LABEL)
        draw_strip(axes, data.share, edges)
        draw_dots(axes, data.confidence[filled], data.accuracy[filled], data.share[filled], colour)
    draw_square(axes)
    axes.set(xlabel="confidence", ylabel="accuracy")


def draw_square(axes: Axes) -> None:
    """Draw the diagonal of perfect calibration, and leave room for a strip below it."""
    axes.plot(
        [0, 1],
        [0, 1],
        color=GREY,
        linewidth=1,
        linestyle=DASHES["dash"],
        zorder=2,
        label="calibrated",
    )
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set(xlim=(0, 1), ylim=(-STRIP, 1), xticks=(0.0, 0.5, 1.0), yticks=(0.0, 0.5, 1.0))


def draw_strip(axes: Axes, share: Array, edges: Array) -> None:
    """Draw the square roots of shares below a diagram."""
    height = root_shares(share) * 0.86 * STRIP - STRIP
    axes.stairs(
        height,
        edges,
        baseline=-STRIP,
        fill=True,
        color=GREY,
        alpha=0.8,
        linewidth=0,
        label=CONFIDENCES_LABEL,
    )


def draw_chance(axes: Axes, x: Array, low: Array, high: Array) -> None:
    """Draw the band of chance along a curve, or a bar where the curve is a single point."""
    if len(x) > 1:
        axes.fill_between(x, low, high, **CHANCE)
    else:
        axes.vlines(x, low, high, **{**CHANCE, "linewidth": 6})


def draw_dots(axes: Axes, x: Array, y: Array, count: Array, colour: str) -> None:
    """Draw dots whose area is proportional to their count, as far as they can be seen."""
    area = np.maximum(70 * count / count.max(), 14)
    axes.scatter(
        x,
        y,
        s=area,
        color=colour,
        edgecolor="white",
        linewidth=0.6,
        clip_on=False,
        zorder=3,
    )


def draw_front(axes: Axes, front: Sequence[tuple[float, float]]) -> bool:
    """Draw a staircase over the points of a front, and return whether there was more than one.

    A straight line would suggest mixtures that no method reaches.
    """
    if len(front) > 1:
        axes.plot(
            *np.transpose(front),
            color=INK,
            linewidth=1,
            drawstyle="steps-post",
            zorder=1.5,
            label=FRONT_LABEL,
        )
    return len(front) > 1


def draw_threshold(axes: Axes) -> None:
    """Draw the dotted line of the ECE up to which the paper calls calibration acceptable."""
    axes.axhline(
        ACCEPTABLE_ECE,
        color=GREY,
        linewidth=1.1,
        linestyle=DASHES["dot"],
        zorder=1,
    )


def new_axes(width: float, height: float) -> Axes:
    """Return the axes of a new figure, which a notebook shows."""
    from matplotlib import pyplot  # only here: it picks a backend, and keeps every figure

    _, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def finish(axes: Axes, ax: Axes | None, *lines: str) -> Axes:
    """Write lines above the axes and, if no `ax` was passed, a legend below the new figure."""
    axes.set_title("\n".join(filter(None, lines)), fontsize="medium")
    if ax is None:
        legend_below(axes)
    return axes


def legend_below(axes: Axes) -> None:
    """Explain below a figure what was drawn on its axes."""
    handles, _ = axes.get_legend_handles_labels()
    axes.figure.legend(handles=handles, loc="outside lower center", ncols=2, **LEGEND)


def percent(share: float, place: float) -> str:
    """Return the text of a tick; its place among the ticks does not matter."""
    return f"{100 * share:.3g}%"
