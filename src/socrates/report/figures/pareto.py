"""Error against calibration error: the path of each method over its epochs, and where its runs end."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from socrates.plots.ink import INK, Note, annotate_apart, draw_front

from ..results import Results, mean_and_band
from ..style import Style, faded
from ..vocabulary import SPLITS, USUAL_READING
from ..words import first_of
from .chart import CAPTIONS, Chart, Json, by_reading, mark, numbers, pen, scatter
from .compose import SMALL, Drawing, Handles, Panel, line_handle, method_handle, method_look
from .plane import (
    Plane,
    Trail,
    beyond_in_words,
    collapsed_labels,
    frame_plane,
    front_labels,
    note_sides,
    plane_figure,
    reach_of,
)

MOST_NUMBERED = 8  # paths whose epochs, and means whose crosses can be told apart
PATH_POINTS = 60  # of a path on the page, and so the steps of the slider
BETTER = "lower left is better"


def drawings(members: Sequence[Results], look: Mapping[str, Style]) -> Iterator[Drawing]:
    """Paths over the epochs, and ends on test and validation data."""
    step = usual_step(max((len(one.epochs) for one in members), default=0))
    words = f"validation error and ECE every {step} epochs"
    planes = [("pareto-epochs", draw_paths, epoch_paths(members, step), words)]
    for split in ("test", "val"):
        words = f"{SPLITS[split].lower()} error and ECE"
        planes.append((f"pareto-{split}", draw_points, final_points(members, split), words))
    for name, draw, trails, words in planes:
        if trails:
            panel = Panel("", draw, Plane(trails, look, collapsed_labels(members)))
            yield Drawing(name, f"{words}, {BETTER}", [panel])


def charts(members: Sequence[Results], look: Mapping[str, Style]) -> list[Chart]:
    """The paths, with a slider for the epochs, and the ends."""
    longest = max((len(one.epochs) for one in members), default=0)
    paths = epoch_paths(members, every=max(1, math.ceil(longest / PATH_POINTS)))
    found = by_reading(members, lambda reading: final_points(members, "test", reading))
    planes = {reading: Plane(points, look, collapsed_labels(members)) for reading, points in found.items() if points}
    ends = {reading: _final_figure(plane) for reading, plane in planes.items()}
    words = {reading: CAPTIONS["final"] + beyond_in_words(ends[reading], found[reading]) for reading in ends}
    made: list[Chart] = []
    if paths:
        settled = [settle(path) for path in paths]
        shown = _path_figure(Plane(settled, look, collapsed_labels(members)))
        said = {USUAL_READING: CAPTIONS["paths"] + beyond_in_words(shown, settled)}
        made.append(Chart("paths", "Through training", {USUAL_READING: shown}, said, summary=_paths_in_words(settled)))
    if ends:
        made.append(Chart("final", "At the end", ends, words, summary=_ends_in_words(planes[USUAL_READING])))
    return made


def settle(path: Trail) -> Trail:
    """A path from the first epoch on whose error is less than twice the last one: what is before it says little.

    >>> error = np.array([90.0, 30.0, 15.0, 25.0, 10.0])
    >>> settle(Trail("CE", error, error, (10, 10), [1, 2, 3, 4, 5])).steps
    [3, 4, 5]
    """
    first = int(np.argmax(path.error < max(2 * path.end[0], path.error.min() + 1e-9)))
    late = {"error": path.error[first:], "ece": path.ece[first:], "steps": path.steps[first:]}
    return replace(path, start=max(path.start - first, 0), **late)


def usual_step(epochs: int) -> int:
    """Every how many epochs a path is marked: 25 as in the paper, fewer where that leaves less than six steps.

    >>> [usual_step(epochs) for epochs in (300, 150, 50, 6)]
    [25, 25, 5, 1]
    """
    return next((step for step in (25, 10, 5, 2) if epochs >= 6 * step), 1)


def epoch_paths(members: Sequence[Results], every: int = 25) -> list[Trail]:
    """Mean validation error and ECE at the first, the last and every `every`-th epoch, where there are numbers.

    The second half of a path, from the epoch nearest to the middle, must be seen.
    """
    paths: list[Trail] = []
    for one in members:
        epochs = one.epochs
        error, ece = (100 * mean_and_band(curve)[0] for curve in (1 - one.curve("val_accuracy"), one.curve("val_ece")))
        asked = (epochs % every == 0) | (epochs == epochs[:1]) | (epochs == epochs[-1:])
        chosen = asked & np.isfinite(error) & np.isfinite(ece)
        if chosen.any():
            steps, error, ece = epochs[chosen].astype(int), error[chosen], ece[chosen]
            middle = int(np.abs(steps - steps[-1] / 2).argmin())
            paths.append(Trail(one.label, error, ece, (float(error[-1]), float(ece[-1])), steps.tolist(), middle))
    return paths


def final_points(
    members: Sequence[Results], split: str = "test", reading: str = USUAL_READING, scaler: str = "none"
) -> list[Trail]:
    """Where the runs end, and their mean; runs without numbers are left out, and labels without such runs."""
    points: list[Trail] = []
    for one in members:
        accuracy, ece = (one.values(metric, scaler, split, reading) for metric in ("accuracy", "ece"))
        known = np.isfinite(accuracy) & np.isfinite(ece)
        if known.any():
            error, ece = 100 * (1 - accuracy[known]), 100 * ece[known]
            points.append(Trail(one.label, error, ece, (float(error.mean()), float(ece.mean()))))
    return points


def draw_paths(axes: Axes, data: Plane) -> Handles:
    """Each path with a small mark an epoch, and large ones at the middle and at the last epoch.

    The middle has its number, and the last its own: up to eight paths that of the epoch, more the name of the path.
    Paths with collapsed runs have hollow marks with a red edge. The frame holds the second half of the others.
    """
    shown = data.lifted()
    named = len(data.trails) > MOST_NUMBERED
    middles: list[Note] = []
    lasts: list[Note] = []
    handles: Handles = []
    for path in shown.trails:
        style, bad = data.look[path.label], data.collapsed.get(path.label, "")
        ends = sorted({path.start, len(path.steps) - 1})
        axes.plot(path.error, path.ece, **method_look(style, bad, linewidth=1, markersize=2.5))
        axes.plot(path.error[ends], path.ece[ends], **method_look(style, bad, linestyle="none", markersize=6))
        for at, notes in ((ends[0], middles), (ends[-1], lasts)):
            words = path.label if named and notes is lasts else str(path.steps[at])
            notes.append((path.error[at], path.ece[at], words, style.colour))
        handles.append(method_handle(path.label, style, bad))
    frame_plane(axes, data)
    annotate_apart(axes, list(dict.fromkeys(lasts + middles)), size=SMALL, reach=44 if named else 0)
    return handles + _epoch_handles(data.trails)


def _epoch_handles(paths: Sequence[Trail]) -> Handles:
    """What large marks mean, if it is the same for all paths, and every how many epochs there is a small one."""
    if len({tuple(path.steps) for path in paths}) != 1 or len(paths[0].steps) < 3:
        return []
    steps, middle = paths[0].steps, paths[0].start
    look: dict[str, Any] = {"linestyle": "none", "marker": "o"}
    large = line_handle(f"epochs {steps[middle]} and {steps[-1]}", markersize=6, **look)
    return [large, line_handle(f"every {steps[2] - steps[1]} epochs", markersize=2.5, **look)]


def draw_points(axes: Axes, data: Plane) -> Handles:
    """A faint mark a run, a large one their mean, a line through the means that no other dominates.

    Labels with collapsed runs have a hollow mark with a red edge; they are not on the line, and the frame does not
    stretch for them.
    """
    shown = data.lifted()
    stairs = draw_front(axes, [point.end for point in shown.trails if point.label not in data.collapsed])
    handles: Handles = []
    crossed = False
    for point in shown.trails:
        style, bad = data.look[point.label], data.collapsed.get(point.label, "")
        edge = {} if bad else {"markeredgecolor": "white"}
        axes.plot(point.error, point.ece, style.marker, markersize=3.5, color=faded(style.colour), mew=0)
        (x, y), (wide, high) = point.end, (reach_of(values) for values in (point.error, point.ece))
        if np.isfinite(wide) and not bad and len(shown.trails) <= MOST_NUMBERED:
            crossed = True
            axes.hlines(y, max(x - wide, x / 100), x + wide, color=faded(style.colour), linewidth=0.9)
            axes.vlines(x, max(y - high, y / 100), y + high, color=faded(style.colour), linewidth=0.9)
        axes.plot(*point.end, **method_look(style, bad, linestyle="none", markersize=7.5, zorder=3, **edge))
        handles.append(method_handle(point.label, style, bad, linestyle="none"))
    frame_plane(axes, data)
    handles += [line_handle("95 % of the mean", marker="+", markersize=7, linestyle="none")] if crossed else []
    return [*handles, *([line_handle("not dominated", INK, linewidth=1)] if stairs else [])]


def _path_figure(plane: Plane) -> Json:
    """Each path, and a large mark at the epoch of the slider; the page cuts both there."""
    hover = "epoch %{customdata[0]}<br>error %{customdata[1]:.2f} %<br>ECE %{customdata[2]:.2f} %"
    traces: list[Json] = []
    for path in plane.trails:
        style = plane.look[path.label]
        whole = scatter(path.label, style, path.error, path.ece, (np.array(path.steps), path.error, path.ece), hover)
        whole |= {"loose": True} if path.label in plane.collapsed else {}
        faint = f"f{style.place}"
        drawn = {"line": {**pen(style, 1.5), "color": faint}, "marker": {"color": faint, "size": 3.5}}
        traces.append({**whole, "mode": "lines+markers", "cut": "until", **drawn})
        traces.append({**whole, "mode": "markers", "cut": "at", "marker": mark(style, 13)})
    made = plane_figure(traces, plane.trails)
    first = [k for k, path in enumerate(plane.trails) if plane.look[path.label].shown_first]
    notes = [(k, at) for k in first for at in sorted({0, plane.trails[k].start})]
    trails, shown = plane.trails, made["data"][::2]
    texts = [(float(trails[k].error[at]), float(trails[k].ece[at]), str(trails[k].steps[at])) for k, at in notes]
    for (k, at), (_, _, epoch), side in zip(notes, texts, note_sides(made, texts), strict=True):
        written = shown[k].setdefault("text", [""] * len(trails[k].steps))
        written[at] = epoch if side else ""
        sides = shown[k].setdefault("textposition", ["top right"] * len(written))
        sides[at] = side or sides[at]
        shown[k] |= {"mode": "lines+markers+text", "textfont": {"color": "soft", "size": 10.5}}
    return made


def _final_figure(plane: Plane) -> Json:
    """The runs small, their mean large with its 95 % cross, and the front as a staircase, its marks ringed."""
    front = front_labels(plane.trails, plane.collapsed)
    ends = sorted(point.end for point in plane.trails if point.label in front)
    stairs: Json = {"type": "scatter", "mode": "lines", "hoverinfo": "skip", "role": "front"}
    stairs["line"] = {"color": "ink", "width": 1.2, "shape": "hv"}
    traces: list[Json] = [{**stairs, "x": [x for x, _ in ends], "y": [y for _, y in ends]}] if len(ends) > 1 else []
    for point in plane.trails:
        style, collapsed = plane.look[point.label], point.label in plane.collapsed
        loose = {"loose": True} if collapsed else {}
        small, mean = mark(style, 6, width=0, color=f"f{style.place}"), np.array([point.end]).T
        hover = "error %{customdata[0]:.2f} %<br>ECE %{customdata[1]:.2f} %"
        one = scatter(point.label, style, point.error, point.ece, (point.error, point.ece), hover, **loose)
        traces.append({**one, "mode": "markers", "marker": small})
        reach = [reach_of(values) for values in (point.error, point.ece)]
        known = bool(np.isfinite(reach).all())
        hover = (
            "error %{customdata[0]:.2f} ± %{customdata[2]:.2f} %<br>ECE %{customdata[1]:.2f} ± %{customdata[3]:.2f} %"
        )
        hover = f"mean of {len(point.error)} seeds, 95 %<br>{hover}" if known else one["hovertemplate"]
        shown = (*mean, *(np.array([width]) for width in reach))
        large = mark(style, 14, "ink", 2) if point.label in front else mark(style, 14)
        more: Json = {"mode": "markers", "marker": large, "role": "end", **loose}
        if known and not collapsed and style.shown_first:
            more |= {
                f"error_{axis}": _bar(*pair, style)
                for axis, pair in zip("xy", zip(point.end, reach, strict=True), strict=True)
            }
        traces.append(scatter(point.label, style, mean[0], mean[1], shown, hover, **more))
    made = plane_figure(traces, plane.trails)
    named = [point for point in plane.trails if plane.look[point.label].shown_first]
    sides = dict(
        zip([one.label for one in named], note_sides(made, [(*one.end, one.label) for one in named]), strict=True)
    )
    ends_shown = [trace for trace in made["data"] if trace.get("role") == "end"]
    for point, trace in zip(plane.trails, ends_shown, strict=True):
        if side := sides.get(point.label):
            words = {"text": [trace["name"]], "textposition": side, "textfont": {"color": "ink", "size": 11}}
            trace |= {"mode": "markers+text", **words}
    return made


def _bar(value: float, reach: float, style: Style) -> Json:
    """An interval as plotly draws it; what would be below zero ends at a hundredth of the value."""
    below = min(reach, 0.99 * value)
    look = {"color": f"f{style.place}", "thickness": 1.3, "width": 0}
    return {"type": "data", "symmetric": False, "array": numbers(np.array([reach])), "arrayminus": [below], **look}


def _paths_in_words(paths: Sequence[Trail]) -> str:
    """Where each path goes."""
    words = [
        f"{path.label} from error {path.error[0]:.1f} %, ECE {path.ece[0]:.1f} % at epoch {path.steps[0]} "
        f"to {path.end[0]:.1f} %, {path.end[1]:.1f} % at epoch {path.steps[-1]}"
        for path in sorted(paths, key=lambda path: path.end[1])
    ]
    return f"Validation error and ECE over the epochs: {first_of(words, '; ')}."


def _ends_in_words(plane: Plane) -> str:
    """The front with its numbers, and how many it leaves behind."""
    front = front_labels(plane.trails, plane.collapsed)
    ends = {point.label: point.end for point in plane.trails}
    words = [f"{label} (error {ends[label][0]:.2f} %, ECE {ends[label][1]:.2f} %)" for label in front]
    rest = len(ends) - len(front)
    return (
        f"Not dominated in error and ECE on test data: {first_of(words)}; {rest} of {len(ends)} methods are dominated."
    )
