"""How a CSV file is written: its delimiter, its decimal mark, and whether it names its columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .columns import Column, Words, numbers_if_most, numbers_of

_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(,\d{3})+\s*")
_DECIMAL_POINT = re.compile(r"\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*")


@dataclass(frozen=True)
class Dialect:
    """How the cells of a file are written.

    Args:
        names: what the columns are called: by the first line, or 0, 1, ... where that is a row.
        delimiter: what stands between two cells.
        decimal: the mark before the decimals, a point or a comma.
        has_names: whether the first line names the columns.
    """

    names: tuple[str, ...]
    delimiter: str
    decimal: str
    has_names: bool

    @classmethod
    def of(cls, first_line: str, next_lines: Sequence[str], is_tabbed: bool) -> Dialect:
        """Return the dialect of a file with these first lines.

        >>> Dialect.of("cat;dog;label", ["0,25;0,75;dog"], is_tabbed=False).decimal
        ','
        >>> Dialect.of("0.25,0.75", ["0.5,0.5"], is_tabbed=False).names
        ('0', '1')
        """
        delimiter = "\t" if is_tabbed else max(",;\t", key=first_line.count)
        fields = [field.strip() for field in _cells([first_line], delimiter)]
        decimal = "."
        if delimiter != ",":
            decimal = _decimal_mark([*fields, *_cells(next_lines, delimiter)])
        numbers = numbers_of([_with_point(field, decimal) for field in fields])
        has_names = not np.isfinite(numbers).all() or decimal not in first_line
        names = fields if has_names else [*map(str, range(len(fields)))]
        return cls(tuple(names), delimiter, decimal, has_names)

    def numbers(self, values: Sequence[str | None]) -> Column:
        """Return cells as numbers, NaN where they are none."""
        if self.decimal == ",":
            values = [None if cell is None else _with_point(cell, ",") for cell in values]
        return numbers_of(values)

    def numbers_if_most(self, column: Column) -> Column:
        """Return words as numbers if most of them are."""
        if isinstance(column, Words) and self.decimal == ",":
            names = [_with_point(name, ",") for name in column.names]
            numbers = numbers_if_most(Words(column.codes, names))
            return column if isinstance(numbers, Words) else numbers
        return numbers_if_most(column)


def _cells(lines: Sequence[str], delimiter: str) -> list[str]:
    """Return the cells of some lines, or of those before one that is too long to be a row."""
    cells: list[str] = []
    try:
        for row in csv.reader(lines, delimiter=delimiter):
            cells += row
    except csv.Error:
        pass
    return cells


def _decimal_mark(cells: Sequence[str]) -> str:
    """Return the mark before the decimals; a comma only if no cell has a point, or thousands."""
    with_comma = [cell for cell in cells if _DECIMAL_COMMA.fullmatch(cell)]
    if all(_THOUSANDS.fullmatch(cell) for cell in with_comma):  # also if there is none
        return "."
    return "." if any(map(_DECIMAL_POINT.fullmatch, cells)) else ","


def _with_point(cell: str, decimal: str) -> str:
    """Return a number with a decimal point, and any other cell as it is."""
    if decimal == "," and _DECIMAL_COMMA.fullmatch(cell):
        return cell.replace(",", ".")
    return cell
