"""What all formats have in common: the first rows of a file, then all of them in batches, and errors in one line."""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .table import Column, Table

FIRST_ROWS = 1000  # what a layout is detected from
BATCH_VALUES = 1 << 20
DAMAGE = (OSError, EOFError, UnicodeDecodeError, zlib.error, zipfile.BadZipFile)


@dataclass(frozen=True)
class Piece:
    """Row groups of a Parquet file, and the number of their first row in the whole."""

    path: Path
    row_groups: tuple[int, ...]
    first: int


Part = tuple[Piece, ...]  # read one after the other; () where a file cannot be divided


class Reader:
    """A file, or a folder of parts: the first rows of every column, then all rows of some."""

    unit: ClassVar[str] = "row"  # what a message counts
    num_rows: int | None = None
    parts: Sequence[Part] = ((),)
    classes: tuple[str, ...] = ()  # names that the file itself tells

    def first_rows(self) -> Mapping[str, Column]:
        """Every column of the first rows."""
        raise NotImplementedError

    def tables(self, part: Part, numbers: Sequence[str], words: Sequence[str]) -> Iterator[Table]:
        """These columns of all rows of a part, `words` as names whatever they hold."""
        raise NotImplementedError


@contextmanager
def readable(path: Path, *also: type[Exception]) -> Iterator[None]:
    """Errors of a damaged file as one line that names it.

    >>> with readable(Path("a.csv.gz")):
    ...     raise EOFError("Compressed file ended before the end-of-stream marker was reached")
    Traceback (most recent call last):
    ValueError: a.csv.gz cannot be read (Compressed file ended ...): is it whole? Write or copy it again
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, (*DAMAGE, *also)) and not type(error).__module__.startswith("pyarrow"):
            raise
        why = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        todos = {"utf": "save it as UTF-8", "pickle": "save its arrays as numbers or text, by labels.astype(str)"}
        todo = next(
            (todo for word, todo in todos.items() if word in why.lower()), "is it whole? Write or copy it again"
        )
        raise ValueError(f"{path} cannot be read ({why}): {todo}") from error


def suffix_of(path: Path) -> str:
    """The end of a name that tells the format of a file, in small letters; `.gz` behind it is of no matter.

    >>> suffix_of(Path("v1.2.CSV.GZ")), suffix_of(Path("v1.2"))
    ('.csv', '.2')
    """
    return Path(path.stem if is_packed(path) else path.name).suffix.lower()


def is_packed(path: Path) -> bool:
    """Whether a file is compressed, by its name."""
    return path.suffix.lower() == ".gz"


def batch_rows(width: int) -> int:
    """How many rows of so many values are read at once.

    >>> batch_rows(10), batch_rows(1000)
    (104857, 1048)
    """
    return max(256, BATCH_VALUES // max(width, 1))


def refuse_duplicates(path: Path, names: Sequence[str]) -> None:
    """Raise where two columns have one name: nobody knows which is meant.

    >>> refuse_duplicates(Path("a.csv"), ["label", "p0", "p0"])
    Traceback (most recent call last):
    ValueError: a.csv has two columns called 'p0': rename one of them
    """
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise ValueError(f"{path} has two columns called {name!r}: rename one of them")


def need_arrow(path: Path) -> None:
    """Raise with what to install where pyarrow is not there."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{path.name} needs pyarrow: pip install 'socrates-loss[parquet]'") from error
