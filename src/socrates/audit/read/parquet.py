"""Parquet: a file or a folder of parts, divided by row groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .columns import (
    Column,
    Words,
    from_arrow,
    guess_column,
    is_nested,
    is_readable,
    numbers_of,
)
from .nested import NestedColumns
from .reader import (
    FIRST_ROWS,
    FilePart,
    FileRows,
    Reader,
    RowGroup,
    batch_rows,
    need_arrow,
    readable,
    refuse_duplicates,
)

PART_ROWS = 1 << 19  # whatever the number of workers, so that sums do not depend on it


class ArrowColumns:
    """Columns of Arrow batches, and those within others; the first rows decide."""

    def __init__(self) -> None:
        self.nested = NestedColumns()
        self.opened: set[str] = set()  # columns that are read value by value

    def first_rows(self, batch: Any) -> dict[str, Column]:
        """Return every column that may hold predictions."""
        table: dict[str, Column] = {}
        for field in batch.schema:
            column = batch.column(field.name)
            if is_readable(field.type):
                table[field.name] = from_arrow(column, as_words=False)
            elif is_nested(field.type):
                opened = self.nested.first_rows({field.name: column.to_pylist()})
                self.opened |= {*opened}
                table |= {name: guess_column(values) for name, values in opened.items()}
        return table

    def columns(
        self, batch: Any, numbers: Sequence[str], words: Sequence[str]
    ) -> dict[str, Column]:
        """Return some columns of a batch."""
        columns: dict[str, Column] = {
            name: from_arrow(batch.column(name), name in words)
            for name in dict.fromkeys([*numbers, *words])
            if name not in self.opened
        }
        inner = [name for name in dict.fromkeys([*numbers, *words]) if name in self.opened]
        if inner:
            values = self.nested.columns(inner, lambda name: batch.column(name).to_pylist())
            for name in inner:
                columns[name] = (Words.of if name in words else numbers_of)(values[name])
        return columns


class ParquetReader(Reader):
    """Read a Parquet file, or the parts in a folder one after the other."""

    def __init__(self, path: Path, parts: Sequence[Path] = ()) -> None:
        self.path = path
        self.files = parts or [path]
        self.arrow = ArrowColumns()
        groups: list[RowGroup] = []
        sizes: list[int] = []
        for file in self.files:
            with _opened(file) as parquet:
                for group in range(parquet.metadata.num_row_groups):
                    groups.append(RowGroup(file, group, sum(sizes)))
                    sizes.append(parquet.metadata.row_group(group).num_rows)
        self.num_rows = sum(sizes)
        self.parts = _parts(groups, sizes)

    def first_rows(self) -> Mapping[str, Column]:
        """Return every column that may hold predictions, of the first batch that there is."""
        for file in self.files:
            with _opened(file) as parquet:
                refuse_duplicates(self.path, parquet.schema_arrow.names)
                for batch in parquet.iter_batches(FIRST_ROWS, use_threads=False):
                    return self.arrow.first_rows(batch)
        return {}

    def batches(
        self, part: FilePart, numbers: Sequence[str], words: Sequence[str]
    ) -> Iterator[FileRows]:
        """Yield the rows of some row groups."""
        names = self.arrow.nested.outer([*numbers, *words])
        size = batch_rows(len(numbers))
        for row_group in part:
            first = row_group.first
            with _opened(row_group.path) as parquet:
                missing = set(names) - set(parquet.schema_arrow.names)
                if missing:
                    raise ValueError(
                        f"{row_group.path} has no column {min(missing)!r}, which "
                        f"{self.files[0].name} has"
                    )
                groups = [row_group.group]
                for batch in parquet.iter_batches(size, groups, names, use_threads=False):
                    columns = self.arrow.columns(batch, numbers, words)
                    positions = np.arange(first, first + len(batch))
                    first += len(batch)
                    yield FileRows(columns, positions, positions)


def _parts(groups: Sequence[RowGroup], sizes: Sequence[int]) -> list[FilePart]:
    """Put row groups together until they are worth a process."""
    parts: list[list[RowGroup]] = []
    filled = PART_ROWS
    for group, size in zip(groups, sizes, strict=True):
        if filled >= PART_ROWS:
            parts.append([])
            filled = 0
        parts[-1].append(group)
        filled += size
    return [tuple(part) for part in parts]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    need_arrow(path)
    from pyarrow import parquet

    # Read through a buffer, so that a file of one large row group does not have to fit into memory.
    with readable(path), parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        yield file
