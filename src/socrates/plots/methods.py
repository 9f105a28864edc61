"""Plots that compare methods: values with their intervals, and error against calibration error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from .. import pareto as fronts
from ..arrays.open import Array
from ..palette import GREY, INK, MARKERS, SERIES
from .ink import ACCEPTABLE_ECE, LEGEND, draw_front, draw_threshold, finish, new_axes
from .labels import Note, annotate_apart


def forest(
    intervals: Mapping[str, Any],
    floors: Mapping[str, float] | float | None = None,
    *,
    metric: str = "ECE",
    percent: bool = True,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw measured values with their intervals, one row per label, and what chance would measure.

    Args:
        intervals: for each label an `Interval`, as `bootstrap` returns it, or
            (estimate, low, high).
        floors: the value of a calibrated model, as `floor` returns it: one for all, or one for each
            label.
        metric: name of what was measured.
        percent: whether it is a share, to be shown in percent.
        title: a line above.
        ax: axes to draw on; a new figure by default.

    >>> axes = forest({"CE": (0.05, 0.04, 0.06), "focal": (0.02, 0.01, 0.03)}, floors=0.008)
    >>> [text.get_text() for text in axes.texts]
    ['5.00 [4.00, 6.00]', '2.00 [1.00, 3.00]']
    """
    rows = _read_intervals(intervals)
    labels = [*rows]
    chances = _read_floors(floors, labels)
    factor = 100 if percent else 1
    values = factor * np.array([*rows.values()])
    places = {labels.index(label): factor * chance for label, chance in chances.items()}
    axes = new_axes(5.4, 1.4 + 0.52 * len(values)) if ax is None else ax
    _draw_rows(axes, values, places)
    axes.set(
        ylim=(len(values) - 0.5, -0.65),
        yticks=range(len(values)),
        yticklabels=labels,
        xlabel=f"{metric}, %" if percent else metric,
    )
    _write_values(axes, values)
    return finish(axes, ax, title)


def _draw_rows(axes: Axes, values: Array, chances: Mapping[int, float]) -> None:
    """Draw interval, estimate and chance floor of each row, and set limits that hold them."""
    rows = np.arange(len(values))
    estimate, low, high = values.T
    axes.hlines(rows, low, high, color=SERIES[0], linewidth=2, label="95% interval")
    axes.plot(
        estimate,
        rows,
        "o",
        color=SERIES[0],
        markersize=7,
        markeredgecolor="white",
        label="measured",
    )
    floors = np.array([*chances.values()])
    if chances:
        at = np.array([*chances])
        axes.vlines(
            floors,
            at - 0.38,
            at + 0.38,
            color=GREY,
            linewidth=1.6,
            label="chance floor",
        )
    axes.set_xlim(_limits_from_zero(np.append(values.ravel(), floors)))


def _limits_from_zero(values: Array) -> tuple[float, float]:
    """Return limits with some room around values, from 0 on where that is near."""
    left = float(values.min())
    right = float(values.max())
    room = 0.06 * (right - left or abs(left) or 1.0)
    return (0 if 0 <= left < 0.5 * right else left - room), right + room


def _write_values(axes: Axes, values: Array) -> None:
    """Write the numbers of each row above it, aligned so that they stay inside the axes."""
    left, right = axes.get_xlim()
    for row, (estimate, low, high) in enumerate(values):
        place = (estimate - left) / (right - left)
        side = "left" if place < 0.3 else "right" if place > 0.7 else "center"
        text = f"{estimate:.2f} [{low:.2f}, {high:.2f}]"
        axes.annotate(
            text,
            (estimate, row),
            (0, 6),
            textcoords="offset points",
            ha=side,
            fontsize="small",
            color=INK,
        )


def _read_intervals(intervals: Any) -> dict[str, tuple[float, float, float]]:
    """Return (estimate, low, high) of each label."""
    if not isinstance(intervals, Mapping) or not intervals:
        is_empty = isinstance(intervals, Mapping)
        problem = "no intervals to draw" if is_empty else f"no labels in {intervals!r}"
        raise ValueError(
            f"there are {problem}: pass {{label: bootstrap(...)}} or "
            "{label: (estimate, low, high)}"
        )
    return {label: _interval(label, value) for label, value in intervals.items()}


def _interval(label: str, value: Any) -> tuple[float, float, float]:
    """Return three finite numbers in their order."""
    try:
        triple = (value.estimate, value.low, value.high) if hasattr(value, "estimate") else value
        estimate, low, high = (float(number) for number in triple)
    except (TypeError, ValueError) as wrong:
        raise ValueError(
            f"{label} has {value!r}, expected an Interval or (estimate, low, high)"
        ) from wrong
    if not (math.isfinite(low) and math.isfinite(high) and low <= estimate <= high):
        raise ValueError(f"{label} has {value!r}, expected finite low <= estimate <= high")
    return estimate, low, high


def _read_floors(floors: Any, labels: Sequence[str]) -> dict[str, float]:
    """Return the floors that are not None, each a finite number of a label."""
    if not isinstance(floors, Mapping):
        floors = dict.fromkeys(labels, floors)
    if unknown := [label for label in floors if label not in labels]:
        raise ValueError(f"floors of {unknown} have no interval: expected labels among {labels}")
    known = {label: floor for label, floor in floors.items() if floor is not None}
    for label, floor in known.items():
        if not (isinstance(floor, SupportsFloat) and math.isfinite(floor)):
            raise ValueError(
                f"the floor of {label} is {floor!r}, expected a finite value: leave it out"
            )
    return {label: float(floor) for label, floor in known.items()}


def pareto(points: Mapping[str, Any], *, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw error against ECE in percent, with a staircase over the points that none dominates.

    The dotted line is an ECE of 10%, up to which the paper calls calibration acceptable.

    Args:
        points: (error, ece) of each label, shares as the metrics return them; as
            `socrates.pareto.front` takes them.
        title: a line above.
        ax: axes to draw on; a new figure by default.

    >>> axes = pareto({"CE": (0.05, 0.03), "focal": (0.06, 0.01), "MC": (0.07, 0.04)})
    >>> axes.get_lines()[0].get_xdata()
    array([5., 6.])
    """
    places = _read_points(points)
    axes = new_axes(5.4, 4.2) if ax is None else ax
    stairs = draw_front(axes, fronts.front(places.values()))
    marks = _draw_marks(axes, places)
    _frame(axes, np.array([*places.values()]))
    words = "lower left is better"
    finish(axes, axes, title, f"{words}, staircase: not dominated" if stairs else words)
    notes = [Note(*place, label, INK) for label, place in places.items()]
    unplaced = annotate_apart(axes, notes, size=8.5)
    if unplaced:
        axes.legend(handles=[marks[label] for label in unplaced], **LEGEND)
    return axes


def _read_points(points: Any) -> dict[str, tuple[float, float]]:
    """Return error and ECE of each label in percent."""
    if not isinstance(points, Mapping):
        raise ValueError(
            f"got {points!r}, expected (error, ece) of each label: pass {{label: (error, ece)}}"
        )
    fronts.front(points.values())  # refuses what cannot be ranked
    places: dict[str, tuple[float, float]] = {}
    for label, point in points.items():
        error, ece, *_ = (point["error"], point["ece"]) if isinstance(point, Mapping) else point
        if not (0 <= error <= 1 and 0 <= ece <= 1):
            raise ValueError(
                f"{label} has {point}, expected shares from 0 to 1: divide percent by 100"
            )
        places[label] = (100 * float(error), 100 * float(ece))
    return places


def _draw_marks(axes: Axes, places: Mapping[str, tuple[float, float]]) -> dict[str, Line2D]:
    """Draw a mark of its own colour and shape for each label, and return the marks."""
    marks: dict[str, Line2D] = {}
    for number, (label, place) in enumerate(places.items()):
        (marks[label],) = axes.plot(
            *place,
            MARKERS[number % len(MARKERS)],
            color=SERIES[number % len(SERIES)],
            markersize=9,
            markeredgecolor="white",
            label=label,
        )
    return marks


def _frame(axes: Axes, places: Array) -> None:
    """Set limits that leave room around the places, and draw the threshold of calibration."""
    low = places.min(axis=0)
    high = places.max(axis=0)
    room = 0.12 * np.maximum(high - low, 0.5)
    right, top = high + room
    top = max(top, 0.5)
    if top > ACCEPTABLE_ECE / 2:
        top = max(top, 1.08 * ACCEPTABLE_ECE)
    axes.set(xlim=(max(0.0, low[0] - room[0]), right), xlabel="error, %")
    axes.set(ylim=(0, top), ylabel="ECE, %")
    draw_threshold(axes)
