"""Strangers of a data set: samples of none of its classes, and a class that is left out of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from socrates.contracts import Splits

from .download import DataCorrupt, DataNotFound, file_digest
from .features import FeatureSplit, normalized_as
from .folder import class_names, image_files
from .image import image_tensor
from .memory import THREADS
from .resident import ResidentImages, statistics
from .streamed import StreamedImages
from .unreadable import UnreadableImage, describe, unsupported

UNKNOWN = "unknown"  # the class whose samples are strangers
# The options that every data set has besides those of its loader, and what they mean.
SHARED_OPTIONS: Mapping[str, str] = {
    "unknown": "folder of images of none of the classes: half of them teach the model which images "
    "are strange, the others test it and can certify it",
    "rehearse": "class to train without, to measure how many of its images are answered all "
    "the same",
}
PARTS = ("train", "val", "test")


def with_strangers(
    splits: Splits, unknown: str = "", rehearse: str = "", skip_broken: bool = False
) -> Splits:
    """Return the splits with their strangers: a folder's images, a class `unknown`, or `rehearse`.

    A class named `unknown` is no class, its samples are strangers. A class to `rehearse` is left
    out of all splits, and its samples alone are the strangers.
    """
    if UNKNOWN in splits.class_names:
        if unknown:
            raise ValueError(
                f"the data have a class named {UNKNOWN}, whose images are strangers, and a folder "
                f"{unknown}: keep one of them"
            )
        splits = set_aside(splits, UNKNOWN)
    if unknown:
        splits = replace(splits, unknown=read_strangers(Path(unknown), splits, skip_broken))
    if rehearse:
        if rehearse not in splits.class_names:
            raise ValueError(
                f"rehearse must be one of the classes {', '.join(splits.class_names)}, got "
                f"{rehearse!r}"
            )
        if splits.unknown is not None:
            raise ValueError(
                f"a rehearsal of {rehearse} takes no other strangers: leave the unknown images out"
            )
        splits = set_aside(splits, rehearse)
    return splits


def set_aside(splits: Splits, name: str) -> Splits:
    """Return the splits without a class, whose samples in all parts become the strangers.

    >>> from socrates import data
    >>> splits = set_aside(data.load("digits"), "3")
    >>> len(splits.unknown), splits.num_classes, "3" in splits.class_names
    (183, 9, False)
    """
    number = splits.class_names.index(name)
    names = tuple(other for other in splits.class_names if other != name)
    if len(names) < 2:
        raise ValueError(f"without {name} there are fewer than two classes: {', '.join(names)}")
    known: dict[str, Any] = {}
    strangers: list[Any] = []
    for part in PARTS:
        split: Any = getattr(splits, part)
        if not isinstance(split, ResidentImages | StreamedImages):
            raise ValueError(
                f"a class is set aside of images only, and these data are {type(split).__name__}"
            )
        is_strange = split.labels == number
        known[part] = _relabeled(split.subset(torch.nonzero(~is_strange).flatten()), number)
        strangers.append(split.subset(torch.nonzero(is_strange).flatten()))
    unknown = _joined(strangers, len(names))
    return replace(splits, **known, class_names=names, unknown=unknown)


def normalized_by_training(splits: Splits) -> Splits:
    """Return images in memory normalized by the mean and deviation of the training images alone."""
    if not isinstance(splits.train, ResidentImages):
        return splits
    mean, std = statistics(splits.train.images.cpu().numpy())
    return normalized_as(splits, mean, std)


def _relabeled(split: Any, removed: int) -> Any:
    """Return a split whose labels above that of a removed class are one less."""
    labels = split.labels - (split.labels > removed).long()
    if isinstance(split, ResidentImages):
        return ResidentImages(split.images, labels, split.transform)
    return replace(split, labels=labels)


def _joined(parts: list[Any], label: int) -> Any:
    """Return the samples of several splits as one, never augmented, all with the same label."""
    labels = torch.full((sum(len(part) for part in parts),), label)
    transform = parts[0].transform.plain
    if isinstance(parts[0], StreamedImages):
        paths = [path for part in parts for path in part.paths]
        return replace(parts[0], paths=paths, labels=labels, transform=transform)
    return ResidentImages(torch.cat([part.images for part in parts]), labels, transform)


def read_strangers(folder: Path, splits: Splits, skip_broken: bool = False) -> Any:
    """Return the images of a folder as a split, prepared as those of a data set are."""
    folder = folder.expanduser()
    if not folder.is_dir():
        raise DataNotFound(f"{folder} is not a folder: expected images of none of the classes")
    if names := sorted(set(class_names(folder)) & set(splits.class_names)):
        raise ValueError(
            f"{folder} has a sub-folder {names[0]!r}, which is one of the classes: strangers are "
            "images of none of them"
        )
    if splits.preparation is None:
        raise ValueError("strangers from a folder are for data sets of images only")
    files, left_out = image_files(folder, folder)
    is_streamed = isinstance(splits.val, StreamedImages)
    shape = splits.image_shape
    images, errors = _read(files, shape, splits.preparation.shrink, keep=not is_streamed)
    errors |= {path: unsupported(path) for path in left_out}
    if errors and not skip_broken:
        raise DataCorrupt(f"{folder}: {describe(errors, folder)}; replace or remove them")
    if not images:
        raise ValueError(f"{folder} has no image that can be read: expected some strangers")
    labels = torch.full((len(images),), splits.num_classes)
    if isinstance(splits.val, StreamedImages):
        return replace(splits.val, paths=list(images), labels=labels)
    assert isinstance(splits.val, ResidentImages)  # a split with a preparation is one or the other
    return ResidentImages(torch.stack(list(images.values())), labels, splits.val.transform.plain)


def _read(
    files: list[Path], shape: tuple[int, int, int], shrink: bool, keep: bool
) -> tuple[dict[Path, Tensor], dict[Path, UnreadableImage]]:
    """Return the images of files as a model sees them, and why others cannot be read.

    Without `keep`, the images are left out once they have been read.
    """

    def read(path: Path) -> Tensor | UnreadableImage:
        try:
            image = image_tensor(path, shape, shrink)
            return image if keep else image[:0]
        except UnreadableImage as error:
            return error

    images: dict[Path, Tensor] = {}
    errors: dict[Path, UnreadableImage] = {}
    with ThreadPoolExecutor(THREADS) as pool:
        for path, outcome in zip(files, pool.map(read, files), strict=True):
            if isinstance(outcome, Tensor):
                images[path] = outcome
            else:
                errors[path] = outcome
    return images, errors


def shares_by_hash(strangers: Any, num_shares: int) -> list[Tensor]:
    """Return the positions of strangers in each of a number of shares, by a hash of the image.

    The same image is always in the same share, whatever other images there are.

    >>> from socrates import data
    >>> strangers = set_aside(data.load("digits"), "3").unknown
    >>> [len(share) for share in shares_by_hash(strangers, 2)]
    [88, 95]
    """
    numbers = hashes_of(strangers) % num_shares
    return [torch.nonzero(numbers == share).flatten() for share in range(num_shares)]


def of_training(strangers: Any) -> Tensor:
    """Return which strangers train an unknown column, if any do: a third, by a hash of the image.

    It is a third of each of two shares by hash, so that the others have the use that they have
    where none of them trains.
    """
    return hashes_of(strangers) // 2 % 3 == 0


def with_training_strangers(train: Any, strangers: Any) -> Any:
    """Return the training samples and, after them, the strangers that train."""
    chosen = torch.nonzero(of_training(strangers)).flatten()
    if not len(chosen):
        raise ValueError(f"none of {len(strangers)} strangers is left to train on: add some")
    return _extended(train, strangers.subset(chosen))


def _extended(train: Any, more: Any) -> Any:
    """Return a split with the samples of another one of its kind after its own."""
    labels = torch.cat([train.labels, more.labels.to(train.labels.device)])
    if isinstance(train, ResidentImages):
        images = torch.cat([train.images, more.images.to(train.images.device)])
        return ResidentImages(images, labels, train.transform)
    if isinstance(train, StreamedImages):
        return replace(train, paths=[*train.paths, *more.paths], labels=labels)
    features = torch.cat([train.features, more.features.to(train.features.device)])
    images = train.images and _extended(train.images, more.images)
    return FeatureSplit(features, labels, images)


def hashes_of(strangers: Any) -> Tensor:
    """Return a number of each image that depends on its content alone."""
    images = strangers
    if not isinstance(images, ResidentImages | StreamedImages):  # features of images
        images = images.images
    if isinstance(images, StreamedImages):
        digests = [bytes.fromhex(file_digest(path)) for path in images.paths]
    else:
        rows = images.images.cpu().contiguous().numpy()
        digests = [hashlib.sha256(row.tobytes()).digest() for row in rows]
    return torch.tensor([int.from_bytes(digest[:4], "big") for digest in digests])
