"""Error against calibration error: where the runs of each method end, and their way there."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from socrates.plots.ink import FRONT_LABEL, draw_front
from socrates.plots.labels import Note

from ...palette import INK, faded
from ..results import Members
from ..style import Look
from ..vocabulary import SPLITS, USUAL_READING
from ..words import capitalised, first_of
from .chart import Chart, Json, bars, by_reading, mark, scatter, silent_line
from .compose import Drawing, Handles, Panel, line_handle, method_handle, method_look
from .paths import draw_paths, epoch_paths, path_figure, paths_in_words, settle, usual_step
from .plane import Plane, Trail, draw_frame, note_sides, plane_figure, plane_of

MOST_CROSSED = 8  # means whose crosses a reader can follow
PATH_POINTS = 60  # of a path on the page, and so the steps of the slider
BETTER = "lower left is better"
HOVER = "error %{customdata[0]:.2f}%<br>ECE %{customdata[1]:.2f}%"
HOVER_MEAN = (
    "error %{customdata[0]:.2f} ± %{customdata[2]:.2f}%"
    "<br>ECE %{customdata[1]:.2f} ± %{customdata[3]:.2f}%"
)


def drawings(members: Members, look: Look) -> Iterator[Drawing]:
    """Yield the paths over the epochs, and the ends on test and validation data."""

    def drawing(
        name: str, draw: Callable[..., Handles], trails: list[Trail], words: str
    ) -> Drawing:
        panel = Panel("", draw, plane_of(trails, look, members))
        return Drawing(name, f"{words}, {BETTER}", [panel])

    step = usual_step(_most_epochs(members))
    if paths := epoch_paths(members, step):
        words = f"validation error and ECE every {step} epochs"
        yield drawing("pareto-epochs", draw_paths, paths, words)
    for split in ("test", "val"):
        if points := final_points(members, split):
            words = f"{SPLITS[split].lower()} error and ECE"
            yield drawing(f"pareto-{split}", draw_points, points, words)


def charts(members: Members, look: Look) -> list[Chart]:
    """Return the paths, with a slider for the epochs, and the ends."""
    shown: list[Chart] = []
    every = max(1, math.ceil(_most_epochs(members) / PATH_POINTS))
    if paths := [settle(path) for path in epoch_paths(members, every)]:
        planes = {USUAL_READING: plane_of(paths, look, members)}
        words = paths_in_words(paths)
        shown.append(_chart("paths", "Through training", planes, path_figure, words))
    ends = by_reading(members, lambda reading: final_points(members, "test", reading))
    planes = {
        reading: plane_of(points, look, members) for reading, points in ends.items() if points
    }
    if planes:
        words = _ends_in_words(planes[USUAL_READING])
        shown.append(_chart("final", "At the end", planes, _final_figure, words))
    return shown


def _chart(
    name: str,
    title: str,
    planes: Mapping[str, Plane],
    figure_of: Callable[[Plane], Json],
    summary: str,
) -> Chart:
    """Return the chart of a plane for each reading, with what ends outside of its frame."""
    figures: dict[str, Json] = {}
    captions: dict[str, str] = {}
    for reading, plane in planes.items():
        figures[reading] = figure_of(plane)
        outside = plane.outside()
        captions[reading] = f"{capitalised(outside)}." if outside else ""
    return Chart(name, title, figures, captions, summary=summary)


def _most_epochs(members: Members) -> int:
    return max((len(results.epochs) for results in members), default=0)


def final_points(
    members: Members,
    split: str = "test",
    reading: str = USUAL_READING,
    scaler: str = "none",
) -> list[Trail]:
    """Return where the runs of each label end, and their mean.

    Runs without numbers are left out, and labels without such runs.
    """
    points: list[Trail] = []
    for results in members:
        error = 100 * (1 - results.values("accuracy", scaler, split, reading))
        ece = 100 * results.values("ece", scaler, split, reading)
        known = np.isfinite(error) & np.isfinite(ece)
        if known.any():
            mean = (float(error[known].mean()), float(ece[known].mean()))
            points.append(Trail(results.label, error[known], ece[known], mean))
    return points


def draw_points(axes: Axes, plane: Plane) -> Handles:
    """Draw a faint mark per run, a large one for their mean, and a staircase over the front.

    Labels with collapsed runs have a hollow mark with a red edge, and are not on the front. Up to
    eight means have a cross of their 95% intervals.
    """
    drawn = plane.lifted()
    front = {trail.label for trail in plane.front}
    stairs = draw_front(axes, sorted(point.end for point in drawn if point.label in front))
    crossed = [point for point in drawn if _has_cross(point, plane)]
    if len(drawn) > MOST_CROSSED:
        crossed = []
    for point in crossed:
        _draw_cross(axes, point, faded(plane.look[point.label].colour))
    handles: Handles = []
    for point in drawn:
        style = plane.look[point.label]
        bad = plane.collapsed.get(point.label, "")
        handles.append(method_handle(point.label, style, bad, linestyle="none"))
        axes.plot(
            point.error,
            point.ece,
            style.marker,
            markersize=3.5,
            color=faded(style.colour),
            markeredgewidth=0,
        )
        edge = {} if bad else {"markeredgecolor": "white"}
        mean = method_look(style, bad, linestyle="none", markersize=7.5, zorder=3, **edge)
        axes.plot(*point.end, **mean)
    draw_frame(axes, plane)
    if crossed:
        words = "95% of the mean"
        handles.append(line_handle(words, marker="+", markersize=7, linestyle="none"))
    if stairs:
        handles.append(line_handle(FRONT_LABEL, INK, linewidth=1))
    return handles


def _has_cross(point: Trail, plane: Plane) -> bool:
    """Return whether a mean has intervals that mean something."""
    return bool(np.isfinite(point.reaches()).all()) and point.label not in plane.collapsed


def _draw_cross(axes: Axes, point: Trail, colour: str) -> None:
    """Draw the 95% intervals of a mean, which end above zero."""
    error, ece = point.end
    wide, high = point.reaches()
    axes.hlines(ece, max(error - wide, error / 100), error + wide, color=colour, linewidth=0.9)
    axes.vlines(error, max(ece - high, ece / 100), ece + high, color=colour, linewidth=0.9)


def _final_figure(plane: Plane) -> Json:
    """Return the runs small, their mean large with its cross, and the front as a staircase."""
    drawn = plane.lifted()
    front = {trail.label for trail in plane.front}
    sides = _label_sides(plane)
    traces = [_stairs([point for point in drawn if point.label in front])] if len(front) > 1 else []
    for point, place in zip(plane.trails, drawn, strict=True):
        style = plane.look[point.label]
        loose = {"loose": True} if point.label in plane.collapsed else {}
        small = mark(style, 6, width=0, color=f"f{style.place}")
        shown = (point.error, point.ece)
        runs = scatter(point.label, style, place.error, place.ece, shown, HOVER, **loose)
        traces.append({**runs, "mode": "markers", "marker": small})
        mean = _mean_trace(plane, point, place, point.label in front)
        traces.append({**mean, **loose, **_label_text(mean["name"], sides.get(point.label, ""))})
    return plane_figure(traces, plane)


def _stairs(front: Sequence[Trail]) -> Json:
    """Return the staircase over the front."""
    ends = sorted(point.end for point in front)
    errors, eces = zip(*ends, strict=True)
    look = {"color": "ink", "width": 1.2, "shape": "hv"}
    return silent_line([*errors], [*eces], role="front", line=look)


def _mean_trace(plane: Plane, point: Trail, place: Trail, on_front: bool) -> Json:
    """Return the mean of a label's runs, ringed if it is on the front, with its intervals."""
    style = plane.look[point.label]
    reach = np.array(point.reaches())
    known = bool(np.isfinite(reach).all())
    hover = f"mean of {len(point.error)} seeds, 95%<br>{HOVER_MEAN}" if known else HOVER
    more: Json = {"marker": mark(style, 14, "ink", 2) if on_front else mark(style, 14)}
    if _has_cross(point, plane) and style.shown_first:
        for axis, wide, value in zip("xy", reach, point.end, strict=True):
            below = np.array([0.99 * value])  # what would be below zero ends above it
            more[f"error_{axis}"] = bars(style, np.array([wide]), below, thickness=1.3)
    shown = [np.array([value]) for value in (*point.end, *reach)]
    x, y = (np.array([value]) for value in place.end)
    return scatter(point.label, style, x, y, shown, hover, mode="markers", role="end", **more)


def _label_sides(plane: Plane) -> dict[str, str]:
    """Return on which side of its mean each label that is shown first has room."""
    named = [point for point in plane.lifted() if plane.look[point.label].shown_first]
    sides = note_sides(plane.frame, [Note(*point.end, point.label) for point in named])
    return {point.label: side for point, side in zip(named, sides, strict=True)}


def _label_text(name: str, side: str) -> Json:
    """Return what writes a name beside its mark, nothing if no side has room."""
    if not side:
        return {}
    return {
        "mode": "markers+text",
        "text": [name],
        "textposition": side,
        "textfont": {"color": "ink", "size": 11},
    }


def _ends_in_words(plane: Plane) -> str:
    """Return the front with its numbers, and how many methods it leaves behind."""
    words = [
        f"{point.label} (error {point.end[0]:.2f}%, ECE {point.end[1]:.2f}%)"
        for point in plane.front
    ]
    rest = len(plane.trails) - len(plane.front)
    return (
        f"Not dominated in error and ECE on test data: {first_of(words)}; "
        f"{rest} of {len(plane.trails)} methods are dominated."
    )
