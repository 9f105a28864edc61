"""`folder:PATH`: a user's own images in a folder for each class."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from socrates.contracts import Splits

from .augment import Transform
from .errors import DataNotFound
from .food101 import IMAGENET
from .npz import TEST_FRACTION
from .resident import Arrays, resident_splits, statistics
from .splits import validation_split
from .streamed import StreamedImages, centre_crop, opened, read_rgb

SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
SMALL, SMALL_SIZE, LARGE_SIZE = 64, 32, 224
RESIDENT_BYTES = 1_000_000_000

Listing = tuple[list[Path], np.ndarray]  # files and labels


def class_names(folder: Path) -> list[str]:
    """The sub-folders in order; hidden ones do not count."""
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def list_images(folder: Path, classes: list[str]) -> Listing:
    """The image files below each class's folder, sorted, and their labels."""
    others = sorted(set(class_names(folder)) - set(classes))
    if others:
        raise ValueError(f"{folder}: {others} are no classes of the training folder, which has {classes}")
    files: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        found = sorted(path for path in (folder / name).rglob("*") if is_image(path, folder))
        files += found
        labels += [label] * len(found)
    if not files:
        raise ValueError(f"{folder}: no images ({', '.join(sorted(SUFFIXES))}) in the folders of its classes")
    return files, np.array(labels)


def is_image(path: Path, folder: Path) -> bool:
    """Whether it is a file with an image's suffix; hidden ones, such as the ._0.png of some archives, do not count."""
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in SUFFIXES and not hidden and path.is_file()


def list_parts(path: Path) -> tuple[dict[str, Listing], list[str]]:
    """The listings of train, test and perhaps val, and the classes."""
    if not path.is_dir():
        raise DataNotFound(f"{path} is no folder: folder: takes the path of a folder with a sub-folder for each class")
    names = class_names(path)
    given = {"train", "test"} <= set(names)
    if not given and names and set(names) <= {"train", "val", "test"}:
        raise ValueError(
            f"{path}: found {names}, expected both train and test, or the folders of the classes themselves"
        )
    if given and not set(names) <= {"train", "val", "test"}:
        raise ValueError(f"{path}: beside train, test and val there may be no other folders, found {names}")
    classes = class_names(path / "train" if given else path)
    if len(classes) < 2:
        raise ValueError(f"{path}: found the classes {classes}, expected a sub-folder for each of at least two classes")
    parts = {name: list_images(path / name, classes) for name in names} if given else {}
    if not given:
        files, labels = list_images(path, classes)
        kept, held_out = validation_split(len(files), TEST_FRACTION)
        parts = {"train": pick((files, labels), kept), "test": pick((files, labels), held_out)}
    counts = np.bincount(parts["train"][1], minlength=len(classes))
    if not counts.all():
        raise ValueError(f"{path}: the class {classes[int(counts.argmin())]} has no images to train on")
    return parts, classes


def pick(listing: Listing, index: np.ndarray) -> Listing:
    """The entries of a listing at these positions."""
    return [listing[0][i] for i in index], listing[1][index]


def usual_size(files: list[Path], sample: int = 100) -> int:
    """32 if the median shorter side of a hundred images, evenly spaced in the list, is at most 64 pixels, else 224."""

    def shorter_side(path: Path) -> int:
        with opened(path) as image:
            return min(image.size)

    shorter = [shorter_side(path) for path in files[:: max(1, len(files) // sample)]]
    return SMALL_SIZE if np.median(shorter) <= SMALL else LARGE_SIZE


def read_all(listing: Listing, size: int) -> Arrays:
    """Every image: its shorter side resized to `size`, then the centre."""
    images = np.empty((len(listing[0]), size, size, 3), np.uint8)

    def read(row: int) -> None:
        images[row] = np.array(centre_crop(read_rgb(listing[0][row]), size, shrink=True))

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for _ in pool.map(read, range(len(images))):
            pass
    return images.transpose(0, 3, 1, 2), listing[1]


def load_folder(path: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """Splits of PATH/CLASS/*, of which a fixed fifth tests, or of PATH/train/CLASS/* and PATH/test/CLASS/*.

    Validation is PATH/val if it is there, else a fixed tenth of the training images. Images become RGB squares. Up to a
    gigabyte is kept in memory, normalised by its own mean and deviation; more is streamed, normalised by ImageNet's.

    Options:
        image_size: side in pixels of the squares; by default 32 if the median shorter side is at most 64 pixels,
            else 224
        augment: whether training images of up to 64 pixels are cropped with padding and flipped, and larger ones get a
            random resized crop and a flip
    """
    parts, classes = list_parts(path)
    size = image_size or usual_size(parts["train"][0])
    extra: dict[str, object] = {"scale": (0.08, 1.0)} if size > SMALL else {"padding": size // 8}
    if sum(len(files) for files, _ in parts.values()) * 3 * size * size <= RESIDENT_BYTES:
        arrays = {name: read_all(listing, size) for name, listing in parts.items()}
        plain = Transform(*statistics(arrays["train"][0]), size=size)
        how = Transform(plain.mean, plain.std, flip=True, size=size, **extra) if augment else plain  # pyright: ignore[reportArgumentType]
        return resident_splits(arrays["train"], arrays["test"], how, len(classes), val=arrays.get("val"))
    if "val" not in parts:
        kept, held_out = validation_split(len(parts["train"][0]))
        parts["val"], parts["train"] = pick(parts["train"], held_out), pick(parts["train"], kept)
    plain = Transform(*IMAGENET, size=size)
    how = Transform(*IMAGENET, flip=True, size=size, scale=(0.08, 1.0)) if augment else plain
    made = {
        name: StreamedImages(files, torch.from_numpy(labels), how if name == "train" else plain, shrink=True)
        for name, (files, labels) in parts.items()
    }
    return Splits(made["train"], made["val"], made["test"], len(classes), (3, size, size))
