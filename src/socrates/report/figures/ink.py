"""What all figures share in matplotlib: lines and marks, legends beside the axes, notes that keep apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from ..style import Style

Handles = list[Any]  # entries of a legend, which every draw function returns

LINES: dict[str, Any] = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1.2, 1.6)), "dashdot": (0, (6, 2, 1.2, 2))}
INK = "#22262B"
GREY = "#7C828B"
RED = "#C1121F"  # of what has collapsed, never of a method

_LEGEND_ROWS = 24


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


def method_look(style: Style, collapsed: str = "", **line: Any) -> dict[str, Any]:
    """Line and marks of a method; those of one with collapsed runs are hollow, edged in red."""
    face, edge = ("white", RED) if collapsed else (style.colour, style.colour)
    marks = {"marker": style.marker, "markerfacecolor": face, "markeredgecolor": edge}
    return {"color": style.colour, "linestyle": LINES[style.dash], **marks, **line}


def line_handle(label: str, colour: str = GREY, **line: Any) -> Any:
    """A line's entry in a legend."""
    return Line2D([], [], label=label, **{"color": colour, **line})


def method_handle(label: str, style: Style, collapsed: str = "", **line: Any) -> Any:
    """A method's entry in a legend, which says how many of its runs have collapsed."""
    text = f"{label} (collapsed: {collapsed})" if collapsed else label
    return line_handle(text, **method_look(style, collapsed, markersize=5, **line))


def annotate_apart(axes: Axes, notes: Sequence[tuple[float, float, str, str]]) -> None:
    """Write (x, y, text, colour) beside its point, off all these points and earlier notes; without room, not at all.

    Call it when the limits are final.
    """
    dot = axes.figure.dpi / 72
    places = [axes.transData.transform(note[:2]) for note in notes]
    taken = [Bbox.from_extents(x, y, x, y).padded(4 * dot) for x, y in places]
    for (x, y, text, colour), place in zip(notes, places, strict=True):
        width = 4.6 * len(text)  # in points
        sides = ((6, -3), (-6 - width, -3), (-width / 2, 6), (-width / 2, -13), (5, 4), (5, -11), (-5 - width, 4))
        for dx, dy in sides:
            box = Bbox.from_bounds(place[0] + dx * dot, place[1] + dy * dot, width * dot, 7 * dot)
            inside = all(axes.bbox.contains(*corner) for corner in (box.min, box.max))
            if inside and not box.count_overlaps(taken):
                taken.append(box)
                look: dict[str, Any] = {"textcoords": "offset points", "fontsize": 6.5, "color": colour, "zorder": 6}
                axes.annotate(text, (x, y), xytext=(dx, dy), **look)
                break
