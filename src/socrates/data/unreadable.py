"""Files that should be images and cannot be read: of which kind each is, and all of them named."""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from socrates.files import replace_text

from .download import DataCorrupt
from .memory import data_root

SUFFIXES = {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm",
    ".pgm",
}  # fmt: skip
# Formats of images that cannot be read here.
UNSUPPORTED = {
    ".heic", ".heif", ".avif", ".jxl", ".jp2", ".j2k", ".psd", ".svg", ".eps", ".ico", ".tga",
    ".exr", ".hdr", ".dcm", ".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".raf", ".rw2",
}  # fmt: skip
DAMAGED = "damaged"
PIXELS = "of unsupported pixels"
HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"mif1", b"msf1", b"avif", b"avis")
MOST_NAMED = 20  # files in one message; a file has the rest


class UnreadableImage(DataCorrupt):
    """An image file cannot be read; `kind` says in a few words why, `reason` in the decoder's.

    >>> UnreadableImage("a.jpg: not a readable image", "empty").kind
    'empty'
    """

    def __init__(self, message: str, kind: str = DAMAGED, reason: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (str(self), self.kind, self.reason)

    @property
    def in_words(self) -> str:
        """Return the kind, and what the decoder said of a file that has an image's content."""
        has_reason = self.kind in (DAMAGED, PIXELS)
        return f"{self.kind} ({self.reason})" if has_reason else self.kind


def unsupported(path: Path) -> UnreadableImage:
    """Return the error of a file whose suffix names a format that cannot be read here.

    >>> str(unsupported(Path("IMG_2034.HEIC")))
    'IMG_2034.HEIC: .heic files cannot be read here: convert it to JPEG or PNG'
    """
    suffix = path.suffix.lower()
    words = f"{path}: {suffix} files cannot be read here: convert it to JPEG or PNG"
    return UnreadableImage(words, suffix)


def kind_of_damage(path: Path, error: Exception) -> str:
    """Return why a file could not be decoded: by its size, its first bytes and the error."""
    try:
        with path.open("rb") as file:
            start = file.read(12)
    except OSError:
        return "not readable"
    if not start:
        return "empty"
    if start[4:8] == b"ftyp" and start[8:12] in HEIF_BRANDS:
        return "HEIC or AVIF by content"
    kinds = {
        "UnidentifiedImageError": "not an image",
        "DecompressionBombError": "too large",
        "MemoryError": "too large",
    }
    return PIXELS if type(error) is ValueError else kinds.get(type(error).__name__, DAMAGED)


def describe(errors: Mapping[Path, UnreadableImage], folder: Path, root: Path | None = None) -> str:
    """Return how many files of each kind cannot be read, and the name of every one.

    Of many files the first are named; all of them are then listed in a file that the text names.
    """
    kinds = Counter(error.kind for error in errors.values())
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    lines = [f"{_name(path, folder)}: {error.in_words}" for path, error in errors.items()]
    if len(lines) > MOST_NAMED:
        more = len(lines) - MOST_NAMED
        place = _list_in_file(lines, folder, root)
        if place is not None:
            lines[MOST_NAMED:] = [f"and {more:,} more; all in {place}"]
    files = "file" if len(errors) == 1 else "files"
    return f"{len(errors):,} {files} cannot be read ({counts}): {'; '.join(lines)}"


def _name(path: Path, folder: Path) -> str:
    """Return a path below the folder as text that can be printed, whatever bytes it has."""
    below = path.relative_to(folder) if path.is_relative_to(folder) else path
    return os.fsencode(below).decode(errors="replace")


def _list_in_file(lines: list[str], folder: Path, root: Path | None) -> Path | None:
    """Write all lines to a file in the data folder; return its path, or None if that fails."""
    digest = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:12]
    path = data_root(root) / "unreadable" / f"{folder.absolute().name}-{digest}.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, "\n".join([f"below {folder.absolute()}:", *lines]) + "\n")
    except (OSError, UnicodeError):
        return None
    return path
