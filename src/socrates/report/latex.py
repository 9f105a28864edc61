"""The LaTeX form of a table: for printing, with booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .tables import Cell, Row, Table, unrepeated

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
    for keys, row in unrepeated(rows):
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
