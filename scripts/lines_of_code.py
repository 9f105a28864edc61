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

# What each folder may have today, and what we aim at: the first number goes down towards the second, and up only with
# something new.
BUDGETS = {
    "losses": (719, 550),  # weights, ignored samples, pixels and recomputation came after the aim was set
    "metrics": (1487, 1250),  # weights, groups and every entry; tests, decompositions, worst groups, conformal sets
    "scaling": (1404, 1150),  # structured, ensemble, isotonic and beta; probabilities; files; the choice between them
    "plots": (419, 300),  # one line in a notebook, and the ink of the report
    "abstention": (128, 120),
    "data + models + methods": (1932, 1820),
    "engine": (2808, 1700),  # keeping the model, starting from one, predictions for files
    "report": (2656, 1700),  # the page's charts moved here from its script
    "paper": (972, 760),
    "audit": (2078, 1300),  # five formats of any size with every bad row named, the judgement, the page
    "cli": (1155, 800),
    "single files": (1008, 520),  # typed records and resolve
    "predictor + export + card + hub": (622, 400),  # a run ends with a model
}
TOTAL = (17388, 12500)
PAGE_SCRIPT = (398, 350)  # all files of JavaScript together

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
    first = Path(path.relative_to(PACKAGE).parts[0])
    other = "single files" if first.suffix == ".py" or first.name == "records" else first.name
    return next((name for name in BUDGETS if first.stem in name.split(" + ")), other)


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
    rows = [(name, lines, *BUDGETS.get(name, (0, 0))) for name, lines in found.most_common()]
    rows += [("total", sum(found.values()), *TOTAL), ("page script", page_script(), *PAGE_SCRIPT)]
    print(" lines  limit    aim")
    for name, lines, limit, aim in rows:
        print(f"{lines:6d} {limit:6d} {aim:6d}  {name}{'' if lines <= limit else f': {lines - limit} too many'}")
    return int(any(lines > limit for _, lines, limit, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
