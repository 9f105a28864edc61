"""CSV and JSON lines, as they are or compressed by gzip: rows that cannot be read are told with their lines."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from socrates.metrics.predictions import Array

from .reader import FIRST_ROWS, Part, Reader, is_packed, need_arrow, readable, refuse_duplicates, suffix_of
from .table import Coded, Column, Table, guessed, numbers_if_most, numbers_of, of_arrow

BLOCK_BYTES = 1 << 22
LONGEST_ROW = 1 << 24
NEWLINE, RETURN, QUOTE = b'\n\r"'


def opened(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked."""
    return gzip.open(path, "rb") if is_packed(path) else open(path, "rb")  # pyright: ignore[reportReturnType]


class CsvReader(Reader):
    """Blocks of whole rows, each parsed by pyarrow."""

    unit = "line"

    def __init__(self, path: Path) -> None:
        need_arrow(path)
        self.path = path
        with readable(path), opened(path) as file:
            line = file.readline(LONGEST_ROW)
            if len(line) == LONGEST_ROW:
                raise ValueError(f"{path} has a first line of more than 16 MB: is it a table?")
            header = line.decode("utf-8-sig").strip("\r\n")
        if not header.strip():
            raise ValueError(f"{path} has no first line: expected the names of the columns, then a row a line")
        if "\r" in header:
            raise ValueError(f"the lines of {path} end by carriage returns alone: write it with line feeds")
        self.delimiter = "\t" if suffix_of(path) == ".tsv" else max(",;\t", key=header.count)
        self.names = [name.strip() for name in next(csv.reader([header], delimiter=self.delimiter))]
        if np.isfinite(numbers_of(self.names)).all() and "." in header:
            raise ValueError(f"the first line of {path} holds numbers: expected the names of the columns")
        refuse_duplicates(path, self.names)

    def first_rows(self) -> Mapping[str, Column]:
        with readable(self.path):
            block = next(self._blocks(), None)
            if block is None or not block.filled.any():
                return {}
            table, _ = self._parsed(block.first(FIRST_ROWS).data, {}, self.names)
        columns = {name: of_arrow(table.column(name).combine_chunks(), as_words=False) for name in self.names}
        return {name: numbers_if_most(column) for name, column in columns.items()}

    def tables(self, part: Part, numbers: Sequence[str], words: Sequence[str]) -> Iterator[Table]:
        row, line = 0, 2  # the header is line 1
        with readable(self.path):
            for block in self._blocks():
                columns, broken = self._columns(block.data, numbers, words)
                filled = block.filled
                rows, lines = row + np.cumsum(filled) - 1, line + np.searchsorted(block.breaks, block.starts)
                read = np.ones(len(lines), np.bool_)
                divided = max(broken, default=0) <= len(lines)  # pyarrow also ends rows by carriage returns
                read[[number - 1 for number in broken if divided]] = False
                if not divided or any(len(column) != read.sum() for column in columns.values()):
                    what = "are quotation marks closed, and do lines end by a line feed?"
                    raise ValueError(f"{self.path}: lines {line} to {lines[-1]} do not divide into rows: {what}")
                if not filled.all():
                    columns = {name: column[filled[read]] for name, column in columns.items()}
                told = {int(lines[number - 1]): why for number, why in broken.items()}
                yield Table(columns, rows[read & filled], lines[read & filled], told)
                row, line = row + int(filled.sum()), line + len(block.breaks)

    def _blocks(self) -> Iterator[Block]:
        """The rows after the header, some megabytes at a time, cut behind a whole row."""
        with opened(self.path) as file:
            file.readline()
            rest = b""
            while data := file.read(BLOCK_BYTES):
                block = Block.of(rest + data)
                rest = block.rest
                if len(rest) > LONGEST_ROW:
                    raise ValueError(f"{self.path} has a row of more than 16 MB: is a quotation mark not closed?")
                if len(block.ends):
                    yield block
            last = Block.of(rest + b"\n")
            if not len(last.ends):
                raise ValueError(f"{self.path} ends within quotation marks: is it whole?")
            if rest.strip():
                yield last

    def _columns(
        self, data: bytes, numbers: Sequence[str], words: Sequence[str]
    ) -> tuple[dict[str, Column], dict[int, str]]:
        """The columns of a block, and why some of its rows are none, by their number in it from 1."""
        import pyarrow as arrow

        names = list(dict.fromkeys([*numbers, *words]))
        kinds = {name: arrow.float64() for name in numbers} | {name: arrow.string() for name in words}
        try:
            table, broken = self._parsed(data, kinds, names)
            columns = {name: of_arrow(table.column(name).combine_chunks(), name in words) for name in names}
        except arrow.ArrowInvalid:  # a value of some row is no number: read all of them as text, which takes longer
            table, broken = self._parsed(data, dict.fromkeys(names, arrow.string()), names)
            values = {name: table.column(name).to_pylist() for name in names}
            columns = {name: Coded.of(of) if name in words else numbers_of(of) for name, of in values.items()}
        return columns, broken

    def _parsed(self, data: bytes, kinds: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, dict[int, str]]:
        import pyarrow as arrow
        from pyarrow import csv as arrow_csv

        broken: dict[int, str] = {}
        data.decode()  # or pyarrow complains of every row that is both too short and no UTF-8, past all handlers

        def skip(row: Any) -> str:
            broken[row.number] = f"has {row.actual_columns} fields, expected {row.expected_columns}"
            return "skip"

        table = arrow_csv.read_csv(
            arrow.BufferReader(data),
            arrow_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self.names),
            arrow_csv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=b'"' in data,
                ignore_empty_lines=False,
                invalid_row_handler=skip,
            ),
            arrow_csv.ConvertOptions(column_types=dict(kinds), include_columns=list(names)),
        )
        return table, broken


@dataclass(frozen=True, eq=False)
class Block:
    """Whole rows of a CSV file, and what follows them."""

    data: bytes
    breaks: Array  # where lines end
    ends: Array  # where rows end: at a line break that is not within quotation marks
    rest: bytes = b""

    @classmethod
    def of(cls, data: bytes) -> Block:
        """The whole rows in some bytes.

        >>> Block.of(b'1,2\\n"a\\nb",3\\n4,').ends
        array([ 3, 11])
        """
        letters = np.frombuffer(data, np.uint8)
        breaks = ends = np.flatnonzero(letters == NEWLINE)
        if b'"' in data:
            ends = ends[np.searchsorted(np.flatnonzero(letters == QUOTE), ends) % 2 == 0]
        cut = int(ends[-1]) + 1 if len(ends) else 0
        return cls(data[:cut], breaks[breaks < cut], ends, data[cut:])

    def first(self, rows: int) -> Block:
        """The first rows alone."""
        return self if len(self.ends) <= rows else Block.of(self.data[: self.ends[rows - 1] + 1])

    @property
    def starts(self) -> Array:
        return np.append(0, self.ends[:-1] + 1)

    @property
    def filled(self) -> Array:
        """Which rows hold anything: a blank line is none."""
        length, first = self.ends - self.starts, np.frombuffer(self.data, np.uint8)[self.starts]
        return (length > 1) | ((length == 1) & (first != RETURN))


class JsonReader(Reader):
    """A JSON object a line."""

    unit = "line"

    def __init__(self, path: Path) -> None:
        self.path = path

    def first_rows(self) -> Mapping[str, Column]:
        rows, *_ = next(self._rows(), ([],))
        rows = rows[:FIRST_ROWS]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: guessed([row.get(name) for row in rows]) for name in names}

    def tables(self, part: Part, numbers: Sequence[str], words: Sequence[str]) -> Iterator[Table]:
        for rows, places, broken in self._rows():
            columns: dict[str, Column] = {name: numbers_of([row.get(name) for row in rows]) for name in numbers}
            columns |= {name: Coded.of([row.get(name) for row in rows]) for name in words}
            positions, lines = np.array(places, np.intp).reshape(-1, 2).T
            yield Table(columns, positions, lines, broken)

    def _rows(self) -> Iterator[tuple[list[dict[str, Any]], list[tuple[int, int]], dict[int, str]]]:
        """Objects, their numbers and lines, and what the other lines are, some megabytes at a time."""
        row, line = 0, 0
        with readable(self.path), opened(self.path) as file:
            while texts := _lines(file, self.path):
                rows, places, broken = list[dict[str, Any]](), list[tuple[int, int]](), dict[int, str]()
                for text in texts:
                    line += 1
                    if not text.strip():
                        continue
                    try:
                        value = json.loads(text)
                    except (ValueError, RecursionError):
                        value = None
                    if isinstance(value, dict):
                        rows.append(value)
                        places.append((row, line))
                    else:
                        broken[line] = "is no JSON object"
                    row += 1
                yield rows, places, broken


def _lines(file: BinaryIO, path: Path) -> list[bytes]:
    """The next lines of a file, some megabytes of them."""
    lines, size = list[bytes](), 0
    while size < BLOCK_BYTES and (line := file.readline(LONGEST_ROW)):
        if len(line) == LONGEST_ROW:
            raise ValueError(f"{path} has a line of more than 16 MB: expected a JSON object a line")
        lines.append(line)
        size += len(line)
    return lines
