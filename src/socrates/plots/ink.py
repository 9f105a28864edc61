"""The ink of the plots and of the report's figures: each draws data on axes that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox

from .. import pareto
from ..metrics.samples import Array
from .diagram import ReliabilityData

INK, GREY = "#22262B", "#7C828B"
# Okabe and Ito's colours, which colour-blind readers tell apart; the markers differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#22262B")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
DASH, DOT = (0, (5, 2)), (0, (1.2, 1.6))
CHANCE: dict[str, Any] = {"color": GREY, "alpha": 0.4, "linewidth": 0}
STRIP = 0.24  # height of the confidences below a reliability diagram
Note = tuple[float, float, str, str]  # a place, a text and its colour
ACCEPTABLE_ECE = 10.0  # percent: the paper's threshold, its dotted line


def draw_reliability(axes: Axes, data: ReliabilityData, colour: str = COLOURS[0]) -> None:
    """Accuracy of each bin as steps, dots of its count's area at its mean confidence, chance; below, the confidences.

    The strip of confidences shows square roots, or the few unsure answers could not be seen beside the many sure ones.
    """
    edges = np.append(data.lower, data.upper[-1])
    filled = data.count > 0
    if filled.any():
        axes.stairs(data.accuracy, edges, fill=True, color=colour, alpha=0.35, linewidth=0, label="accuracy")
        middle, height, width = data.confidence[filled], (data.high - data.low)[filled], 0.4 * data.upper[0]
        axes.bar(middle, height, width, data.low[filled], label="95 % by chance", zorder=1.5, **CHANCE)
        draw_strip(axes, data.share, edges)
        draw_dots(axes, data.confidence[filled], data.accuracy[filled], data.share[filled], colour)
    draw_square(axes)
    axes.set(xlabel="confidence", ylabel="accuracy")


def draw_square(axes: Axes) -> None:
    """The diagonal, and below it, room for a strip."""
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=DASH, zorder=2, label="calibrated")
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set(xlim=(0, 1), ylim=(-STRIP, 1), xticks=(0.0, 0.5, 1.0), yticks=(0.0, 0.5, 1.0))


def draw_strip(axes: Axes, share: Array, edges: Array) -> None:
    """The square roots of shares, below a diagram."""
    height = np.sqrt(share / share.max()) * 0.86 * STRIP - STRIP
    look: dict[str, Any] = {"color": GREY, "alpha": 0.8, "linewidth": 0, "label": "confidences (square root)"}
    axes.stairs(height, edges, baseline=-STRIP, fill=True, **look)


def draw_chance(axes: Axes, x: Array, low: Array, high: Array) -> None:
    """The band of chance along a curve; of a single place, a bar."""
    if len(x) > 1:
        axes.fill_between(x, low, high, label="95 % by chance", **CHANCE)
    else:
        axes.vlines(x, low, high, label="95 % by chance", **{**CHANCE, "linewidth": 6})


def draw_dots(axes: Axes, x: Array, y: Array, count: Array, colour: str) -> None:
    """Dots whose area is their count's, as far as they can be seen."""
    area = np.maximum(70 * count / count.max(), 14)
    axes.scatter(x, y, s=area, color=colour, edgecolor="white", linewidth=0.6, clip_on=False, zorder=3)


def draw_front(axes: Axes, places: Sequence[tuple[float, float]]) -> bool:
    """A staircase over the places that no other dominates, if there is more than one; returns whether.

    A straight line would suggest mixtures that nobody can reach.
    """
    front = pareto.front(places) if places else []
    if len(front) > 1:
        look: dict[str, Any] = {"color": INK, "linewidth": 1, "drawstyle": "steps-post", "zorder": 1.5}
        axes.plot(*np.transpose(front), label="not dominated", **look)
    return len(front) > 1


def annotate_apart(axes: Axes, notes: Sequence[Note], size: float = 6.5, reach: float = 0) -> list[str]:
    """Write (x, y, text, colour) beside its point, off all these points and earlier notes; returns those without room.

    Those that find none may stand up to `reach` points away, with a line to their point. Call it when the limits are
    final.
    """
    dot = axes.figure.dpi / 72
    places = [axes.transData.transform(note[:2]) for note in notes]
    taken = [Bbox.from_extents(x, y, x, y).padded(4 * dot) for x, y in places]
    unplaced: list[str] = []
    for (x, y, text, colour), place in zip(notes, places, strict=True):
        width, by, below, level = 0.65 * size * len(text), 0.92 * size, -1.9 * size, -0.42 * size  # in points
        sides = [(by, level), (-by - width, level), (-width / 2, by), (-width / 2, below)]
        sides += [(5, 4), (5, below), (-5 - width, 4)]
        sides += [(-4, far * size) for far in (1.6, -2.6, 2.9, -3.9)]
        near = len(sides)
        for far in np.arange(14, reach + 1, 6):
            for turn in np.arange(16) * np.pi / 8:
                right, up = far * np.cos(turn), far * np.sin(turn)
                sides.append((right if right >= 0 else right - width, up - size / 2))
        for number, (dx, dy) in enumerate(sides):
            box = Bbox.from_bounds(place[0] + dx * dot, place[1] + dy * dot, width * dot, 1.1 * size * dot)
            inside = all(axes.bbox.contains(*corner) for corner in (box.min, box.max))
            if inside and not box.count_overlaps(taken):
                taken.append(box)
                look: dict[str, Any] = {"textcoords": "offset points", "fontsize": size, "color": colour, "zorder": 6}
                look["path_effects"] = [withStroke(linewidth=1.5, foreground="white")]  # lines may lie below
                line = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
                axes.annotate(text, (x, y), xytext=(dx, dy), arrowprops=line if number >= near else None, **look)
                break
        else:
            unplaced.append(text)
    return unplaced


def new_axes(width: float, height: float) -> Axes:
    """The axes of a new figure, which a notebook shows."""
    from matplotlib import pyplot  # only here: it picks a backend, and keeps every figure

    _, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def finish(axes: Axes, given: Axes | None, *lines: str) -> Axes:
    """Lines above the axes, and below those of our own figure, a legend."""
    axes.set_title("\n".join(filter(None, lines)), fontsize="medium")
    if given is None:
        handles = axes.get_legend_handles_labels()[0]
        axes.figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    return axes


def percent(share: float, place: float) -> str:
    """The text of a tick; its place among the ticks does not matter."""
    return f"{100 * share:.3g} %"
