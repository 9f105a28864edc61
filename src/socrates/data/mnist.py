"""MNIST and Fashion-MNIST from their IDX files, compressed or not."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from socrates.contracts import Splits

from .augment import Transform
from .download import FILES, DataCorrupt, fetch
from .resident import Arrays, resident_splits

LARGEST = 1_000_000_000  # bytes of an array, twenty times those of MNIST
FASHION = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


def read_idx(path: Path, dims: int) -> NDArray[np.uint8]:
    """An array of bytes from an IDX file: a magic number that tells type and dimensions, the sizes, the values."""
    magic, start = bytes([0, 0, 8, dims]), 4 + 4 * dims
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            header = file.read(start)
            if header[:4] != magic or len(header) < start:
                raise DataCorrupt(
                    f"{path}: starts with {header[:4].hex()}, expected {magic.hex()} (IDX of {dims} dimensions)"
                )
            shape = tuple(np.frombuffer(header, ">u4", dims, offset=4).tolist())
            size = int(np.prod(shape, dtype=object))
            content = file.read(min(size, LARGEST) + 1)  # and no more, whatever the file would unfold to
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataCorrupt(f"{path}: truncated or damaged ({error}); delete it to have it downloaded again") from error
    if len(content) != size or size == 0:
        found = f"{start + len(content)} bytes" if len(content) <= size else f"more than {start + size} bytes"
        raise DataCorrupt(f"{path}: {found}, expected {start + size} for the sizes {shape}: truncated or damaged")
    return np.frombuffer(content, np.uint8).reshape(shape)


def read_pair(folder: Path, key: str, part: str) -> Arrays:
    """Images and labels of a part (train or t10k); files are fetched if they are there neither compressed nor plain."""

    def path(kind: str) -> Path:
        plain = folder / FILES[f"{key}/{part}-{kind}"].name.removesuffix(".gz")
        return plain if plain.exists() else fetch(f"{key}/{part}-{kind}", folder)

    images, labels = read_idx(path("images"), 3), read_idx(path("labels"), 1)
    if len(images) != len(labels):
        raise DataCorrupt(f"{path('labels')}: {len(labels)} labels for the {len(images)} images of {path('images')}")
    if images.shape[1:] != (28, 28):
        raise DataCorrupt(f"{path('images')}: images of {images.shape[1:]} pixels, expected (28, 28)")
    if labels.max() > 9:
        row = int(labels.argmax())
        raise DataCorrupt(f"{path('labels')}: entry {row} is the label {labels[row]}, expected 0 to 9")
    return images[:, None], labels.astype(np.int64)


def load_mnist(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """54,000 / 6,000 / 10,000 digits; MNIST/raw/ below the root.

    Options:
        image_size: side in pixels that images are resized to; as they are by default
        augment: accepted for uniformity: this data set is never augmented
    """
    train, test = (read_pair(root / "MNIST" / "raw", "mnist", part) for part in ("train", "t10k"))
    return resident_splits(train, test, Transform((0.1307,), (0.3081,), size=image_size), list("0123456789"))


def load_fashion_mnist(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """54,000 / 6,000 / 10,000 articles; FashionMNIST/raw/ below the root.

    Options:
        image_size: side in pixels that images are resized to; as they are by default
        augment: accepted for uniformity: this data set is never augmented
    """
    train, test = (read_pair(root / "FashionMNIST" / "raw", "fashion_mnist", part) for part in ("train", "t10k"))
    return resident_splits(train, test, Transform((0.2860,), (0.3530,), size=image_size), FASHION)
