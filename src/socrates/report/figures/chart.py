"""What the charts of the page share: plotly figures as plain dicts, with names of the page's colours for colours.

`m3` is the colour of the method at place 3, `f3` the same but fainter, and `ink`, `soft`, `card`, `line`, `grid` are
the page's own, all of which change with its theme; two hexadecimal digits after a space are the opacity. A trace's
`meta` is the place of its method, with which it is hidden. What nothing here says of axes, shapes and notes stands in
`assets/template.json`.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from ..markup import asset
from ..results import Array, Results
from ..style import MARKERS, Style
from ..vocabulary import FEWEST, METRICS, READINGS, USUAL_READING

Json = dict[str, Any]

_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
_SHAPES += ("triangle-left", "triangle-right", "pentagon")
SYMBOLS = dict(zip(MARKERS, _SHAPES, strict=True))
CAPTIONS: dict[str, str] = json.loads(asset("captions.json"))  # what to look for in each chart, and what is bad
MOST_FIRST, BEST_FIRST, REFERENCES = 8, 6, ("ce", "socrates")  # methods that charts show at first
LOG_STEPS = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8))


@dataclass(frozen=True)
class Chart:
    """A plotly figure on the page, for each reading that changes it; `method` is the place of the one it belongs to.

    `captions` stand above it, also by reading; `linear` is the y axis in the place of a logarithmic one; `keys` are
    markers with their meaning, the first a ring; traces that have a `cut` follow a slider over the epochs. `summary`
    says in a sentence or two what is seen, with its numbers; it stands in the place of a chart without any figure.
    """

    name: str
    title: str
    figures: Mapping[str, Json]
    captions: Mapping[str, str] = field(default_factory=dict)
    method: int | None = None
    linear: Json | None = None
    keys: Sequence[tuple[str, str]] = ()
    summary: str = ""


def first_shown(members: Sequence[Results]) -> set[str]:
    """The labels that charts show at first: all up to eight; else the six best, by ECE and by accuracy in turn.

    The best CE and the best Socrates, to which others are compared, are there in any case.
    """
    by_accuracy, by_ece = (sorted(members, key=lambda one, spec=METRICS[name]: one.standing(spec)) for name in FEWEST)
    best = [*dict.fromkeys(one.label for pair in zip(by_ece, by_accuracy, strict=True) for one in pair)]
    references = [next((one.label for one in by_ece if one.method.name == name), None) for name in REFERENCES]
    return {label for label in (*best[: None if len(best) <= MOST_FIRST else BEST_FIRST], *references) if label}


def figure(data: list[Json], **layout: Any) -> Json:
    """A plotly figure."""
    return {"data": data, "layout": layout}


def scatter(label: str, style: Style, x: Array, y: Array, shown: Sequence[Array], hover: str, **more: Any) -> Json:
    """A trace of a method; `shown` are the true values of its points, for what `hover` says of them."""
    rows = [list(row) for row in zip(*map(numbers, shown), strict=True)]
    # Plotly reads a few tags in its texts: what comes from a run must not be one.
    named = {"type": "scatter", "meta": style.place, "name": escape(label, quote=False)}
    return {**named, "x": numbers(x), "y": numbers(y), "customdata": rows, "hovertemplate": hover, **more}


def outline(style: Style, x: Array, low: Array, high: Array, opacity: str) -> Json:
    """The area between two lines, which is not pointed at.

    One outline: plotly lists what is pointed at in reverse where a trace is filled to the one before it.
    """
    known = np.isfinite(low)
    around = np.append(x[known], x[known][::-1]), np.append(low[known], high[known][::-1])
    look = {"fill": "toself", "fillcolor": f"m{style.place} {opacity}", "line": {"width": 0}, "hoverinfo": "skip"}
    named = {"type": "scatter", "meta": style.place, "mode": "lines"}
    return {**named, "x": numbers(around[0]), "y": numbers(around[1]), **look}


def pen(style: Style, width: float) -> Json:
    """The line of a method."""
    return {"color": f"m{style.place}", "width": width, "dash": style.dash}


def mark(style: Style, size: float, edge: str = "card", width: float | list[float] = 1.5, **more: Any) -> Json:
    """The marker of a method, with an edge, of one width or of one a point."""
    symbol = {"symbol": SYMBOLS[style.marker], "line": {"color": edge, "width": width}}
    return {"color": f"m{style.place}", "size": size, **symbol, **more}


def by_reading(members: Sequence[Results], make: Callable[[str], Any]) -> dict[str, Any]:
    """What is made for each reading; for the usual one alone where no method has an unknown class."""
    needed = READINGS if any(one.unknown_class for one in members) else (USUAL_READING,)
    return {reading: make(reading) for reading in needed}


def log_axis(shown: Json, letter: str, title: str = "", also: Sequence[float] = ()) -> Json:
    """The figure with a logarithmic axis x or y that holds all values that can be pointed at, and others `also`.

    Zero has no place there: it is drawn at the lower end, and named truly when pointed at. Traces that are `loose`
    do not stretch the axis unless all are.

    >>> made = log_axis(figure([{"x": [0.0, 0.1, None, 1.0]}]), "x")
    >>> made["layout"]["xaxis"]["tickvals"], made["data"]
    ([0.05, 0.1, 0.2, 0.5, 1.0], [{'x': [0.05, 0.1, None, 1.0]}])
    """
    firm = [trace for trace in shown["data"] if not trace.get("loose")] or shown["data"]
    pointed = [trace[letter] for trace in firm if trace.get("hoverinfo") != "skip"]
    values = [value for own in (*pointed, also) for value in own if value is not None]
    positive = [value for value in values if value > 0]
    least = min(positive, default=0.1)
    bottom = least if len(positive) == len(values) else least / 2
    low, high = math.log10(bottom), math.log10(max(positive, default=bottom))
    room = max(0.07 * (high - low), 0.06)
    ticks = log_ticks(10 ** (low - room), 10 ** (high + room))
    texts = {"tickmode": "array", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
    axis = {"type": "log", "range": [low - room, high + room], "title": {"text": title}, **texts}
    placed = [
        {**trace, letter: [value if value is None else max(value, bottom) for value in trace[letter]]}
        for trace in shown["data"]
    ]
    return figure(placed, **{**shown["layout"], f"{letter}axis": axis})


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: the coarsest that are more than two; evenly spread ones in a narrow range.

    >>> log_ticks(0.5, 20), log_ticks(4.4, 5.2)
    ([0.5, 1.0, 2.0, 5.0, 10.0, 20.0], [4.4, 4.6, 4.8, 5.0, 5.2])
    """
    choices = [[step * 10.0**power for power in range(-4, 3) for step in steps] for steps in LOG_STEPS]
    choices.append([float(tick) for tick in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)])
    inside = [[round(tick, 6) for tick in ticks if low <= tick <= high] for ticks in choices]
    return next((ticks for ticks in inside if len(ticks) > 2), inside[-1])


def numbers(values: Array) -> list[float | None]:
    """Each value with five digits that count, None for one that is not finite.

    >>> numbers(np.array([0.123456789, np.nan]))
    [0.12346, None]
    """
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in np.asarray(values).tolist()]
