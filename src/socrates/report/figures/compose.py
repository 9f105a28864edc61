"""What all figures share in matplotlib: panels, one legend, a caption, and their files."""

import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...palette import DASHES, GREY, INK, RED
from ..style import Style
from ..words import capitalised, letter

Handles = list[Any]  # entries of a legend, which every draw function returns

SINGLE = (5.6, 4.0)  # a panel that stands alone: wide and high
LOOK = str(resources.files("socrates.report") / "assets" / "figure.mplstyle")
DPI = 300
Width = Literal["column", "text", "full"]
WIDTHS: dict[Width, float] = {"column": 3.25, "text": 5.5, "full": 7.2}  # inches, as printed
USUAL_WIDTH: Width = "full"
NARROWEST = 1.25  # inches of a panel; below it, fewer stand in a row
NARROWEST_BESIDE = 2.2  # inches of a panel that leaves the legend room beside it
HIGHEST = 3.4  # inches of a panel, however wide
# How much larger thin marks must be to look as large as a circle, and full ones smaller.
LOOKS_SMALLER = {"*": 1.6, "P": 1.2, "X": 1.2, "s": 0.92, "D": 0.88}
SMALL = 7  # points, of all but the labels of axes
INCHES_PER_LETTER = 0.05  # of small text
INCHES_PER_LINE = 0.14


class Panel(NamedTuple):
    """One axes: its title, and a draw function with its data, which returns entries of the legend.

    A draw function may leave a remark as the title of the axes; it is shown beneath the title.
    """

    title: str
    draw: Callable[[Any, Any], Handles]
    data: Any


@dataclass(frozen=True)
class Drawing:
    """A figure as data: the name of its files, its title, and its panels, row by row.

    The title is the caption. `shared` panels have one scale along x, one along y in each row, and
    labels on the outside only. Where the columns mean something, they are `fixed`; else there are
    fewer of them if the figure is narrow.
    """

    name: str
    title: str
    panels: Sequence[Panel]
    columns: int = 5  # at most
    size: tuple[float, float] = SINGLE  # of a panel: how wide to how high
    shared: bool = False
    fixed: bool = False
    legend_above: bool = False  # or beside, where there is room

    def columns_within(self, width: float) -> int:
        """Return how many panels stand in a row of a figure of this width."""
        columns = min(len(self.panels), self.columns)
        return columns if self.fixed else min(columns, int(width / NARROWEST))

    def height_of_panel(self, width: float) -> float:
        """Return the height of a panel of this width."""
        wide, high = self.size
        return min(width * high / wide, HIGHEST)


def compose(drawing: Drawing, width: Width = USUAL_WIDTH, note: str = "") -> Figure:
    """Return the figure of a drawing, exactly as wide as it will be printed.

    `note` is a line at its foot, in short.
    """
    wide = WIDTHS[width]
    columns = drawing.columns_within(wide)
    rows = math.ceil(len(drawing.panels) / columns)
    height = rows * drawing.height_of_panel(wide / columns)  # for labels that keep apart
    figure = Figure(figsize=(wide, height), layout="constrained")
    by_row = "row" if drawing.shared else False
    grid = figure.subplots(rows, columns, squeeze=False, sharex=drawing.shared, sharey=by_row)
    handles = _draw_panels(drawing, grid, wide / columns)
    heads = [
        _write_head(axes, lettered(drawing, place), wide / columns)
        for place, axes in enumerate(grid.flat[: len(drawing.panels)])
    ]
    for axes in grid.flat[len(drawing.panels) :]:
        axes.set_visible(False)
    beside, lines_above = _draw_legend(figure, handles, columns, drawing.legend_above)
    foot = _wrapped(short_note(note), 0.95 * wide / INCHES_PER_LETTER)
    if note:
        figure.supxlabel(foot, fontsize=SMALL, color=GREY)
    lines = rows * (2 + max(head.count("\n") for head in heads)) + 2
    lines += lines_above + foot.count("\n")
    height = rows * drawing.height_of_panel((wide - beside) / columns)
    figure.set_size_inches(wide, height + INCHES_PER_LINE * lines)
    return figure


def _draw_panels(drawing: Drawing, grid: Any, width: float) -> Handles:
    """Draw each panel on its axes, and return the legend of all: methods first, grey lines last."""
    columns = grid.shape[1]
    count = len(drawing.panels)
    legend: dict[str, Any] = {}
    for place, (axes, panel) in enumerate(zip(grid.flat, drawing.panels, strict=False)):
        axes.locator_params(nbins=5 if width > 1.6 else 3)  # ticks are slow to draw
        for handle in panel.draw(axes, panel.data):
            legend.setdefault(str(handle.get_label()), handle)
        if drawing.shared:
            _label_outside(axes, left=place % columns == 0, below=place + columns >= count)
    return sorted(legend.values(), key=_stands_for_all)


def _label_outside(axes: Axes, left: bool, below: bool) -> None:
    """Keep the labels of the axes that are at the left or at the bottom of the figure."""
    axes.tick_params(labelleft=left, labelbottom=below)
    if not left:
        axes.set_ylabel("")
    if not below:
        axes.set_xlabel("")


def lettered(drawing: Drawing, place: int) -> str:
    """Return the title of a panel after its letter; a panel that stands alone has no letter.

    >>> two = Drawing("x", "", [Panel("left", print, 0), Panel("", print, 0)])
    >>> lettered(two, 0), lettered(two, 1)
    ('(a) left', '(b)')
    """
    title = drawing.panels[place].title
    if len(drawing.panels) == 1:
        return title
    return f"({letter(place)}) {title}".strip()


def short_note(note: str) -> str:
    """Return what must stand in a figure itself of a note: its subject and its second sentence.

    >>> short_note("Laptop scale: 300 images for more. These do not compare. Idle: CE, a part.")
    'Laptop scale: these do not compare.'
    """
    sentences = re.split(r"(?<=[.!?]) ", note.strip())
    kept = [sentence for sentence in sentences if sentence and not sentence.startswith("Idle: ")]
    if len(kept) < 2:
        return "".join(kept)
    subject, colon, _ = kept[0].partition(": ")
    return f"{subject}: {kept[1][0].lower()}{kept[1][1:]}" if colon else kept[0]


def caption(drawing: Drawing, note: str = "") -> str:
    """Return what stands below the figure in a text: its title, its panels by letter, the note.

    >>> panels = [Panel("left", print, 0), Panel("right", print, 0)]
    >>> caption(Drawing("x", "error", panels), "Small data.")
    'Error. (a) left, (b) right. Small data.'
    """
    titled = [lettered(drawing, place) for place, panel in enumerate(drawing.panels) if panel.title]
    parts = [drawing.title.replace("\n", ", "), ", ".join(titled).replace("\n", " ")]
    sentences = [f"{capitalised(words).rstrip('.')}." for words in parts if words]
    return " ".join([*sentences, note]).strip()


def write_drawing(
    drawing: Drawing, folder: Path | str, note: str | None = None, width: Width = USUAL_WIDTH
) -> list[Path]:
    """Write `name.pdf`, `name.png` and the caption `name.txt`; equal figures are equal files.

    `note` is in the caption, and in short at the foot of the figure.
    """
    pdf, png, txt = (Path(folder) / f"{drawing.name}.{kind}" for kind in ("pdf", "png", "txt"))
    pdf.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(fname=LOOK):
        figure = compose(drawing, width, note or "")
        figure.savefig(png, dpi=DPI, metadata={"Software": None})
        # The PNG has found every place; finding them again takes half of the time.
        figure.set_layout_engine("none")
        figure.savefig(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    figure.clear()
    txt.write_text(f"{caption(drawing, note or '')}\n", encoding="utf-8")
    return [pdf, png, txt]


def _write_head(axes: Any, title: str, width: float) -> str:
    """Write the title above a panel, beneath it the remark that drawing left, and return both."""
    letters = (width - 0.3) / INCHES_PER_LETTER
    remark = _wrapped(axes.get_title(), letters)
    head = f"{_wrapped(title, letters)}\n{remark}".strip().replace("\u00a0", " ")
    is_warning = axes.title.get_color() == RED
    axes.set_title("")
    colour = RED if is_warning else INK if title else GREY
    axes.set_title(head, loc="left", fontsize=SMALL, color=colour)
    return head


def _wrapped(text: str, letters: float) -> str:
    """Return the text in lines of this many letters, none of them broken at an equals sign."""
    together = text.replace(" = ", "\u00a0=\u00a0")
    return "\n".join(textwrap.fill(line, max(int(letters), 8)) for line in together.split("\n"))


def _stands_for_all(handle: Any) -> bool:
    """Return whether an entry of the legend is grey, and so stands for all methods."""
    return isinstance(handle, Line2D) and handle.get_color() == GREY


def _draw_legend(
    figure: Figure, handles: Handles, columns: int, above: bool = False
) -> tuple[float, int]:
    """Draw a legend beside all axes if they stay wide enough, else, or if asked for, above them.

    Return its width if it stands beside, and its lines if it stands above.
    """
    if not handles:
        return 0.0, 0
    wide, high = figure.get_size_inches()
    longest = max(len(str(handle.get_label())) for handle in handles)
    entry = INCHES_PER_LETTER * longest + 0.45
    fits = INCHES_PER_LINE * len(handles) < high
    beside = not above and fits and (wide - entry) / columns >= NARROWEST_BESIDE
    across = 1 if beside else max(1, min(int(wide / entry), len(handles)))
    figure.legend(
        handles=handles,
        loc="outside right center" if beside else "outside upper center",
        ncols=across,
        frameon=False,
        handlelength=2.4,
        columnspacing=1.2,
    )
    if beside:
        return entry, 0
    return 0.0, math.ceil(len(handles) / across)


def mark_size(marker: str, size: float) -> float:
    """Return the size at which a mark looks as large as a circle of this size."""
    return size * LOOKS_SMALLER.get(marker, 1.0)


def method_look(style: Style, collapsed: str = "", **line: Any) -> dict[str, Any]:
    """Return line and marks of a method; with collapsed runs they are hollow, edged in red."""
    return {
        "color": style.colour,
        "linestyle": DASHES[style.dash],
        "marker": style.marker,
        "markerfacecolor": "white" if collapsed else style.colour,
        "markeredgecolor": RED if collapsed else style.colour,
        **line,
    }


def line_handle(label: str, colour: str = GREY, **line: Any) -> Any:
    """Return a line's entry in a legend."""
    return Line2D([], [], label=label, **{"color": colour, **line})


def method_handle(label: str, style: Style, collapsed: str = "", **line: Any) -> Any:
    """Return a method's entry in a legend, which says how many of its runs have collapsed."""
    text = f"{label} (collapsed: {collapsed})" if collapsed else label
    size = mark_size(style.marker, 5)
    return line_handle(text, **method_look(style, collapsed, markersize=size, **line))
