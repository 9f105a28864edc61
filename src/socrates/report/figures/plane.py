"""The plane of error and calibration error: what is drawn there, its front, its frame in figures and on the page."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from socrates import pareto
from socrates.plots.ink import ACCEPTABLE_ECE, GREY

from ..results import Array, Results
from ..statistics import mean_interval
from ..style import Style
from .chart import Json, figure, log_axis, log_ticks
from .compose import LINES

LETTER, LINE, ROOM = 0.014, 0.05, 0.022  # of a label on the page, as shares of its chart's width and height


@dataclass(frozen=True)
class Trail:
    """Places of a label in the plane, in percent: its epochs, its runs, or itself under scalers, named by `steps`.

    Those from `start` on must be in the frame; `end` stands for all of them. `reach` is how far the 95 % interval
    of each ECE extends to both sides.
    """

    label: str
    error: Array
    ece: Array
    end: tuple[float, float]
    steps: Sequence[Any] = ()
    start: int = 0
    reach: Array = field(default_factory=lambda: np.empty(0))


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


def reach_of(values: Array) -> float:
    """How far the 95 % interval of the mean of some runs extends to both sides; NaN for a single one.

    >>> round(reach_of(np.array([4.0, 5.0, 6.0])), 2), reach_of(np.array([4.0]))
    (2.48, nan)
    """
    mean, _, high, _ = mean_interval(values)
    return high - mean


def frame_plane(axes: Axes, data: Plane) -> None:
    """Logarithmic axes as on the page, the dotted line of acceptable calibration, and above, what ends outside.

    Collapsed labels need not be in the frame, and of the first half of a path only points that are not too far away.
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
    near = every[(every >= low - span) & (every <= high + span)]  # no room for what only passes through
    return math.exp(float(near.min()) - room * span), math.exp(float(near.max()) + room * span)


def _least(parts: Sequence[Array]) -> float:
    """Half of the least value above zero."""
    return min((float(value) for values in parts for value in values if value > 0), default=0.1) / 2


def plane_figure(traces: list[Json], trails: Sequence[Trail]) -> Json:
    """Both axes logarithmic, with the line of acceptable calibration if any of the trails comes near it."""
    threshold = max(trail.ece.max() for trail in trails) > 0.7 * ACCEPTABLE_ECE
    line = {"xref": "paper", "x0": 0, "x1": 1, "y0": ACCEPTABLE_ECE, "y1": ACCEPTABLE_ECE, "line": {"dash": "dot"}}
    shown = log_axis(figure(traces, shapes=[line] if threshold else []), "x", "error, %")
    return log_axis(shown, "y", "ECE, %", also=[ACCEPTABLE_ECE] if threshold else [])


def beyond_in_words(shown: Json, trails: Sequence[Trail]) -> str:
    """Which labels end outside the frame of a figure of the page, with their numbers."""
    right, top = (shown["layout"][axis]["range"][1] for axis in ("xaxis", "yaxis"))
    beyond = [
        f"{trail.label} (error {trail.end[0]:.0f} %, ECE {trail.end[1]:.0f} %)"
        for trail in trails
        if trail.end[0] > 10**right or trail.end[1] > 10**top  # what is lower is drawn at the edge
    ]
    return f" Outside the frame: {', '.join(beyond)}." if beyond else ""


def note_sides(shown: Json, notes: Sequence[tuple[float, float, str]]) -> list[str]:
    """On which side of its place (x, y) each text has room in a figure of the page, in plotly's words; "" if on none.

    The sides are diagonal, as staircases and crosses lie along the axes.

    >>> axis = {"range": [0.0, 1.0]}
    >>> note_sides(figure([], xaxis=axis, yaxis=axis), [(3, 3, "a"), (3, 3, "bc"), (9.9, 3, "d")])
    ['top right', 'top left', 'top left']
    """
    axes = [shown["layout"][axis]["range"] for axis in ("xaxis", "yaxis")]
    places = [
        [(math.log10(max(value, 1e-9)) - low) / (high - low) for value, (low, high) in zip(note[:2], axes, strict=True)]
        for note in notes
    ]
    taken = [(x - ROOM / 2, x + ROOM / 2, y - ROOM / 2, y + ROOM / 2) for x, y in places]
    found: list[str] = []
    for (_, _, text), (x, y) in zip(notes, places, strict=True):
        wide = LETTER * len(text)
        sides = {
            f"{up} {side}": (left, left + wide, below, below + LINE)
            for up, below in (("top", y + ROOM / 2), ("bottom", y - ROOM / 2 - LINE))
            for side, left in (("right", x + ROOM / 2), ("left", x - ROOM / 2 - wide))
        }
        inside = {side: box for side, box in sides.items() if min(box[0], box[2]) >= 0 and max(box[1], box[3]) <= 1}
        free = [side for side, box in inside.items() if not any(_overlap(box, other) for other in taken)]
        found.append(free[0] if free else "")
        taken += [sides[side] for side in free[:1]]
    return found


def _overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]
