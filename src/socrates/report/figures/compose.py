"""What all figures share in matplotlib: panels side by side, one legend, a caption, and the files they become."""

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Literal, NamedTuple

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from socrates.plots.ink import DASH, DOT, GREY, INK

from ..style import Style
from ..words import capitalised

Handles = list[Any]  # entries of a legend, which every draw function returns

LINES: dict[str, Any] = {"solid": "-", "dash": DASH, "dot": DOT, "dashdot": (0, (6, 2, 1.2, 2))}
RED = "#C1121F"  # of what has collapsed, never of a method
SINGLE = (5.6, 4.0)  # a panel that stands alone: wide and high
LOOK = str(resources.files("socrates.report") / "assets" / "figure.mplstyle")  # of these figures alone
DPI = 300
Width = Literal["column", "text", "full"]
WIDTHS: dict[Width, float] = {"column": 3.25, "text": 5.5, "full": 7.2}  # inches, as journals and conferences print
USUAL_WIDTH: Width = "full"
NARROWEST = 1.25  # inches of a panel; below it, fewer stand in a row
NARROWEST_BESIDE = 2.2  # of one that leaves the legend room beside it
HIGHEST = 3.4  # inches of a panel, however wide
SMALL = 7  # points, of all but the labels of axes
INCHES_A_LETTER = 0.05  # of small text
INCHES_A_LINE = 0.14


class Panel(NamedTuple):
    """One axes: its title, and a draw function with its data, which returns what belongs into the legend.

    A draw function may leave a remark in the place of the title; it is shown beneath.
    """

    title: str
    draw: Callable[[Any, Any], Handles]
    data: Any


@dataclass(frozen=True)
class Drawing:
    """A figure as data: the name of its files, its title, which is its caption, and its panels, row by row.

    `shared` panels have one scale along x, and one along y in each row, and labels on the outside only. Where the
    columns mean something, they are `fixed`; else there are fewer of them if the figure is narrow.
    """

    name: str
    title: str
    panels: Sequence[Panel]
    columns: int = 5  # at most
    size: tuple[float, float] = SINGLE  # of a panel: how wide to how high
    shared: bool = False
    fixed: bool = False


def compose(drawing: Drawing, width: Width = USUAL_WIDTH, note: str = "") -> Figure:
    """The figure of a drawing, exactly as wide as it will be printed; `note` is a line at its foot."""
    wide, count = WIDTHS[width], len(drawing.panels)
    columns = min(count, drawing.columns)
    if not drawing.fixed:
        columns = min(columns, int(wide / NARROWEST))
    rows = math.ceil(count / columns)
    about = rows * min(wide / columns * drawing.size[1] / drawing.size[0], HIGHEST)  # for notes that keep apart
    figure = Figure(figsize=(wide, about), layout="constrained")
    by_row = "row" if drawing.shared else False
    grid = figure.subplots(rows, columns, squeeze=False, sharex=drawing.shared, sharey=by_row)
    legend: dict[str, Any] = {}
    heads: list[str] = []
    for place, (axes, panel) in enumerate(zip(grid.flat, drawing.panels, strict=False)):
        axes.locator_params(nbins=5 if wide / columns > 1.6 else 3)  # ticks are slow to draw
        for handle in panel.draw(axes, panel.data):
            legend.setdefault(str(handle.get_label()), handle)
        heads.append(_head(axes, lettered(drawing, place), wide / columns))
        if drawing.shared:
            left, below = place % columns == 0, place + columns >= count
            axes.tick_params(labelleft=left, labelbottom=below)
            axes.set(xlabel=axes.get_xlabel() if below else "", ylabel=axes.get_ylabel() if left else "")
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    entries = sorted(legend.values(), key=_of_all)
    beside, above = _legend(figure, entries, columns)
    foot = _wrapped(note, 0.95 * wide / INCHES_A_LETTER)
    if note:
        figure.supxlabel(foot, fontsize=SMALL, color=GREY)
    lines = rows * (2 + max(head.count("\n") for head in heads)) + 2 + above + foot.count("\n")
    high = min((wide - beside) / columns * drawing.size[1] / drawing.size[0], HIGHEST)
    figure.set_size_inches(wide, rows * high + INCHES_A_LINE * lines)
    return figure


def lettered(drawing: Drawing, place: int) -> str:
    """The title of a panel after its letter; one that stands alone has none.

    >>> two = Drawing("x", "", [Panel("left", print, 0), Panel("", print, 0)])
    >>> lettered(two, 0), lettered(two, 1)
    ('(a) left', '(b)')
    """
    title = drawing.panels[place].title
    again, letter = divmod(place, len(ascii_lowercase))
    letters = ascii_lowercase[again - 1] * bool(again) + ascii_lowercase[letter]
    return f"({letters}) {title}".strip() if len(drawing.panels) > 1 else title


def caption(drawing: Drawing, note: str = "") -> str:
    """What stands below the figure in a text: its title, its panels by their letters, and the note.

    >>> caption(Drawing("x", "error", [Panel("left", print, 0), Panel("right", print, 0)]), "Small data.")
    'Error. (a) left, (b) right. Small data.'
    """
    titled = [lettered(drawing, place) for place, panel in enumerate(drawing.panels) if panel.title]
    sentences = [drawing.title.replace("\n", ", "), ", ".join(titled)]
    return " ".join([f"{capitalised(words).rstrip('.')}." for words in sentences if words] + [note]).strip()


def write_drawing(
    drawing: Drawing, folder: Path | str, note: str | None = None, width: Width = USUAL_WIDTH
) -> list[Path]:
    """Write `name.pdf`, `name.png` and `name.txt`, its caption, without dates, so that equal figures are equal files.

    `note` is a line at the foot.
    """
    pdf, png, words = (Path(folder) / f"{drawing.name}.{kind}" for kind in ("pdf", "png", "txt"))
    pdf.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(fname=LOOK):
        figure = compose(drawing, width, note or "")
        figure.savefig(png, dpi=DPI, metadata={"Software": None})
        figure.set_layout_engine("none")  # the PNG has found every place; finding them again takes half the time
        figure.savefig(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    figure.clear()
    words.write_text(f"{caption(drawing, note or '')}\n", encoding="utf-8")
    return [pdf, png, words]


def _head(axes: Any, title: str, width: float) -> str:
    """Above a panel, on the left: its title, and beneath, a remark that drawing may have left there."""
    title, remark = (_wrapped(text, (width - 0.3) / INCHES_A_LETTER) for text in (title, axes.get_title()))
    colour = RED if axes.title.get_color() == RED else INK if title else GREY
    head = f"{title}\n{remark}".strip().replace("\u00a0", " ")
    axes.set_title("")
    axes.set_title(head, loc="left", fontsize=SMALL, color=colour)
    return head


def _wrapped(text: str, letters: float) -> str:
    together = text.replace(" = ", "\u00a0=\u00a0")
    return "\n".join(textwrap.fill(line, max(int(letters), 8)) for line in together.split("\n"))


def _of_all(handle: Any) -> bool:
    """Whether an entry of the legend is grey, and so stands for all methods: those come last."""
    return isinstance(handle, Line2D) and handle.get_color() == GREY


def _legend(figure: Figure, handles: Handles, columns: int) -> tuple[float, int]:
    """A legend on the right of all axes if they stay wide enough, else above; returns its width there or its lines."""
    if not handles:
        return 0.0, 0
    wide = figure.get_size_inches()[0]
    entry = INCHES_A_LETTER * max(len(str(handle.get_label())) for handle in handles) + 0.45
    look: dict[str, Any] = {"handles": handles, "frameon": False, "handlelength": 2.4, "columnspacing": 1.2}
    if (wide - entry) / columns >= NARROWEST_BESIDE and INCHES_A_LINE * len(handles) < figure.get_size_inches()[1]:
        figure.legend(loc="outside right center", **look)
        return entry, 0
    across = max(1, min(int(wide / entry), len(handles)))
    figure.legend(loc="outside upper center", ncols=across, **look)
    return 0.0, math.ceil(len(handles) / across)


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
