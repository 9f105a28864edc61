"""Parquet: a file or a folder of parts, divided by row groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .columns import Column, from_arrow, is_readable
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
    suffix_of,
)

PART_ROWS = 1 << 19  # whatever the number of workers, so that sums do not depend on it


class ParquetReader(Reader):
    """Read a Parquet file, or all those below a folder in the order of their names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = _files_below(path) if path.is_dir() else [path]
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
                names = [field.name for field in parquet.schema_arrow if is_readable(field.type)]
                for batch in parquet.iter_batches(FIRST_ROWS, columns=names, use_threads=False):
                    return {name: from_arrow(batch.column(name), as_words=False) for name in names}
        return {}

    def batches(
        self, part: FilePart, numbers: Sequence[str], words: Sequence[str]
    ) -> Iterator[FileRows]:
        """Yield the rows of some row groups."""
        names = list(dict.fromkeys([*numbers, *words]))
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
                    columns = {
                        name: from_arrow(batch.column(name), name in words) for name in names
                    }
                    positions = np.arange(first, first + len(batch))
                    first += len(batch)
                    yield FileRows(columns, positions, positions)


def _files_below(folder: Path) -> list[Path]:
    """Return the Parquet files below a folder, without hidden ones."""
    files: list[Path] = []
    for file in sorted(folder.rglob("*")):
        names = file.relative_to(folder).parts
        is_hidden = any(name.startswith((".", "_")) for name in names)
        if suffix_of(file) == ".parquet" and not is_hidden:
            files.append(file)
    if not files:
        raise ValueError(
            f"{folder} holds no .parquet file: pass a folder of Parquet parts, or a file"
        )
    return files


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
