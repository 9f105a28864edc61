"""`folder:PATH`: a user's own images, with a sub-folder for each class."""

import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from socrates.contracts import Splits

from .augment import Transform
from .download import THREADS, DataNotFound
from .resident import resident_splits, statistics
from .splits import TEST_FRACTION, Labelled, hold_out
from .streamed import as_rgb, centre_crop, opened, streamed_splits

SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
PARTS = {"train", "val", "test"}
SMALL = 64  # pixels of the shorter side up to which images count as small
SMALL_SIZE = 32
LARGE_SIZE = 224
RESIDENT_BYTES = 1_000_000_000

SizeAndMode = tuple[str, str]  # of an image file, such as "40x30" and "RGB"


@dataclass(frozen=True)
class FolderListing:
    """The image files of a folder, by part, and its classes."""

    path: Path
    parts: dict[str, Labelled]  # train, test and perhaps val: files and their labels
    classes: list[str]

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of image files of each part."""
        return {part: len(files) for part, (files, _) in self.parts.items()}


@dataclass(frozen=True)
class FolderSplits(Splits):
    """Splits of a folder that keep its listing, so that a fingerprint need not list it again."""

    listing: FolderListing | None = field(default=None, repr=False, compare=False)


def class_names(folder: Path) -> list[str]:
    """Return the names of the sub-folders in order, without hidden ones."""
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.is_dir() and not entry.name.startswith(".")
    )


def list_images(folder: Path, classes: list[str]) -> Labelled:
    """Return the image files below each class's folder, sorted, and their labels."""
    others = sorted(set(class_names(folder)) - set(classes))
    if others:
        raise ValueError(
            f"{folder}: {others} are not classes of the training folder, which has {classes}"
        )
    files: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        of_class = [path for path in (folder / name).rglob("*") if is_image(path, folder)]
        files += sorted(of_class)
        labels += [label] * len(of_class)
    if not files:
        raise ValueError(
            f"{folder}: no images ({', '.join(sorted(SUFFIXES))}) in the folders of its classes"
        )
    return np.array(files), np.array(labels)


def is_image(path: Path, folder: Path) -> bool:
    """Return whether a path is a file with an image's suffix, and not hidden in the folder.

    Some archives hold hidden files such as ._0.png that are not images.
    """
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in SUFFIXES and not hidden and path.is_file()


def list_folder(path: Path) -> FolderListing:
    """List the images of a folder by part; without such sub-folders, hold out a test set."""
    if not path.is_dir():
        raise DataNotFound(
            f"{path} is not a folder: folder: takes the path of a folder with a sub-folder for "
            "each class"
        )
    names = class_names(path)
    has_parts = {"train", "test"} <= set(names)
    only_parts = set(names) <= PARTS
    if names and only_parts and not has_parts:
        raise ValueError(
            f"{path}: found {names}, expected both train and test, or the folders of the classes "
            "themselves"
        )
    if has_parts and not only_parts:
        raise ValueError(
            f"{path}: beside train, test and val there may be no other folders, found {names}"
        )
    classes = class_names(path / "train" if has_parts else path)
    if len(classes) < 2:
        raise ValueError(
            f"{path}: found the classes {classes}, expected a sub-folder for each of at least "
            "two classes"
        )
    if has_parts:
        parts = {name: list_images(path / name, classes) for name in names}
    else:
        train, test = hold_out(list_images(path, classes), TEST_FRACTION)
        parts = {"train": train, "test": test}
    return FolderListing(path, parts, classes)


def usual_size(files: NDArray[Any], sample: int = 100) -> int:
    """Return 32 if images are mostly small, else 224.

    Small means that the median shorter side of about a hundred images, evenly spaced in the list,
    is at most 64 pixels. Only the headers of these files are read.
    """

    def shorter_side(path: Path) -> int:
        with opened(path) as image:
            return min(image.size)

    step = max(1, len(files) // sample)
    sides = [shorter_side(path) for path in files[::step]]
    return SMALL_SIZE if np.median(sides) <= SMALL else LARGE_SIZE


def read_squares(
    files: NDArray[Any], size: int
) -> tuple[NDArray[np.uint8], dict[Path, SizeAndMode]]:
    """Read every image as the square in its center, and the size and mode of each file.

    The shorter side is resized to `size` first.
    """
    images = np.empty((len(files), size, size, 3), np.uint8)

    def read(row: int) -> SizeAndMode:
        with opened(files[row]) as image:
            original = (f"{image.width}x{image.height}", image.mode)
            images[row] = np.array(centre_crop(as_rgb(image), size, shrink=True))
        return original

    with ThreadPoolExecutor(THREADS) as pool:
        originals = dict(zip(files, pool.map(read, range(len(files))), strict=True))
    return images.transpose(0, 3, 1, 2), originals


def warn_of_odd_images(path: Path, originals: dict[Path, SizeAndMode], size: int) -> None:
    """Warn of images whose size or mode is not that of most others, if most are alike."""
    outcomes = (f"squares of {size}x{size}", "RGB without transparency")
    for column, outcome in enumerate(outcomes):
        values = {file: original[column] for file, original in originals.items()}
        usual, count = Counter(values.values()).most_common(1)[0]
        odd = [file for file, value in values.items() if value != usual]
        if odd and count > len(originals) // 2:
            warnings.warn(
                f"{path}: {len(odd)} of {len(originals)} images are not {usual} like the others, "
                f"such as {odd[0].relative_to(path)}: all become {outcome}",
                stacklevel=2,
            )


def load_folder(path: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """Load PATH/CLASS/* (a fixed fifth tests), or PATH/train/CLASS/* and PATH/test/CLASS/*.

    Validation is PATH/val if it is there, else a fixed tenth of the training images. Images become
    RGB squares. Up to a gigabyte is kept in memory, normalized by its own mean and deviation; more
    is streamed, normalized by ImageNet's.

    Options:
        image_size: side in pixels of the squares; by default 32 if the median shorter side is at
            most 64 pixels, else 224
        augment: whether training images of up to 64 pixels are cropped with padding and flipped,
            and larger ones get a random resized crop and a flip
    """
    listing = list_folder(path)
    size = image_size or usual_size(listing.parts["train"][0])
    num_bytes = sum(listing.counts.values()) * 3 * size * size
    if num_bytes <= RESIDENT_BYTES:
        splits = _resident(listing, size, augment)
    else:
        splits = streamed_splits(listing.parts, listing.classes, size, augment, shrink=True)
    return FolderSplits(**vars(splits), listing=listing)


def _resident(listing: FolderListing, size: int, augment: bool) -> Splits:
    """Read all images of a folder into memory."""
    arrays = {}
    originals: dict[Path, SizeAndMode] = {}
    for name, (files, labels) in listing.parts.items():
        images, of_part = read_squares(files, size)
        arrays[name] = (images, labels)
        originals |= of_part
    warn_of_odd_images(listing.path, originals, size)
    crop: dict[str, Any] = {"scale": (0.08, 1.0)} if size > SMALL else {"padding": size // 8}
    mean, std = statistics(arrays["train"][0])
    transform = Transform(mean, std, flip=True, size=size, **crop)
    return resident_splits(
        **arrays, transform=transform, class_names=listing.classes, augment=augment
    )
