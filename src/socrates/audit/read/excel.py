"""Excel: the first sheet of a workbook, whose first row names the columns."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from socrates.files import refuse_bomb

from .columns import Column, Words, guess_column, numbers_of
from .reader import FIRST_ROWS, FilePart, FileRows, Reader, readable, refuse_duplicates


class ExcelReader(Reader):
    """Read a whole sheet with openpyxl."""

    unit = "line"

    def __init__(self, path: Path) -> None:
        try:
            import openpyxl
        except ImportError as error:
            raise ImportError(
                f"{path.name} needs openpyxl: pip install openpyxl, or save it as CSV"
            ) from error
        self.path = path
        with readable(path, Exception):
            with zipfile.ZipFile(path) as archive:
                refuse_bomb(archive, path)
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            rows = [list(row) for row in book.worksheets[0].iter_rows(values_only=True)]
            book.close()
        head = rows[0] if rows else []
        width = max((place + 1 for place, name in enumerate(head) if name is not None), default=0)
        if not width:
            raise ValueError(f"{path} has no first row: expected the names of the columns")
        self.names = ["" if name is None else str(name).strip() for name in head[:width]]
        refuse_duplicates(path, self.names)
        self.lines = [
            line
            for line, row in enumerate(rows[1:], start=2)
            if any(value is not None for value in row)
        ]
        kept = [[*rows[line - 1], *[None] * width][:width] for line in self.lines]
        self.table: dict[str, list[Any]] = {
            name: [row[place] for row in kept] for place, name in enumerate(self.names)
        }
        self.num_rows = len(kept)

    def first_rows(self) -> Mapping[str, Column]:
        """Return every column of the first rows."""
        return {name: guess_column(values[:FIRST_ROWS]) for name, values in self.table.items()}

    def batches(
        self, part: FilePart, numbers: Sequence[str], words: Sequence[str]
    ) -> Iterator[FileRows]:
        """Yield all rows at once."""
        columns: dict[str, Column] = {name: numbers_of(self.table[name]) for name in numbers}
        columns |= {name: Words.of(self.table[name]) for name in words}
        yield FileRows(columns, np.arange(len(self.lines)), np.array(self.lines, np.intp))
