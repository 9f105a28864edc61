"""Lines of code by folder, without blanks, comments and docstrings, beside their budgets: `make loc`.

A part that needs more changes its number here, in the commit that needs it, and says why there.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "socrates"

BUDGETS = {
    "losses": 550,
    "metrics": 640,
    "scaling": 720,
    "data + models + methods": 1820,
    "engine": 1230,
    "report": 1720,
    "paper": 760,
    "cli": 640,
    "single files": 520,
}
TOTAL = 8800
PAGE_SCRIPT = 350  # all files of JavaScript together

NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def lines_of_code(text: str) -> int:
    """How many lines of a Python source hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def budget_of(path: Path) -> str:
    """The name of the budget that a file of the package belongs to."""
    folder = path.relative_to(PACKAGE).parts[0]
    if folder.endswith(".py"):
        return "single files"
    return next((name for name in BUDGETS if folder in name.split(" + ")), folder)


def spent() -> Counter[str]:
    """Lines of code by the budget they belong to."""
    found: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        found[budget_of(path)] += lines_of_code(path.read_text(encoding="utf-8"))
    return found


def page_script() -> int:
    """Lines of the page's script."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.js"))


def main() -> int:
    found = spent()
    rows = [(name, lines, BUDGETS.get(name, 0)) for name, lines in found.most_common()]
    rows += [("total", sum(found.values()), TOTAL), ("page script", page_script(), PAGE_SCRIPT)]
    for name, lines, budget in rows:
        print(f"{lines:6d} of {budget:5d}  {name}{'' if lines <= budget else f': {lines - budget} too many'}")
    return int(any(lines > budget for _, lines, budget in rows))


if __name__ == "__main__":
    sys.exit(main())
