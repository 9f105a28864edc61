"""What all figures share in matplotlib: panels side by side, one legend, a title, and the two files they become."""

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from socrates.plots.ink import DASH, DOT, GREY, INK

from ..style import Style

Handles = list[Any]  # entries of a legend, which every draw function returns

LINES: dict[str, Any] = {"solid": "-", "dash": DASH, "dot": DOT, "dashdot": (0, (6, 2, 1.2, 2))}
RED = "#C1121F"  # of what has collapsed, never of a method
SINGLE = (5.6, 4.0)  # inches of a panel that stands alone
LOOK = str(resources.files("socrates.report") / "assets" / "figure.mplstyle")  # of these figures alone
DPI = 150
LEGEND_ROWS = 24
INCHES_A_LETTER = 0.08  # of the title
INCHES_A_SMALL_LETTER = 0.055  # of the note at the foot


class Panel(NamedTuple):
    """One axes: its title, and a draw function with its data, which returns what belongs into the legend.

    A draw function may leave a remark in the place of the title; it is shown beneath.
    """

    title: str
    draw: Callable[[Any, Any], Handles]
    data: Any


@dataclass(frozen=True)
class Drawing:
    """A figure as data: the name of its files, its title, and its panels, row by row.

    `shared` panels have one scale along x, and one along y in each row, and labels on the outside only.
    """

    name: str
    title: str
    panels: Sequence[Panel]
    columns: int = 5  # at most
    size: tuple[float, float] = SINGLE  # of a panel, in inches
    shared: bool = False


def compose(drawing: Drawing) -> Figure:
    """The figure of a drawing."""
    count = len(drawing.panels)
    columns = min(count, drawing.columns)
    rows = math.ceil(count / columns)
    width, height = drawing.size
    figure = Figure(figsize=(width * columns + 0.3, height * rows + 0.4), layout="constrained")
    by_row = "row" if drawing.shared else False
    grid = figure.subplots(rows, columns, squeeze=False, sharex=drawing.shared, sharey=by_row)
    legend: dict[str, Any] = {}
    for place, (axes, panel) in enumerate(zip(grid.flat, drawing.panels, strict=False)):
        axes.locator_params(nbins=5)  # ticks are slow to draw
        for handle in panel.draw(axes, panel.data):
            legend.setdefault(str(handle.get_label()), handle)
        title, remark = _wrapped(panel.title, 14 * width), _wrapped(axes.get_title(), 14 * width + 12)
        colour = RED if axes.title.get_color() == RED else INK if title else GREY
        axes.set_title(f"{title}\n{remark}".strip(), fontsize=8 if title else 7, color=colour)
        if drawing.shared:
            left, below = place % columns == 0, place + columns >= count
            axes.tick_params(labelleft=left, labelbottom=below)
            axes.set(xlabel=axes.get_xlabel() if below else "", ylabel=axes.get_ylabel() if left else "")
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    _legend_beside(figure, [*legend.values()])
    figure.suptitle(_wrapped(drawing.title, figure.get_size_inches()[0] / INCHES_A_LETTER), fontsize=9)
    return figure


def write_drawing(drawing: Drawing, folder: Path | str, note: str | None = None) -> list[Path]:
    """Write `name.pdf` and `name.png` without dates, so that equal figures are equal files.

    `note` is a line at the foot.
    """
    with matplotlib.rc_context(fname=LOOK):
        figure = compose(drawing)
        if note:
            letters = figure.get_size_inches()[0] / INCHES_A_SMALL_LETTER
            figure.supxlabel(_wrapped(note, letters), fontsize=6.5, color=GREY)
        pdf, png = (Path(folder) / f"{drawing.name}.{kind}" for kind in ("pdf", "png"))
        pdf.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(png, dpi=DPI, metadata={"Software": None})
        figure.set_layout_engine("none")  # the PNG has found every place; finding them again takes half the time
        figure.savefig(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    figure.clear()
    return [pdf, png]


def _wrapped(text: str, letters: float) -> str:
    return "\n".join(textwrap.fill(line, int(letters)) for line in text.split("\n"))


def _legend_beside(figure: Figure, handles: Handles) -> None:
    """A legend on the right of all axes, in as many columns as it needs; the figure grows by their width."""
    if not handles:
        return
    columns = math.ceil(len(handles) / LEGEND_ROWS)
    longest = max(len(str(handle.get_label())) for handle in handles)
    width, height = figure.get_size_inches()
    height = max(height, 0.165 * len(handles) / columns + 0.9)
    figure.set_size_inches(width + columns * (0.068 * longest + 0.55), height)
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
