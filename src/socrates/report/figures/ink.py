"""What all figures share in matplotlib: light axes, legends beside the axes, notes that keep apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..style import Style

Handles = list[Any]  # entries of a legend, which every draw function returns

LINES: dict[str, Any] = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1.2, 1.6)), "dashdot": (0, (6, 2, 1.2, 2))}
INK = "#22262B"
GREY = "#7C828B"
FAINT = "#E3E6EA"
RED = "#C1121F"  # of what has collapsed, never of a method

_LEGEND_ROWS = 24


def tidy(axes: Axes) -> None:
    """A light grid behind the data and no frame above and on the right; few ticks, which are slow to draw."""
    axes.locator_params(nbins=5)
    axes.grid(color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def legend_beside(figure: Figure, handles: Handles) -> None:
    """A legend on the right of all axes, in as many columns as it needs; the figure grows by their width."""
    if not handles:
        return
    columns = math.ceil(len(handles) / _LEGEND_ROWS)
    longest = max(len(str(handle.get_label())) for handle in handles)
    width, height = figure.get_size_inches()
    grown = width + columns * (0.068 * longest + 0.55), max(height, 0.165 * len(handles) / columns + 0.9)
    figure.set_size_inches(*grown)
    figure.legend(handles=handles, loc="outside right center", ncols=columns, frameon=False, handlelength=2.8)


def line_handle(label: str, colour: str = GREY, **line: Any) -> Any:
    """A line's entry in a legend."""
    return Line2D([], [], label=label, color=colour, **line)


def method_handle(label: str, style: Style, collapsed: str = "", **line: Any) -> Any:
    """A method's entry in a legend; one with collapsed runs is hollow, edged in red, and says how many."""
    mark: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": RED} if collapsed else {}
    text = f"{label} (collapsed: {collapsed})" if collapsed else label
    usual = {"linestyle": LINES[style.dash], "marker": style.marker, "markersize": 5}
    return line_handle(text, style.colour, **{**usual, **line}, **mark)


def annotate_apart(axes: Axes, notes: Sequence[tuple[float, float, str, str]]) -> None:
    """Write (x, y, text, colour) beside its point, off all these points and earlier notes; without room, not at all.

    Call it when the limits are final.
    """
    dot = axes.figure.dpi / 72
    places = [tuple(axes.transData.transform(note[:2])) for note in notes]
    taken = [(x - 4 * dot, y - 4 * dot, x + 4 * dot, y + 4 * dot) for x, y in places]
    box = axes.bbox
    for (x, y, text, colour), (px, py) in zip(notes, places, strict=True):
        width = 4.6 * len(text)  # in points
        sides = ((6, -3), (-6 - width, -3), (-width / 2, 6), (-width / 2, -13), (5, 4), (5, -11), (-5 - width, 4))
        for dx, dy in sides:
            left, low = px + dx * dot, py + dy * dot
            right, high = left + width * dot, low + 7 * dot
            inside = left >= box.x0 and right <= box.x1 and low >= box.y0 and high <= box.y1
            if inside and not any(left < c and a < right and low < d and b < high for a, b, c, d in taken):
                taken.append((left, low, right, high))
                axes.annotate(
                    text, (x, y), xytext=(dx, dy), textcoords="offset points", fontsize=6.5, color=colour, zorder=6
                )
                break
