"""One composer for every figure: panels side by side, one legend, a title, and the two files that it becomes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure

from .ink import GREY, INK, RED, Handles, legend_beside

SINGLE = (5.6, 4.0)  # inches of a panel that stands alone
LOOK = str(resources.files("socrates.report") / "assets" / "figure.mplstyle")  # of these figures alone
DPI = 150
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
    shared: dict[str, Any] = {"sharex": True, "sharey": "row"} if drawing.shared else {}
    grid = figure.subplots(rows, columns, squeeze=False, **shared)
    legend: dict[str, Any] = {}
    for axes, panel in zip(grid.flat, drawing.panels, strict=False):
        axes.locator_params(nbins=5)  # ticks are slow to draw
        for handle in panel.draw(axes, panel.data):
            legend.setdefault(str(handle.get_label()), handle)
        letters = int(14 * width)
        remark = "\n".join(textwrap.fill(line, letters + 12) for line in axes.get_title().split("\n"))
        colour = RED if axes.title.get_color() == RED else INK if panel.title else GREY
        title = "\n".join(filter(None, [textwrap.fill(panel.title, letters), remark]))
        axes.set_title(title, fontsize=8 if panel.title else 7, color=colour)
    if drawing.shared:
        _label_outside(grid, count)
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    legend_beside(figure, [*legend.values()])
    letters = int(figure.get_size_inches()[0] / INCHES_A_LETTER)
    figure.suptitle("\n".join(textwrap.fill(line, letters) for line in drawing.title.split("\n")), fontsize=9)
    return figure


def write_drawing(drawing: Drawing, folder: Path | str, note: str | None = None) -> list[Path]:
    """Write `name.pdf` and `name.png` without dates, so that equal figures are equal files.

    `note` is a line at the foot.
    """
    with matplotlib.rc_context(fname=LOOK):
        figure = compose(drawing)
        if note:
            letters = int(figure.get_size_inches()[0] / INCHES_A_SMALL_LETTER)
            figure.supxlabel(textwrap.fill(note, letters), fontsize=6.5, color=GREY)
        pdf, png = (Path(folder) / f"{drawing.name}.{kind}" for kind in ("pdf", "png"))
        pdf.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(png, dpi=DPI, metadata={"Software": None})
        figure.set_layout_engine("none")  # the PNG has found every place; finding them again takes half the time
        figure.savefig(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    figure.clear()
    return [pdf, png]


def _label_outside(grid: Any, used: int) -> None:
    """Tick labels and axis labels on the outside alone, also below a last row that is not full."""
    below = grid.flat[0].get_xlabel()
    for axes in grid.flat:
        axes.label_outer()
    for axes in grid.flat[max(0, used - grid.shape[1]) : used]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(axes.get_xlabel() or below)
