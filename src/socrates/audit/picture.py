"""The reliability diagram of an audit's first screen: bins as marks, one of them with a remark.

Everything is placed in pixels of a square of SIDE pixels, y downwards, as SVG has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from socrates import metrics
from socrates.arrays.open import Array
from socrates.metrics.binning import bin_index

from .judge import Judgement

SIDE = 330.0  # of the square diagram, in pixels
LARGEST = 9.5  # radius of the mark of the fullest bin
SMALLEST = 2.2
STRIP = 38.0  # height of the tallest bar below the diagram
FEWEST_IN_BIN = 10  # fewer rows are a hollow mark that no line goes through
MOST_CURVES = 4
# Where the remark on a bin stands, as shares of the side, and the room that it needs there.
LOWER_RIGHT = (0.99, 0.13, 0.42, 0.24)
UPPER_LEFT = (0.02, 0.93, 0.56, 0.80)


@dataclass(frozen=True)
class BinMark:
    """A bin of a reliability diagram: where it stands in pixels, and how large it is."""

    x: float
    y: float
    radius: float
    hollow: bool
    words: str


@dataclass(frozen=True)
class BinRemark:
    """The sentence at one bin, in two lines, with the line that leads to it."""

    lines: tuple[str, str]
    x: float
    y: float
    anchor: str
    start: tuple[float, float]
    end: tuple[float, float]


@dataclass(frozen=True)
class ReliabilityCurve:
    """The reliability of one file: its marks, the line through the full ones, and the gap.

    `bars` are (x, width, height) in pixels, the height by the root of the count.
    """

    label: str
    place: int
    marks: tuple[BinMark, ...]
    line: str
    gap: str
    bars: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class ReliabilityPicture:
    """What the diagram shows, with the strip of counts below it."""

    curves: tuple[ReliabilityCurve, ...]
    remark: BinRemark | None
    strip: str


def diagram_of(files: Sequence[Judgement]) -> ReliabilityPicture:
    """Return the reliability diagram of at most MOST_CURVES files."""
    shown = files[:MOST_CURVES]
    curves = tuple(curve_of(judged, place, len(shown)) for place, judged in enumerate(shown))
    strip = "answers by confidence (square-root scale)"
    if len(shown) > 1:
        return ReliabilityPicture(curves, None, strip)
    strip = f"{shown[0].measured.num_rows:,} {strip}"
    return ReliabilityPicture(curves, remark_on(shown[0], curves[0]), strip)


def strip_bars(count: Array, place: int, num_curves: int) -> tuple[tuple[float, float, float], ...]:
    """Return the bars of one file in the strip of counts, beside those of the other files."""
    width = SIDE / len(count)
    share = (width - 1) / num_curves
    heights = STRIP * np.sqrt(count / count.max())
    return tuple(
        (round(at * width + place * share, 1), round(share, 1), round(float(height), 1))
        for at, height in enumerate(heights)
        if height > 0
    )


def curve_of(judged: Judgement, place: int = 0, num_curves: int = 1) -> ReliabilityCurve:
    """Return the marks of a file's bins, and the line through those that hold enough rows."""
    bins = judged.bins
    filled = np.flatnonzero(bins.count > 0)
    confidence = bins.mean(bins.confidence)[filled]
    accuracy = bins.mean(bins.correct)[filled]
    count = bins.count[filled]
    radius = np.maximum(LARGEST * np.sqrt(count / count.max()), SMALLEST)
    marks = tuple(
        BinMark(
            x=round(SIDE * float(confidence[at]), 1),
            y=round(SIDE * (1 - float(accuracy[at])), 1),
            radius=round(float(radius[at]), 1),
            hollow=bool(count[at] < FEWEST_IN_BIN),
            words=f"states {percent_0(confidence[at])}, right in {percent_0(accuracy[at])} of "
            f"{count[at]:,.0f} answers",
        )
        for at in range(len(filled))
    )
    solid = [mark for mark in marks if not mark.hollow]
    line = " ".join(f"{mark.x},{mark.y}" for mark in solid)
    back = " ".join(f"{mark.x},{round(SIDE - mark.x, 1)}" for mark in reversed(solid))
    gap = f"{line} {back}" if len(solid) > 1 else ""
    bars = strip_bars(bins.count, place, num_curves)
    return ReliabilityCurve(judged.label, place, marks, line, gap, bars)


def annotated_bin(judged: Judgement) -> int | None:
    """Return the bin with the largest gap times count, of those that are surely off.

    The intervals of all bins hold at once. There is none where rows have weights.
    """
    top = judged.sample.top()
    if top.weight is not None:
        return None
    groups = bin_index(top.confidence, judged.sample.num_bins)
    sure = [gap for gap in metrics.worst_groups(top, groups=groups) if gap.sure]
    worst = max(sure, key=lambda gap: abs(gap.gap) * gap.count, default=None)
    return None if worst is None else int(worst.name)


def remark_on(judged: Judgement, curve: ReliabilityCurve) -> BinRemark | None:
    """Return the sentence at the bin that costs most, where there is room for it."""
    place = annotated_bin(judged)
    bins = judged.bins
    if place is None or not bins.count[place]:
        return None
    mark = curve.marks[int(np.flatnonzero(bins.count > 0).searchsorted(place))]
    stated = percent_0(bins.confidence[place] / bins.count[place])
    right = percent_0(bins.correct[place] / bins.count[place])
    is_below = mark.y > SIDE - mark.x  # too sure: the wide side is that of the lower right
    usual, other = (LOWER_RIGHT, UPPER_LEFT) if is_below else (UPPER_LEFT, LOWER_RIGHT)
    corner = usual if _has_room(curve, is_below) else other
    x, y, inner, _ = corner
    text_y = SIDE * (1 - y)
    start = (SIDE * inner + 4, text_y + 4)
    if corner == LOWER_RIGHT:
        start = (min(max(mark.x, SIDE * inner), SIDE * x), text_y - 17)
    away = math.hypot(mark.x - start[0], mark.y - start[1])
    reach = max(0.0, 1 - (mark.radius + 2) / away) if away else 0.0
    end = (start[0] + reach * (mark.x - start[0]), start[1] + reach * (mark.y - start[1]))
    return BinRemark(
        lines=(f"when it says {stated},", f"it is right {right} of the time"),
        x=round(SIDE * x, 1),
        y=round(text_y, 1),
        anchor="start" if corner == UPPER_LEFT else "end",
        start=(round(start[0], 1), round(start[1], 1)),
        end=(round(end[0], 1), round(end[1], 1)),
    )


def _has_room(curve: ReliabilityCurve, below: bool) -> bool:
    """Return whether no mark stands in the lower right corner, or in the upper left one."""
    _, _, inner, edge = LOWER_RIGHT if below else UPPER_LEFT
    if below:
        return not any(m.x > inner * SIDE and m.y > (1 - edge) * SIDE for m in curve.marks)
    return not any(m.x < inner * SIDE and m.y < (1 - edge) * SIDE for m in curve.marks)


def percent_0(value: float) -> str:
    """Return a share in whole percent, with a decimal where that would read as 0 or 100.

    >>> percent_0(0.774), percent_0(0.9973), percent_0(1.0)
    ('77%', '99.7%', '100%')
    """
    whole = f"{100 * value:.0f}"
    if whole in ("0", "100") and value not in (0.0, 1.0):
        return f"{100 * value:.1f}%"
    return f"{whole}%"
