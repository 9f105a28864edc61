"""Count the code by folder, beside code bases that we learn from: `make loc`.

Comments, docstrings and blank lines do not count. Nothing is limited: the numbers are to look at.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "socrates"

NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Count:
    """The size of some source code; `longest` is the longest function, in lines of code."""

    files: int = 0
    tokens: int = 0
    lines: int = 0
    longest: int = 0
    longest_name: str = ""

    def __add__(self, other: Count) -> Count:
        longer = max(self, other, key=lambda count: count.longest)
        return Count(
            self.files + other.files,
            self.tokens + other.tokens,
            self.lines + other.lines,
            longer.longest,
            longer.longest_name,
        )


# Counted by this script in the published wheels, without their tests.
OTHERS = {
    "zuko 1.6.0": Count(18, 22023, 2746, 47),
    "einops 0.8.2": Count(17, 14662, 1883, 130),
    "optax.losses 0.2.8": Count(8, 5529, 659, 63),
}


def count_code(text: str, name: str) -> Count:
    """Count the tokens and lines of one source file, and find its longest function."""
    tree = ast.parse(text)
    docstring_lines = set(_docstring_lines(tree))
    num_tokens = 0
    code_lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in NO_CODE or token.start[0] in docstring_lines:
            continue
        num_tokens += 1
        code_lines |= set(range(token.start[0], token.end[0] + 1))
    sizes = {
        f"{name}:{node.name}": len(code_lines & set(range(node.lineno, _end(node) + 1)))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    longest = max(sizes, key=lambda function: sizes[function], default="")
    return Count(1, num_tokens, len(code_lines), sizes.get(longest, 0), longest)


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the numbers of the lines that docstrings stand on."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            yield from range(docstring.lineno, _end(docstring) + 1)


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def count_folders(package: Path) -> dict[str, Count]:
    """Return the counts of a package by folder; its single files are counted together."""
    counts: dict[str, Count] = {}
    for path in sorted(package.rglob("*.py")):
        folders = path.relative_to(package).parent.as_posix()
        folder = "single files" if folders == "." else folders
        counted = count_code(path.read_text(encoding="utf-8"), path.name)
        counts[folder] = counts.get(folder, Count()) + counted
    return counts


def main() -> None:
    counts = count_folders(PACKAGE)
    rows = {**counts, "total": sum(counts.values(), Count()), **OTHERS}
    print("files   tokens    lines  tokens/line  longest function")
    for name, count in rows.items():
        density = count.tokens / count.lines if count.lines else 0.0
        print(
            f"{count.files:5d} {count.tokens:8,d} {count.lines:8,d} {density:12.1f} "
            f"{count.longest:5d}  {name:20s} {count.longest_name}".rstrip()
        )


if __name__ == "__main__":
    main()
