"""`npz:PATH`: a user's own images, as arrays in one NumPy file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from socrates.contracts import Splits
from socrates.files import refuse_bomb

from .augment import Transform
from .download import DataNotFound
from .resident import Arrays, resident_splits, statistics
from .splits import TEST_FRACTION, hold_out

Content = Mapping[str, NDArray[Any]]  # the arrays of a file, each read when it is used


def read_array(content: Content, name: str) -> NDArray[Any]:
    """Read an array by its name; a pickled one is refused."""
    if name not in content:
        raise ValueError(
            f"the array {name} is missing, found {list(content)}: save x_train and y_train "
            "(x_test, y_test, x_val, y_val if there are any), or images and labels"
        )
    try:
        array = content[name]
        if array.dtype.kind == "U":
            array.tolist()  # raises where a text has letters that do not exist
    except Exception as error:  # numpy and zipfile raise many kinds for a damaged file
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"the array {name} cannot be read ({reason}): save it as plain numbers"
        ) from error
    return array


def read_images(content: Content, name: str) -> NDArray[np.uint8]:
    """Read uint8 images in NHW, NHWC or NCHW with 1 or 3 channels, and return them as NCHW.

    When both NHWC and NCHW fit, the last axis is the channels.
    """
    array = read_array(content, name)
    if array.dtype != np.uint8:
        raise ValueError(
            f"the array {name} is {array.dtype}, expected uint8 from 0 to 255: scale and convert it"
        )
    images = array[..., None] if array.ndim == 3 else array
    if images.ndim == 4 and images.shape[3] in (1, 3):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    if images.ndim == 4 and images.shape[1] in (1, 3):
        return images
    layouts = "(N, H, W), (N, H, W, C) or (N, C, H, W) with 1 or 3 channels"
    raise ValueError(f"the array {name} has the shape {array.shape}, expected {layouts}")


def read_pair(content: Content, images_name: str, labels_name: str) -> Arrays:
    """Read images and their labels."""
    images = read_images(content, images_name)
    labels = read_array(content, labels_name)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind not in "iu" or labels.shape != (len(images),) or len(images) == 0:
        raise ValueError(
            f"the array {labels_name} is {labels.dtype} {labels.shape}, expected whole numbers, "
            f"one for each of the {len(images)} images of {images_name}"
        )
    return images, labels.astype(np.int64)


def check_classes(pairs: dict[str, Arrays]) -> int:
    """Return the number of classes, and refuse labels and images that do not fit together.

    Training labels, which come first, must be 0 to C - 1 without gaps; the other parts must have
    the same classes and the same shape of images.
    """
    first_name, (first_images, first_labels) = next(iter(pairs.items()))
    classes = np.unique(first_labels)
    if len(classes) < 2 or classes[0] != 0 or classes[-1] != len(classes) - 1:
        raise ValueError(
            f"the labels of {first_name} are {classes[:10].tolist()}..., expected every one of 0 "
            "to C - 1, with C at least 2: number the classes from 0 without gaps"
        )
    shape = first_images.shape[1:]
    for name, (images, labels) in pairs.items():
        if not np.isin(labels, classes).all():
            raise ValueError(
                f"the labels of {name} must be 0 to {classes[-1]}, as those of the training part"
            )
        if images.shape[1:] != shape:
            raise ValueError(
                f"the images of {name} are {images.shape[1:]}, those of the training part {shape}"
            )
    return len(classes)


def read_names(content: Content, num_classes: int) -> list[str]:
    """Return the names of the classes: numbers unless the file has names."""
    if "classes" not in content:
        return [str(number) for number in range(num_classes)]
    names = read_array(content, "classes")
    if names.shape != (num_classes,) or len(set(names.tolist())) != num_classes:
        raise ValueError(
            f"the array classes must hold {num_classes} different names, got {names.tolist()}"
        )
    return [str(name) for name in names]


def npz_counts(path: Path) -> dict[str, int]:
    """Return the number of labels of each part of a file."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
        refuse_bomb(content.zip, path)
        train = "y_train" if "y_train" in content.files else "labels"
        names = {"train": train, "test": "y_test", "val": "y_val"}
        return {part: len(content[name]) for part, name in names.items() if name in content.files}


def npz_side(path: Path) -> int:
    """Return the shorter side of a file's training images, in pixels, without reading them."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
        refuse_bomb(content.zip, path)
        name = "x_train" if "x_train" in content.files else "images"
        with content.zip.open(f"{name}.npy") as array:
            version = np.lib.format.read_magic(array)
            read = np.lib.format.read_array_header_1_0
            if version != (1, 0):
                read = np.lib.format.read_array_header_2_0
            shape = read(array)[0]
    channels_first = len(shape) == 4 and shape[3] not in (1, 3)
    return min(shape[2:4] if channels_first else shape[1:3])


def load_npz(path: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """Load a file's arrays x_train, y_train and, if there, x_test, y_test, x_val, y_val.

    With only `images` and `labels` (or no test set), a fixed fifth is held out for testing. Mean
    and deviation are those of the training images. An array `classes` may hold the names of the
    classes.

    Options:
        image_size: side in pixels that images are resized to; as they are by default
        augment: whether training images are cropped with padding (an eighth of the shorter side)
            and flipped
    """
    if not path.is_file():
        raise DataNotFound(
            f"{path} is missing: npz: takes the path of a file that numpy.savez wrote"
        )
    with path.open("rb") as file:
        content = open_content(file, path)
        pairs, class_names = read_parts(content)
    if "test" not in pairs:
        pairs["train"], pairs["test"] = hold_out(pairs["train"], TEST_FRACTION)
    images = pairs["train"][0]
    mean, std = statistics(images)
    padding = max(1, min(images.shape[2:]) // 8)
    transform = Transform(mean, std, padding=padding, flip=True, size=image_size)
    return resident_splits(**pairs, transform=transform, class_names=class_names, augment=augment)


def open_content(file: BinaryIO, path: Path) -> Content:
    """Open the arrays of a file without reading them, and refuse any other file."""
    try:
        content = np.load(file, allow_pickle=False)
    except Exception as error:  # numpy raises many kinds for a damaged file
        reason = " ".join(str(error).split())
        raise ValueError(f"not a file that numpy.savez wrote ({reason})") from error
    if not isinstance(content, Mapping):
        raise ValueError("one array without a name, expected a file that numpy.savez wrote")
    refuse_bomb(content.zip, path)  # pyright: ignore[reportAttributeAccessIssue]
    return content


def read_parts(content: Content) -> tuple[dict[str, Arrays], list[str]]:
    """Read the images and labels of each part, and the names of the classes."""
    unnamed = "x_train" not in content and "images" in content
    names = {"train": ("images", "labels") if unnamed else ("x_train", "y_train")}
    for part in ("test", "val"):
        if f"x_{part}" in content:
            names[part] = (f"x_{part}", f"y_{part}")
    pairs = {part: read_pair(content, *pair_names) for part, pair_names in names.items()}
    num_classes = check_classes({names[part][1]: pair for part, pair in pairs.items()})
    return pairs, read_names(content, num_classes)
