"""Error against calibration error: the path of each method over its epochs, and where its runs end."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from socrates import pareto
from socrates.plots.ink import ACCEPTABLE_ECE, GREY, Note, annotate_apart, draw_front

from ..results import Array, Results, mean_and_band
from ..style import Style, faded
from ..vocabulary import SPLITS, USUAL_READING
from .chart import Chart, Json, by_reading, figure, log_axis, log_ticks, mark, pen, scatter
from .compose import LINES, SMALL, Drawing, Handles, Panel, line_handle, method_handle, method_look

MOST_NUMBERED = 8
PATH_POINTS = 60  # of a path on the page, and so the steps of the slider
BETTER = "lower left is better"


@dataclass(frozen=True)
class Trail:
    """Places of a label in the plane, in percent: its epochs, its runs, or itself under scalers, named by `steps`.

    Those from `start` on must be in the frame; `end` stands for all of them.
    """

    label: str
    error: Array
    ece: Array
    end: tuple[float, float]
    steps: Sequence[Any] = ()
    start: int = 0


@dataclass(frozen=True)
class Plane:
    """What is drawn in a plane of error and ECE; `collapsed` says of labels with collapsed runs how many they are."""

    trails: Sequence[Trail]
    look: Mapping[str, Style]
    collapsed: Mapping[str, str] = field(default_factory=dict)

    def lifted(self) -> "Plane":
        """For logarithmic axes, on which zero has no place: it is drawn at half of the least other value."""
        least = [_least([getattr(one, axis) for one in self.trails]) for axis in ("error", "ece")]
        trails = [
            replace(
                one,
                error=np.maximum(one.error, least[0]),
                ece=np.maximum(one.ece, least[1]),
                end=(max(one.end[0], least[0]), max(one.end[1], least[1])),
            )
            for one in self.trails
        ]
        return replace(self, trails=trails)


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
    collapsed = collapsed_labels(members)
    ends = {reading: _final_figure(Plane(points, look, collapsed)) for reading, points in found.items() if points}
    path = {USUAL_READING: _path_figure(paths, look)} if paths else {}
    words = "test; small: seeds, ringed: on the Pareto front"
    made = [
        Chart("paths", "Through training", path, {USUAL_READING: "validation, mean over seeds"}),
        Chart("final", "At the end", ends, {USUAL_READING: words}),
    ]
    return [chart for chart in made if chart.figures]


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


def front_labels(points: Sequence[Trail], collapsed: Mapping[str, str]) -> list[str]:
    """The labels whose mean no other mean dominates, by rising error; collapsed ones neither join nor dominate.

    >>> nothing = np.empty(0)
    >>> points = [Trail(label, nothing, nothing, end) for label, end in (("a", (5, 2)), ("b", (5, 3)), ("c", (6, 1)))]
    >>> front_labels(points, {}), front_labels(points, {"a": "1 of 2 runs"})
    (['a', 'c'], ['b', 'c'])
    """
    sound = [point for point in points if point.label not in collapsed]
    return [point.label for point in pareto.front(sound, key=lambda point: point.end)] if sound else []


def collapsed_labels(members: Sequence[Results]) -> dict[str, str]:
    """Which labels have collapsed runs, and how many: 'SAT' to '2 of 5 runs'."""
    return {one.label: one.collapse_count for one in members if one.collapses}


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
    dashed = draw_front(axes, [point.end for point in shown.trails if point.label not in data.collapsed])
    handles: Handles = []
    for point in shown.trails:
        style, bad = data.look[point.label], data.collapsed.get(point.label, "")
        edge = {} if bad else {"markeredgecolor": "white"}
        axes.plot(point.error, point.ece, style.marker, markersize=3.5, color=faded(style.colour), mew=0)
        axes.plot(*point.end, **method_look(style, bad, linestyle="none", markersize=7.5, zorder=3, **edge))
        handles.append(method_handle(point.label, style, bad, linestyle="none"))
    frame_plane(axes, data)
    return [*handles, *([line_handle("not dominated", linewidth=1, linestyle=LINES["dash"])] if dashed else [])]


def frame_plane(axes: Axes, data: Plane) -> None:
    """Logarithmic axes as on the page, the dotted line of acceptable calibration, and above, what ends outside.

    Collapsed labels need not be in the frame, and the first half of a path only as far as it does not double it.
    """
    lifted = data.lifted().trails
    sound = [trail for trail in lifted if trail.label not in data.collapsed] or lifted
    axes.axhline(ACCEPTABLE_ECE, color=GREY, linewidth=1.1, linestyle=LINES["dot"], zorder=1)
    low, high = _log_limits([(trail.ece, trail.start) for trail in sound])
    high = max(high, 1.08 * ACCEPTABLE_ECE) if high > ACCEPTABLE_ECE / 2 else high
    axes.set(xlim=_log_limits([(trail.error, trail.start) for trail in sound]), ylim=(low, high))
    axes.set(xscale="log", yscale="log", xlabel="error, %", ylabel="ECE, %")
    for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        axis.set_minor_locator(NullLocator())
        axis.set_major_locator(FixedLocator(log_ticks(*limits)))
        axis.set_major_formatter(FuncFormatter(lambda tick, place: f"{tick:g}"))
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    beyond: list[str] = []
    for trail, drawn in zip(data.trails, lifted, strict=True):
        (error, ece), bad = trail.end, data.collapsed.get(trail.label)
        if not (left <= drawn.end[0] <= right and bottom <= drawn.end[1] <= top):
            beyond.append(f"{trail.label} ({f'collapsed: {bad}, ' if bad else ''}error {error:.0f} %, ECE {ece:.0f} %)")
    notes = ["outside the frame: " + ", ".join(beyond)] if beyond else []
    notes += [f"the line of {ACCEPTABLE_ECE:g} % lies above"] if top < ACCEPTABLE_ECE else []
    axes.set_title("; ".join(notes))


def _log_limits(parts: Sequence[tuple[Array, int]], room: float = 0.08) -> tuple[float, float]:
    """Lower and upper limit of values and the position from which they must be inside; of none, 1 and 100."""
    if not parts:
        return 1.0, 100.0
    late = np.log(np.concatenate([values[start:] for values, start in parts]))
    every = np.log(np.concatenate([values for values, _ in parts]))
    low, high = float(late.min()), float(late.max())
    span = max(high - low, 0.3)
    least, most = max(float(every.min()), low - span / 2), min(float(every.max()), high + span)
    return math.exp(least - room * span), math.exp(most + room * span)


def _least(parts: Sequence[Array]) -> float:
    """Half of the least value above zero."""
    return min((float(value) for values in parts for value in values if value > 0), default=0.1) / 2


def _path_figure(paths: Sequence[Trail], look: Mapping[str, Style]) -> Json:
    """Each path, and a large mark at the epoch of the slider; the page cuts both there."""
    hover = "epoch %{customdata[0]}<br>error %{customdata[1]:.2f} %<br>ECE %{customdata[2]:.2f} %"
    traces: list[Json] = []
    for path in paths:
        style = look[path.label]
        whole = scatter(path.label, style, path.error, path.ece, (np.array(path.steps), path.error, path.ece), hover)
        faint = f"f{style.place}"
        drawn = {"line": {**pen(style, 1.5), "color": faint}, "marker": {"color": faint, "size": 3.5}}
        traces.append({**whole, "mode": "lines+markers", "cut": "until", **drawn})
        traces.append({**whole, "mode": "markers", "cut": "at", "marker": mark(style, 13)})
    return _plane_figure(traces, threshold=True)


def _final_figure(plane: Plane) -> Json:
    """The runs small, their mean large, with a ring if it is on the front."""
    front = front_labels(plane.trails, plane.collapsed)
    hover = "error %{customdata[0]:.2f} %<br>ECE %{customdata[1]:.2f} %"
    traces: list[Json] = []
    for point in plane.trails:
        style = plane.look[point.label]
        large = mark(style, 14, "ink", 2) if point.label in front else mark(style, 14)
        small, mean = mark(style, 6, width=0, color=f"f{style.place}"), np.array([point.end]).T
        for x, y, marker in ((point.error, point.ece, small), (mean[0], mean[1], large)):
            traces.append(scatter(point.label, style, x, y, (x, y), hover, mode="markers", marker=marker))
    return _plane_figure(traces, threshold=max(point.ece.max() for point in plane.trails) > 0.7 * ACCEPTABLE_ECE)


def _plane_figure(traces: list[Json], threshold: bool) -> Json:
    """Both axes logarithmic, with the line of acceptable calibration or without."""
    line = {"xref": "paper", "x0": 0, "x1": 1, "y0": ACCEPTABLE_ECE, "y1": ACCEPTABLE_ECE, "line": {"dash": "dot"}}
    shown = log_axis(figure(traces, shapes=[line] if threshold else []), "x", "error, %")
    return log_axis(shown, "y", "ECE, %", also=[ACCEPTABLE_ECE] if threshold else [])
