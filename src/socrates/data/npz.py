"""`npz:PATH`: a user's own images as arrays in one NumPy file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from socrates.contracts import Splits
from socrates.files import refuse_bomb

from .augment import Transform
from .download import DataNotFound
from .resident import Arrays, resident_splits, statistics
from .splits import TEST_FRACTION, hold_out

Content = Mapping[str, NDArray[Any]]  # the arrays of a file, read when they are asked for


def read_array(content: Content, name: str) -> NDArray[Any]:
    """An array by name; pickled ones are refused."""
    if name not in content:
        raise ValueError(
            f"the array {name} is missing, found {list(content)}: save x_train and y_train (x_test, y_test, x_val, "
            f"y_val if there are any), or images and labels"
        )
    try:
        array = content[name]
        array.tolist() if array.dtype.kind == "U" else None  # letters that there are not show only now
    except Exception as error:  # numpy and zipfile raise many kinds for a damaged file
        told = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"the array {name} cannot be read ({told}): save it as plain numbers") from error
    return array


def read_images(content: Content, name: str) -> NDArray[np.uint8]:
    """uint8 NHW, NHWC or NCHW with 1 or 3 channels, brought to NCHW; when both fit, the last axis is the channels."""
    array = read_array(content, name)
    if array.dtype != np.uint8:
        raise ValueError(f"the array {name} is {array.dtype}, expected uint8 from 0 to 255: scale and convert it")
    images = array[..., None] if array.ndim == 3 else array
    if images.ndim == 4 and images.shape[3] in (1, 3):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    if images.ndim == 4 and images.shape[1] in (1, 3):
        return images
    layouts = "(N, H, W), (N, H, W, C) or (N, C, H, W) with 1 or 3 channels"
    raise ValueError(f"the array {name} has the shape {array.shape}, expected {layouts}")


def read_pair(content: Content, names: tuple[str, str]) -> Arrays:
    """Images and labels that belong together."""
    images, labels = read_images(content, names[0]), read_array(content, names[1])
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.dtype.kind not in "iu" or labels.shape != (len(images),) or len(images) == 0:
        raise ValueError(
            f"the array {names[1]} is {labels.dtype} {labels.shape}, expected whole numbers, one for each of the "
            f"{len(images)} images of {names[0]}"
        )
    return images, labels.astype(np.int64)


def check_classes(pairs: dict[str, Arrays]) -> int:
    """The number of classes: training labels are 0 to C - 1, each of them there, and the other parts have no others."""
    first, (images, labels) = next(iter(pairs.items()))
    present, shape = np.unique(labels), images.shape[1:]
    if len(present) < 2 or present[0] != 0 or present[-1] != len(present) - 1:
        raise ValueError(
            f"the labels of {first} are {present[:10].tolist()}..., expected every one of 0 to C - 1, with C at least "
            f"2: number the classes from 0 without gaps"
        )
    for name, (images, labels) in pairs.items():
        if not np.isin(labels, present).all():
            raise ValueError(f"the labels of {name} must be 0 to {present[-1]}, as those of the training part")
        if images.shape[1:] != shape:
            raise ValueError(f"the images of {name} are {images.shape[1:]}, those of the training part {shape}")
    return len(present)


def read_names(content: Content, num_classes: int) -> list[str]:
    """The names of the classes, numbers unless the file has them."""
    if "classes" not in content:
        return [str(number) for number in range(num_classes)]
    names = read_array(content, "classes")
    if names.shape != (num_classes,) or len(set(names.tolist())) != num_classes:
        raise ValueError(f"the array classes must hold {num_classes} different names, got {names.tolist()}")
    return [str(name) for name in names]


def npz_counts(path: Path) -> dict[str, int]:
    """How many labels each part of a file has."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
        refuse_bomb(content.zip, path)
        names = {"train": "y_train" if "y_train" in content.files else "labels", "test": "y_test", "val": "y_val"}
        return {part: len(content[name]) for part, name in names.items() if name in content.files}


def load_npz(path: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """Splits of a file's arrays: x_train, y_train and, if they are there, x_test, y_test, x_val, y_val.

    With only `images` and `labels` (or no test set), a fixed fifth is held out for testing. Mean and deviation are
    those of the training images. An array `classes` may hold the names of the classes.

    Options:
        image_size: side in pixels that images are resized to; as they are by default
        augment: whether training images are cropped with padding (an eighth of the shorter side) and flipped
    """
    if not path.is_file():
        raise DataNotFound(f"{path} is missing: npz: takes the path of a file that numpy.savez wrote")
    with path.open("rb") as file:
        try:
            content = np.load(file, allow_pickle=False)
        except Exception as error:  # of many kinds for a damaged file
            raise ValueError(f"not a file that numpy.savez wrote ({' '.join(str(error).split())})") from error
        if not isinstance(content, Mapping):
            raise ValueError("one array without a name, expected a file that numpy.savez wrote")
        refuse_bomb(content.zip, path)  # pyright: ignore[reportAttributeAccessIssue]
        unnamed = "x_train" not in content and "images" in content
        names = {"train": ("images", "labels") if unnamed else ("x_train", "y_train")}
        names |= {part: (f"x_{part}", f"y_{part}") for part in ("test", "val") if f"x_{part}" in content}
        pairs = {part: read_pair(content, pair) for part, pair in names.items()}
        num_classes = check_classes({names[part][1]: pair for part, pair in pairs.items()})
        class_names = read_names(content, num_classes)
    if "test" not in pairs:
        pairs["train"], pairs["test"] = hold_out(pairs["train"], TEST_FRACTION)
    images = pairs["train"][0]
    how = Transform(*statistics(images), padding=max(1, min(images.shape[2:]) // 8), flip=True, size=image_size)
    return resident_splits(**pairs, transform=how if augment else how.plain, class_names=class_names)
