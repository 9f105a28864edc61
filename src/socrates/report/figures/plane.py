"""The plane of error and calibration error: what is drawn there, its front and its frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from socrates import pareto
from socrates.plots.ink import ACCEPTABLE_ECE, draw_threshold
from socrates.plots.labels import Box, Note, diagonal_boxes, place_apart

from ..results import Array, Members
from ..statistics import mean_interval
from ..style import Look
from .chart import Json, figure
from .log_axis import LogAxis, half_of_least

ERROR = "error, %"
ECE = "ECE, %"
# Of a text on a phone, where a chart is narrow: shares of its width and height.
LETTER_WIDTH = 0.024
LINE_HEIGHT = 0.05
POINT = 0.011


@dataclass(frozen=True)
class Trail:
    """Places of a label in the plane, in percent: its epochs, its runs, or itself after scalers.

    `steps` names the places. Those from `start` on must be in the frame; `end` stands for all of
    them. `reach` is how far the 95% interval of each ECE extends to both sides.
    """

    label: str
    error: Array
    ece: Array
    end: tuple[float, float]
    steps: Sequence[Any] = ()
    start: int = 0
    reach: Array = field(default_factory=lambda: np.empty(0))

    def reaches(self) -> tuple[float, float]:
        """Return how far the 95% intervals of mean error and mean ECE extend to both sides."""
        return reach_of(self.error), reach_of(self.ece)


class Frame(NamedTuple):
    """Both axes of a plane."""

    x: LogAxis
    y: LogAxis

    def holds(self, point: tuple[float, float]) -> bool:
        """Return whether a point is inside."""
        return self.x.holds(point[0]) and self.y.holds(point[1])


@dataclass(frozen=True)
class Plane:
    """What is drawn in a plane of error and ECE.

    `collapsed` says how many runs have collapsed, for labels of which some have.
    """

    trails: Sequence[Trail]
    look: Look
    collapsed: Mapping[str, str] = field(default_factory=dict)

    @property
    def sound(self) -> list[Trail]:
        """Return the trails of labels without collapsed runs."""
        return [trail for trail in self.trails if trail.label not in self.collapsed]

    @cached_property
    def frame(self) -> Frame:
        """Return the axes, which hold the line of acceptable calibration if it is near.

        Collapsed labels need not be in the frame, and of what precedes the start of a trail only
        points that are not too far away.
        """
        trails = self.sound or self.trails
        bottoms = [
            half_of_least(_joined([trail.error for trail in self.trails])),
            half_of_least(_joined([trail.ece for trail in self.trails])),
        ]
        errors = _near([trail.error for trail in trails], trails, bottoms[0])
        eces = _near([trail.ece for trail in trails], trails, bottoms[1])
        if eces.max(initial=0.0) > 0.7 * ACCEPTABLE_ECE:
            eces = np.append(eces, ACCEPTABLE_ECE)
        return Frame(LogAxis.holding(errors, bottoms[0]), LogAxis.holding(eces, bottoms[1]))

    @cached_property
    def front(self) -> list[Trail]:
        """Return the sound trails whose end no other dominates, by rising error."""
        return pareto.front(self.sound, key=lambda trail: trail.end) if self.sound else []

    def lifted(self) -> list[Trail]:
        """Return the trails as they are drawn on logarithmic axes, zeros at the bottom."""
        x, y = self.frame
        return [
            replace(
                trail,
                error=x.lifted(trail.error),
                ece=y.lifted(trail.ece),
                end=(max(trail.end[0], x.bottom), max(trail.end[1], y.bottom)),
            )
            for trail in self.trails
        ]

    def outside(self) -> str:
        """Return which labels end outside the frame, with their numbers."""
        words: list[str] = []
        for trail, drawn in zip(self.trails, self.lifted(), strict=True):
            if not self.frame.holds(drawn.end):
                bad = self.collapsed.get(trail.label)
                error, ece = trail.end
                reason = f"collapsed: {bad}, " if bad else ""
                words.append(f"{trail.label} ({reason}error {error:.0f}%, ECE {ece:.0f}%)")
        return f"outside the frame: {', '.join(words)}" if words else ""


def plane_of(trails: Sequence[Trail], look: Look, members: Members) -> Plane:
    """Return the plane of trails of members, some of which may have collapsed runs."""
    collapsed = {results.label: results.collapse_count for results in members if results.collapses}
    return Plane(trails, look, collapsed)


def reach_of(values: Array) -> float:
    """Return how far the 95% interval of the mean extends to both sides; NaN for a single value.

    >>> round(reach_of(np.array([4.0, 5.0, 6.0])), 2), reach_of(np.array([4.0]))
    (2.48, nan)
    """
    mean, _, high, _ = mean_interval(values)
    return high - mean


def draw_frame(axes: Axes, plane: Plane) -> None:
    """Draw the axes and the line of acceptable calibration, and write above what ends outside."""
    draw_threshold(axes)
    plane.frame.x.draw(axes, "x", ERROR)
    plane.frame.y.draw(axes, "y", ECE)
    beyond = f"the line of {ACCEPTABLE_ECE:g}% lies above"
    above = plane.frame.y.high < ACCEPTABLE_ECE
    axes.set_title("; ".join(filter(None, (plane.outside(), beyond if above else ""))))


def plane_figure(traces: list[Json], plane: Plane) -> Json:
    """Return the figure of the page for traces in a plane."""
    x, y = plane.frame
    line = {"xref": "paper", "x0": 0, "x1": 1, "y0": ACCEPTABLE_ECE, "y1": ACCEPTABLE_ECE}
    threshold = [{**line, "line": {"dash": "dot"}}] if y.holds(ACCEPTABLE_ECE) else []
    return figure(traces, shapes=threshold, xaxis=x.plotly(ERROR), yaxis=y.plotly(ECE))


def note_sides(frame: Frame, notes: Sequence[Note]) -> list[str]:
    """Return on which corner of its point each text has room, as plotly calls it; "" if on none.

    >>> axis = LogAxis(1, 10, 1)
    >>> notes = [Note(3, 3, "a"), Note(3, 3, "bc"), Note(9.9, 3, "d")]
    >>> note_sides(Frame(axis, axis), notes)
    ['top right', 'top left', 'top left']
    """
    points = [(frame.x.position(note.x), frame.y.position(note.y)) for note in notes]
    corners = [
        diagonal_boxes(x, y, LETTER_WIDTH * len(note.text), LINE_HEIGHT, POINT)
        for note, (x, y) in zip(notes, points, strict=True)
    ]
    choices = [[*boxes.values()] for boxes in corners]
    chosen = place_apart(points, choices, Box(0, 0, 1, 1), POINT)
    return [
        "" if number is None else [*boxes][number]
        for boxes, number in zip(corners, chosen, strict=True)
    ]


def _near(values: Sequence[Array], trails: Sequence[Trail], bottom: float) -> Array:
    """Return the values, lifted, that the frame holds: late ones, and others not far from them."""
    drawn = [np.maximum(each, bottom) for each in values]
    late = _joined([each[trail.start :] for each, trail in zip(drawn, trails, strict=True)])
    if not len(late):
        return late
    low = float(late.min())
    high = float(late.max())
    span = max(high / low, 1.35)
    every = _joined(drawn)
    return every[(every >= low / span) & (every <= high * span)]


def _joined(values: Sequence[Array]) -> Array:
    return np.concatenate(values) if values else np.empty(0)
