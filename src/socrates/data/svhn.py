"""SVHN, cropped digits, from its two MATLAB files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from socrates.contracts import Splits

from .augment import Transform
from .download import DataCorrupt, fetch
from .resident import Arrays, resident_splits


def read_mat(path: Path) -> Arrays:
    """Images and labels of a file with X (32, 32, 3, N) and y (N, 1) in 1 to 10, where 10 is the digit 0."""
    from scipy.io import loadmat

    with path.open("rb") as file:
        header = file.read(128)
    if len(header) < 128 or not header.startswith(b"MATLAB 5.0"):
        raise DataCorrupt(f"{path}: the header is not that of a MATLAB 5.0 file: the file is damaged or another one")
    try:
        content = loadmat(path, variable_names=["X", "y"])
    except Exception as error:  # the reader raises many kinds on damaged files
        raise DataCorrupt(f"{path}: truncated or damaged ({error}); delete it to have it downloaded again") from error
    images, labels = content.get("X"), content.get("y")
    if images is None or labels is None:
        raise DataCorrupt(f"{path}: the variables X and y are expected, found {sorted(content)}")
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise DataCorrupt(f"{path}: X must be uint8 (32, 32, 3, N), is {images.dtype} {images.shape}")
    if labels.size != images.shape[3] or not np.isin(labels, np.arange(1, 11)).all():
        raise DataCorrupt(f"{path}: y must be {images.shape[3]} labels from 1 to 10, is {labels.shape} {labels.dtype}")
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels.ravel().astype(np.int64) % 10


def load_svhn(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """65,932 / 7,325 / 26,032 images of 10 digits; train_32x32.mat and test_32x32.mat in the root.

    Options:
        image_size: side in pixels that images are resized to; as they are by default
        augment: whether training images are turned by up to 15 degrees and cropped with a padding of 4 pixels
    """
    train, test = (read_mat(fetch(f"svhn/{part}", root)) for part in ("train", "test"))
    how = Transform((0.5,) * 3, (0.5,) * 3, padding=4, degrees=15.0, size=image_size)
    return resident_splits(train, test, how if augment else how.plain, list("0123456789"))
