"""Plots that compare methods: values with their intervals, and error against calibration error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, SupportsFloat

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from .. import pareto as fronts
from ..metrics.samples import Array
from .ink import ACCEPTABLE_ECE, COLOURS, DOT, GREY, INK, MARKERS, annotate_apart, draw_front, finish, new_axes


def forest(
    intervals: Mapping[str, Any],
    floors: Mapping[str, float] | float | None = None,
    *,
    metric: str = "ECE",
    percent: bool = True,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Measured values with their intervals, a row each from top to bottom, and what chance alone would measure.

    Args:
        intervals: an `Interval`, as `bootstrap` gives it, or (estimate, low, high) of each label.
        floors: the value of a calibrated model, as `floor` gives it: one for all, or one of each label.
        metric: name of what was measured.
        percent: whether it is a share, to be shown in percent.
        title: a line above.
        ax: axes to draw on; a new figure unless given.

    >>> axes = forest({"CE": (0.05, 0.04, 0.06), "focal": (0.02, 0.01, 0.03)}, floors=0.008)
    >>> [text.get_text() for text in axes.texts]
    ['5.00 [4.00, 6.00]', '2.00 [1.00, 3.00]']
    """
    if not isinstance(intervals, Mapping) or not intervals:
        given = "no intervals to draw" if isinstance(intervals, Mapping) else f"no labels in {intervals!r}"
        raise ValueError(f"there are {given}: pass {{label: bootstrap(...)}} or {{label: (estimate, low, high)}}")
    factor = 100 if percent else 1
    values = factor * np.array([_interval(label, interval) for label, interval in intervals.items()])
    chances = _finite_floors(floors if isinstance(floors, Mapping) else dict.fromkeys(intervals, floors), [*intervals])
    axes = new_axes(5.4, 1.4 + 0.52 * len(values)) if ax is None else ax
    rows = np.arange(len(values))
    estimate, low, high = values.T
    axes.hlines(rows, low, high, color=COLOURS[0], linewidth=2, label="95 % interval")
    axes.plot(estimate, rows, "o", color=COLOURS[0], markersize=7, markeredgecolor="white", label="measured")
    places = factor * np.array([*chances.values()])
    if len(places):
        at = np.array([[*intervals].index(label) for label in chances])
        axes.vlines(places, at - 0.38, at + 0.38, color=GREY, linewidth=1.6, label="chance floor")
    ends = np.append(values.ravel(), places)
    left, right = float(ends.min()), float(ends.max())
    room = 0.06 * (right - left or abs(left) or 1.0)
    axes.set_xlim(0 if 0 <= left < 0.5 * right else left - room, right + room)
    axes.set(ylim=(len(values) - 0.5, -0.65), yticks=rows, yticklabels=[*intervals], xlabel=metric + percent * ", %")
    for row, (middle, *ends) in enumerate(values):
        place = (middle - axes.get_xlim()[0]) / np.diff(axes.get_xlim())[0]
        side = "left" if place < 0.3 else "right" if place > 0.7 else "center"
        text = f"{middle:.2f} [{ends[0]:.2f}, {ends[1]:.2f}]"
        look: dict[str, Any] = {"textcoords": "offset points", "ha": side, "fontsize": "small", "color": INK}
        axes.annotate(text, (middle, row), (0, 6), **look)
    return finish(axes, ax, title)


def _finite_floors(floors: Mapping[str, Any], labels: list[str]) -> dict[str, float]:
    """The floors that are not None, each a finite number of a label."""
    if unknown := [label for label in floors if label not in labels]:
        raise ValueError(f"floors of {unknown} have no interval: expected labels among {labels}")
    found = {label: chance for label, chance in floors.items() if chance is not None}
    for label, chance in found.items():
        if not (isinstance(chance, SupportsFloat) and math.isfinite(chance)):
            raise ValueError(f"the floor of {label} is {chance!r}, expected a finite value: leave it out")
    return {label: float(chance) for label, chance in found.items()}


def _interval(label: str, given: Any) -> tuple[float, float, float]:
    """Three finite numbers in their order."""
    try:
        found = (given.estimate, given.low, given.high) if hasattr(given, "estimate") else given
        estimate, low, high = (float(value) for value in found)
    except (TypeError, ValueError) as wrong:
        raise ValueError(f"{label} has {given!r}, expected an Interval or (estimate, low, high)") from wrong
    if not (math.isfinite(low) and math.isfinite(high) and low <= estimate <= high):
        raise ValueError(f"{label} has {given!r}, expected finite low <= estimate <= high")
    return estimate, low, high


def pareto(points: Mapping[str, Any], *, title: str = "", ax: Axes | None = None) -> Axes:
    """Error against ECE of each label, in percent, and a staircase over those that no other dominates.

    The dotted line is an ECE of 10 %, up to which the paper calls calibration acceptable.

    Args:
        points: (error, ece) of each label, shares as the metrics return them; as `socrates.pareto.front` takes them.
        title: a line above.
        ax: axes to draw on; a new figure unless given.

    >>> axes = pareto({"CE": (0.05, 0.03), "focal": (0.06, 0.01), "MC": (0.07, 0.04)})
    >>> axes.get_lines()[0].get_xdata()
    array([5., 6.])
    """
    if not isinstance(points, Mapping):
        raise ValueError(f"got {points!r}, expected (error, ece) of each label: pass {{label: (error, ece)}}")
    fronts.front(points.values())  # refuses what cannot be ranked
    places: dict[str, tuple[float, float]] = {}
    for label, point in points.items():
        error, ece, *_ = (point["error"], point["ece"]) if isinstance(point, Mapping) else point
        if not (0 <= error <= 1 and 0 <= ece <= 1):
            raise ValueError(f"{label} has {point}, expected shares from 0 to 1: divide percent by 100")
        places[label] = (100 * float(error), 100 * float(ece))
    axes = new_axes(5.4, 4.2) if ax is None else ax
    stairs = draw_front(axes, [*places.values()])
    marks: list[Line2D] = []
    for number, (label, place) in enumerate(places.items()):
        colour, shape = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        marks += axes.plot(*place, shape, color=colour, markersize=9, markeredgecolor="white", label=label)
    _frame(axes, np.array([*places.values()]))
    finish(axes, axes, title, "lower left is better" + ", staircase: not dominated" * stairs)
    notes = [(*place, label, INK) for label, place in places.items()]
    unplaced = annotate_apart(axes, notes, size=8.5)
    if unplaced:
        axes.legend(handles=[mark for mark in marks if mark.get_label() in unplaced], fontsize="small")
    return axes


def _frame(axes: Axes, places: Array) -> None:
    """Limits that leave room around the places, and the dotted line of acceptable calibration."""
    low, high = places.min(axis=0), places.max(axis=0)
    room = 0.12 * np.maximum(high - low, 0.5)
    right, top = high + room
    top = max(top, 0.5)
    axes.set(xlim=(max(0.0, low[0] - room[0]), right), xlabel="error, %", ylabel="ECE, %")
    axes.set_ylim(0, max(top, 1.08 * ACCEPTABLE_ECE) if top > ACCEPTABLE_ECE / 2 else top)
    axes.axhline(ACCEPTABLE_ECE, color=GREY, linewidth=1.1, linestyle=DOT, zorder=1)
