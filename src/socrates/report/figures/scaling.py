"""Before and after post-hoc scaling: where each scaler moves a method in the plane of error and ECE."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import offset_copy

from ..results import Results
from ..style import Style, faded
from ..vocabulary import SCALERS, USUAL_READING, scaler_of
from ..words import first_of
from .chart import CAPTIONS, SYMBOLS, Chart, Json, by_reading, figure, log_axis, mark, numbers, scatter
from .compose import Drawing, Handles, Panel, line_handle
from .pareto import BETTER, final_points
from .plane import Plane, Trail, collapsed_labels, frame_plane, reach_of

LETTERS = 26  # of a name beside its row
FEW_ROWS = 5  # beneath which ticks are near enough


def drawings(members: Sequence[Results], look: Mapping[str, Style]) -> Iterator[Drawing]:
    """The plane of all methods."""
    points = scaled_points(members)
    if points:
        title = f"test error and ECE before and after scaling, {BETTER}"
        yield Drawing("scaling", title, [Panel("", draw_scaled, Plane(points, look, collapsed_labels(members)))])


def charts(members: Sequence[Results], look: Mapping[str, Style]) -> list[Chart]:
    """A row for each method that is shown first, from its ECE before to those after; the table has the others."""
    first = [one for one in members if look[one.label].shown_first]
    found = by_reading(members, lambda reading: scaled_points(first, reading=reading))
    rest = len(members) - len(first)
    others = f" The other {rest} methods are in the table below." if rest else ""
    made = {reading: _figure(points, look) for reading, points in found.items() if points}
    words = {reading: f"{CAPTIONS['scaling']}{others} {coincidences(found[reading])}".strip() for reading in made}
    used = [scaler for name, scaler in SCALERS.items() if any(name in one.scalers for one in members)]
    keys = [(scaler.marker, scaler.long) for scaler in used]
    said = _scaled_in_words(found[USUAL_READING])
    title = "Calibration error before and after, % ↓"
    return [Chart("scaling", title, made, words, keys=keys, summary=said)] if made else []


def scaled_points(members: Sequence[Results], scalers: Sequence[str] = (), reading: str = USUAL_READING) -> list[Trail]:
    """Test numbers of each label unscaled, then under each scaler (or some) that it has; without any it is left out."""
    trails: list[Trail] = []
    for one in members:
        wanted = [name for name in one.scalers if name in (scalers or one.scalers)]
        names = sorted(wanted, key=lambda name: name != "none")
        found = [(name, point) for name in names for point in final_points([one], "test", reading, name)]
        if len(found) > 1 and found[0][0] == "none":
            error, ece = (np.array([point.end[axis] for _, point in found]) for axis in (0, 1))
            reach = np.array([reach_of(point.ece) for _, point in found])
            trails.append(Trail(one.label, error, ece, found[0][1].end, [name for name, _ in found], reach=reach))
    return trails


def coincident(trail: Trail) -> list[tuple[str, str]]:
    """Pairs of scalers after which a label has the same printed numbers."""
    places = [(round(error, 2), round(ece, 2)) for error, ece in zip(trail.error, trail.ece, strict=True)]
    pairs = itertools.combinations(zip(trail.steps, places, strict=True), 2)
    return [(one, other) for (one, here), (other, there) in pairs if here == there and one != "none"]


def coincidences(trails: Sequence[Trail]) -> str:
    """Which scalers give the same numbers, of which labels, and why matrix scaling may; empty if none do.

    >>> steps = ["none", "temperature", "matrix"]
    >>> two = Trail("CE", np.array([5.0, 5.0, 5.0]), np.array([4.0, 1.0, 1.0]), (5, 4), steps)
    >>> coincidences([two])
    'TS and MS coincide for CE (matrix scaling is regularised, there all the way down to a temperature).'
    """
    labels: dict[tuple[str, str], list[str]] = {}
    for trail in trails:
        for pair in coincident(trail):
            labels.setdefault(pair, []).append(trail.label)
    why = " (matrix scaling is regularised, there all the way down to a temperature)"
    return " ".join(
        f"{scaler_of(one).short} and {scaler_of(other).short} coincide for {first_of(own)}"
        f"{why if {one, other} == {'temperature', 'matrix'} else ''}."
        for (one, other), own in labels.items()
    )


def draw_scaled(axes: Axes, data: Plane) -> Handles:
    """An arrow from each unscaled model to where each scaler takes it; lower left is better.

    The frame does not stretch for labels with collapsed runs. Marks that would hide another lie a little aside.
    """
    handles: dict[str, Any] = {}
    point: dict[str, Any] = {"linestyle": "none", "markersize": 5.5}
    arrow = {"arrowstyle": "->", "linewidth": 0.9, "shrinkA": 3, "shrinkB": 3}
    whole: Any = axes.figure
    aside = offset_copy(axes.transData, whole, x=4, y=-4, units="points")
    for true, trail in zip(data.trails, data.lifted().trails, strict=True):
        colour, hidden = data.look[trail.label].colour, {other for _, other in coincident(true)}
        for name, x, y in zip(trail.steps, trail.error, trail.ece, strict=True):
            scaler, size = scaler_of(name), 5.5 if name != "none" else 8
            if name != "none" and name not in hidden:
                axes.annotate("", (x, y), trail.end, arrowprops={**arrow, "color": faded(colour)})
            place: dict[str, Any] = {"transform": aside} if name in hidden else {}
            axes.plot(x, y, scaler.marker, color=colour, markersize=size, mec="white", **place)
            handles.setdefault(name, line_handle(scaler.long, marker=scaler.marker, **point))
    frame_plane(axes, data)
    axes.set_title("; ".join(filter(None, (axes.get_title(), coincidences(data.trails).rstrip(".")))))
    labels = [line_handle(one.label, data.look[one.label].colour, marker="o", **point) for one in data.trails]
    return [*handles.values(), *labels]


def _figure(trails: Sequence[Trail], look: Mapping[str, Style]) -> Json:
    """One row a method: a line over its ECEs; on a height of its own for each scaler, a symbol with its interval.

    Many rows have their ticks at the top as well.
    """
    hover = "%{text}: ECE %{customdata[0]:.2f}"
    scalers = [name for name in SCALERS if any(name in trail.steps for trail in trails)]
    scalers += [name for trail in trails for name in trail.steps if name not in scalers]
    heights = dict(zip(scalers, np.linspace(0.28, -0.28, len(scalers)), strict=False))
    traces: list[Json] = []
    names: list[Json] = []
    for row, trail in enumerate(trails):
        height, style, colour = len(trails) - row, look[trail.label], f"m{look[trail.label].place}"
        symbols = ["circle-open" if name == "none" else SYMBOLS[scaler_of(name).marker] for name in trail.steps]
        rings = [2.5 if name == "none" else 0 for name in trail.steps]
        marker = mark(style, 10, colour, rings, symbol=symbols)
        words = hover + " ± %{customdata[2]:.2f}" * bool(np.isfinite(trail.reach).all()) + " %"
        words += "<br>error %{customdata[1]:.2f} %"
        shown: Json = {"mode": "markers", "marker": marker, "text": [scaler_of(name).long for name in trail.steps]}
        bars = {"array": numbers(trail.reach), "arrayminus": numbers(np.minimum(trail.reach, 0.9 * trail.ece))}
        shown["error_x"] = {"type": "data", "symmetric": False, **bars, "color": f"f{style.place}", "thickness": 1.5}
        shown["error_x"] |= {"width": 0, "visible": bool(np.isfinite(trail.reach).any())}
        at = np.array([height + heights[name] for name in trail.steps])
        points = scatter(trail.label, style, trail.ece, at, (trail.ece, trail.error, trail.reach), words, **shown)
        span = {"type": "scatter", "meta": style.place, "mode": "lines", "hoverinfo": "skip", "xaxis": "x2"}
        ends = [points["x"][0]] * 2
        span |= {"x": ends, "y": [height - 0.4, height + 0.4], "line": {"color": "line", "width": 1.5, "dash": "dot"}}
        traces += [span, points]
        letters = len(trail.label) > LETTERS
        text = f"{trail.label[: LETTERS - 1]}…" if letters else trail.label
        names.append({"text": text, "y": height, "x": -0.01, "xanchor": "right", "name": str(style.place)})
    longest = max(len(name["text"]) for name in names)
    rows = {"range": [0.4, len(trails) + 0.6], "showticklabels": False, "showgrid": False, "showline": False}
    edges = [height + 0.5 for height in range(1, len(trails))]
    lines = [
        {"xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": {"color": "grid", "width": 1}} for y in edges
    ]
    many = len(trails) > FEW_ROWS
    more = {"margin": {"l": 24 + 7 * longest, "r": 10, "t": 34 if many else 12, "b": 8}, "shapes": lines}
    high = 70 + 14 * (len(scalers) + 1) * len(trails)
    made = log_axis(figure(traces, height=high, annotations=names, yaxis=rows, **more), "x", "ECE, %")
    top = {**made["layout"]["xaxis"], "title": {"text": ""}, "side": "top", "overlaying": "x", "matches": "x"}
    made["layout"]["xaxis2"] = {**top, "showticklabels": many, "showgrid": False, "showline": False}
    return made


def _scaled_in_words(trails: Sequence[Trail]) -> str:
    """What the best scaler makes of each label."""
    words: list[str] = []
    for trail in trails:
        best = int(np.argmin(trail.ece))
        after = scaler_of(trail.steps[best]).long
        words.append(f"{trail.label} from {trail.ece[0]:.2f} to {trail.ece[best]:.2f} ({after})")
    return f"Test ECE in percent, unscaled and by the best scaler: {first_of(words)}."
