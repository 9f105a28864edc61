"""Where labels stand beside their points, so that none hides another: for plots and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

TOUCHING = 9  # boxes beside a point; those that follow need a line to it
LETTER_WIDTH = 0.6  # of a letter, as a share of the size of the text


class Box(NamedTuple):
    """A rectangle, in any unit."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box) -> bool:
        """Return whether both have an area in common.

        >>> Box(0, 0, 2, 2).overlaps(Box(1, 1, 3, 3)), Box(0, 0, 1, 1).overlaps(Box(1, 0, 2, 1))
        (True, False)
        """
        beside = self.right <= other.left or other.right <= self.left
        above = self.top <= other.bottom or other.top <= self.bottom
        return not (beside or above)

    def inside(self, other: Box) -> bool:
        """Return whether the box lies within the other one."""
        across = other.left <= self.left and self.right <= other.right
        return across and other.bottom <= self.bottom and self.top <= other.top


class Note(NamedTuple):
    """A text that belongs to a point in the units of its axes."""

    x: float
    y: float
    text: str
    colour: str = ""


def diagonal_boxes(x: float, y: float, width: float, height: float, gap: float) -> dict[str, Box]:
    """Return the boxes of a text at the corners of its point, by plotly's names of them.

    Corners come first because staircases, crosses and grids run along the axes.
    """
    rows = {"top": y + gap, "bottom": y - gap - height}
    columns = {"right": x + gap, "left": x - gap - width}
    return {
        f"{row} {column}": Box(left, bottom, left + width, bottom + height)
        for row, bottom in rows.items()
        for column, left in columns.items()
    }


def place_apart(
    points: Sequence[tuple[float, float]],
    choices: Sequence[Sequence[Box]],
    frame: Box,
    gap: float,
) -> list[int | None]:
    """Return which of its boxes each label takes: the first that is free, or None.

    A free box lies inside the frame, and hides neither a point nor an earlier label.

    Args:
        points: the places that the labels belong to; none may be hidden.
        choices: for each label the boxes that it may take, the preferred ones first.
        frame: where labels may stand.
        gap: how far a point reaches to all sides.

    >>> right = [Box(1, 0, 3, 1), Box(1, 2, 3, 3)]
    >>> place_apart([(0, 0), (0, 0)], [right, right], Box(-5, -5, 5, 5), 0.5)
    [0, 1]
    """
    taken = [Box(x - gap, y - gap, x + gap, y + gap) for x, y in points]
    chosen: list[int | None] = []
    for boxes in choices:
        free = (
            number
            for number, box in enumerate(boxes)
            if box.inside(frame) and not any(box.overlaps(other) for other in taken)
        )
        number = next(free, None)
        chosen.append(number)
        if number is not None:
            taken.append(boxes[number])
    return chosen


def annotate_apart(
    axes: Axes, notes: Sequence[Note], size: float = 6.5, reach: float = 0
) -> list[str]:
    """Write each note beside its point, and return the texts that found no room.

    A note without room near its point may stand up to `reach` typographic points away, with a line
    to its point. Call it when the limits of the axes are final.
    """
    pixels = axes.figure.dpi / 72  # per typographic point
    points = [tuple(axes.transData.transform((note.x, note.y))) for note in notes]
    offsets = [[*_near(note.text, size), *_far(note.text, size, reach)] for note in notes]
    choices = [
        [Box(*(np.array(box) * pixels + [x, y, x, y])) for box in boxes]
        for (x, y), boxes in zip(points, offsets, strict=True)
    ]
    chosen = place_apart(points, choices, Box(*axes.bbox.extents), 4 * pixels)
    for note, boxes, number in zip(notes, offsets, chosen, strict=True):
        if number is not None:
            _write(axes, note, boxes[number], size, with_line=number >= TOUCHING)
    return [note.text for note, number in zip(notes, chosen, strict=True) if number is None]


def _near(text: str, size: float) -> list[Box]:
    """Return the boxes of a text that touches its point: corners, then sides, then rows beyond."""
    width = LETTER_WIDTH * size * len(text)
    height = 1.1 * size
    gap = 0.92 * size
    corners = diagonal_boxes(0, 0, width, height, 4.2)
    sides = [
        (gap, -0.42 * size),
        (-gap - width, -0.42 * size),
        (-width / 2, gap),
        (-width / 2, -1.9 * size),
    ]
    rows = [(-4.0, row * size) for row in (1.6, -2.6, 2.9, -3.9)]
    return [*corners.values(), *(Box(x, y, x + width, y + height) for x, y in sides + rows)]


def _far(text: str, size: float, reach: float) -> Iterator[Box]:
    """Yield the boxes of a text on ever larger circles around its point."""
    width = LETTER_WIDTH * size * len(text)
    for radius in np.arange(14, reach + 1, 6):
        for angle in np.arange(16) * np.pi / 8:
            x = radius * np.cos(angle)
            left = x if x >= 0 else x - width
            bottom = radius * np.sin(angle) - size / 2
            yield Box(left, bottom, left + width, bottom + 1.1 * size)


def _write(axes: Axes, note: Note, offset: Box, size: float, with_line: bool) -> None:
    """Write a note at its offset from its point, in a white outline as lines may lie below."""
    line = {
        "arrowstyle": "-",
        "color": note.colour,
        "linewidth": 0.6,
        "shrinkA": 0,
        "shrinkB": 3,
    }
    axes.annotate(
        note.text,
        (note.x, note.y),
        xytext=(offset.left, offset.bottom),
        textcoords="offset points",
        fontsize=size,
        color=note.colour,
        zorder=6,
        path_effects=[withStroke(linewidth=1.5, foreground="white")],
        arrowprops=line if with_line else None,
    )
