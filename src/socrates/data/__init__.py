"""Data sets by name, split, resident or streamed, and augmented."""

from __future__ import annotations

import dataclasses
import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from socrates.contracts import Split, Splits

from .augment import Transform
from .cifar import load_cifar10, load_cifar100
from .digits import load_digits
from .errors import DataCorrupt, DataNotFound
from .folder import load_folder
from .food101 import load_food101
from .mnist import load_fashion_mnist, load_mnist
from .npz import load_npz
from .resident import ResidentImages, resident_splits
from .splits import stratified_subset, validation_split
from .streamed import StreamedImages
from .svhn import load_svhn

__all__ = [
    "DATASETS",
    "DataCorrupt",
    "DataNotFound",
    "Entry",
    "ResidentImages",
    "StreamedImages",
    "Transform",
    "check_name",
    "data_root",
    "load",
    "options",
    "resident_splits",
    "stratified_subset",
    "to_device",
    "validation_split",
]


class Loader(Protocol):
    """Reads a data set below a root folder."""

    def __call__(self, root: Path, /, *, image_size: int | None = None, augment: bool = True) -> Splits: ...


@dataclass(frozen=True)
class Entry:
    """A data set that has a name: what it is, how large, and how it is loaded.

    >>> DATASETS["digits"].description
    "scikit-learn's embedded digits: 300 / 300 / 1,197 images of 8x8, 10 classes"
    """

    title: str
    sizes: tuple[int, int, int]  # train, val, test
    image_shape: tuple[int, int, int]
    num_classes: int
    load: Loader

    @property
    def description(self) -> str:
        """In one line."""
        sizes, (_, height, width) = " / ".join(f"{size:,}" for size in self.sizes), self.image_shape
        return f"{self.title}: {sizes} images of {height}x{width}, {self.num_classes} classes"


CIFAR, MNIST = (45_000, 5_000, 10_000), (54_000, 6_000, 10_000)
DATASETS: dict[str, Entry] = {
    "cifar10": Entry("CIFAR-10", CIFAR, (3, 32, 32), 10, load_cifar10),
    "cifar100": Entry("CIFAR-100", CIFAR, (3, 32, 32), 100, load_cifar100),
    "svhn": Entry("SVHN, house numbers", (65_932, 7_325, 26_032), (3, 32, 32), 10, load_svhn),
    "food101": Entry("Food-101, photographs", (60_600, 15_150, 25_250), (3, 224, 224), 101, load_food101),
    "mnist": Entry("MNIST, grey digits", MNIST, (1, 28, 28), 10, load_mnist),
    "fashion_mnist": Entry("Fashion-MNIST, grey clothes", MNIST, (1, 28, 28), 10, load_fashion_mnist),
    "digits": Entry("scikit-learn's embedded digits", (300, 300, 1_197), (1, 8, 8), 10, load_digits),
}
OWN = {"folder": load_folder, "npz": load_npz}


def options(name: str) -> dict[str, Any]:
    """The options of the data set of that name, with their defaults.

    >>> options("digits")
    {'image_size': None, 'augment': True}
    """
    check_name(name)
    return {"image_size": None, "augment": True}


def data_root(root: Path | None = None) -> Path:
    """The data folder: what is given, else the environment's SOCRATES_DATA, else .cache/socrates in the home folder.

    >>> data_root(Path("my") / "data").as_posix()
    'my/data'
    """
    if root is not None:
        return Path(root).expanduser()
    given = os.environ.get("SOCRATES_DATA")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "socrates"


def load(name: str, root: Path | None = None, num_train: int | None = None, **options: Any) -> Splits:
    """A data set by name, or a user's own by `folder:PATH` or `npz:PATH`, as train, val and test.

    The splits never depend on a run's seed. `num_train` keeps a stratified subset of the training images. Options:
    `image_size`, the side that images are resized to, and `augment`, whether training images are augmented.

    >>> splits = load("digits", num_train=100)
    >>> len(splits.train), len(splits.val), len(splits.test), splits.image_shape, splits.num_classes
    (100, 300, 1197, (1, 8, 8), 10)
    >>> load("cifar11")
    Traceback (most recent call last):
    ValueError: there is no data set 'cifar11', did you mean 'cifar10'? Choose ... or folder:PATH or npz:PATH
    """
    check_options(name, options)
    check_name(name)
    kind, _, path = name.partition(":")
    try:
        splits = (
            OWN[kind](Path(path).expanduser(), **options) if path else DATASETS[name].load(data_root(root), **options)
        )
    except ImportError as error:
        raise ImportError(f"the data set {name!r} needs {error.name}: install socrates-loss[train]") from error
    except ValueError as error:
        if path and path not in str(error):  # such as too few images to split
            raise ValueError(f"{path}: {error}") from error
        raise
    if num_train is None:
        return splits
    labels = splits.train.labels.numpy()
    if not splits.num_classes <= num_train <= len(labels):
        raise ValueError(
            f"num_train must be between {splits.num_classes} (the classes of {name}) and {len(labels)} (its training "
            f"images), got {num_train}"
        )
    return dataclasses.replace(
        splits, train=splits.train.subset(torch.from_numpy(stratified_subset(labels, num_train)))
    )


def check_name(name: str) -> None:
    """Refuse what is no data set, before anything is read.

    >>> check_name("digit")
    Traceback (most recent call last):
    ValueError: there is no data set 'digit', did you mean 'digits'? Choose ... or folder:PATH or npz:PATH
    """
    kind, _, path = name.partition(":")
    if not (kind in OWN and path) and name not in DATASETS:
        near = difflib.get_close_matches(name, [*DATASETS, *OWN], n=1, cutoff=0.5)
        hint = f", did you mean {near[0]!r}?" if near else "."
        raise ValueError(
            f"there is no data set {name!r}{hint} Choose {', '.join(DATASETS)}, or folder:PATH or npz:PATH"
        )


def check_options(name: str, options: dict[str, Any]) -> None:
    """Refuse options that no data set takes, and values that make no sense."""
    unknown = sorted(set(options) - {"image_size", "augment"})
    if unknown:
        raise ValueError(f"the data set {name!r} has the options image_size and augment, got {', '.join(unknown)}")
    size, augment = options.get("image_size"), options.get("augment", True)
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise ValueError(f"image_size must be a number of pixels of at least 1, got {size!r}")
    if not isinstance(augment, bool):
        raise ValueError(f"augment must be True or False, got {augment!r}")


def to_device(splits: Splits, device: torch.device | str) -> Splits:
    """The same data on a device; splits that do not know devices stay where they are.

    >>> to_device(load("digits"), "cpu").train.labels.device
    device(type='cpu')
    """

    def move(split: Split) -> Split:
        return split.to(device) if isinstance(split, ResidentImages | StreamedImages) else split

    return dataclasses.replace(splits, train=move(splits.train), val=move(splits.val), test=move(splits.test))
