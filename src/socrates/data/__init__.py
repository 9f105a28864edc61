"""Data sets by name, split, resident or streamed, and augmented."""

import dataclasses
import os
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
from .folder import folder_counts, load_folder
from .food101 import load_food101
from .npz import load_npz, npz_counts
from .official import load_cifar10, load_cifar100, load_digits, load_fashion_mnist, load_mnist, load_svhn
from .resident import ResidentImages, resident_splits
from .splits import TEST_FRACTION, VAL_FRACTION, stratified_subset, validation_split
from .streamed import StreamedImages

__all__ = [
    "BY_PATH", "DATASETS", "DataCorrupt", "DataNotFound", "Entry", "ResidentImages", "StreamedImages", "Transform",
    "data_root", "factory", "load", "options", "resident_splits", "stratified_subset", "to_device", "validation_split",
]  # fmt: skip


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
    load: Callable[..., Splits]

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
BY_PATH: dict[str, Callable[..., Splits]] = {"folder:PATH": load_folder, "npz:PATH": load_npz}


def data_root(root: Path | None = None) -> Path:
    """The data folder: what is given, else the environment's SOCRATES_DATA, else .cache/socrates in the home folder.

    >>> data_root(Path("my") / "data").as_posix()
    'my/data'
    """
    return Path(root or os.environ.get("SOCRATES_DATA") or "~/.cache/socrates").expanduser()


def factory(name: str) -> Callable[..., Splits]:
    """The function that loads the data set of that name: ours, `folder:PATH`, `npz:PATH` or a plug-in from outside.

    >>> factory("npz:my.npz").__name__
    'load_npz'
    >>> factory("digit")
    Traceback (most recent call last):
    ValueError: there is no data set 'digit', did you mean 'digits'? Choose from cifar10, ..., npz:PATH, ...
    """
    kind, _, path = name.partition(":")
    if path and f"{kind}:PATH" in BY_PATH:
        return BY_PATH[f"{kind}:PATH"]
    return find("data set", name, {key: entry.load for key, entry in DATASETS.items()} | BY_PATH)


def options(name: str) -> dict[str, Any]:
    """The options of the data set of that name, with their defaults.

    >>> options("digits")
    {'image_size': None, 'augment': True, 'label_noise': 0.0}
    """
    return options_of(factory(name), not_options=["root", "path"])


def load(name: str, root: Path | None = None, num_train: int | None = None, **options: Any) -> Splits:
    """A data set by its name, as train, val and test; options are those of its loader.

    The splits never depend on a run's seed. `num_train` keeps a stratified subset of the training samples.

    >>> splits = load("digits", num_train=100)
    >>> len(splits.train), len(splits.val), len(splits.test), splits.image_shape, splits.num_classes
    (100, 300, 1197, (1, 8, 8), 10)
    """
    make = factory(name)
    path = name.partition(":")[2] if make in BY_PATH.values() else ""
    place = Path(path).expanduser() if path else data_root(root)
    if path or name in DATASETS:
        check_values(options)
    try:
        splits = called("data set", name, make, place, options=options)
    except ImportError as error:
        raise ImportError(f"the data set {name!r} needs {error.name}: install socrates-loss[train]") from error
    except ValueError as error:
        named = isinstance(error, DataCorrupt) or str(error).startswith((str(place), "data set "))
        if path and not named:  # such as too few images to split
            raise ValueError(f"{path}: {error}") from error
        raise
    if not isinstance(splits, Splits):
        raise ValueError(f"data set {name!r} must give socrates.contracts.Splits, got {type(splits).__name__}")
    if path:
        check_trained(splits, path)
    if name in DATASETS:
        warn_unless_official(splits, DATASETS[name])
    return splits if num_train is None else with_fewer(splits, name, num_train)


def num_training_images(name: str) -> int | None:
    """How many of one's own images would train, by a look at names and sizes alone; None where only loading tells.

    >>> num_training_images("digits") is None
    True
    """
    kind, _, path = name.partition(":")
    count = {"folder": folder_counts, "npz": npz_counts}.get(kind)
    try:
        counts = count(Path(path).expanduser()) if count and path else {}
    except Exception:  # numpy raises zip, zlib and type errors alike; loading says what is wrong, in better words
        counts = {}
    for part, fraction in (("test", TEST_FRACTION), ("val", VAL_FRACTION)):
        if "train" in counts and part not in counts:
            counts["train"] -= int(fraction * counts["train"])
    return counts.get("train")


def check_trained(splits: Splits, path: str) -> None:
    """Refuse data with a class that has nothing to train on, once others are held out; warn of a single image."""
    counts = torch.bincount(splits.train.labels, minlength=splits.num_classes)
    rarest = int(counts.argmin())
    if counts[rarest] == 0:
        raise ValueError(
            f"{path}: the class {splits.class_names[rarest]} has no images to train on, with those held out that "
            f"validate and test: give more images of it"
        )
    if counts[rarest] == 1:
        warnings.warn(f"{path}: the class {splits.class_names[rarest]} has a single image to train on", stacklevel=2)


def with_fewer(splits: Splits, name: str, num_train: int) -> Splits:
    """The same data with a stratified subset of the training samples."""
    labels = splits.train.labels.numpy()
    if not splits.num_classes <= num_train <= len(labels):
        raise ValueError(
            f"num_train must be between {splits.num_classes} (the classes of {name}) and {len(labels)} (its training "
            f"images), got {num_train}"
        )
    chosen = torch.from_numpy(stratified_subset(labels, num_train))
    return dataclasses.replace(splits, train=splits.train.subset(chosen))


def warn_unless_official(splits: Splits, entry: Entry) -> None:
    """Say that a data set is not the whole official one: its numbers do not compare with published ones."""
    found = {"train": len(splits.train) + len(splits.val), "test": len(splits.test)}
    official = {"train": sum(entry.sizes[:2]), "test": entry.sizes[2]}
    if found != official:
        sizes = ", ".join(f"{found[part]:,} {part} samples (official {official[part]:,})" for part in official)
        warnings.warn(f"{entry.title}: {sizes}: results do not compare with those on the official data", stacklevel=3)


def check_values(options: dict[str, Any]) -> None:
    """Refuse values that make no sense of the options that data sets of images share."""
    size, augment = options.get("image_size"), options.get("augment", True)
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise ValueError(f"image_size must be a number of pixels of at least 1, got {size!r}")
    if not isinstance(augment, bool):
        raise ValueError(f"augment must be True or False, got {augment!r}")


def to_device(splits: Splits, device: torch.device | str) -> Splits:
    """The same data on a device.

    >>> to_device(load("digits"), "cpu").train.labels.device
    device(type='cpu')
    """
    parts = {part: getattr(splits, part).to(device) for part in ("train", "val", "test")}
    return dataclasses.replace(splits, **parts)
