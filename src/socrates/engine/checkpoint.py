"""Checkpoint files: written whole, the one before kept, read only if every byte is as it was written."""

import hashlib
import io
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from socrates.files import replacing

FORMAT = 2  # 1: without this number, a checksum, and steps within an epoch
MARK = b"\nsocrates blake2b "  # what stands behind the zip archive that torch writes, with its digest
DIGEST = 32  # bytes
ADVICE = "delete it to train from the start"


class Damaged(ValueError):
    """A checkpoint that is not as it was written."""


class _Hashed(io.RawIOBase):
    """A file for torch to write to, and the digest of what it wrote."""

    def __init__(self, file: Any) -> None:
        self.file, self.digest = file, hashlib.blake2b(digest_size=DIGEST)

    def write(self, part: Any) -> int:
        self.digest.update(part)
        return self.file.write(part)


def previous(path: Path) -> Path:
    """Where the checkpoint before the last is.

    >>> previous(Path("run/checkpoint.pt")).name
    'checkpoint-previous.pt'
    """
    return path.with_name(f"{path.stem}-previous{path.suffix}")


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint whole or not at all; the one that was there becomes the previous one."""
    with replacing(path, keep=previous(path)) as file:
        hashed = _Hashed(file)
        try:
            torch.save({"format": FORMAT, **content}, hashed)  # pyright: ignore[reportArgumentType]
        except RuntimeError as error:  # how torch says that not all could be written
            raise error.__context__ if isinstance(error.__context__, OSError) else OSError(str(error)) from error
        file.write(MARK + hashed.digest.hexdigest().encode())


def read(path: Path) -> dict[str, Any]:
    """What a checkpoint holds, be it of this or of an earlier format; no code of it is run."""
    try:
        head, mark, rest = path.read_bytes().rpartition(MARK)
        body, told = (head, rest) if mark else (rest, b"")
        if mark and hashlib.blake2b(body, digest_size=DIGEST).hexdigest().encode() != told:
            raise ValueError("its checksum is wrong")
        if not mark:
            with zipfile.ZipFile(io.BytesIO(body)) as archive:
                if archive.testzip() is not None:  # torch reads flipped bits without a word
                    raise ValueError("its checksum is wrong")
        content = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
        if not mark and isinstance(content, dict) and "format" in content:
            raise ValueError("its checksum is missing")
    except OSError:
        raise
    except Exception as error:  # pickle, zip and end-of-file errors alike
        raise Damaged(f"{path} is damaged ({first_line(error)})") from error
    found = content.get("format", 1) if isinstance(content, dict) else 1
    if type(found) is not int or not 1 <= found <= FORMAT:
        raise ValueError(
            f"{path} has the format {found}, this version reads 1 to {FORMAT}: "
            f"continue it with the version that wrote it, or {ADVICE}"
        )
    return content


def read_latest(path: Path) -> tuple[Path, Any] | None:
    """The last checkpoint that is whole, and what it holds; a damaged one is told of, and the one before it used."""
    there = [one for one in (path, previous(path)) if one.is_file()]
    damaged: list[Damaged] = []
    for one in there:
        try:
            content = read(one)
        except Damaged as error:
            damaged.append(error)
            continue
        for error in damaged:
            warnings.warn(f"{error}: going on from {one.name}, the one before it", stacklevel=2)
        return one, content
    if damaged:
        also = f"; so is {there[1].name}: {ADVICE.replace('it', 'them')}" if len(damaged) > 1 else f": {ADVICE}"
        raise ValueError(f"{damaged[0]}{also}")
    return None


def first_line(error: Exception) -> str:
    """What an error says, in one line: torch lists every parameter that does not fit."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = lines[1] if len(lines) > 1 and lines[0].startswith("Error(s) in loading") else "".join(lines[:1])
    return told if isinstance(error, ValueError | RuntimeError) else f"{type(error).__name__}: {told}"
