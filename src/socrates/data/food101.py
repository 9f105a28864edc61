"""Food-101, streamed from its JPEG files."""

import os
from pathlib import Path

import numpy as np

from socrates.contracts import Splits

from .download import DataCorrupt, DataNotFound, fetch_extracted
from .splits import Labelled, hold_out
from .streamed import streamed_splits


def read_lines(path: Path) -> list[str]:
    """Return the lines of a list of the data set."""
    advice = f"delete the folder {path.parent.parent} to have it fetched again"
    if not path.is_file():
        raise DataNotFound(f"{path} is missing: {advice}")
    try:
        lines = path.read_text(encoding="utf-8").split()
    except UnicodeDecodeError as error:
        raise DataCorrupt(f"{path}: damaged ({error}): {advice}") from error
    if not lines:
        raise DataCorrupt(f"{path}: the list is empty")
    return lines


def read_part(folder: Path, part: str, classes: list[str]) -> Labelled:
    """Return the files and labels of a part, in the order of its list; every image must exist."""
    label_of = {name: label for label, name in enumerate(classes)}
    list_path = folder / "meta" / f"{part}.txt"
    names = read_lines(list_path)
    labels: list[int] = []
    for name in names:
        class_name, _, image = name.partition("/")
        if class_name not in label_of or not image or "/" in image:
            raise DataCorrupt(
                f"{list_path}: {name!r} is not of the form CLASS/ID with a class of classes.txt"
            )
        labels.append(label_of[class_name])
    existing = existing_images(folder, classes)
    missing = [name for name in names if f"{name}.jpg" not in existing]
    if missing:
        raise DataNotFound(
            f"{len(missing)} images of {list_path} are missing, the first is "
            f"{folder / 'images' / missing[0]}.jpg: delete the folder {folder} to have it "
            "fetched again"
        )
    return np.array([folder / "images" / f"{name}.jpg" for name in names]), np.array(labels)


def existing_images(folder: Path, classes: list[str]) -> set[str]:
    """Return the files in the folders of the classes, as CLASS/FILE: a stat of each is slower."""
    existing: set[str] = set()
    for name in classes:
        place = folder / "images" / name
        if place.is_dir():
            existing |= {f"{name}/{file}" for file in os.listdir(place)}
    return existing


def load_food101(
    root: Path,
    *,
    image_size: int | None = None,
    augment: bool = True,
    val_fraction: float = 0.2,
    pad_small: bool = False,
) -> Splits:
    """Load 60,600 / 15,150 / 25,250 images of 101 dishes from food-101/ below the root.

    Evaluation takes the center; images smaller than that are enlarged first, or padded.

    Options:
        image_size: side in pixels of the images that the model gets, by default 224
        augment: whether training takes random resized crops and flips
        val_fraction: share of the training images that validates: the paper's 0.2, or the 0.1 of
            its released code
        pad_small: whether evaluation pads images smaller than the center with black, as the
            released code did
    """
    folder = fetch_extracted("food101", root, "food-101")
    classes = read_lines(folder / "meta" / "classes.txt")
    train, val = hold_out(read_part(folder, "train", classes), val_fraction)
    test = read_part(folder, "test", classes)
    parts = {"train": train, "val": val, "test": test}
    return streamed_splits(parts, classes, image_size or 224, augment, pad_small=pad_small)
