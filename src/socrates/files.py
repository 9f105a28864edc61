"""Files that are written whole or not at all; and what keeps files from outside, and names in ours, from harm."""

import contextlib
import errno
import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all."""
    replace_text(path, to_json(value, indent=2))


@contextlib.contextmanager
def replacing(path: Path, keep: Path | None = None) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` once it is whole and on the disk; if that fails nothing has changed.

    What was there before is kept under the name `keep`, if there is one.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with named_errors(path):
            with open(temporary, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if keep is not None and path.is_file():
                os.replace(path, keep)
            os.replace(temporary, path)
            sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):  # what went wrong first is what is told
            temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Have the names of files on the disk, too, where a system can: or a new one may be gone after a power cut."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(OSError):  # not every file system can
                os.fsync(opened)
        finally:
            os.close(opened)


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Errors of the disk with the file that could not be written, and what to do."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full: free some space" if full else error.strerror or str(error)
        raise OSError(f"{path} could not be written: {reason}") from error


UNFOLDED, RATIO = 1 << 30, 100  # bytes that any archive may unfold to; and how many times its own size
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what spreadsheets take a text for that begins so


def refuse_bomb(archive: zipfile.ZipFile, path: Path) -> None:
    """Raise if a zip archive, such as an .npz, would unfold to more than a gigabyte and a hundred times its size.

    >>> import io, tempfile
    >>> path = Path(tempfile.mkdtemp(), "small.npz")
    >>> with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
    ...     archive.writestr("zeros", bytes(10_000))
    ...     refuse_bomb(archive, path)
    """
    unfolded, size = sum(entry.file_size for entry in archive.infolist()), path.stat().st_size
    if unfolded > max(UNFOLDED, RATIO * size):
        raise ValueError(
            f"its {size:,} bytes unfold to {unfolded:,}, more than {RATIO} times as many: if that is meant, save it "
            f"uncompressed"
        )


def no_formula(field: Any) -> Any:
    """As it is, unless it is a text that a spreadsheet would take for a formula: that gets an apostrophe before it.

    >>> no_formula("=SUM(A1)"), no_formula("CE"), no_formula(-1.0)
    ("'=SUM(A1)", 'CE', -1.0)
    """
    return f"'{field}" if isinstance(field, str) and field.startswith(FORMULA) else field


def replace_text(path: Path, text: str) -> None:
    """Write a text whole or not at all."""
    with replacing(path) as file:
        file.write(text.encode())


def to_json(value: Any, indent: int | None = None) -> str:
    """A line of JSON, which has no NaN and no infinity: both become null.

    >>> to_json({"ece": float("nan")})
    '{"ece": null}\\n'
    """
    return json.dumps(_plain(value), indent=indent) + "\n"


def with_nan(values: Mapping[str, float | None]) -> dict[str, float]:
    """Numbers that `to_json` wrote, NaN where it is null.

    >>> with_nan({"ece": None})
    {'ece': nan}
    """
    return {key: math.nan if value is None else value for key, value in values.items()}


def is_number(value: object) -> bool:
    """Whether it is a number, which true and false are not.

    >>> is_number(0.5), is_number(True)
    (True, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool)


def not_numbers(values: Iterable[tuple[str, Any]]) -> str:
    """The names of values that are neither numbers nor null.

    >>> not_numbers({"ece": None, "nll": "low"}.items())
    'nll'
    """
    return ", ".join(sorted({key for key, value in values if value is not None and not is_number(value)}))


def with_checksum(value: dict[str, Any]) -> dict[str, Any]:
    """The same with a checksum, by which a changed digit is noticed.

    >>> with_checksum({"epoch": 1})
    {'epoch': 1, 'checksum': '94919848'}
    """
    return {**value, "checksum": _checksum(value)}


def without_checksum(value: Any) -> Any:
    """What was given to `with_checksum`; changed since, it is refused. Earlier versions wrote no checksum.

    >>> without_checksum({"epoch": 1, "checksum": "94919848"})
    {'epoch': 1}
    >>> without_checksum({"epoch": 2, "checksum": "94919848"})
    Traceback (most recent call last):
    ValueError: its checksum is wrong: it is not what was written
    """
    if not isinstance(value, dict) or "checksum" not in value:
        return value
    rest = {key: part for key, part in value.items() if key != "checksum"}
    if value["checksum"] != _checksum(rest):
        raise ValueError("its checksum is wrong: it is not what was written")
    return rest


def _checksum(value: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(_plain(value), sort_keys=True).encode()):08x}"


def _plain(value: Any) -> Any:
    """As JSON holds it."""
    return json.loads(json.dumps(value), parse_constant=lambda _: None)
