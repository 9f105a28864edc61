"""Feather and Arrow files, in the record batches that they were written in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .columns import Column
from .parquet import ArrowColumns
from .reader import FIRST_ROWS, FilePart, FileRows, Reader, need_arrow, readable, refuse_duplicates

MOST_UNPACKED = 1000  # times the bytes of a file


class FeatherReader(Reader):
    """Read one record batch after the other."""

    def __init__(self, path: Path) -> None:
        need_arrow(path)
        self.path = path
        self.arrow = ArrowColumns()

    def first_rows(self) -> Mapping[str, Column]:
        """Return every column that may hold predictions, of the first batch that has rows."""
        for batch in self._batches():
            with readable(self.path):  # also names that are not UTF-8
                refuse_duplicates(self.path, batch.schema.names)
                if len(batch):
                    return self.arrow.first_rows(batch.slice(0, FIRST_ROWS))
        return {}

    def batches(
        self, part: FilePart, numbers: Sequence[str], words: Sequence[str]
    ) -> Iterator[FileRows]:
        """Yield the rows of each record batch."""
        first = 0
        for batch in self._batches():
            with readable(self.path):
                columns = self.arrow.columns(batch, numbers, words)
            positions = np.arange(first, first + len(batch))
            first += len(batch)
            yield FileRows(columns, positions, positions)

    def _batches(self) -> Iterator[Any]:
        from pyarrow import feather, ipc

        with readable(self.path), open(self.path, "rb") as file:
            if file.read(4) == b"FEA1":  # the first version of the format
                yield from feather.read_table(self.path).to_batches()
                return
            file.seek(0)
            with ipc.open_file(file) as reader:
                for number in range(reader.num_record_batches):
                    batch = self._batch(reader, number)
                    batch.validate(full=True)  # a damaged file may point beyond its end
                    yield batch

    def _batch(self, reader: Any, number: int) -> Any:
        """Return a record batch; a damaged length asks for more memory than its file can fill."""
        try:
            return reader.get_batch(number)
        except MemoryError as error:
            size = self.path.stat().st_size
            asked = re.search(r"size (\d+)", str(error))
            if asked and int(asked[1]) >= MOST_UNPACKED * size:
                demand = f"asks for {asked[1]} of memory"
            elif "capacity too large" in str(error):  # more than any array can have
                demand = "asks for more memory than there can be"
            else:
                raise
            raise ValueError(
                f"{self.path} has {size} bytes and {demand}: is it whole? Write or copy it again"
            ) from error
