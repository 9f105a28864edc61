"""What the charts of the page share: plotly figures as plain dicts, with names for their colours.

`m3` is the colour of the method at place 3, `f3` the same but fainter, and `ink`, `soft`, `card`,
`line`, `grid` belong to the page; all change with its theme. Two hexadecimal digits after a space
are the opacity. A trace's `meta` is the place of its method, with which it is hidden. The rest of
the looks of axes, shapes and notes stands in `assets/template.json`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from ...palette import MARKERS
from ..results import Array, Members
from ..style import Style
from ..vocabulary import READINGS, USUAL_READING
from .log_axis import LogAxis

Json = dict[str, Any]

_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
_SHAPES += ("triangle-left", "triangle-right", "pentagon")
SYMBOLS = dict(zip(MARKERS, _SHAPES, strict=True))


@dataclass(frozen=True)
class Chart:
    """A plotly figure on the page, for each reading that changes it.

    `method` is the place of the method it belongs to. `captions` stand above it, also by reading:
    what is particular to these data; how to read a chart is said once, in `assets/captions.json`;
    `linear` is the y axis that may replace a logarithmic one; `keys` are markers with their
    meaning, the first a ring; traces that have a `cut` follow a slider over the epochs. `summary`
    says in a sentence or two what is seen, with its numbers; it replaces a chart without figures.
    """

    name: str
    title: str
    figures: Mapping[str, Json]
    captions: Mapping[str, str] = field(default_factory=dict)
    method: int | None = None
    linear: Json | None = None
    keys: Sequence[tuple[str, str]] = ()
    summary: str = ""


def figure(data: list[Json], **layout: Any) -> Json:
    """Return a plotly figure of traces."""
    return {"data": data, "layout": layout}


def scatter(
    label: str, style: Style, x: Array, y: Array, shown: Sequence[Array], hover: str, **more: Any
) -> Json:
    """Return the trace of a method; `shown` are the values of its points that `hover` writes."""
    return {
        "type": "scatter",
        "meta": style.place,
        # Plotly reads a few tags in its texts: a name from a run must not be one.
        "name": escape(label, quote=False),
        "x": numbers(x),
        "y": numbers(y),
        "customdata": [list(row) for row in zip(*map(numbers, shown), strict=True)],
        "hovertemplate": hover,
        **more,
    }


def silent_line(x: Sequence[float | None], y: Sequence[float | None], **more: Any) -> Json:
    """Return a line that does not react to the pointer."""
    return {"type": "scatter", "mode": "lines", "hoverinfo": "skip", "x": x, "y": y, **more}


def outline(style: Style, x: Array, low: Array, high: Array, opacity: str) -> Json:
    """Return the area between two lines, which does not react to the pointer.

    It is a single outline: plotly lists what is pointed at in reverse where a trace is filled to
    the one before it.
    """
    known = np.isfinite(low)
    there = x[known]
    return silent_line(
        numbers(np.append(there, there[::-1])),
        numbers(np.append(low[known], high[known][::-1])),
        meta=style.place,
        fill="toself",
        fillcolor=f"m{style.place} {opacity}",
        line={"width": 0},
    )


def pen(style: Style, width: float) -> Json:
    """Return the line of a method."""
    return {"color": f"m{style.place}", "width": width, "dash": style.dash}


def mark(
    style: Style, size: float, edge: str = "card", width: float | list[float] = 1.5, **more: Any
) -> Json:
    """Return the marker of a method; its edge has one width, or one per point."""
    return {
        "color": f"m{style.place}",
        "size": size,
        "symbol": SYMBOLS[style.marker],
        "line": {"color": edge, "width": width},
        **more,
    }


def bars(style: Style, reach: Array, below: Array, **more: Any) -> Json:
    """Return intervals as plotly draws them: `reach` upwards, at most `below` downwards."""
    return {
        "type": "data",
        "symmetric": False,
        "array": numbers(reach),
        "arrayminus": numbers(np.minimum(reach, below)),
        "color": f"f{style.place}",
        "width": 0,
        **more,
    }


def by_reading(members: Members, make: Callable[[str], Any]) -> dict[str, Any]:
    """Return what `make` returns for each reading, or only the usual one without unknown class."""
    several = any(results.unknown_class for results in members)
    return {reading: make(reading) for reading in (READINGS if several else (USUAL_READING,))}


def on_log_axis(chart: Json, letter: str, axis: LogAxis, label: str = "") -> Json:
    """Return the figure with a logarithmic axis x or y, on which zeros are lifted to its bottom.

    What is written when pointed at stays true.
    """
    lifted = [
        {**trace, letter: [None if value is None else max(value, axis.bottom) for value in values]}
        for trace in chart["data"]
        for values in (trace[letter],)
    ]
    return figure(lifted, **{**chart["layout"], f"{letter}axis": axis.plotly(label)})


def numbers(values: Array) -> list[float | None]:
    """Return each value with five significant digits, None for one that is not finite.

    >>> numbers(np.array([0.123456789, np.nan]))
    [0.12346, None]
    """
    return [
        float(f"{value:.5g}") if math.isfinite(value) else None
        for value in np.asarray(values).tolist()
    ]
