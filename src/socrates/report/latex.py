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
    r"""For printing; needs booktabs and graphicx. `standalone` gives a whole document.

    The first of several keys becomes a line above its rows. A table that is too wide is shrunk to the line, and a long
    one is cut into parts of one page each.

    >>> from socrates.report.tables import Row
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
    hidden = int(table.num_keys > 1)  # the first of several keys stands above its rows
    columns = [_latex_column(table, index) for index in range(hidden, len(table.heads))]
    size = LATEX_ROWS // 2 if any("p" in column for column in columns) else LATEX_ROWS
    parts = [table.rows[start : start + size] for start in range(0, len(table.rows), size)] or [()]
    names = {"table": table, "hidden": hidden, "columns": columns, "parts": parts, "standalone": standalone}
    return _environment().get_template("table.tex").render(names)


@cache
def _environment() -> jinja2.Environment:
    # Braces are LaTeX's own.
    made = jinja2.Environment("<%", "%>", "<<", ">>", "<#", "#>", trim_blocks=True, keep_trailing_newline=True)
    made.loader = jinja2.FunctionLoader(asset)
    made.filters |= {"text": _latex_text, "cell": _latex_cell, "unrepeated": unrepeated}
    return made


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
    letters = " ".join(text.split())
    return "".join(SPECIAL.get(one) or (one if KNOWN.match(one) else f"{{[}}U+{ord(one):04X}{{]}}") for one in letters)
