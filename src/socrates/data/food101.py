"""Food-101, streamed from its JPEG files."""

import os
from pathlib import Path

import numpy as np

from socrates.contracts import Splits

from .download import DataCorrupt, DataNotFound, fetch_extracted
from .splits import Labelled, hold_out
from .streamed import streamed_splits


def read_lines(path: Path) -> list[str]:
    """The lines of a list of the data set."""
    if not path.is_file():
        raise DataNotFound(f"{path} is missing: delete the folder {path.parent.parent} to have it fetched again")
    try:
        lines = path.read_text(encoding="utf-8").split()
    except UnicodeDecodeError as error:
        advice = f"delete the folder {path.parent.parent} to have it fetched again"
        raise DataCorrupt(f"{path}: damaged ({error}): {advice}") from error
    if not lines:
        raise DataCorrupt(f"{path}: the list is empty")
    return lines


def read_part(folder: Path, part: str, classes: list[str]) -> Labelled:
    """Files and labels of a part, in the order of its list; every image must be there."""
    number = {name: label for label, name in enumerate(classes)}
    list_path = folder / "meta" / f"{part}.txt"
    names = read_lines(list_path)
    labels = [number.get(name.split("/")[0], -1) for name in names]
    wrong = [name for name, label in zip(names, labels, strict=True) if label < 0 or len(name.split("/")) != 2]
    if wrong:
        raise DataCorrupt(f"{list_path}: {wrong[0]!r} is not of the form CLASS/ID with a class of classes.txt")
    places = [folder / "images" / name for name in classes]
    there = {f"{place.name}/{entry}" for place in places if place.is_dir() for entry in os.listdir(place)}
    missing = [name for name in names if f"{name}.jpg" not in there]
    if missing:
        raise DataNotFound(
            f"{len(missing)} images of {list_path} are missing, the first is "
            f"{folder / 'images' / missing[0]}.jpg: delete the folder {folder} to have it fetched again"
        )
    return np.array([folder / "images" / f"{name}.jpg" for name in names]), np.array(labels)


def load_food101(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """60,600 / 15,150 / 25,250 images of 101 dishes; food-101/ below the root.

    Evaluation takes the centre; images smaller than that are enlarged first.

    Options:
        image_size: side in pixels of what the model sees, 224 by default
        augment: whether training takes random resized crops and flips
    """
    folder = fetch_extracted("food101", root, "food-101")
    classes = read_lines(folder / "meta" / "classes.txt")
    train, test = (read_part(folder, part, classes) for part in ("train", "test"))
    train, val = hold_out(train, 0.2)
    return streamed_splits({"train": train, "val": val, "test": test}, classes, image_size or 224, augment)
