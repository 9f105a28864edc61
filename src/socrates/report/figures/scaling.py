"""Before and after post-hoc scaling: where each scaler moves a method in the plane of error and ECE."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..results import Results
from ..style import Style
from ..vocabulary import SCALERS, USUAL_READING, scaler_of
from .chart import SYMBOLS, Chart, Json, by_reading, figure, log_axis, mark, scatter
from .compose import Drawing, Handles, Panel, line_handle
from .pareto import BETTER, Plane, Trail, collapsed_labels, final_points, frame_plane


def drawings(members: Sequence[Results], look: Mapping[str, Style]) -> Iterator[Drawing]:
    """The plane of all methods."""
    points = scaled_points(members)
    if points:
        title = f"test error and ECE before and after scaling, {BETTER}"
        yield Drawing("scaling", title, [Panel("", draw_scaled, Plane(points, look, collapsed_labels(members)))])


def charts(members: Sequence[Results], look: Mapping[str, Style]) -> list[Chart]:
    """A line for each method, from its ECE before to those after."""
    found = by_reading(members, lambda reading: scaled_points(members, reading=reading))
    made = {reading: _figure(points, look) for reading, points in found.items() if points}
    words = {USUAL_READING: "from unscaled (ring) to scaled, mean over seeds"}
    used = [scaler for name, scaler in SCALERS.items() if any(name in one.scalers for one in members)]
    keys = [(scaler.marker, scaler.long) for scaler in used]
    return [Chart("scaling", "Calibration error", made, words, keys=keys)] if made else []


def scaled_points(members: Sequence[Results], scalers: Sequence[str] = (), reading: str = USUAL_READING) -> list[Trail]:
    """Test numbers of each label unscaled, then under each scaler (or some) that it has; without any it is left out."""
    trails: list[Trail] = []
    for one in members:
        wanted = [name for name in one.scalers if name in (scalers or one.scalers)]
        names = sorted(wanted, key=lambda name: name != "none")
        found = [(name, point.end) for name in names for point in final_points([one], "test", reading, name)]
        if len(found) > 1 and found[0][0] == "none":
            error, ece = (np.array([end[axis] for _, end in found]) for axis in (0, 1))
            trails.append(Trail(one.label, error, ece, found[0][1], [name for name, _ in found]))
    return trails


def draw_scaled(axes: Axes, data: Plane) -> Handles:
    """An arrow from each unscaled model to where each scaler takes it; lower left is better.

    The frame does not stretch for labels with collapsed runs.
    """
    handles: dict[str, Any] = {}
    point: dict[str, Any] = {"linestyle": "none", "markersize": 5.5}
    arrow = {"arrowstyle": "-|>", "linewidth": 0.9, "alpha": 0.6, "shrinkA": 3, "shrinkB": 3}
    for trail in data.lifted().trails:
        colour = data.look[trail.label].colour
        for name, x, y in zip(trail.steps, trail.error, trail.ece, strict=True):
            scaler, size = scaler_of(name), 5.5 if name != "none" else 8
            if name != "none":
                axes.annotate("", (x, y), trail.end, arrowprops={**arrow, "color": colour})
            axes.plot(x, y, scaler.marker, color=colour, markersize=size, mec="white")
            handles.setdefault(name, line_handle(scaler.long, marker=scaler.marker, **point))
    frame_plane(axes, data)
    labels = [line_handle(one.label, data.look[one.label].colour, marker="o", **point) for one in data.trails]
    return [*handles.values(), *labels]


def _figure(trails: Sequence[Trail], look: Mapping[str, Style]) -> Json:
    """One row a method: a line over its ECEs, a symbol for each scaler, a ring for none."""
    hover = "%{text}: ECE %{customdata[0]:.2f} %<br>error %{customdata[1]:.2f} %"
    traces: list[Json] = []
    names: list[Json] = []
    for row, trail in enumerate(trails):
        height, style, colour = len(trails) - row, look[trail.label], f"m{look[trail.label].place}"
        symbols = ["circle-open" if name == "none" else SYMBOLS[scaler_of(name).marker] for name in trail.steps]
        rings = [2.5 if name == "none" else 0 for name in trail.steps]
        marker = mark(style, 11, colour, rings, opacity=0.9, symbol=symbols)
        shown = {"mode": "markers", "marker": marker, "text": [scaler_of(name).long for name in trail.steps]}
        heights = np.full(len(trail.steps), height)
        points = scatter(trail.label, style, trail.ece, heights, (trail.ece, trail.error), hover, **shown)
        span = {"x": sorted(points["x"]), "mode": "lines", "line": {"color": f"{colour} 4D", "width": 3}}
        traces += [{**points, **span, "hoverinfo": "skip", "hovertemplate": None}, points]
        names.append({"text": trail.label, "y": height + 0.4, "name": str(style.place)})
    rows = {"range": [0.55, len(trails) + 0.75], "showticklabels": False, "showgrid": False, "showline": False}
    return log_axis(figure(traces, height=70 + 48 * len(trails), annotations=names, yaxis=rows), "x", "ECE, %")
