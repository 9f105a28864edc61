"""Before and after post-hoc scaling: where each scaler moves a method in error and ECE."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import offset_copy

from ...palette import faded
from ..results import Members
from ..style import Look, Style
from ..vocabulary import USUAL_READING, scaler_of, study_scalers
from ..words import first_of
from .chart import (
    SYMBOLS,
    Chart,
    Json,
    bars,
    by_reading,
    figure,
    mark,
    on_log_axis,
    scatter,
    silent_line,
)
from .compose import Drawing, Handles, Panel, line_handle
from .log_axis import LogAxis
from .pareto import BETTER, final_points
from .plane import ECE, Plane, Trail, draw_frame, plane_of

LETTERS = 26  # of a name beside its row
FEW_ROWS = 5  # up to which ticks at the bottom are near enough
UNSCALED = "none"


def drawings(members: Members, look: Look) -> Iterator[Drawing]:
    """Yield the plane of all methods."""
    if points := scaled_points(members):
        title = f"test error and ECE before and after scaling, {BETTER}"
        panel = Panel("", draw_scaled, plane_of(points, look, members))
        yield Drawing("scaling", title, [panel])


def charts(members: Members, look: Look) -> list[Chart]:
    """Return a row per method that is shown first: its ECE before scaling and after.

    The table below has the other methods.
    """
    first = [results for results in members if look[results.label].shown_first]
    trails: dict[str, list[Trail]] = by_reading(
        members, lambda reading: scaled_points(first, reading=reading)
    )
    if not any(trails.values()):
        return []
    rest = len(members) - len(first)
    others = f"The other {rest} methods are in the table below." if rest else ""
    recorded = {name for results in members for name in results.scalers}
    return [
        Chart(
            "scaling",
            "Calibration error before and after, % ↓",
            {reading: _figure(rows, look) for reading, rows in trails.items() if rows},
            {
                reading: f"{others} {coincidences(rows)}".strip()
                for reading, rows in trails.items()
                if rows
            },
            keys=[
                (words.marker, words.long)
                for name, words in study_scalers().items()
                if name in recorded
            ],
            summary=_best_in_words(trails[USUAL_READING]),
        )
    ]


def scaled_points(
    members: Members, scalers: Sequence[str] = (), reading: str = USUAL_READING
) -> list[Trail]:
    """Return test numbers of each label unscaled, then after each scaler, or some, that it has.

    Labels without numbers after a scaler are left out.
    """
    trails: list[Trail] = []
    for results in members:
        wanted = [name for name in results.scalers if name in (scalers or results.scalers)]
        names = sorted(wanted, key=lambda name: name != UNSCALED)
        points = {
            name: point
            for name in names
            for point in final_points([results], "test", reading, name)
        }
        if len(points) > 1 and UNSCALED in points:
            trails.append(_trail(results.label, points))
    return trails


def _trail(label: str, points: Mapping[str, Trail]) -> Trail:
    """Return a label's means after each scaler."""
    return Trail(
        label,
        error=np.array([point.end[0] for point in points.values()]),
        ece=np.array([point.end[1] for point in points.values()]),
        end=points[UNSCALED].end,
        steps=[*points],
        reach=np.array([point.reaches()[1] for point in points.values()]),
    )


def coincident(trail: Trail) -> list[tuple[str, str]]:
    """Return the pairs of scalers after which a label has the same printed numbers."""
    printed = {
        name: (round(error, 2), round(ece, 2))
        for name, error, ece in zip(trail.steps, trail.error, trail.ece, strict=True)
        if name != UNSCALED
    }
    pairs = itertools.combinations(printed, 2)
    return [(name, other) for name, other in pairs if printed[name] == printed[other]]


def coincidences(trails: Sequence[Trail]) -> str:
    """Return which scalers lead to the same numbers, for which labels, and why; empty if none do.

    >>> steps = ["none", "temperature", "matrix"]
    >>> two = Trail("CE", np.array([5.0, 5.0, 5.0]), np.array([4.0, 1.0, 1.0]), (5, 4), steps)
    >>> coincidences([two])
    'TS and MS coincide for CE (matrix scaling is regularised, there all the way down
    to a temperature).'
    """
    labels: dict[tuple[str, str], list[str]] = {}
    for trail in trails:
        for pair in coincident(trail):
            labels.setdefault(pair, []).append(trail.label)
    sentences: list[str] = []
    for pair, names in labels.items():
        why = " (matrix scaling is regularised, there all the way down to a temperature)"
        reason = why if {*pair} == {"temperature", "matrix"} else ""
        first, second = (scaler_of(name).short for name in pair)
        sentences.append(f"{first} and {second} coincide for {first_of(names)}{reason}.")
    return " ".join(sentences)


def draw_scaled(axes: Axes, plane: Plane) -> Handles:
    """Draw an arrow from each unscaled model to where each scaler takes it."""
    steps: dict[str, None] = {}
    for trail, drawn in zip(plane.trails, plane.lifted(), strict=True):
        hidden = {second for _, second in coincident(trail)}
        _draw_trail(axes, drawn, hidden, plane.look[trail.label].colour)
        steps |= dict.fromkeys(trail.steps)
    draw_frame(axes, plane)
    remarks = (axes.get_title(), coincidences(plane.trails).rstrip("."))
    axes.set_title("; ".join(filter(None, remarks)))
    dot: dict[str, Any] = {"linestyle": "none", "markersize": 5.5}
    scalers = [scaler_of(name) for name in steps]
    handles = [line_handle(scaler.long, marker=scaler.marker, **dot) for scaler in scalers]
    for trail in plane.trails:
        colour = plane.look[trail.label].colour
        handles.append(line_handle(trail.label, colour, marker="o", **dot))
    return handles


def _draw_trail(axes: Axes, trail: Trail, hidden: set[str], colour: str) -> None:
    """Draw the arrows and marks of a label; marks that would hide another lie a little aside."""
    whole: Any = axes.figure
    aside = offset_copy(axes.transData, whole, x=4, y=-4, units="points")
    arrow = {"arrowstyle": "->", "linewidth": 0.9, "shrinkA": 3, "shrinkB": 3}
    for name, x, y in zip(trail.steps, trail.error, trail.ece, strict=True):
        if name != UNSCALED and name not in hidden:
            axes.annotate("", (x, y), trail.end, arrowprops={**arrow, "color": faded(colour)})
        place: dict[str, Any] = {"transform": aside} if name in hidden else {}
        size = 8 if name == UNSCALED else 5.5
        marker = scaler_of(name).marker
        axes.plot(x, y, marker, color=colour, markersize=size, mec="white", **place)


def _figure(trails: Sequence[Trail], look: Look) -> Json:
    """Return one row per method, with the ECE after each scaler on a height of its own."""
    used = [name for trail in trails for name in trail.steps]
    scalers = [*dict.fromkeys([*(name for name in study_scalers() if name in used), *used])]
    offsets = dict(zip(scalers, np.linspace(0.28, -0.28, len(scalers)), strict=True))
    heights = range(len(trails), 0, -1)
    traces: list[Json] = []
    names: list[Json] = []
    for height, trail in zip(heights, trails, strict=True):
        style = look[trail.label]
        points = _row_points(trail, style, height, offsets)
        traces += [_row_line(points["x"][0], style, height), points]
        names.append(_row_name(trail.label, style, height))
    many = len(trails) > FEW_ROWS
    longest = max(len(name["text"]) for name in names)
    rows = figure(
        traces,
        height=70 + 14 * (len(scalers) + 1) * len(trails),
        annotations=names,
        yaxis={"range": [0.4, len(trails) + 0.6], **_NO_TICKS, "showticklabels": False},
        margin={"l": 24 + 7 * longest, "r": 10, "t": 34 if many else 12, "b": 8},
        shapes=[_edge(height + 0.5) for height in range(1, len(trails))],
    )
    axis = LogAxis.around(np.concatenate([trail.ece for trail in trails]))
    return _with_ticks_above(on_log_axis(rows, "x", axis, ECE), many)


_NO_TICKS = {"showgrid": False, "showline": False}


def _row_points(trail: Trail, style: Style, height: int, offsets: Mapping[str, float]) -> Json:
    """Return a symbol per scaler with its interval; that of the unscaled model is a ring."""
    known = np.isfinite(trail.reach)
    hover = "%{text}: ECE %{customdata[0]:.2f}"
    hover += " ± %{customdata[2]:.2f}%" if known.all() else "%"
    hover += "<br>error %{customdata[1]:.2f}%"
    scalers = [scaler_of(name) for name in trail.steps]
    rings = [name == UNSCALED for name in trail.steps]
    symbols = [
        "circle-open" if ring else SYMBOLS[scaler.marker]
        for ring, scaler in zip(rings, scalers, strict=True)
    ]
    edges = [2.5 if ring else 0.0 for ring in rings]
    interval = bars(style, trail.reach, 0.9 * trail.ece, thickness=1.5, visible=bool(known.any()))
    return scatter(
        trail.label,
        style,
        trail.ece,
        np.array([height + offsets[name] for name in trail.steps]),
        (trail.ece, trail.error, trail.reach),
        hover,
        mode="markers",
        marker=mark(style, 10, f"m{style.place}", edges, symbol=symbols),
        text=[scaler.long for scaler in scalers],
        error_x=interval,
    )


def _row_line(ece: float, style: Style, height: int) -> Json:
    """Return a dotted line through a row at the ECE of the unscaled model."""
    ends = [height - 0.4, height + 0.4]
    look = {"color": "line", "width": 1.5, "dash": "dot"}
    return silent_line([ece, ece], ends, meta=style.place, xaxis="x2", line=look)


def _row_name(label: str, style: Style, height: int) -> Json:
    """Return the name at the left of a row, shortened if it is long."""
    return {
        "text": f"{label[: LETTERS - 1]}…" if len(label) > LETTERS else label,
        "y": height,
        "x": -0.01,
        "xanchor": "right",
        "name": str(style.place),
    }


def _edge(height: float) -> Json:
    """Return a line between two rows."""
    ends = {"xref": "paper", "x0": 0, "x1": 1, "y0": height, "y1": height}
    return {**ends, "line": {"color": "grid", "width": 1}}


def _with_ticks_above(rows: Json, shown: bool) -> Json:
    """Return the figure with a second x axis at the top, which many rows need to be read."""
    above = {"side": "top", "overlaying": "x", "matches": "x", "title": {"text": ""}}
    rows["layout"]["xaxis2"] = {
        **rows["layout"]["xaxis"],
        **above,
        **_NO_TICKS,
        "showticklabels": shown,
    }
    return rows


def _best_in_words(trails: Sequence[Trail]) -> str:
    """Return what the best scaler makes of each label."""
    words: list[str] = []
    for trail in trails:
        best = int(np.argmin(trail.ece))
        scaler = scaler_of(trail.steps[best]).long
        words.append(f"{trail.label} from {trail.ece[0]:.2f} to {trail.ece[best]:.2f} ({scaler})")
    return f"Test ECE in percent, unscaled and by the best scaler: {first_of(words)}."
