"""CSV and TSV, as they are or compressed by gzip; rows that cannot be read keep their lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from socrates.arrays.open import Array

from . import reader
from .columns import Column, Words, from_arrow
from .dialect import Dialect
from .reader import (
    FIRST_ROWS,
    FilePart,
    FileRows,
    Reader,
    need_arrow,
    open_bytes,
    readable,
    refuse_duplicates,
    suffix_of,
)

LOOK_BYTES = 1 << 16  # after the first line, to see how numbers are written
NEWLINE, RETURN, QUOTE = b'\n\r"'


class CsvReader(Reader):
    """Read blocks of whole rows, and parse each with pyarrow.

    The blocks are cut here, not by `pyarrow.csv.open_csv`, because that does not know the line of a
    row below a line break within quotation marks, takes a quotation mark that is never closed for
    the end of a row, and ends at the first word among numbers instead of at that row.
    """

    unit = "line"

    def __init__(self, path: Path) -> None:
        need_arrow(path)
        self.path = path
        header, following = self._first_lines()
        self.dialect = Dialect.of(header, following, suffix_of(path) == ".tsv")
        self.names = [*self.dialect.names]
        self.has_names = self.dialect.has_names
        refuse_duplicates(path, self.names)

    def _first_lines(self) -> tuple[str, list[str]]:
        """Return the first line and some that follow, or raise if the first is not a table's."""
        with readable(self.path), open_bytes(self.path) as file:
            line = file.readline(reader.LONGEST_ROW)
            if len(line) == reader.LONGEST_ROW:
                raise ValueError(f"{self.path} has a first line of more than 16 MB: is it a table?")
            header = line.decode("utf-8-sig").strip("\r\n")
            # Bytes that are not UTF-8 are refused where their rows are read.
            following = file.read(LOOK_BYTES).decode(errors="replace").splitlines()
        if not header.strip():
            raise ValueError(
                f"{self.path} has no first line: expected the names of the columns, then one row "
                "per line"
            )
        if "\r" in header:
            raise ValueError(
                f"the lines of {self.path} end by carriage returns alone: write it with line feeds"
            )
        return header, [line for line in following if "\0" not in line]

    def first_rows(self) -> Mapping[str, Column]:
        """Return every column of the first rows."""
        with readable(self.path):
            block = next(self._blocks(), None)
            if block is None or not block.filled.any():
                return {}
            table, _ = self._parse(block.first(FIRST_ROWS).data, {}, self.names)
        return {
            name: self.dialect.numbers_if_most(
                from_arrow(table.column(name).combine_chunks(), as_words=False)
            )
            for name in self.names
        }

    def batches(
        self, part: FilePart, numbers: Sequence[str], words: Sequence[str]
    ) -> Iterator[FileRows]:
        """Yield the rows of each block."""
        first_row = 0
        first_line = 2 if self.has_names else 1
        with readable(self.path):
            for block in self._blocks():
                yield self._rows(block, first_row, first_line, numbers, words)
                first_row += int(block.filled.sum())
                first_line += len(block.breaks)

    def _rows(
        self,
        block: CsvBlock,
        first_row: int,
        first_line: int,
        numbers: Sequence[str],
        words: Sequence[str],
    ) -> FileRows:
        columns, invalid = self._columns(block.data, numbers, words)
        lines = first_line + np.searchsorted(block.breaks, block.starts)
        is_divided = max(invalid, default=0) <= len(lines)  # pyarrow also ends rows by returns
        is_parsed = np.ones(len(lines), np.bool_)
        if is_divided:
            is_parsed[[number - 1 for number in invalid]] = False
        if not is_divided or any(len(column) != is_parsed.sum() for column in columns.values()):
            raise ValueError(
                f"{self.path}: lines {first_line} to {lines[-1]} do not divide into rows: are "
                "quotation marks closed, and do lines end by a line feed?"
            )
        filled = block.filled
        if not filled.all():
            columns = {name: column[filled[is_parsed]] for name, column in columns.items()}
        positions = first_row + np.cumsum(filled) - 1
        kept = is_parsed & filled
        unreadable = {int(lines[number - 1]): reason for number, reason in invalid.items()}
        return FileRows(columns, positions[kept], lines[kept], unreadable)

    def _blocks(self) -> Iterator[CsvBlock]:
        """Yield the rows after the header, some megabytes at a time, each cut after a whole row."""
        with open_bytes(self.path) as file:
            if self.has_names:
                file.readline()
            rest = b""
            while data := file.read(reader.BLOCK_BYTES):
                block = CsvBlock.of(rest + data)
                rest = block.rest
                if len(rest) > reader.LONGEST_ROW:
                    raise ValueError(
                        f"{self.path} has a row of more than 16 MB: is a quotation mark not closed?"
                    )
                if len(block.ends):
                    yield block
            last = CsvBlock.of(rest + b"\n")
            if not len(last.ends):
                raise ValueError(f"{self.path} ends within quotation marks: is it whole?")
            if rest.strip():
                yield last

    def _columns(
        self, data: bytes, numbers: Sequence[str], words: Sequence[str]
    ) -> tuple[dict[str, Column], dict[int, str]]:
        """Return the columns of a block, and what is wrong with rows by their number from 1."""
        import pyarrow as arrow

        names = list(dict.fromkeys([*numbers, *words]))
        types = dict.fromkeys(numbers, arrow.float64()) | dict.fromkeys(words, arrow.string())
        columns: dict[str, Column] = {}
        try:
            table, invalid = self._parse(data, types, names)
            for name in names:
                columns[name] = from_arrow(table.column(name).combine_chunks(), name in words)
        except arrow.ArrowInvalid:
            # A value of some row is not a number: read all of them as text, which takes longer.
            table, invalid = self._parse(data, dict.fromkeys(names, arrow.string()), names)
            for name in names:
                values = table.column(name).to_pylist()
                columns[name] = Words.of(values) if name in words else self.dialect.numbers(values)
        return columns, invalid

    def _parse(
        self, data: bytes, types: Mapping[str, Any], names: Sequence[str]
    ) -> tuple[Any, dict[int, str]]:
        """Return some rows as an Arrow table, and what is wrong with the others."""
        import pyarrow as arrow
        from pyarrow import csv as arrow_csv

        # Raise here: pyarrow prints past all handlers if a row is both too short and not UTF-8.
        data.decode()
        invalid: dict[int, str] = {}

        def skip(row: Any) -> str:
            reason = f"has {row.actual_columns} fields, expected {row.expected_columns}"
            invalid[row.number] = reason
            return "skip"

        table = arrow_csv.read_csv(
            arrow.BufferReader(data),
            arrow_csv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=self.names
            ),
            arrow_csv.ParseOptions(
                delimiter=self.dialect.delimiter,
                newlines_in_values=b'"' in data,
                ignore_empty_lines=False,
                invalid_row_handler=skip,
            ),
            arrow_csv.ConvertOptions(
                column_types=dict(types),
                include_columns=list(names),
                decimal_point=self.dialect.decimal,
            ),
        )
        return table, invalid


@dataclass(frozen=True, eq=False)
class CsvBlock:
    """Whole rows of a CSV file.

    Args:
        data: their bytes.
        breaks: where lines end.
        ends: where rows end, which is at a line break that is not within quotation marks.
        rest: the bytes that follow the last whole row.
    """

    data: bytes
    breaks: Array
    ends: Array
    rest: bytes = b""

    @classmethod
    def of(cls, data: bytes) -> CsvBlock:
        """Return the whole rows in some bytes.

        >>> CsvBlock.of(b'1,2\\n"a\\nb",3\\n4,').ends
        array([ 3, 11])
        """
        letters = np.frombuffer(data, np.uint8)
        breaks = np.flatnonzero(letters == NEWLINE)
        ends = breaks
        if b'"' in data:
            quotes_before = np.searchsorted(np.flatnonzero(letters == QUOTE), breaks)
            ends = breaks[quotes_before % 2 == 0]
        cut = int(ends[-1]) + 1 if len(ends) else 0
        return cls(data[:cut], breaks[breaks < cut], ends, data[cut:])

    def first(self, rows: int) -> CsvBlock:
        """Return the first rows alone."""
        if len(self.ends) <= rows:
            return self
        return CsvBlock.of(self.data[: self.ends[rows - 1] + 1])

    @property
    def starts(self) -> Array:
        """Return where each row starts."""
        return np.append(0, self.ends[:-1] + 1)

    @property
    def filled(self) -> Array:
        """Return which rows hold anything, that is, are not blank lines."""
        length = self.ends - self.starts
        first_letter = np.frombuffer(self.data, np.uint8)[self.starts]
        return (length > 1) | ((length == 1) & (first_letter != RETURN))
