"""Tables as data, and their three forms: Markdown to read, LaTeX to print, CSV to compute with."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from socrates.records import replacing

Place = Literal["best", "second"]
NOTHING = "–"

LATEX_ROWS = 40  # on a page
LATEX_WORDS = 40  # characters; longer ones are broken into lines
GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi "
    "omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
)
SPECIAL = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "#$%&_{}"},
        **{sign: f"${sign}$" for sign in "<>|"},
        **{sign: f"{{{sign}}}" for sign in "[]*"},  # "[" and "*" after the end of a row would be taken for options
        "\\": r"\textbackslash{}",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "/": r"/\allowbreak{}",
        "±": r"$\pm$",
        "−": "$-$",
        "†": r"\dag{}",
        "‡": r"\ddag{}",
        "–": "--",
        "—": "---",
        "…": r"\dots{}",
        "≤": r"$\le$",
        "≥": r"$\ge$",
        "→": r"$\to$",
        "’": "'",
        "“": "``",
        "”": "''",
    }
    | {letter: f"$\\{name}$" for letter, name in zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", GREEK.split(), strict=True)}
)
DOCUMENT = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs,graphicx}
\begin{document}
%s\end{document}
"""


@dataclass(frozen=True)
class Cell:
    """A number: mean and standard deviation of n values, the format it is printed in, its place and footnote sign.

    >>> Cell(88.4213, 0.052).text, Cell(0.5, form=".3f").text, Cell(float("nan")).text
    ('88.42 ± 0.05', '0.500', '–')
    """

    mean: float
    std: float = math.nan
    n: int = 0
    emphasis: Place | None = None
    mark: str = ""
    form: str = ".2f"

    @property
    def text(self) -> str:
        """As printed, without emphasis and footnote sign."""
        if not math.isfinite(self.mean):
            return NOTHING
        spread = f" ± {self.std:{self.form}}" if math.isfinite(self.std) else ""
        return f"{self.mean:{self.form}}{spread}"


@dataclass(frozen=True)
class Row:
    """Keys that say what the row is about, then its cells: numbers, or words."""

    keys: tuple[str, ...]
    cells: tuple[Cell | str, ...]


@dataclass(frozen=True)
class Table:
    """Heads for keys and cells, rows, and notes beneath; `name` is the file's.

    >>> table = Table("small", "A small table", ("Method", "ECE (%)"), (Row(("CE",), (Cell(9.0, 0.2),)),))
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
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    remark: str = ""  # that must go wherever a number goes: a column of the CSV

    def __post_init__(self) -> None:
        shapes = {(len(row.keys), len(row.cells)) for row in self.rows}
        if len(shapes) > 1 or any(sum(shape) != len(self.heads) for shape in shapes):
            raise ValueError(
                f"table {self.name!r} has {len(self.heads)} heads, but rows with (keys, cells) of {sorted(shapes)}: "
                f"give every row as many keys, and together with its cells as many as there are heads"
            )

    @property
    def num_keys(self) -> int:
        """How many of the heads are those of keys."""
        return len(self.rows[0].keys) if self.rows else len(self.heads)

    @property
    def numeric(self) -> tuple[bool, ...]:
        """For each head, whether numbers stand beneath it."""
        cells = [any(isinstance(row.cells[i], Cell) for row in self.rows) for i in range(self._num_columns)]
        return (False,) * self.num_keys + tuple(cells)

    @property
    def _num_columns(self) -> int:
        return len(self.heads) - self.num_keys


def emphasis(values: Sequence[float], larger_is_better: bool, form: str = ".2f") -> list[Place | None]:
    """The best and the second-best value, ranked as printed: equal prints share a place, NaN has none.

    Where all print alike, there is nothing to rank.

    >>> emphasis([1.064, 1.07, 1.06, 1.071, 5.0, float("nan")], larger_is_better=False)
    ['best', 'second', 'best', 'second', None, None]
    >>> emphasis([97.0, 97.0], larger_is_better=True)
    [None, None]
    """
    printed = [float(format(value, form)) for value in values]
    levels = sorted({value for value in printed if math.isfinite(value)}, reverse=larger_is_better)
    if len(levels) < 2:
        return [None] * len(printed)
    places: dict[float, Place] = {levels[0]: "best", levels[1]: "second"}
    return [places.get(value) for value in printed]


def to_markdown(table: Table) -> str:
    """For reading, as it is or rendered; keys that repeat those above are left out.

    >>> print(to_markdown(Table("t", "T", ("a", "b"), (Row(("x",), (Cell(1.0, emphasis="best", mark="†"),)),))))
    ### T
    <BLANKLINE>
    | a   | b                    |
    |:----|---------------------:|
    | x   | **1.00**<sup>†</sup> |
    <BLANKLINE>
    """
    lines = [[_markdown_text(head) for head in table.heads]]
    lines += [[*map(_markdown_text, keys), *map(_markdown_cell, row.cells)] for keys, row in _unrepeated(table.rows)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(table.heads))]
    rules = [
        f"{'-' * (width + 1)}:" if number else f":{'-' * (width + 1)}"
        for width, number in zip(widths, table.numeric, strict=True)
    ]
    body = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]
    notes = ["", *(f"- {_markdown_text(note)}" for note in table.notes)] if table.notes else []
    title = f"### {_markdown_text(table.title)}"
    return "\n".join([title, "", body[0], f"|{'|'.join(rules)}|", *body[1:], *notes]) + "\n"


def to_csv(table: Table) -> str:
    """One line a cell, numbers in full: the row's keys, the column, mean, std, n, emphasis, mark, and words.

    >>> table = Table("t", "T", ("Metric", "CE", "Verdict"), (Row(("ECE",), (Cell(1 / 3, n=1), "good")),))
    >>> print(to_csv(table))
    Metric,column,mean,std,n,emphasis,mark,words
    ECE,CE,0.3333333333333333,,1,,,
    ECE,Verdict,,,,,,good
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    remarked, remark = (["remark"], [table.remark]) if table.remark else ([], [])
    writer.writerow(
        [*table.heads[: table.num_keys], "column", "mean", "std", "n", "emphasis", "mark", "words", *remarked]
    )
    for row in table.rows:
        for column, cell in zip(table.heads[table.num_keys :], row.cells, strict=True):
            writer.writerow([*row.keys, column, *_csv_fields(cell), *remark])
    return stream.getvalue()


def to_latex(table: Table, standalone: bool = False) -> str:
    r"""For printing; needs booktabs and graphicx. `standalone` gives a whole document.

    The first of several keys becomes a line above its rows. A table that is too wide is shrunk to the line, and a long
    one is cut into parts of one page each.

    >>> row = Row(("SAT α=0.9",), (Cell(9.0, 0.23, emphasis="second"),))
    >>> print(to_latex(Table("t", "Test", ("Method", "ECE (%)"), (row,))))
    % needs \usepackage{booktabs,graphicx}
    \begin{table}[htbp]
    \centering\footnotesize\renewcommand{\arraystretch}{1.15}
    \caption{Test}
    \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%
    \begin{tabular}{lr}
    \toprule
    Method & ECE (\%) \\
    \midrule
    SAT $\alpha$=0.9 & \underline{9.00 $\pm$ 0.23} \\
    \bottomrule
    \end{tabular}}
    \end{table}
    """
    columns = [_latex_column(table, index) for index in range(len(table.heads))]
    shown = columns[int(table.num_keys > 1) :]  # the first of several keys stands above its rows
    size = LATEX_ROWS // 2 if any("p" in column for column in shown) else LATEX_ROWS
    parts = [table.rows[start : start + size] for start in range(0, len(table.rows), size)] or [()]
    text = "% needs \\usepackage{booktabs,graphicx}\n"
    for number, rows in enumerate(parts, start=1):
        text += _latex_part(table, columns, rows, f" (part {number} of {len(parts)})" if len(parts) > 1 else "")
        text += "\\clearpage\n" if len(parts) > 1 else ""
    return DOCUMENT % text if standalone else text


def write_table(table: Table, folder: Path | str) -> list[Path]:
    """Write the table as name.md, name.tex and name.csv, each whole or not at all.

    >>> import tempfile
    >>> [path.name for path in write_table(Table("runs", "Runs", ("Run",), ()), tempfile.mkdtemp())]
    ['runs.md', 'runs.tex', 'runs.csv']
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    forms = {"md": to_markdown(table), "tex": to_latex(table), "csv": to_csv(table)}
    paths: list[Path] = []
    for ending, text in forms.items():
        path = folder / f"{table.name}.{ending}"
        with replacing(path) as file:
            file.write(text.encode(errors="backslashreplace"))  # a folder's name may hold any bytes
        paths.append(path)
    return paths


def _unrepeated(rows: Sequence[Row]) -> list[tuple[tuple[str, ...], Row]]:
    """Rows with the keys to print: empty where all up to there are those of the row above."""
    printed: list[tuple[tuple[str, ...], Row]] = []
    above: tuple[str, ...] = ()
    for row in rows:
        same = 0
        while same < len(row.keys) - 1 and row.keys[: same + 1] == above[: same + 1]:  # the last key always stands
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
    before, after = {"best": ("**", "**"), "second": ("<u>", "</u>"), None: ("", "")}[cell.emphasis]
    mark = f"<sup>{_markdown_text(cell.mark)}</sup>" if cell.mark else ""
    return f"{before}{cell.text}{after}{mark}"


def _csv_fields(cell: Cell | str) -> list[str | int]:
    if isinstance(cell, str):
        return ["", "", "", "", "", cell]
    numbers = ["" if math.isnan(value) else repr(float(value)) for value in (cell.mean, cell.std)]
    return [*numbers, cell.n or "", cell.emphasis or "", cell.mark, ""]


def _latex_part(table: Table, columns: list[str], rows: Sequence[Row], part: str) -> str:
    hidden = int(table.num_keys > 1)
    heads = [_latex_text(head) for head in table.heads[hidden:]]
    lines = [
        r"\begin{table}[htbp]",
        r"\centering\footnotesize\renewcommand{\arraystretch}{1.15}",
        rf"\caption{{{_latex_text(table.title + part)}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{''.join(columns[hidden:])}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        *_latex_body(rows, hidden, len(heads)),
        r"\bottomrule",
        r"\end{tabular}}",
    ]
    if table.notes and rows[-1:] == table.rows[-1:]:
        notes = r"\\ ".join(map(_latex_text, table.notes))
        lines.append(rf"\par\smallskip\parbox{{\linewidth}}{{\scriptsize\raggedright {notes}}}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex_body(rows: Sequence[Row], hidden: int, width: int) -> list[str]:
    lines: list[str] = [] if hidden and rows else [r"\midrule"]
    for keys, row in _unrepeated(rows):
        if hidden and keys[0]:
            lines += [r"\midrule", rf"\multicolumn{{{width}}}{{l}}{{\emph{{{_latex_text(keys[0])}}}}} \\"]
        lines.append(" & ".join([*map(_latex_text, keys[hidden:]), *map(_latex_cell, row.cells)]) + r" \\")
    return lines


def _latex_column(table: Table, index: int) -> str:
    if table.numeric[index]:
        return "r"
    texts = [(*row.keys, *row.cells)[index] for row in table.rows]
    return "p{60mm}" if any(len(str(text)) > LATEX_WORDS for text in texts) else "l"


def _latex_cell(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return _latex_text(cell)
    text = _latex_text(re.sub(r"-(?=\d)", "−", cell.text))
    wrapped = {"best": rf"\textbf{{{text}}}", "second": rf"\underline{{{text}}}", None: text}[cell.emphasis]
    return wrapped + (rf"\textsuperscript{{{_latex_text(cell.mark)}}}" if cell.mark else "")


def _latex_text(text: str) -> str:
    """Escaped; letters that LaTeX does not know by itself are given by their number."""
    known = re.sub(
        r"[^ -~À-ÖØ-öø-ÿ]",
        lambda match: match[0] if ord(match[0]) in SPECIAL else f"[U+{ord(match[0]):04X}]",
        " ".join(text.split()),
    )
    return known.translate(SPECIAL)
