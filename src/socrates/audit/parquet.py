"""Parquet: a file or a folder of parts, divided by row groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .reader import FIRST_ROWS, Part, Piece, Reader, batch_rows, need_arrow, readable, refuse_duplicates, suffix_of
from .table import Column, Table, is_readable, of_arrow

PART_ROWS = 1 << 19  # whatever the number of workers, so that sums do not depend on it


class ParquetReader(Reader):
    """A Parquet file, or all those below a folder in the order of their names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = _files_below(path) if path.is_dir() else [path]
        pieces: list[Piece] = []
        sizes: list[int] = []
        for file in self.files:
            with _opened(file) as parquet:
                for group in range(parquet.metadata.num_row_groups):
                    pieces.append(Piece(file, (group,), sum(sizes)))
                    sizes.append(parquet.metadata.row_group(group).num_rows)
        self.num_rows, self.parts = sum(sizes), _parts(pieces, sizes)

    def first_rows(self) -> Mapping[str, Column]:
        for file in self.files:
            with _opened(file) as parquet:
                refuse_duplicates(self.path, parquet.schema_arrow.names)
                names = [field.name for field in parquet.schema_arrow if is_readable(field.type)]
                for batch in parquet.iter_batches(FIRST_ROWS, columns=names, use_threads=False):
                    return {name: of_arrow(batch.column(name), as_words=False) for name in names}
        return {}

    def tables(self, part: Part, numbers: Sequence[str], words: Sequence[str]) -> Iterator[Table]:
        names = list(dict.fromkeys([*numbers, *words]))
        for piece in part:
            first = piece.first
            with _opened(piece.path) as parquet:
                missing = set(names) - set(parquet.schema_arrow.names)
                if missing:
                    raise ValueError(f"{piece.path} has no column {min(missing)!r}, which {self.files[0].name} has")
                rows = batch_rows(len(numbers))
                for batch in parquet.iter_batches(rows, list(piece.row_groups), names, use_threads=False):
                    columns = {name: of_arrow(batch.column(name), as_words=name in words) for name in names}
                    positions = np.arange(first, first + len(batch))
                    first += len(batch)
                    yield Table(columns, positions, positions)


def _files_below(folder: Path) -> list[Path]:
    found = sorted(file for file in folder.rglob("*") if suffix_of(file) == ".parquet")
    shown = [file for file in found if not any(name.startswith((".", "_")) for name in file.relative_to(folder).parts)]
    if not shown:
        raise ValueError(f"{folder} holds no .parquet file: give a folder of Parquet parts, or a file")
    return shown


def _parts(pieces: Sequence[Piece], sizes: Sequence[int]) -> list[Part]:
    """Row groups put together until they are worth a process."""
    parts: list[list[Piece]] = []
    filled = PART_ROWS
    for piece, size in zip(pieces, sizes, strict=True):
        if filled >= PART_ROWS:
            parts.append([])
            filled = 0
        parts[-1].append(piece)
        filled += size
    return [tuple(part) for part in parts]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    need_arrow(path)
    from pyarrow import parquet

    # Read through a buffer, so that a file of one large row group does not have to fit into memory.
    with readable(path), parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        yield file
