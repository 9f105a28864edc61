"""The changes of one token that `mutants.py` tries: a comparison, an operator, a number, a truth, a
result."""

from __future__ import annotations

import ast
import contextlib
import re
from dataclasses import dataclass
from typing import Any

OPERATORS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.Pow: ("**", "*"), ast.FloorDiv: ("//", "/"), ast.Mod: ("%", "*"), ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
PAIRS = ("min max", "amin amax", "minimum maximum", "argmin argmax", "any all", "floor ceil")
NAMES = {name: other for pair in map(str.split, PAIRS) for name, other in (pair, pair[::-1])}
# Changes that no result shows: where a warning points to, what only guards against our own
# mistakes, whether equal values are copied; and constants, named by these words, that say how much
# is done at once or how often at most.
SILENT_KEYWORDS = {"stacklevel", "strict", "slots", "frozen", "copy", "non_blocking", "maxsize"}
SILENT_CONSTANTS = re.compile(
    r"_?[A-Z_]*(CHUNK|CELLS|HALVINGS|SMALL|STRIDES|NUM_BLOCKS|MAX_STEPS|MAX_INNER|MAX_PASSES)[A-Z_]*"
)
SILENT_CALLS = {"warn", "cast", "TypeVar", "NewType"}


@dataclass(frozen=True)
class Mutant:
    """One change: bytes `start` to `end` of a file become `after`; `owners` are the functions
    around it, by line."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str
    owners: tuple[int, ...]

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}: {' '.join(self.before.split())} -> {self.after or 'nothing'}"
        )


class Finder(ast.NodeVisitor):
    """All mutants of a source; docstrings, annotations, messages of errors and what only types need
    are left alone."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.owners: tuple[int, ...] = ()
        self.found: list[Mutant] = []
        self.visit(ast.parse(source))

    def _begin(self, node: Any) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _end(self, node: Any) -> int:
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def _add(self, start: int, end: int, after: str) -> None:
        line = self.source.count(b"\n", 0, start) + 1
        before = self.source[start:end].decode()
        self.found.append(Mutant(self.file, line, start, end, before, after, self.owners))

    def _between(self, left: ast.AST, right: ast.AST, operator: ast.AST, suffix: str = "") -> None:
        """Swap the operator that stands between two nodes."""
        if type(operator) not in OPERATORS:
            return
        before, after = OPERATORS[type(operator)]
        start, end = self._end(left), self._begin(right)
        found = re.search(re.escape(before).replace(r"\ ", r"\s+"), self.source[start:end].decode())
        if found and "#" not in self.source[start:end].decode():
            self._add(start + found.start(), start + found.end() + len(suffix), after + suffix)

    def generic_visit(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_comment", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self.visit(child)

    def _visit_function(self, node: Any) -> None:
        decorators = {
            ast.unparse(decorator).split("(")[0].split(".")[-1] for decorator in node.decorator_list
        }
        if "overload" in decorators or _is_empty(node.body):
            return
        outer = self.owners
        lines = [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]
        # A function that remembers is called by one test for all of them.
        self.owners = () if decorators & {"cache", "lru_cache"} else (*outer, *lines)
        self.generic_visit(node)
        self.owners = outer

    visit_FunctionDef = visit_AsyncFunctionDef = _visit_function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if not {"Protocol", "TypedDict"} & {
            ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases
        }:
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None: ...

    def visit_Import(self, node: ast.Import) -> None: ...

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None: ...

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        names += [
            part.id
            for part in ast.walk(node.value)
            if isinstance(part, ast.Name) and "CHUNK" in part.id
        ]
        if not any(name.startswith("__") or SILENT_CONSTANTS.fullmatch(name) for name in names):
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and ast.unparse(node.annotation) != "TypeAlias":
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func).split(".")[-1]
        if name in SILENT_CALLS:
            return
        self.visit(node.func)
        for argument in node.args if name != "isinstance" else node.args[:1]:
            self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg not in SILENT_KEYWORDS:
                self.visit(keyword.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._between(node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._between(node.target, node.value, node.op, "=")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, node.op)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip(
            [node.left, *node.comparators], node.ops, node.comparators, strict=False
        ):
            self._between(left, right, operator)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        length = {ast.Not: 3, ast.USub: 1, ast.Invert: 1}.get(type(node.op), 0)
        if length:
            self._add(self._begin(node), self._begin(node) + length, "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool | int | float):
            after = not node.value if isinstance(node.value, bool) else node.value + 1
            if after == after - 1:  # infinite, or so large that one more is none
                after = 1.0
            self._add(self._begin(node), self._end(node), repr(after))

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in NAMES and isinstance(node.ctx, ast.Load):
            self._add(self._begin(node), self._end(node), NAMES[node.id])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in NAMES and isinstance(node.ctx, ast.Load):
            self._add(self._end(node) - len(node.attr), self._end(node), NAMES[node.attr])
        self.visit(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None or ast.unparse(node.value) == "None":
            return
        if ast.unparse(node.value) != "False":  # None is as false, and True is tried, too
            self._add(self._begin(node.value), self._end(node.value), "None")
        self.visit(node.value)

    def visit_Break(self, node: ast.Break) -> None:
        self._add(self._begin(node), self._end(node), "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add(self._begin(node), self._end(node), "break")


def _is_empty(body: list[ast.stmt]) -> bool:
    """Whether a function says nothing but what it is for."""
    return all(isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) for part in body)


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """Every mutant of a source that is still Python."""
    found = []
    for mutant in Finder(file, source).found:
        with contextlib.suppress(SyntaxError):
            ast.parse(mutant.applied(source))
            found.append(mutant)
    return found
