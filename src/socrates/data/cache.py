"""Decoded images on the disk, so that a study of many runs decodes its images once.

Files are called by the contents of the images and their size in pixels, and lie in the folder
`images` of the data folder. All of them together take at most `LARGEST` bytes: the one that was not
used for longest goes first. Whoever deletes them loses time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from socrates.files import remove_half_written, replacing

from .memory import data_root

FOLDER = "images"
SUFFIX = ".uint8"
LARGEST = 4_000_000_000  # bytes of all files
ARITHMETIC = 1  # another number for each change of what `image_tensor` returns

SizeAndMode = tuple[str, str]  # of an image file, such as "40x30" and "RGB"


class DecodedImages(NamedTuple):
    """Images (N, 3, H, W) in the size of a model, and the size and mode of the file of each.

    The latter is None for files that could not be read.
    """

    images: NDArray[np.uint8]
    originals: list[SizeAndMode | None]


def cache_path(contents: Sequence[str], size: int, root: Path | None = None) -> Path:
    """Return where images of files with these digests of their contents lie, in this size.

    >>> cache_path(["5f", "c0"], 32, Path("my")).parent.as_posix()
    'my/images'
    """
    import PIL  # another version may decode otherwise

    key = "\n".join([str(ARITHMETIC), PIL.__version__, str(size), *contents])
    name = hashlib.sha256(key.encode()).hexdigest()[:32]
    return data_root(root) / FOLDER / f"{name}{SUFFIX}"


def read_cached(path: Path, num_images: int, size: int) -> DecodedImages | None:
    """Return the images of a file, or None if there is none or it is not whole."""
    shape = (num_images, 3, size, size)
    with contextlib.suppress(OSError, ValueError, TypeError), path.open("rb") as file:
        digest = file.readline().decode().strip()
        header = file.readline()
        images = np.fromfile(file, np.uint8, count=num_images * 3 * size * size)
        if images.size != np.prod(shape) or file.read(1) or digest != _digest(header, images):
            return None
        originals = [None if item is None else (item[0], item[1]) for item in json.loads(header)]
        if len(originals) != num_images:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used now
        return DecodedImages(images.reshape(shape), originals)
    return None


def write_cached(path: Path, decoded: DecodedImages, largest: int | None = None) -> None:
    """Write images for the next time, if the disk has room; remove what was not used for long."""
    limit = LARGEST if largest is None else largest
    header = json.dumps(decoded.originals).encode() + b"\n"
    num_bytes = decoded.images.nbytes
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_half_written(path.parent)
        if num_bytes > limit or shutil.disk_usage(path.parent).free < 2 * num_bytes:
            return
        _make_room(path.parent, limit - num_bytes)
        with replacing(path) as file:
            file.write(_digest(header, decoded.images).encode() + b"\n" + header)
            file.write(np.ascontiguousarray(decoded.images).data)


def _make_room(folder: Path, limit: int) -> None:
    """Remove the files that were not used for longest, until the others take up to `limit`."""
    files: list[tuple[int, int, Path]] = []
    for path in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError):  # another process may have removed it
            status = path.stat()
            files.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= limit:
            return
        path.unlink(missing_ok=True)
        total -= size


def _digest(header: bytes, images: NDArray[np.uint8]) -> str:
    """Return a digest of all that a file holds."""
    digest = hashlib.blake2b(header, digest_size=16)
    digest.update(np.ascontiguousarray(images).data)
    return digest.hexdigest()
