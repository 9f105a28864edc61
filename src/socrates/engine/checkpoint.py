"""Checkpoint files: written whole, the previous one kept, read only if no byte has changed."""

import io
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from socrates.files import reason_of, replacing
from socrates.identity import FORMAT, ForeignFile, check_format

ADVICE = "delete it to train from the start"


class Damaged(ValueError):
    """A checkpoint that is not as it was written."""


def previous(path: Path) -> Path:
    """Return where the checkpoint before the last is.

    >>> previous(Path("run/checkpoint.pt")).name
    'checkpoint-previous.pt'
    """
    return path.with_name(f"{path.stem}-previous{path.suffix}")


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint whole or not at all; the one that was there becomes the previous one."""
    with replacing(path, keep=previous(path)) as file:
        try:
            torch.save({"format": FORMAT, **content}, file)
        except RuntimeError as error:  # how torch says that not all could be written
            cause = error.__context__
            raise (cause if isinstance(cause, OSError) else OSError(str(error))) from error


def read(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint of this format; none of its code is run."""
    try:
        content = _read_checked(path.read_bytes())
        check_format(content.get("format"))
    except OSError:
        raise
    except ForeignFile as error:
        raise ForeignFile(f"{path} cannot be read: {error}, or {ADVICE}") from error
    except Exception as error:  # pickle, zip and end-of-file errors alike
        raise Damaged(f"{path} is damaged ({reason_of(error)})") from error
    return content


def _read_checked(file: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        if archive.testzip() is not None:  # torch does not notice flipped bits
            raise ValueError("its checksum is wrong")
    return torch.load(io.BytesIO(file), map_location="cpu", weights_only=True)


def read_latest(path: Path) -> tuple[Path, Any] | None:
    """Return the last undamaged checkpoint, and what it holds.

    A damaged one is reported, and the one before it used.
    """
    files = [file for file in (path, previous(path)) if file.is_file()]
    damaged: list[Damaged] = []
    for file in files:
        try:
            content = read(file)
        except Damaged as error:
            damaged.append(error)
            continue
        for error in damaged:
            warnings.warn(f"{error}: continuing from {file.name}, the one before it", stacklevel=2)
        return file, content
    if damaged:
        raise ValueError(f"{'; '.join(map(str, damaged))}: {ADVICE}")
    return None
