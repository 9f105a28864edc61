"""Tables as data, and their forms: Markdown to read, CSV to compute with, HTML for the page.

LaTeX has its own file, and so has the terminal.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from socrates.files import no_formula, replacing

from .markup import markup
from .vocabulary import Metric

Names = Mapping[str, Any]  # what is said of a name
NOTHING = "–"
CSV_FIELDS = ("mean", "std", "n", "emphasis", "mark", "words")
DAGGER = "†"  # the footnote sign of what cannot be told from the best
FAILED = "✕"  # the footnote sign of collapsed runs, which are not ranked


@dataclass(frozen=True)
class Cell:
    """A number: mean and standard deviation of n values, their format, place and footnote sign.

    >>> Cell(88.4213, 0.052).text, Cell(-0.0001, form=".3f").text, Cell(float("nan")).text
    ('88.42 ± 0.05', '0.000', '–')
    """

    mean: float
    std: float = math.nan
    n: int = 0
    emphasis: Literal["best"] | None = None
    mark: str = ""
    form: str = ".2f"

    @property
    def known(self) -> bool:
        """Return whether there is a number."""
        return math.isfinite(self.mean)

    @property
    def text(self) -> str:
        """Return the number as printed, without emphasis and footnote sign."""
        if not self.known:
            return NOTHING
        mean = f"{self.mean:{self.form}}"
        if not any(digit in mean for digit in "123456789"):
            mean = mean.removeprefix("-")  # what rounds to zero has no sign
        return f"{mean} ± {self.std:{self.form}}" if math.isfinite(self.std) else mean


def cell_of(spec: Metric, value: float, **more: Any) -> Cell:
    """Return a recorded number of a metric as a cell, in the unit and format that are printed.

    >>> from .vocabulary import METRICS
    >>> cell_of(METRICS["ece"], 0.0312).text
    '3.12'
    """
    return Cell(spec.factor * value, form=spec.form, **more)


@dataclass(frozen=True)
class TableRow:
    """Keys that say what the row is about, then its cells: numbers, or words."""

    keys: tuple[str, ...]
    cells: tuple[Cell | str, ...]


@dataclass(frozen=True)
class Table:
    """Heads for keys and cells, rows, and notes beneath; `name` is the file's.

    >>> row = TableRow(("CE",), (Cell(9.0, 0.2),))
    >>> table = Table("small", "A small table", ("Method", "ECE (%)"), (row,))
    >>> print(to_markdown(table))
    ### A small table
    <BLANKLINE>
    | Method | ECE (%)     |
    |:-------|------------:|
    | CE     | 9.00 ± 0.20 |
    <BLANKLINE>
    """

    name: str
    title: str
    heads: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()
    remark: str = ""  # that must go wherever a number goes: a column of the CSV

    def __post_init__(self) -> None:
        shapes = {(len(row.keys), len(row.cells)) for row in self.rows}
        if len(shapes) > 1 or any(sum(shape) != len(self.heads) for shape in shapes):
            raise ValueError(
                f"table {self.name!r} has {len(self.heads)} heads, but rows with (keys, cells) "
                f"of {sorted(shapes)}: all rows need as many keys, and as many keys and cells as "
                "there are heads"
            )

    def without_first_key(self) -> Table:
        """Return the same table for where its first key need not be said."""
        rows = tuple(TableRow(row.keys[1:], row.cells) for row in self.rows)
        return dataclasses.replace(self, heads=self.heads[1:], rows=rows)

    @property
    def num_keys(self) -> int:
        """Return how many of the heads are those of keys."""
        return len(self.rows[0].keys) if self.rows else len(self.heads)

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Return for each head whether numbers stand beneath it."""
        columns = zip(*(row.cells for row in self.rows), strict=True)
        with_numbers = [any(isinstance(cell, Cell) for cell in column) for column in columns]
        return (False,) * self.num_keys + tuple(with_numbers)


def to_markdown(table: Table) -> str:
    """Return the table as Markdown, without keys that repeat those above.

    >>> row = TableRow(("x",), (Cell(1.0, emphasis="best", mark="†"),))
    >>> print(to_markdown(Table("t", "T", ("a", "b"), (row,))))
    ### T
    <BLANKLINE>
    | a   | b                    |
    |:----|---------------------:|
    | x   | **1.00**<sup>†</sup> |
    <BLANKLINE>
    """
    lines = [[_markdown_text(head) for head in table.heads]]
    lines += [
        [*map(_markdown_text, keys), *map(_markdown_cell, row.cells)]
        for keys, row in unrepeated(table.rows)
    ]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    rules = [
        f"{'-' * (width + 1)}:" if number else f":{'-' * (width + 1)}"
        for width, number in zip(widths, table.numeric, strict=True)
    ]
    body = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]
    notes = ["", *(f"- {_markdown_text(note)}" for note in table.notes)] if table.notes else []
    title = f"### {_markdown_text(table.title)}"
    return "\n".join([title, "", body[0], f"|{'|'.join(rules)}|", *body[1:], *notes]) + "\n"


def to_csv(table: Table) -> str:
    """Return one CSV line per cell, with numbers in full.

    >>> row = TableRow(("ECE",), (Cell(1 / 3, n=1), "good"))
    >>> table = Table("t", "T", ("Metric", "CE", "Verdict"), (row,))
    >>> print(to_csv(table))
    Metric,column,mean,std,n,emphasis,mark,words
    ECE,CE,0.3333333333333333,,1,,,
    ECE,Verdict,,,,,,good
    """
    remark = {"remark": table.remark} if table.remark else {}
    keys = table.heads[: table.num_keys]
    columns = table.heads[table.num_keys :]
    lines: list[list[Any]] = [[*keys, "column", *CSV_FIELDS, *remark]]
    for row in table.rows:
        for column, cell in zip(columns, row.cells, strict=True):
            lines.append([*row.keys, column, *_csv_fields(cell), *remark.values()])
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(map(no_formula, line) for line in lines)
    return stream.getvalue()


def to_html(
    table: Table, methods: Names | None = None, hints: Names | None = None, sortable: bool = False
) -> str:
    """Return the table for the page, with classes for best and collapsed.

    `methods` have a place, which gives keys their colour, and a reason if they collapsed; `hints`
    are shown when a head is pointed at; the heads of a sortable table are buttons.

    >>> row = TableRow(("x < y",), (Cell(-1.0, emphasis="best"),))
    >>> to_html(Table("t", "T", ("a", "b"), (row,)))
    '<table>...<th scope="row">x &lt; y</th><td class="best"
    data-head="b" data-value="-1">−1.00</td></tr>...'
    """
    return markup(
        "table.html",
        table=table,
        rows=unrepeated(table.rows),
        methods=methods or {},
        hints=hints or {},
        sortable=sortable,
        dagger=FAILED,
    )


def write_table(table: Table, folder: Path | str) -> list[Path]:
    """Write the table as name.md, name.tex and name.csv, each whole or not at all.

    >>> import tempfile
    >>> [path.name for path in write_table(Table("runs", "Runs", ("Run",), ()), tempfile.mkdtemp())]
    ['runs.md', 'runs.tex', 'runs.csv']
    """
    from .latex import to_latex

    Path(folder).mkdir(parents=True, exist_ok=True)
    forms = {"md": to_markdown(table), "tex": to_latex(table), "csv": to_csv(table)}
    paths: list[Path] = []
    for ending, text in forms.items():
        path = Path(folder, f"{table.name}.{ending}")
        with replacing(path) as file:
            file.write(text.encode(errors="backslashreplace"))  # a folder's name may hold any bytes
        paths.append(path)
    return paths


def unrepeated(rows: Sequence[TableRow]) -> list[tuple[tuple[str, ...], TableRow]]:
    """Return the rows with the keys to print: empty where they repeat those of the row above.

    >>> [keys for keys, _ in unrepeated([TableRow(("a", "x"), ()), TableRow(("a", "y"), ())])]
    [('a', 'x'), ('', 'y')]
    """
    printed: list[tuple[tuple[str, ...], TableRow]] = []
    above: tuple[str, ...] = ()
    for row in rows:
        same = 0
        # the last key always stands
        while same < len(row.keys) - 1 and row.keys[: same + 1] == above[: same + 1]:
            same += 1
        printed.append((("",) * same + row.keys[same:], row))
        above = row.keys
    return printed


def _markdown_text(text: str) -> str:
    escaped = re.sub(r"([\\|*`<&~\[])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\_", escaped)  # within a word an underscore is one


def _markdown_cell(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return _markdown_text(cell)
    text = f"**{cell.text}**" if cell.emphasis == "best" else cell.text
    return f"{text}<sup>{_markdown_text(cell.mark)}</sup>" if cell.mark else text


def _csv_fields(cell: Cell | str) -> list[Any]:
    """Return the fields of a cell in the order of CSV_FIELDS."""
    if isinstance(cell, str):
        return ["", "", "", "", "", cell]
    numbers = ["" if math.isnan(value) else float(value) for value in (cell.mean, cell.std)]
    return [*numbers, cell.n or "", cell.emphasis or "", cell.mark, ""]
