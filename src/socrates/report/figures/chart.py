"""What the charts of the page share: plotly figures as plain dicts, with names of the page's colours for colours.

`m3` is the colour of the method at place 3 and `ink`, `soft`, `card`, `line`, `grid` are the page's own, all of which
change with its theme; two hexadecimal digits after a space are the opacity. A trace's `meta` is the place of its
method, with which it is hidden.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..results import Results
from ..style import MARKERS, Style
from ..vocabulary import READINGS, USUAL_READING

Array = NDArray[Any]
Json = dict[str, Any]

DIGITS = 5
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x")
SYMBOLS = dict(zip(MARKERS, _SHAPES, strict=True))
LOG_STEPS = (
    (1,),
    (1, 2, 5),
    (1, 1.5, 2, 3, 4, 5, 6, 8),
    (1, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3.2, 3.6, 4, 4.5, 5, 5.5, 6, 7, 8, 9),
)


@dataclass(frozen=True)
class Chart:
    """A plotly figure on the page, for each reading that changes it; `method` is the place of the one it belongs to.

    `captions` stand above it, also by reading; `linear` is the y axis in the place of a logarithmic one; `keys` are
    markers with their meaning, the first a ring; traces that have a `cut` follow a slider over the epochs.
    """

    name: str
    title: str
    figures: Mapping[str, Json]
    captions: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""  # "tall" or "square"
    method: int | None = None
    linear: Json | None = None
    keys: Sequence[tuple[str, str]] = ()
    slider: bool = False


def figure(data: list[Json], **layout: Any) -> Json:
    """A plotly figure."""
    return {"data": data, "layout": layout}


def scatter(
    label: str, style: Style, x: Sequence[Any], y: Sequence[Any], shown: Sequence[Array], hover: str, **more: Any
) -> Json:
    """A trace of a method; `shown` are the true values of its points, for what `hover` says of them."""
    rows = [list(row) for row in zip(*map(numbers, shown), strict=True)]
    # Plotly reads a few tags in its texts: what comes from a run must not be one.
    named = {"type": "scatter", "meta": style.place, "name": escape(label, quote=False)}
    return {**named, "x": x, "y": y, "customdata": rows, "hovertemplate": hover, **more}


def pen(style: Style, width: float, **more: Any) -> Json:
    """The line of a method."""
    return {"color": f"m{style.place}", "width": width, "dash": style.dash, **more}


def mark(style: Style, size: float, edge: str = "card", width: float = 1.5, **more: Any) -> Json:
    """The marker of a method, with an edge."""
    symbol = {"symbol": SYMBOLS[style.marker], "line": {"color": edge, "width": width}}
    return {"color": f"m{style.place}", "size": size, **symbol, **more}


def by_reading(members: Sequence[Results], make: Callable[[str], Any]) -> dict[str, Any]:
    """What is made for each reading; for the usual one alone where no method has an unknown class."""
    needed = READINGS if any(one.unknown_class for one in members) else (USUAL_READING,)
    return {reading: make(reading) for reading in needed}


def axis_title(text: str) -> Json:
    """Of an axis."""
    return {"text": text, "font": {"color": "soft", "size": 12.5}, "standoff": 8}


def log_axis(values: Array, title: str = "") -> tuple[Json, Callable[[Array], list[float | None]]]:
    """A logarithmic axis, and what places values on it.

    Zero has no place there: it is drawn at the lower end, and named truly when pointed at.

    >>> axis, at = log_axis(np.array([0.0, 0.1, 1.0]))
    >>> axis["tickvals"], at(np.array([0.0, 1.0]))
    ([0.05, 0.1, 0.2, 0.5, 1.0], [0.05, 1.0])
    """
    finite = values[np.isfinite(values)]
    positive = finite[finite > 0]
    least = float(positive.min()) if len(positive) else 0.1
    bottom = least if len(positive) == len(finite) else least / 2
    low, high = math.log10(bottom), math.log10(max(positive.max(initial=0.0), bottom))
    room = max(0.07 * (high - low), 0.06)
    ticks = _log_ticks(low - room, high + room)
    axis = {
        "type": "log",
        "range": numbers(np.array([low - room, high + room])),
        "tickmode": "array",
        "tickvals": ticks,
        "ticktext": [f"{tick:g}" for tick in ticks],
        "title": axis_title(title),
    }
    return axis, lambda own: numbers(np.maximum(own, bottom))


def _log_ticks(low: float, high: float) -> list[float]:
    inside: list[float] = []
    for steps in LOG_STEPS:
        choices = [round(step * 10.0**power, 6) for power in range(-4, 3) for step in steps]
        inside = [tick for tick in choices if low <= math.log10(tick) <= high]
        if len(inside) > 2:
            break
    return inside


def numbers(values: Array) -> list[float | None]:
    """Each value with five digits that count, None for one that is not finite.

    >>> numbers(np.array([0.123456789, np.nan]))
    [0.12346, None]
    """
    return [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in values.tolist()]
