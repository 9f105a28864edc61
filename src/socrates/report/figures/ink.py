"""What all figures share: fonts, light axes, bands, legends beside the axes, the grey box at a change of loss."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from socrates.report.figures.curves import Band
    from socrates.report.style import Style

LINES: dict[str, Any] = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1.2, 1.6)), "dashdot": (0, (6, 2, 1.2, 2))}
INK = "#22262B"
GREY = "#7C828B"
FAINT = "#E3E6EA"
RED = "#C1121F"  # of what has collapsed, never of a method

# Active while figures of this package are made; axes from elsewhere keep their own fonts.
FONTS: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "figure.titlesize": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "pdf.fonttype": 3,  # three times as fast to write as 42
}

_MANY_BANDS = 8  # from here on shaded bands would hide each other
_LEGEND_ROWS = 24


def tidy(axes: Axes) -> None:
    """A light grid behind the data and no frame above and on the right; few ticks, which are slow to draw."""
    axes.locator_params(nbins=5)
    axes.grid(color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def draw_band(axes: Axes, curve: Band, colour: str, shade: bool = True, **line: Any) -> None:
    """The mean as a line, the deviation of the seeds as a shade around it."""
    axes.plot(curve.epochs, curve.mean, color=colour, **{"linewidth": 1.4, **line})
    if shade and np.any(curve.high > curve.low):
        axes.fill_between(curve.epochs, curve.low, curve.high, color=colour, alpha=0.16, linewidth=0)


def group_line(style: Style, num_epochs: int, rank: int) -> dict[str, Any]:
    """Line keywords of a group: its dash, and a few markers that start at different places for different groups."""
    step = max(1, num_epochs // 6)
    return {
        "linestyle": LINES[style.dash],
        "marker": style.marker,
        "markersize": 3.5,
        "markevery": ((rank * step) // 4 % step if step > 1 else 0, step),
    }


def few(things: Sequence[Any] | Mapping[Any, Any]) -> bool:
    """Whether so few curves share the axes that shaded bands help."""
    return len(things) <= _MANY_BANDS


def ceiling(curves: Sequence[Band]) -> float | None:
    """An upper limit that neither the first epochs nor one diverging curve can push away.

    In the second half of training, three quarters of the curves stay below some value: the limit holds four times that
    value, and all that stays below ten times it.
    """
    finite = [curve.mean[np.isfinite(curve.mean)] for curve in curves]
    finite = [mean for mean in finite if len(mean)]
    if not finite:
        return None
    late = np.array([mean[len(mean) // 2 :].max() for mean in finite])
    usual = float(np.quantile(late, 0.75))
    reach = max(4 * usual, 1.1 * float(late[late <= 10 * usual].max(initial=0.0)))
    top = min(max(float(mean.max()) for mean in finite), reach)
    return 1.05 * top if top > 0 else None


def epoch_axis(axes: Axes, curves: Sequence[Band]) -> None:
    """Label the epochs and end the axis with them."""
    axes.set_xlabel("epoch")
    if curves:
        first, last = min(c.epochs[0] for c in curves), max(c.epochs[-1] for c in curves)
        axes.set_xlim(float(first), float(max(last, first + 1)))


def grey_box(axes: Axes, epoch: float, width: float) -> None:
    """A grey box around the epoch at which a two-phase method changes its loss."""
    axes.axvspan(epoch - width / 2, epoch + width / 2, color=GREY, alpha=0.22, linewidth=0, zorder=0.5)


def legend_beside(figure: Figure, handles: Sequence[Any]) -> None:
    """A legend on the right of all axes, in as many columns as it needs; the figure grows by their width."""
    if not handles:
        return
    columns = math.ceil(len(handles) / _LEGEND_ROWS)
    longest = max(len(str(handle.get_label())) for handle in handles)
    width, height = figure.get_size_inches()
    figure.set_size_inches(
        width + columns * (0.068 * longest + 0.55), max(height, 0.165 * len(handles) / columns + 0.9)
    )
    figure.legend(handles=list(handles), loc="outside right center", ncols=columns, frameon=False, handlelength=2.8)


def group_handle(label: str, style: Style, collapsed: str | None = None) -> Any:
    """A group's entry in a legend; one with collapsed runs is hollow, edged in red, and says how many."""
    from matplotlib.lines import Line2D

    mark: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": RED} if collapsed else {}
    text = f"{label} (collapsed: {collapsed})" if collapsed else label
    line: dict[str, Any] = {
        "color": style.colour,
        "linestyle": LINES[style.dash],
        "marker": style.marker,
        "markersize": 5,
    }
    return Line2D([], [], label=text, **line, **mark)


def wrapped(label: str, width: int = 30) -> str:
    """A long label in several lines, for the head of a small panel.

    >>> wrapped("Socrates α=0.99 γ=1, learning_rate 0.05")
    'Socrates α=0.99 γ=1,\\nlearning_rate 0.05'
    """
    return "\n".join(textwrap.wrap(label, width)) or label


def annotate_apart(axes: Axes, notes: Sequence[tuple[float, float, str, str]]) -> None:
    """Write (x, y, text, colour) beside its point, off all these points and earlier notes; without room, not at all.

    Call it when size and limits are final.
    """
    dot = axes.figure.dpi / 72
    places = [tuple(axes.transData.transform(note[:2])) for note in notes]
    taken: list[tuple[float, float, float, float]] = [
        (x - 4 * dot, y - 4 * dot, x + 4 * dot, y + 4 * dot) for x, y in places
    ]
    box = axes.bbox
    for (x, y, text, colour), (px, py) in zip(notes, places, strict=True):
        width = 4.6 * len(text)  # in points
        for dx, dy in (
            (6, -3),
            (-6 - width, -3),
            (-width / 2, 6),
            (-width / 2, -13),
            (5, 4),
            (5, -11),
            (-5 - width, 4),
        ):
            left, low = px + dx * dot, py + dy * dot
            mine = (left, low, left + width * dot, low + 7 * dot)
            inside = left >= box.x0 and mine[2] <= box.x1 and low >= box.y0 and mine[3] <= box.y1
            if inside and not any(_overlap(mine, other) for other in taken):
                taken.append(mine)
                look: dict[str, Any] = {"textcoords": "offset points", "fontsize": 6.5, "color": colour, "zorder": 6}
                axes.annotate(text, (x, y), xytext=(dx, dy), **look)
                break


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
