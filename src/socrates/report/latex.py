"""The LaTeX form of a table: for printing, with booktabs."""

import json
import re
from functools import cache

import jinja2

from .markup import asset
from .tables import Cell, Table, unrepeated

LATEX_ROWS = 40  # on a page
LATEX_WORDS = 40  # characters; longer ones are broken into lines
# "[" and "*" are in braces, or they would be taken for options after the end of a row.
SPECIAL: dict[str, str] = json.loads(asset("latex.json"))
KNOWN = re.compile("[ -~À-ÖØ-öø-ÿ]")  # to LaTeX by itself


def to_latex(table: Table, standalone: bool = False) -> str:
    r"""Return the table for printing, with booktabs and graphicx, `standalone` as a whole document.

    The first of several keys becomes a line above its rows. A table that is too wide is shrunk to
    the line, and a long one is cut into parts of one page each.

    >>> from socrates.report.tables import TableRow
    >>> row = TableRow(("SAT α=0.9",), (Cell(9.0, 0.23, emphasis="best"),))
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
    SAT $\alpha$=0.9 & \textbf{9.00 $\pm$ 0.23} \\
    \bottomrule
    \end{tabular}}
    \end{table}
    """
    hidden = int(table.num_keys > 1)  # the first of several keys stands above its rows
    columns = [_latex_column(table, index) for index in range(hidden, len(table.heads))]
    size = LATEX_ROWS // 2 if any("p" in column for column in columns) else LATEX_ROWS
    parts = [table.rows[start : start + size] for start in range(0, len(table.rows), size)] or [()]
    template = _environment().get_template("table.tex")
    return template.render(
        table=table, hidden=hidden, columns=columns, parts=parts, standalone=standalone
    )


@cache
def _environment() -> jinja2.Environment:
    # Braces are LaTeX's own.
    environment = jinja2.Environment(
        "<%", "%>", "<<", ">>", "<#", "#>", trim_blocks=True, keep_trailing_newline=True
    )
    environment.loader = jinja2.FunctionLoader(asset)
    environment.filters |= {"text": _latex_text, "cell": _latex_cell, "unrepeated": unrepeated}
    return environment


def _latex_column(table: Table, index: int) -> str:
    if table.numeric[index]:
        return "r"
    texts = [(*row.keys, *row.cells)[index] for row in table.rows]
    return "p{60mm}" if any(len(str(text)) > LATEX_WORDS for text in texts) else "l"


def _latex_cell(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return _latex_text(cell)
    text = _latex_text(re.sub(r"-(?=\d)", "−", cell.text))  # the sign of a number
    if cell.emphasis == "best":
        text = rf"\textbf{{{text}}}"
    return rf"{text}\textsuperscript{{{_latex_text(cell.mark)}}}" if cell.mark else text


def _latex_text(text: str) -> str:
    """Return the text escaped; letters that LaTeX does not know stand by their number."""
    return "".join(map(_latex_letter, " ".join(text.split())))


def _latex_letter(letter: str) -> str:
    if letter in SPECIAL:
        return SPECIAL[letter]
    return letter if KNOWN.match(letter) else f"{{[}}U+{ord(letter):04X}{{]}}"
