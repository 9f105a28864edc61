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
from .reader import FIRST_ROWS, FilePart, FileRows, Reader, open_bytes, readable


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


class JsonReader(Reader):
    """Read some megabytes of lines at a time."""

    unit = "line"

    def __init__(self, path: Path) -> None:
        self.path = path

    def first_rows(self) -> Mapping[str, Column]:
        """Return every name that one of the first objects has."""
        block = next(self._blocks(), JsonObjects())
        del block.objects[FIRST_ROWS:]
        names = dict.fromkeys(name for row in block.objects for name in row)
        return {name: guess_column(block.values(name)) for name in names}

    def batches(
        self, part: FilePart, numbers: Sequence[str], words: Sequence[str]
    ) -> Iterator[FileRows]:
        """Yield the rows of some megabytes of lines at a time."""
        for block in self._blocks():
            columns: dict[str, Column] = {name: numbers_of(block.values(name)) for name in numbers}
            columns |= {name: Words.of(block.values(name)) for name in words}
            positions = np.array(block.positions, np.intp)
            lines = np.array(block.lines, np.intp)
            yield FileRows(columns, positions, lines, block.unreadable)

    def _blocks(self) -> Iterator[JsonObjects]:
        position = 0
        line = 0
        with readable(self.path), open_bytes(self.path) as file:
            while texts := _next_lines(file, self.path):
                block = JsonObjects()
                for text in texts:
                    line += 1
                    if not text.strip():
                        continue
                    value = _object_of(text)
                    if value is None:
                        block.unreadable[line] = "is not a JSON object"
                    else:
                        block.objects.append(value)
                        block.positions.append(position)
                        block.lines.append(line)
                    position += 1
                yield block


def _object_of(text: bytes) -> dict[str, Any] | None:
    """Return the JSON object on a line, None if it holds none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


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
