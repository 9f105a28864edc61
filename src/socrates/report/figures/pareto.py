"""Error against calibration error: the path of each method over its epochs, and where its runs end."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from socrates import pareto
from socrates.report.aggregate import Group
from socrates.report.figures.curves import mean_and_band
from socrates.report.figures.ink import GREY, LINES, RED, annotate_apart, tidy
from socrates.report.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]

MOST_NUMBERED = 8
ACCEPTABLE_ECE = 10.0  # percent: the paper's threshold, its dotted line


@dataclass(frozen=True)
class EpochPath:
    """Validation error and ECE at some epochs, mean over the seeds, in percent."""

    label: str
    epochs: Array
    error: Array
    ece: Array


@dataclass(frozen=True)
class FinalPoint:
    """Error and ECE of each run at its end, (runs,) each, in percent."""

    label: str
    error: Array
    ece: Array


def usual_step(epochs: int) -> int:
    """Every how many epochs a path is marked: 25 as in the paper, fewer where that leaves less than six steps.

    >>> [usual_step(epochs) for epochs in (300, 150, 50, 6)]
    [25, 25, 5, 1]
    """
    return next((step for step in (25, 10, 5, 2) if epochs >= 6 * step), 1)


def epoch_paths(groups: Sequence[Group], every: int = 25) -> list[EpochPath]:
    """The paths of the groups at the first, the last and every `every`-th epoch; epochs without numbers left out."""
    paths: list[EpochPath] = []
    for group in groups:
        epochs = group.epochs
        error = 100 * (1 - mean_and_band(group.curve("val_accuracy"))[0])
        ece = 100 * mean_and_band(group.curve("val_ece"))[0]
        known = np.isfinite(error) & np.isfinite(ece)
        chosen = known & ((epochs % every == 0) | (epochs == epochs[0]) | (epochs == epochs[-1]))
        if chosen.any():
            paths.append(EpochPath(group.label, epochs[chosen].astype(int), error[chosen], ece[chosen]))
    return paths


def final_points(
    groups: Sequence[Group], split: str = "test", reading: str = "answer", scaler: str = "none"
) -> list[FinalPoint]:
    """Where the runs of each group end; runs without numbers are left out, and groups without such runs."""
    points: list[FinalPoint] = []
    for group in groups:
        accuracy, ece = (group.values(metric, scaler, split, reading) for metric in ("accuracy", "ece"))
        known = np.isfinite(accuracy) & np.isfinite(ece)
        if known.any():
            points.append(FinalPoint(group.label, 100 * (1 - accuracy[known]), 100 * ece[known]))
    return points


def front_labels(points: Sequence[FinalPoint]) -> list[str]:
    """The labels of the groups whose mean no other group's mean dominates, by rising error.

    >>> one, two = np.array([4.0, 6.0]), np.array([2.0, 2.0])
    >>> front_labels([FinalPoint("a", one, two), FinalPoint("b", one, two + 1), FinalPoint("c", one + 1, two - 1)])
    ['a', 'c']
    """
    if not points:
        return []
    return [point.label for point in pareto.front(points, key=lambda point: (point.error.mean(), point.ece.mean()))]


def collapsed_labels(groups: Iterable[Group]) -> dict[str, str]:
    """Which groups have collapsed runs, and how many: 'SAT' to '2 of 5 runs'."""
    counts = {group.label: (sum(run.collapsed is not None for run in group.runs), len(group.runs)) for group in groups}
    return {label: f"{bad} of {total} run{'s' * (total > 1)}" for label, (bad, total) in counts.items() if bad}


def draw_paths(
    axes: Axes, paths: Sequence[EpochPath], styles: Mapping[str, Style], collapsed: Iterable[str] = ()
) -> None:
    """Each path with a small mark an epoch, larger ones, with their number, at the middle and at the last epoch.

    Paths with collapsed runs have hollow marks with a red edge. The frame holds the second half of the others.
    """
    bad = set(collapsed)
    for path in paths:
        style, marks = styles[path.label], _marks(styles[path.label], path.label in bad)
        at = _landmarks(path)
        axes.plot(path.error, path.ece, linestyle=LINES[style.dash], linewidth=1.2, color=style.colour, alpha=0.8)
        axes.plot(path.error, path.ece, markersize=3, **marks)
        axes.plot(path.error[at], path.ece[at], markersize=7.5, **marks)
    frame_plane(axes, {path.label: (path.error, path.ece, _landmarks(path)[0]) for path in paths}, bad)
    numbered = paths if len(paths) <= MOST_NUMBERED else []  # more numbers would only hide each other
    annotate_apart(
        axes,
        [
            (float(path.error[at]), float(path.ece[at]), str(path.epochs[at]), styles[path.label].colour)
            for path in numbered
            for at in reversed(_landmarks(path))
        ],
    )


def draw_points(
    axes: Axes, points: Sequence[FinalPoint], styles: Mapping[str, Style], collapsed: Iterable[str] = ()
) -> None:
    """A faint mark a run, a large one their mean, a line through the means that no other dominates.

    Groups with collapsed runs have a hollow mark with a red edge; the frame does not stretch for them.
    """
    bad = set(collapsed)
    best = set(front_labels(points))
    front = sorted((point.error.mean(), point.ece.mean()) for point in points if point.label in best)
    if len(front) > 1:
        axes.plot(*zip(*front, strict=True), color=GREY, linewidth=1, linestyle=LINES["dash"], zorder=1.5)
    for point in points:
        style, hollow = styles[point.label], point.label in bad
        marks: dict[str, Any] = _marks(style, hollow) | ({} if hollow else {"markeredgecolor": "white"})
        axes.plot(point.error, point.ece, style.marker, markersize=3.5, color=style.colour, alpha=0.4, mew=0)
        axes.plot([point.error.mean()], [point.ece.mean()], markersize=8.5, zorder=3, **marks)
    frame_plane(axes, {point.label: (point.error, point.ece, 0) for point in points}, bad)


def frame_plane(axes: Axes, shown: Mapping[str, tuple[Array, Array, int]], bad: Iterable[str]) -> None:
    """Limits, the dotted line of acceptable calibration, and above the axes, what ends outside of them.

    `shown` holds for each label its errors, its ECEs and from which position on they must be in the frame. Those of
    `bad` labels need not be, and earlier positions only as far as they do not make it more than twice as large.
    """
    excluded = set(bad)
    sound = {label: item for label, item in shown.items() if label not in excluded} or dict(shown)
    if sound:
        axes.set_xlim(*_limits([(error, start) for error, _, start in sound.values()]))
        top = max(_limits([(ece, start) for _, ece, start in sound.values()])[1], 0.5)
        axes.set_ylim(0, max(top, 1.08 * ACCEPTABLE_ECE) if top > ACCEPTABLE_ECE / 2 else top)
    axes.axhline(ACCEPTABLE_ECE, color=GREY, linewidth=1.1, linestyle=LINES["dot"], zorder=1)
    axes.set(xlabel="error, %", ylabel="ECE, %")
    tidy(axes)
    note = _outside(axes, shown)
    if note:
        axes.set_title(textwrap.fill(note, 80), fontsize=7, color=GREY)


def _limits(parts: Sequence[tuple[Array, int]]) -> tuple[float, float]:
    """Lower and upper limit on one axis of values and the position from which they must be inside."""
    late = np.concatenate([values[start:] for values, start in parts])
    low, high = float(late.min()), float(late.max())
    room = 0.06 * max(high - low, 0.5)
    furthest = max(float(values.max()) for values, _ in parts)
    return max(0.0, low - room), min(max(furthest, high), high + max(high - low, 0.3 * high)) + room


def _outside(axes: Axes, shown: Mapping[str, tuple[Array, Array, int]]) -> str:
    right, top = axes.get_xlim()[1], axes.get_ylim()[1]
    ends = {label: (float(error[-1]), float(ece[-1])) for label, (error, ece, _) in shown.items()}
    beyond = [f"{label} (error {e:.0f} %, ECE {c:.0f} %)" for label, (e, c) in ends.items() if e > right or c > top]
    words = ["outside the frame: " + ", ".join(beyond)] if beyond else []
    if top < ACCEPTABLE_ECE:
        words.append(f"the line of {ACCEPTABLE_ECE:g} % lies above")
    return "; ".join(words)


def _marks(style: Style, hollow: bool) -> dict[str, Any]:
    face, edge = ("white", RED) if hollow else (style.colour, style.colour)
    return {"linestyle": "none", "marker": style.marker, "markerfacecolor": face, "markeredgecolor": edge}


def _landmarks(path: EpochPath) -> list[int]:
    """Positions of the middle epoch, or the marked one nearest to it, and of the last."""
    middle = int(np.abs(path.epochs - path.epochs[-1] / 2).argmin())
    return sorted({middle, len(path.epochs) - 1})
