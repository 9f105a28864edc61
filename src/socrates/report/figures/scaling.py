"""Before and after post-hoc scaling: where each scaler moves a method in the plane of error and ECE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from socrates.report.aggregate import Group
from socrates.report.figures.pareto import final_points, frame_plane
from socrates.report.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = {"none": "o", "temperature": "^", "vector": "s", "matrix": "D"}


@dataclass(frozen=True)
class ScaledPoint:
    """Error and ECE of a group under a scaler, mean over its runs, in percent; "none" is the unscaled model."""

    label: str
    scaler: str
    error: float
    ece: float


def scaled_points(groups: Sequence[Group], split: str = "test", reading: str = "answer") -> list[ScaledPoint]:
    """A point for each group and scaler that has numbers, "none" first; groups without a scaled point are left out."""
    points: list[ScaledPoint] = []
    for group in groups:
        scalers = dict.fromkeys(name for run in group.runs for name in run.evaluation.scalers)
        ordered = sorted(scalers, key=lambda name: name != "none")
        found = [(name, point) for name in ordered for point in final_points([group], split, reading, name)]
        own = [ScaledPoint(group.label, name, float(p.error.mean()), float(p.ece.mean())) for name, p in found]
        if len(own) > 1 and own[0].scaler == "none":
            points += own
    return points


def scaler_marker(scaler: str) -> str:
    """The marker of a scaler: "o" is the unscaled model, "v" any scaler that is not in the table."""
    return MARKERS.get(scaler, "v")


def draw_scaled(
    axes: Axes, points: Sequence[ScaledPoint], styles: Mapping[str, Style], collapsed: Iterable[str] = ()
) -> None:
    """An arrow from each unscaled model to where each scaler takes it; lower left is better.

    The frame does not stretch for groups with collapsed runs.
    """
    start = {point.label: point for point in points if point.scaler == "none"}
    for point in points:
        colour, before = styles[point.label].colour, start[point.label]
        if point is not before:
            arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 0.9, "alpha": 0.6, "shrinkA": 3, "shrinkB": 3}
            axes.annotate("", (point.error, point.ece), (before.error, before.ece), arrowprops=arrow)
        size = 8 if point is before else 5.5
        axes.plot([point.error], [point.ece], scaler_marker(point.scaler), color=colour, markersize=size, mec="white")
    places = {label: [(p.error, p.ece) for p in points if p.label == label] for label in start}
    # Backwards, so that what is reported as outside is the unscaled model.
    shown = {label: (*np.array(own[::-1]).T, 0) for label, own in places.items()}
    frame_plane(axes, shown, collapsed)
