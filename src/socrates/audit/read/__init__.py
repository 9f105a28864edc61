"""Readers of prediction files, one module per format, behind the contract of `read.reader`.

A reader shows the first rows of a file and yields all rows in batches of columns; what the columns
mean is the business of `audit.understand`. It imports `files` and nothing else of the package but
the type of an array. Read `reader.py` first; a new format is a module and a line in `READERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .csv import CsvReader
from .excel import ExcelReader
from .feather import FeatherReader
from .folder import PartsReader, files_below
from .json import open_json
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
    ".ndjson": JsonReader,
    ".json": open_json,
    ".npz": ArrayReader,
    ".npy": ArrayReader,
    ".feather": FeatherReader,
    ".arrow": FeatherReader,
    ".ipc": FeatherReader,
    ".xlsx": ExcelReader,
}
PACKED = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")  # these may end in .gz
IN_PARTS = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".feather", ".arrow")


def open_file(path: Path) -> Reader:
    """Return the reader of a file by the end of its name, or that of a folder of parts."""
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is not there: pass a file of predictions, or a folder of their parts"
        )
    if path.is_dir():
        return _open_folder(path)
    suffix = suffix_of(path)
    if suffix not in (PACKED if is_packed(path) else READERS):
        known = ", ".join([*READERS, *(f"{name}.gz" for name in PACKED)])
        raise ValueError(
            f"{path.name} has an unknown format: expected one of {known}; write it as one of them"
        )
    return READERS[suffix](path)


def _open_folder(folder: Path) -> Reader:
    """Return the reader of the parts in a folder, which must have one format."""
    files = files_below(folder, IN_PARTS)
    suffixes = {suffix_of(file) for file in files}
    if ".parquet" in suffixes:
        return ParquetReader(folder, [file for file in files if suffix_of(file) == ".parquet"])
    if not files:
        raise ValueError(
            f"{folder} holds no .parquet file, and no other parts ({', '.join(IN_PARTS[1:])}): "
            "pass a folder of parts, or a file"
        )
    if len(suffixes) > 1:
        raise ValueError(
            f"{folder} holds files of several formats ({', '.join(sorted(suffixes))}): pass a "
            "folder of parts of one format, or a file"
        )
    return PartsReader(files, READERS[suffixes.pop()])
