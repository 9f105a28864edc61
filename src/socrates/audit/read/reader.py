"""What all formats have in common: the first rows of a file, then all of them in batches."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, ClassVar

from socrates.arrays.open import Array

from .columns import Column

FIRST_ROWS = 1000  # what a layout is understood from
BATCH_VALUES = 1 << 20
BLOCK_BYTES = 1 << 22
LONGEST_ROW = 1 << 24
UNNAMED = "values"  # what the one array of an NPY file is called, and rows without names
CLASSES = ("classes", "class_names", "target_names", "label_names")
DAMAGE = (OSError, EOFError, UnicodeDecodeError, zlib.error, zipfile.BadZipFile)
ADVICE = {  # by a word of the library's error
    "utf": "save it as UTF-8",
    "pickle": "save its arrays as numbers or text, by labels.astype(str)",
}


@dataclass(frozen=True, eq=False)
class FileRows:
    """Some rows of a file, as they are on disk.

    Args:
        columns: the columns that were asked for, N rows each.
        positions: (N,) the number of each row in the whole file, from 0; blank lines do not count.
        lines: (N,) where each row is, as a message should say it.
        unreadable: where rows are that could not be read at all, and why.
    """

    columns: Mapping[str, Column]
    positions: Array
    lines: Array
    unreadable: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RowGroup:
    """A row group of a Parquet file, and the number of its first row in the whole."""

    path: Path
    group: int
    first: int


# Row groups that are read one after the other; () where a file cannot be divided.
FilePart = tuple[RowGroup, ...]


class Reader:
    """The contract of a format: a file, or a folder of files, as columns of rows.

    Attributes:
        unit: what a message counts, "row" from 0 or "line" from 1.
        num_rows: the number of rows, where the format knows it before they are read.
        parts: what several processes can read apart.
        classes: the names of the classes, where the file holds them.
        has_names: whether the file names its columns; else they are called 0, 1, ...
    """

    unit: ClassVar[str] = "row"
    num_rows: int | None = None
    parts: Sequence[FilePart] = ((),)
    classes: tuple[str, ...] = ()
    has_names: bool = True

    def first_rows(self) -> Mapping[str, Column]:
        """Return every column of the first rows."""
        raise NotImplementedError

    def batches(
        self, part: FilePart, numbers: Sequence[str], words: Sequence[str]
    ) -> Iterator[FileRows]:
        """Yield all rows of a part: the columns `numbers`, and `words` as words in any case."""
        raise NotImplementedError


@contextmanager
def readable(path: Path, *also: type[Exception]) -> Iterator[None]:
    """Turn the errors of a damaged file into one line that names it.

    >>> with readable(Path("a.csv.gz")):
    ...     raise EOFError("Compressed file ended before the end-of-stream marker was reached")
    Traceback (most recent call last):
    ValueError: a.csv.gz cannot be read (Compressed file ended ...): is it whole?
    Write or copy it again
    """
    try:
        yield
    except Exception as error:
        from_arrow = type(error).__module__.startswith("pyarrow")
        is_damage = from_arrow or isinstance(error, (*DAMAGE, *also))
        if not is_damage or isinstance(error, MemoryError):  # which pyarrow raises as its own
            raise
        lines = str(error).splitlines() or [type(error).__name__]
        reason = lines[0].rstrip(".")
        known = [advice for word, advice in ADVICE.items() if word in reason.lower()]
        advice = known[0] if known else "is it whole? Write or copy it again"
        raise ValueError(f"{path} cannot be read ({reason}): {advice}") from error


def suffix_of(path: Path) -> str:
    """Return the end of a name that says the format, in small letters and without `.gz`.

    >>> suffix_of(Path("v1.2.CSV.GZ")), suffix_of(Path("v1.2"))
    ('.csv', '.2')
    """
    return Path(path.stem if is_packed(path) else path.name).suffix.lower()


def is_packed(path: Path) -> bool:
    """Return whether a file is compressed, by its name."""
    return path.suffix.lower() == ".gz"


def open_bytes(path: Path) -> BinaryIO:
    """Open a text file for reading, unpacked."""
    # gzip of Python rather than of pyarrow, without which JSON lines can be read.
    return gzip.open(path, "rb") if is_packed(path) else open(path, "rb")  # pyright: ignore[reportReturnType]


def batch_rows(width: int) -> int:
    """Return how many rows of this many values are read at once.

    >>> batch_rows(10), batch_rows(1000)
    (104857, 1048)
    """
    return max(256, BATCH_VALUES // max(width, 1))


def refuse_duplicates(path: Path, names: Sequence[str]) -> None:
    """Raise if two columns have the same name.

    >>> refuse_duplicates(Path("a.csv"), ["label", "p0", "p0"])
    Traceback (most recent call last):
    ValueError: a.csv has two columns called 'p0': rename one of them
    """
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"{path} has two columns called {name!r}: rename one of them")


def need_arrow(path: Path) -> None:
    """Raise with what to install if pyarrow is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{path.name} needs pyarrow: pip install 'socrates-loss[parquet]'"
        ) from error
