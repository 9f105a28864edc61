"""A folder of parts, as Spark, Dask and polars write them: files of one format, one after another.

Parts are read in the order of the numbers in their names: part.2 comes before part.10.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from .columns import Column
from .reader import FilePart, FileRows, Reader, suffix_of


def natural_order(name: str) -> list[tuple[int, str]]:
    """Return a key by which names are sorted as people count.

    >>> sorted(["part.10", "part.2", "part.0"], key=natural_order)
    ['part.0', 'part.2', 'part.10']
    """
    pieces = re.split(r"(\d+)", name)
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces]


def files_below(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the files below a folder that have one of these formats, without hidden ones."""
    files: list[Path] = []
    for file in folder.rglob("*"):
        names = file.relative_to(folder).parts
        is_hidden = any(name.startswith((".", "_")) for name in names)
        if suffix_of(file) in suffixes and not is_hidden and file.is_file():
            files.append(file)
    return sorted(files, key=lambda file: natural_order(file.relative_to(folder).as_posix()))


class PartsReader(Reader):
    """Read files of one format as one file."""

    def __init__(self, files: Sequence[Path], open_part: Callable[[Path], Reader]) -> None:
        self.files = files
        self.readers = [open_part(file) for file in files]
        counts = [reader.num_rows for reader in self.readers]
        if None not in counts:
            self.num_rows = sum(count or 0 for count in counts)
        self.classes = self.readers[0].classes
        self.has_names = all(reader.has_names for reader in self.readers)

    def first_rows(self) -> Mapping[str, Column]:
        """Return every column of the first part that has rows."""
        for reader in self.readers:
            table = reader.first_rows()
            if any(len(column) for column in table.values()):
                return table
        return {}

    def batches(
        self, part: FilePart, numbers: Sequence[str], words: Sequence[str]
    ) -> Iterator[FileRows]:
        """Yield the rows of one part after the other; rows are counted through all of them."""
        wanted = {*numbers, *words}
        first = 0
        for file, reader in zip(self.files, self.readers, strict=True):
            table = reader.first_rows()
            missing = wanted - {*table}
            if table and missing:
                raise ValueError(
                    f"{file} has no column {min(missing)!r}, which {self.files[0].name} has"
                )
            following = first
            for batch in reader.batches(reader.parts[0], numbers, words) if table else ():
                positions = first + batch.positions
                unreadable = {first + line: why for line, why in batch.unreadable.items()}
                following += len(batch.positions) + len(unreadable)
                yield FileRows(batch.columns, positions, np.asarray(positions), unreadable)
            first = following
