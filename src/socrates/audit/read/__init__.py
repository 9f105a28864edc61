"""Readers of prediction files, one module per format, behind the contract of `read.reader`.

A reader shows the first rows of a file and yields all rows in batches of columns; what the columns
mean is the business of `audit.understand`. It imports `files` and nothing else of the package but
the type of an array. Read `reader.py` first; a new format is a module and a line in `READERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .csv import CsvReader
from .jsonl import JsonReader
from .npz import ArrayReader
from .parquet import ParquetReader
from .reader import FilePart, FileRows, Reader, is_packed, suffix_of

__all__ = ["READERS", "FilePart", "FileRows", "Reader", "open_file", "suffix_of"]

READERS: dict[str, Callable[[Path], Reader]] = {
    ".parquet": ParquetReader,
    ".csv": CsvReader,
    ".tsv": CsvReader,
    ".jsonl": JsonReader,
    ".npz": ArrayReader,
    ".npy": ArrayReader,
}
PACKED = (".csv", ".tsv", ".jsonl")  # these may end in .gz


def open_file(path: Path) -> Reader:
    """Return the reader of a file by the end of its name, or that of a folder of Parquet parts."""
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is not there: pass a file of predictions, or a folder of Parquet parts"
        )
    if path.is_dir():
        return ParquetReader(path)
    suffix = suffix_of(path)
    if suffix not in (PACKED if is_packed(path) else READERS):
        known = ", ".join([*READERS, *(f"{name}.gz" for name in PACKED)])
        raise ValueError(f"{path.name} has an unknown format: expected one of {known}")
    return READERS[suffix](path)
