"""Data sets: named ones and a user's own, as train, validation and test splits.

Each kind of file has a module, and its images are either held in memory (`resident`) or read from
the disk as they are needed (`streamed`).
Modules here may import `contracts`, `names` and `files`, and nothing above them.
Read `load` below first, then `official.load_digits` as an example of a loader, then `resident`.
"""

import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from socrates.contracts import Splits
from socrates.names import called, find, options_of

from .augment import Transform
from .download import DataCorrupt, DataNotFound
from .folder import list_folder, load_folder
from .food101 import load_food101
from .memory import data_root
from .npz import load_npz, npz_counts
from .official import (
    load_cifar10,
    load_cifar100,
    load_digits,
    load_fashion_mnist,
    load_mnist,
    load_svhn,
)
from .resident import ResidentImages, resident_splits
from .splits import TEST_FRACTION, VAL_FRACTION, stratified_subset, validation_split
from .streamed import StreamedImages
from .unknown import SHARED_OPTIONS, UNKNOWN, normalized_by_training, with_strangers

__all__ = [
    "BY_PATH", "DATASETS", "SHARED_OPTIONS", "DataCorrupt", "DataNotFound", "NamedDataset",
    "ResidentImages", "StreamedImages", "Transform", "data_root", "factory", "load", "options",
    "resident_splits", "stratified_subset", "to_device", "validation_split",
]  # fmt: skip


@dataclass(frozen=True)
class NamedDataset:
    """A data set that has a name: its title, its sizes and the function that loads it.

    >>> DATASETS["digits"].description
    "scikit-learn's embedded digits: 300 / 300 / 1,197 images of 8x8, 10 classes"
    """

    title: str
    sizes: tuple[int, int, int]  # train, val, test
    image_shape: tuple[int, int, int]
    num_classes: int
    load: Callable[..., Splits]

    @property
    def description(self) -> str:
        """Return one line with the title, the sizes of the splits, the pixels and the classes."""
        sizes = " / ".join(f"{size:,}" for size in self.sizes)
        _, height, width = self.image_shape
        return f"{self.title}: {sizes} images of {height}x{width}, {self.num_classes} classes"


CIFAR = (45_000, 5_000, 10_000)
MNIST = (54_000, 6_000, 10_000)
DATASETS: dict[str, NamedDataset] = {
    "cifar10": NamedDataset("CIFAR-10", CIFAR, (3, 32, 32), 10, load_cifar10),
    "cifar100": NamedDataset("CIFAR-100", CIFAR, (3, 32, 32), 100, load_cifar100),
    "svhn": NamedDataset(
        "SVHN, house numbers", (65_932, 7_325, 26_032), (3, 32, 32), 10, load_svhn
    ),
    "food101": NamedDataset(
        "Food-101, photographs", (60_600, 15_150, 25_250), (3, 224, 224), 101, load_food101
    ),
    "mnist": NamedDataset("MNIST, grey digits", MNIST, (1, 28, 28), 10, load_mnist),
    "fashion_mnist": NamedDataset(
        "Fashion-MNIST, grey clothes", MNIST, (1, 28, 28), 10, load_fashion_mnist
    ),
    "digits": NamedDataset(
        "scikit-learn's embedded digits", (300, 300, 1_197), (1, 8, 8), 10, load_digits
    ),
}
BY_PATH: dict[str, Callable[..., Splits]] = {"folder:PATH": load_folder, "npz:PATH": load_npz}


def factory(name: str) -> Callable[..., Splits]:
    """Return the loader of a data set: a named one, `folder:PATH`, `npz:PATH` or a plug-in.

    >>> factory("npz:my.npz").__name__
    'load_npz'
    >>> factory("digit")
    Traceback (most recent call last):
    ValueError: there is no data set 'digit', did you mean 'digits'? Choose from cifar10,
    ..., npz:PATH, ...
    """
    kind, _, path = name.partition(":")
    if path and f"{kind}:PATH" in BY_PATH:
        return BY_PATH[f"{kind}:PATH"]
    loaders = {key: dataset.load for key, dataset in DATASETS.items()}
    return find("data set", name, loaders | BY_PATH)


def options(name: str) -> dict[str, Any]:
    """Return the options of a data set with their defaults.

    >>> options("digits")
    {'image_size': None, 'augment': True, 'label_noise': 0.0, 'unknown': '', 'rehearse': ''}
    """
    loader = factory(name)
    own = options_of(loader, not_options=["root", "path"])
    return own if is_plug_in(loader) else {**own, **dict.fromkeys(SHARED_OPTIONS, "")}


def is_plug_in(loader: Callable[..., Splits]) -> bool:
    """Return whether a loader comes from outside: then all its options are its own."""
    ours = [*BY_PATH.values(), *(dataset.load for dataset in DATASETS.values())]
    return loader not in ours


def load(
    name: str, root: Path | None = None, num_train: int | None = None, **options: Any
) -> Splits:
    """Load a data set by its name, as train, val and test; the options are those of its loader.

    The splits never depend on a run's seed. `num_train` keeps a stratified subset of the training
    samples.

    >>> splits = load("digits", num_train=100)
    >>> len(splits.train), len(splits.val), len(splits.test), splits.image_shape, splits.num_classes
    (100, 300, 1197, (1, 8, 8), 10)
    """
    loader = factory(name)
    strangers: dict[str, str] = {}
    if not is_plug_in(loader):
        strangers = {key: options.pop(key, "") for key in SHARED_OPTIONS}
    path = name.partition(":")[2] if loader in BY_PATH.values() else ""
    place = Path(path).expanduser() if path else data_root(root)
    if path or name in DATASETS:
        check_values(options)
    try:
        splits = called("data set", name, loader, place, options=options)
    except ImportError as error:
        raise ImportError(
            f"the data set {name!r} needs {error.name}: install socrates-loss[train]"
        ) from error
    except ValueError as error:
        is_named = isinstance(error, DataCorrupt) or str(error).startswith(
            (str(place), "data set ")
        )
        if path and not is_named:  # such as too few images to split
            raise ValueError(f"{path}: {error}") from error
        raise
    if not isinstance(splits, Splits):
        raise ValueError(
            f"data set {name!r} must return socrates.contracts.Splits, got {type(splits).__name__}"
        )
    if name in DATASETS:
        warn_unless_official(splits, DATASETS[name])
    if any(strangers.values()) or (path and UNKNOWN in splits.class_names):
        splits = with_strangers(splits, **strangers, skip_broken=options.get("skip_broken", False))
        splits = normalized_by_training(splits) if path else splits
    if path:
        check_training_classes(splits, path)
    if num_train is None:
        return splits
    chosen = stratified_subset(splits.train.labels.numpy(), num_train)
    return dataclasses.replace(splits, train=splits.train.subset(torch.from_numpy(chosen)))


def num_training_images(name: str) -> int | None:
    """Return how many of a user's own images would be trained on, without decoding them.

    The result is None where only loading can say it.

    >>> num_training_images("digits") is None
    True
    """
    kind, _, path = name.partition(":")
    if not path or kind not in ("folder", "npz"):
        return None
    place = Path(path).expanduser()
    try:
        counts = folder_counts(place) if kind == "folder" else npz_counts(place)
        num_train = counts["train"]
    except Exception:
        # numpy raises zip, zlib and type errors alike; loading explains what is wrong
        return None
    for part, fraction in (("test", TEST_FRACTION), ("val", VAL_FRACTION)):
        if part not in counts:
            num_train -= int(fraction * num_train)
    return num_train


def folder_counts(path: Path) -> dict[str, int]:
    """Return the number of images of each part of a folder, without those of a class unknown."""
    listing = list_folder(path)
    counts = listing.counts
    if UNKNOWN in listing.classes:
        number = listing.classes.index(UNKNOWN)
        for part, (_, labels) in listing.parts.items():
            counts[part] -= int((labels == number).sum())
    return counts


def check_training_classes(splits: Splits, path: str) -> None:
    """Refuse a class without a training image, and warn of a class with a single one."""
    counts = torch.bincount(splits.train.labels, minlength=splits.num_classes)
    rarest = int(counts.argmin())
    name = splits.class_names[rarest]
    if counts[rarest] == 0:
        raise ValueError(
            f"{path}: the class {name} has no images to train on, with those held out that "
            "validate and test: add more images of it"
        )
    if counts[rarest] == 1:
        warnings.warn(f"{path}: the class {name} has a single image to train on", stacklevel=2)


def warn_unless_official(splits: Splits, official: NamedDataset) -> None:
    """Warn if a data set is not the whole official one, as results then do not compare."""
    num_train, num_val, num_test = official.sizes
    counts = {
        "train": (len(splits.train) + len(splits.val), num_train + num_val),
        "test": (len(splits.test), num_test),
    }
    if all(count == expected for count, expected in counts.values()):
        return
    sizes = ", ".join(
        f"{count:,} {part} samples (official {expected:,})"
        for part, (count, expected) in counts.items()
    )
    warnings.warn(
        f"{official.title}: {sizes}: results do not compare with those on the official data",
        stacklevel=3,
    )


def check_values(options: dict[str, Any]) -> None:
    """Refuse impossible values of the options that all data sets of images share."""
    size = options.get("image_size")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise ValueError(f"image_size must be a number of pixels of at least 1, got {size!r}")
    augment = options.get("augment", True)
    if not isinstance(augment, bool):
        raise ValueError(f"augment must be True or False, got {augment!r}")


def to_device(splits: Splits, device: torch.device | str) -> Splits:
    """Return the same data on a device.

    >>> to_device(load("digits"), "cpu").train.labels.device
    device(type='cpu')
    """
    parts = {part: getattr(splits, part).to(device) for part in ("train", "val", "test")}
    unknown = splits.unknown and splits.unknown.to(device)
    return dataclasses.replace(splits, **parts, unknown=unknown)
