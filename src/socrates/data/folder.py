"""`folder:PATH`: a user's own images in a folder for each class."""

import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
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
SMALL, SMALL_SIZE, LARGE_SIZE = 64, 32, 224
RESIDENT_BYTES = 1_000_000_000

Look = tuple[str, str]  # size and mode of an image file


def class_names(folder: Path) -> list[str]:
    """The sub-folders in order; hidden ones do not count."""
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def list_images(folder: Path, classes: list[str]) -> Labelled:
    """The image files below each class's folder, sorted, and their labels."""
    others = sorted(set(class_names(folder)) - set(classes))
    if others:
        raise ValueError(f"{folder}: {others} are no classes of the training folder, which has {classes}")
    found = [sorted(path for path in (folder / name).rglob("*") if is_image(path, folder)) for name in classes]
    files = [path for of_class in found for path in of_class]
    if not files:
        raise ValueError(f"{folder}: no images ({', '.join(sorted(SUFFIXES))}) in the folders of its classes")
    return np.array(files), np.repeat(np.arange(len(classes)), [len(of_class) for of_class in found])


def is_image(path: Path, folder: Path) -> bool:
    """Whether it is a file with an image's suffix; hidden ones, such as the ._0.png of some archives, do not count."""
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in SUFFIXES and not hidden and path.is_file()


def list_parts(path: Path) -> tuple[dict[str, Labelled], list[str]]:
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
    if given:
        return {name: list_images(path / name, classes) for name in names}, classes
    train, test = hold_out(list_images(path, classes), TEST_FRACTION)
    return {"train": train, "test": test}, classes


def folder_counts(path: Path) -> dict[str, int]:
    """How many image files each part of a folder has."""
    return {part: len(files) for part, (files, _) in list_parts(path)[0].items()}


def usual_size(files: NDArray[Any], sample: int = 100) -> int:
    """32 if the median shorter side of a hundred images, evenly spaced in the list, is at most 64 pixels, else 224."""

    def shorter_side(path: Path) -> int:
        with opened(path) as image:
            return min(image.size)

    shorter = [shorter_side(path) for path in files[:: max(1, len(files) // sample)]]
    return SMALL_SIZE if np.median(shorter) <= SMALL else LARGE_SIZE


def read_all(files: NDArray[Any], size: int, looks: dict[Path, Look]) -> NDArray[np.uint8]:
    """Every image, its shorter side resized to `size`, then the centre; `looks` gets how each was before."""
    images = np.empty((len(files), size, size, 3), np.uint8)

    def read(row: int) -> Look:
        with opened(files[row]) as image:
            look = (f"{image.width}x{image.height}", image.mode)
            images[row] = np.array(centre_crop(as_rgb(image), size, shrink=True))
        return look

    with ThreadPoolExecutor(THREADS) as pool:
        looks |= dict(zip(files, pool.map(read, range(len(files))), strict=True))
    return images.transpose(0, 3, 1, 2)


def tell_odd_ones(path: Path, looks: dict[Path, Look], size: int) -> None:
    """Warn of images that are not as most are, in size or in kind; where most differ, none is odd."""
    for column, become in enumerate((f"squares of {size}x{size}", "RGB, whatever was transparent")):
        usual, count = Counter(look[column] for look in looks.values()).most_common(1)[0]
        odd = [file for file, look in looks.items() if look[column] != usual]
        if odd and count > len(looks) // 2:
            warnings.warn(
                f"{path}: {len(odd)} of {len(looks)} images are not {usual} as the others, such as "
                f"{odd[0].relative_to(path)}: all become {become}",
                stacklevel=2,
            )


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
    if sum(len(files) for files, _ in parts.values()) * 3 * size * size <= RESIDENT_BYTES:
        looks: dict[Path, Look] = {}
        arrays = {name: (read_all(files, size, looks), labels) for name, (files, labels) in parts.items()}
        tell_odd_ones(path, looks, size)
        crop: dict[str, Any] = {"scale": (0.08, 1.0)} if size > SMALL else {"padding": size // 8}
        how = Transform(*statistics(arrays["train"][0]), flip=True, size=size, **crop)
        return resident_splits(**arrays, transform=how if augment else how.plain, class_names=classes)
    return streamed_splits(parts, classes, size, augment, shrink=True)
