"""Files that are written whole or not at all, their JSON and checksums, and files from outside."""

import contextlib
import errno
import glob
import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

# Errors whose message says what to do; others are shown with their type.
FOR_USERS = (ValueError, OSError, ImportError)
# An archive may unfold to this many bytes, or to this many times its size.
LARGEST_UNFOLDED = 1_000_000_000
ZIP_RATIO = 100
TAR_RATIO = 20
# Spreadsheets take a text that begins with one of these for a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
# What torch, the system's threads and its loader say when there is no memory left.
NO_MEMORY = (
    "not enough memory",
    "can't allocate memory",
    "cannot allocate memory",
    "out of memory",
    "can't start new thread",
    "failed to map segment",
)


@contextlib.contextmanager
def replacing(path: Path, keep: Path | None = None) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` once it is whole and on the disk.

    If that fails nothing has changed. The file that was there before is kept as `keep`, if set.
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
        with contextlib.suppress(OSError):  # the first error is the one to report
            temporary.unlink(missing_ok=True)


def remove_half_written(folder: Path) -> None:
    """Remove what processes that are gone had not written completely, here and below."""
    for half in folder.rglob("*.tmp"):
        pid = Path(half.stem).suffix[1:]  # as `replacing` names them
        if pid.isdecimal() and not is_alive(int(pid)):
            half.unlink(missing_ok=True)


def is_alive(pid: int) -> bool:
    """Return whether another process of this machine has this number.

    >>> is_alive(os.getpid()), is_alive(os.getppid())
    (False, True)
    """
    if pid == os.getpid() or os.name != "posix":  # elsewhere a signal to ask with would end it
        return pid != os.getpid()
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, PermissionError)  # of another user
    return True


def check_output(path: Path, is_folder: bool = False) -> None:
    """Refuse a path at which no file, or no folder, can be written; nothing is created.

    >>> check_output(Path.cwd())
    Traceback (most recent call last):
    ValueError: ... is a folder, expected the path of a file
    """
    if not is_folder and path.is_dir():
        raise ValueError(f"{path} is a folder, expected the path of a file")
    for place in (path, *path.parents):
        if place.is_symlink() and not place.exists():
            raise ValueError(
                f"{place} is a link to {os.readlink(place)}, which is not there: create that, or "
                "choose another path"
            )
        if not place.exists():
            continue
        if place.is_file() and (is_folder or place != path):
            raise ValueError(f"{place} is a file, expected a folder: choose another path")
        if place.is_dir():
            if not os.access(place, os.W_OK):
                raise PermissionError(f"{place} cannot be written to: choose another path")
            return


def clear_beside(path: Path) -> None:
    """Remove half-written versions of a file that processes which are gone left beside it."""
    for half in path.parent.glob(f"{glob.escape(path.name)}.*.tmp"):
        pid = half.name[len(path.name) + 1 : -len(".tmp")]
        if pid.isdecimal() and not is_alive(int(pid)):
            half.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Write the names of a folder's files to the disk: a power cut could lose a new one."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # not every file system can
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Add to an error of the disk which file could not be written, and what to do."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full: free some space" if full else error.strerror or str(error)
        raise type(error)(f"{path} could not be written: {reason}") from error


def replace_text(path: Path, text: str) -> None:
    """Write a text whole or not at all."""
    with replacing(path) as file:
        file.write(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all."""
    replace_text(path, to_json(value, indent=2))


def to_json(value: Any, indent: int | None = None) -> str:
    """Return JSON and a line break; NaN and infinity, which JSON does not have, become null.

    >>> to_json({"ece": float("nan")})
    '{"ece": null}\\n'
    """
    return json.dumps(_plain(value), indent=indent) + "\n"


def with_nan(values: Mapping[str, float | None]) -> dict[str, float]:
    """Return numbers that `to_json` wrote, with NaN instead of null.

    >>> with_nan({"ece": None})
    {'ece': nan}
    """
    return {key: math.nan if value is None else value for key, value in values.items()}


def is_number(value: object) -> bool:
    """Return whether a value is a number, which true and false are not.

    >>> is_number(0.5), is_number(True)
    (True, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool)


def not_numbers(values: Iterable[tuple[str, Any]]) -> str:
    """Return the names of values that are neither numbers nor null.

    >>> not_numbers({"ece": None, "nll": "low"}.items())
    'nll'
    """
    wrong = {name for name, value in values if value is not None and not is_number(value)}
    return ", ".join(sorted(wrong))


def with_checksum(value: dict[str, Any]) -> dict[str, Any]:
    """Return the values with a checksum, by which a changed digit is noticed.

    >>> with_checksum({"epoch": 1})
    {'epoch': 1, 'checksum': '94919848'}
    """
    return {**value, "checksum": _checksum(value)}


def without_checksum(value: dict[str, Any]) -> dict[str, Any]:
    """Return the values without their checksum; refuse them if either has been changed.

    >>> without_checksum({"epoch": 1, "checksum": "94919848"})
    {'epoch': 1}
    >>> without_checksum({"epoch": 2, "checksum": "94919848"})
    Traceback (most recent call last):
    ValueError: its checksum is wrong: it is not what was written
    """
    if "checksum" not in value:
        raise ValueError("its checksum is missing: it is not what was written")
    values = {key: part for key, part in value.items() if key != "checksum"}
    if value["checksum"] != _checksum(values):
        raise ValueError("its checksum is wrong: it is not what was written")
    return values


def _checksum(value: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(_plain(value), sort_keys=True).encode()):08x}"


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it."""
    return json.loads(json.dumps(value), parse_constant=lambda _: None)


def unfolded_limit(archive: Path, ratio: int) -> int:
    """Return how many bytes an archive may unfold to: a gigabyte, or `ratio` times its size."""
    return max(LARGEST_UNFOLDED, ratio * archive.stat().st_size)


def refuse_bomb(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse a zip archive that unfolds to more than a gigabyte and a hundred times its size.

    >>> import io, tempfile
    >>> path = Path(tempfile.mkdtemp(), "small.npz")
    >>> with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
    ...     archive.writestr("zeros", bytes(10_000))
    ...     refuse_bomb(archive, path)
    """
    unfolded = sum(entry.file_size for entry in archive.infolist())
    if unfolded > unfolded_limit(path, ZIP_RATIO):
        raise ValueError(
            f"its {path.stat().st_size:,} bytes unfold to {unfolded:,}, more than {ZIP_RATIO} "
            "times as many: if that is meant, save it uncompressed"
        )


def no_formula(field: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would take for a formula.

    >>> no_formula("=SUM(A1)"), no_formula("CE"), no_formula(-1.0)
    ("'=SUM(A1)", 'CE', -1.0)
    """
    is_formula = isinstance(field, str) and field.startswith(FORMULA_STARTS)
    return f"'{field}" if is_formula else field


def reason_of(error: BaseException) -> str:
    """Describe an error in one line: a message for users, or the type and the first line.

    >>> reason_of(OSError("no space\\nleft")), reason_of(KeyError("x")), reason_of(EOFError())
    ('no space left', "KeyError: 'x'", 'EOFError')
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and isinstance(error, FOR_USERS):
        return " ".join(" ".join(lines).split())
    if len(lines) > 1 and lines[0].endswith(":"):
        del lines[0]  # torch announces what does not fit, and lists it below
    return ": ".join([type(error).__name__, *lines[:1]])


def ran_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that there was not enough memory, whoever raised it.

    >>> ran_out_of_memory(MemoryError()), ran_out_of_memory(RuntimeError("can't start new thread"))
    (True, True)
    >>> ran_out_of_memory(ValueError("a file called out of memory.csv"))
    False
    """
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    is_known = isinstance(error, RuntimeError | ImportError)
    return is_known and any(words in str(error).lower() for words in NO_MEMORY)
