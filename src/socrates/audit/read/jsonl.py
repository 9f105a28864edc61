"""JSON lines, as they are or compressed by gzip: one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from . import reader
from .columns import Column, Words, guess_column, numbers_of
from .nested import NestedColumns, as_mapping
from .reader import FIRST_ROWS, UNNAMED, FilePart, FileRows, Reader, open_bytes, readable


@dataclass
class JsonObjects:
    """The objects on some lines of a file, their positions and lines, and all other lines."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    unreadable: dict[int, str] = field(default_factory=dict)

    def values(self, name: str) -> list[Any]:
        """Return what each object holds under a name, None if nothing."""
        return [row.get(name) for row in self.objects]

    def add(self, value: Any, position: int, line: int) -> None:
        """Add a row, or why it is none."""
        row = row_of(value)
        if row is None:
            self.unreadable[line] = "is not a JSON object"
            return
        self.objects.append(row)
        self.positions.append(position)
        self.lines.append(line)


class JsonReader(Reader):
    """Read some megabytes of lines at a time."""

    unit = "line"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nested = NestedColumns()

    def first_rows(self) -> Mapping[str, Column]:
        """Return every name that one of the first objects has."""
        block = next(self.blocks(), JsonObjects())
        del block.objects[FIRST_ROWS:]
        names = dict.fromkeys(name for row in block.objects for name in row)
        table = self.nested.first_rows({name: block.values(name) for name in names})
        return {name: guess_column(values) for name, values in table.items()}

    def batches(
        self, part: FilePart, numbers: Sequence[str], words: Sequence[str]
    ) -> Iterator[FileRows]:
        """Yield the rows of some megabytes of lines at a time."""
        for block in self.blocks():
            values = self.nested.columns([*numbers, *words], block.values)
            columns: dict[str, Column] = {name: numbers_of(values[name]) for name in numbers}
            columns |= {name: Words.of(values[name]) for name in words}
            positions = np.array(block.positions, np.intp)
            lines = np.array(block.lines, np.intp)
            yield FileRows(columns, positions, lines, block.unreadable)

    def blocks(self) -> Iterator[JsonObjects]:
        """Yield the objects of some megabytes of lines at a time."""
        position = 0
        line = 0
        with readable(self.path), open_bytes(self.path) as file:
            while texts := _next_lines(file, self.path):
                block = JsonObjects()
                for text in texts:
                    line += 1
                    if not text.strip():
                        continue
                    block.add(_value_of(text), position, line)
                    position += 1
                yield block


def row_of(value: Any) -> dict[str, Any] | None:
    """Return a value as a row of columns, None if it is none; a bare list is a column unnamed."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and len(value) > 1:
        is_numbers = all(isinstance(entry, int | float) for entry in value)
        if is_numbers or as_mapping(value) is not None:
            return {UNNAMED: value}
    return None


def _value_of(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _next_lines(file: BinaryIO, path: Path) -> list[bytes]:
    """Return the next lines of a file, some megabytes of them."""
    lines: list[bytes] = []
    size = 0
    while size < reader.BLOCK_BYTES and (line := file.readline(reader.LONGEST_ROW)):
        if len(line) == reader.LONGEST_ROW:
            raise ValueError(
                f"{path} has a line of more than 16 MB: expected one JSON object per line"
            )
        lines.append(line)
        size += len(line)
    return lines
