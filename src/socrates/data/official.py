"""The official data sets that fit into memory: CIFAR, SVHN, MNIST, Fashion-MNIST and digits."""

import gzip
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from socrates.contracts import Splits
from socrates.files import is_number

from .augment import Transform
from .cifar_python import read_batches
from .download import FILES, DataCorrupt, DataNotFound, fetch, fetch_extracted
from .matlab import read_arrays
from .resident import Arrays, resident_splits
from .splits import noisy_labels, stratified_subset

CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck"
CIFAR100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile
cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp
lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree
orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum
rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train
trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
LARGEST = 1_000_000_000  # bytes of an array, twenty times those of MNIST
TEN_DIGITS = list("0123456789")
FASHION = [
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
]  # fmt: skip


def read_records(paths: Sequence[Path], num_labels: int, num_classes: int) -> Arrays:
    """Read images and labels of CIFAR's binary files.

    A record has `num_labels` bytes, the last of them the class, and the pixels.
    """
    records = np.concatenate([_read_record_file(path, num_labels, num_classes) for path in paths])
    images = records[:, num_labels:].reshape(-1, 3, 32, 32)
    return images, records[:, num_labels - 1].astype(np.int64)


def _read_record_file(path: Path, num_labels: int, num_classes: int) -> NDArray[np.uint8]:
    """Read the records of one file, (N, num_labels + 3072)."""
    if not path.is_file():
        raise DataNotFound(
            f"{path} is missing: delete the folder {path.parent} to have it fetched again"
        )
    size = path.stat().st_size
    if size > LARGEST:
        raise DataCorrupt(
            f"{path}: {size:,} bytes, expected at most {LARGEST:,}: it is another file"
        )
    length = num_labels + 3 * 32 * 32
    content = np.fromfile(path, np.uint8)
    if content.size == 0 or content.size % length:
        raise DataCorrupt(
            f"{path}: {content.size} bytes are not a whole number of records of {length} bytes: "
            "the file is truncated or damaged; delete the folder to have it fetched again"
        )
    records = content.reshape(-1, length)
    labels = records[:, num_labels - 1]
    if labels.max() >= num_classes:
        row = int(labels.argmax())
        raise DataCorrupt(
            f"{path}: record {row} has the label {labels[row]}, expected 0 to {num_classes - 1}"
        )
    return records


def cifar_transform(mean: tuple[float, ...], std: tuple[float, ...], size: int | None) -> Transform:
    """Return the transform of CIFAR: a crop with padding 4 and a flip.

    Images enlarged for transfer learning get a resized crop and a flip.
    """
    if size is not None and size > 32:
        return Transform(mean, std, flip=True, size=size, scale=(0.05, 1.0))
    return Transform(mean, std, padding=4, flip=True, size=size)


def python_version(key: str, root: Path, binary: str, python: str) -> Path | None:
    """Return the folder of CIFAR's python version, if only that one is there.

    It is what torchvision downloads; its archive is extracted if need be.
    """
    is_there = (root / binary).is_dir() or (root / FILES[key].name).exists()
    remote = FILES[f"{key}/python"]
    if is_there or not ((root / python).is_dir() or (root / remote.name).exists()):
        return None
    return fetch_extracted(f"{key}/python", root, python)


def load_cifar10(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """Load 45,000 / 5,000 / 10,000 images of 10 classes from cifar-10-batches-bin/ below the root.

    The python version, cifar-10-batches-py/, is read where only that one is there.

    Options:
        image_size: side in pixels to resize images to; by default they keep their size
        augment: whether training images are cropped with a padding of 4 pixels and flipped; if they
            are enlarged, resized crops and flips
    """
    python = python_version("cifar10", root, "cifar-10-batches-bin", "cifar-10-batches-py")
    if python is not None:
        train = read_batches([python / f"data_batch_{i}" for i in range(1, 6)], "labels", 10)
        test = read_batches([python / "test_batch"], "labels", 10)
    else:
        folder = fetch_extracted("cifar10", root, "cifar-10-batches-bin")
        train = read_records([folder / f"data_batch_{i}.bin" for i in range(1, 6)], 1, 10)
        test = read_records([folder / "test_batch.bin"], 1, 10)
    mean = (0.4914, 0.4822, 0.4465)
    std = (0.2023, 0.1994, 0.2010)
    transform = cifar_transform(mean, std, image_size)
    return resident_splits(train, test, transform, CIFAR10.split(), augment=augment)


def load_cifar100(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """Load 45,000 / 5,000 / 10,000 images of 100 classes from cifar-100-binary/ below the root.

    The python version, cifar-100-python/, is read where only that one is there.

    Options:
        image_size: side in pixels to resize images to; by default they keep their size
        augment: whether training images are cropped with a padding of 4 pixels and flipped; if they
            are enlarged, resized crops and flips
    """
    python = python_version("cifar100", root, "cifar-100-binary", "cifar-100-python")
    if python is not None:
        train = read_batches([python / "train"], "fine_labels", 100)
        test = read_batches([python / "test"], "fine_labels", 100)
    else:
        folder = fetch_extracted("cifar100", root, "cifar-100-binary")
        train = read_records([folder / "train.bin"], 2, 100)
        test = read_records([folder / "test.bin"], 2, 100)
    mean = (0.5071, 0.4867, 0.4408)
    std = (0.2675, 0.2565, 0.2761)
    transform = cifar_transform(mean, std, image_size)
    return resident_splits(train, test, transform, CIFAR100.split(), augment=augment)


def read_mat(path: Path) -> Arrays:
    """Read images and labels of SVHN's files: X (32, 32, 3, N) and y (N, 1).

    Labels are 1 to 10, where 10 is the digit 0.
    """
    try:
        content = read_arrays(path, ("X", "y"), LARGEST)
    except (ValueError, zlib.error) as error:
        raise DataCorrupt(
            f"{path}: truncated or damaged ({error}); delete it to have it downloaded again"
        ) from error
    images = content.get("X")
    labels = content.get("y")
    if images is None or labels is None:
        raise DataCorrupt(f"{path}: the variables X and y are expected, found {sorted(content)}")
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise DataCorrupt(
            f"{path}: X must be uint8 (32, 32, 3, N), is {images.dtype} {images.shape}"
        )
    if labels.size != images.shape[3] or not np.isin(labels, np.arange(1, 11)).all():
        raise DataCorrupt(
            f"{path}: y must be {images.shape[3]} labels from 1 to 10, is {labels.shape} "
            f"{labels.dtype}"
        )
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels.ravel().astype(np.int64) % 10


def load_svhn(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """Load 65,932 / 7,325 / 26,032 images of 10 digits from two MATLAB files in the root.

    Options:
        image_size: side in pixels to resize images to; by default they keep their size
        augment: whether training images are turned by up to 15 degrees and cropped with a padding
            of 4 pixels
    """
    train = read_mat(fetch("svhn/train", root))
    test = read_mat(fetch("svhn/test", root))
    transform = Transform((0.5,) * 3, (0.5,) * 3, padding=4, degrees=15.0, size=image_size)
    return resident_splits(train, test, transform, TEN_DIGITS, augment=augment)


def read_idx(path: Path, dims: int) -> NDArray[np.uint8]:
    """Read an array of bytes from an IDX file, which may be compressed by gzip.

    The file holds a magic number for the type and the dimensions, then the sizes, then the values.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            shape = _read_idx_shape(file, path, dims)
            size = math.prod(shape)
            if size > LARGEST:
                raise DataCorrupt(
                    f"{path}: the sizes {shape} take {size:,} bytes, expected at most "
                    f"{LARGEST:,}: truncated or damaged"
                )
            content = file.read(size + 1)  # and no more, whatever the file would unfold to
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataCorrupt(
            f"{path}: truncated or damaged ({error}); delete it to have it downloaded again"
        ) from error
    if len(content) != size or size == 0:
        start = 4 + 4 * dims
        is_longer = len(content) > size
        length = f"more than {start + size}" if is_longer else f"{start + len(content)}"
        raise DataCorrupt(
            f"{path}: {length} bytes, expected {start + size} for the sizes {shape}: truncated or "
            "damaged"
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def _read_idx_shape(file: BinaryIO | gzip.GzipFile, path: Path, dims: int) -> tuple[int, ...]:
    """Read the header of an IDX file and return the sizes that it declares."""
    magic = bytes([0, 0, 8, dims])
    start = 4 + 4 * dims
    header = file.read(start)
    if header[:4] != magic or len(header) < start:
        raise DataCorrupt(
            f"{path}: starts with {header[:4].hex()}, expected {magic.hex()} (IDX of "
            f"{dims} dimensions)"
        )
    return struct.unpack_from(f">{dims}I", header, 4)


def read_idx_pair(folder: Path, key: str, part: str) -> Arrays:
    """Read images and labels of a part (train or t10k), fetched if they are missing."""
    images_path = _idx_path(folder, f"{key}/{part}-images")
    labels_path = _idx_path(folder, f"{key}/{part}-labels")
    images = read_idx(images_path, 3)
    labels = read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise DataCorrupt(
            f"{labels_path}: {len(labels)} labels for the {len(images)} images of {images_path}"
        )
    if images.shape[1:] != (28, 28):
        raise DataCorrupt(f"{images_path}: images of {images.shape[1:]} pixels, expected (28, 28)")
    if labels.max() > 9:
        row = int(labels.argmax())
        raise DataCorrupt(f"{labels_path}: entry {row} is the label {labels[row]}, expected 0 to 9")
    return images[:, None], labels.astype(np.int64)


def _idx_path(folder: Path, key: str) -> Path:
    """Return the path of a file without compression, or else of the compressed one."""
    plain = folder / FILES[key].name.removesuffix(".gz")
    return plain if plain.exists() else fetch(key, folder)


def load_mnist(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """Load 54,000 / 6,000 / 10,000 digits from MNIST/raw/ below the root.

    Options:
        image_size: side in pixels to resize images to; by default they keep their size
        augment: has no effect, because this data set is never augmented
    """
    folder = root / "MNIST" / "raw"
    train = read_idx_pair(folder, "mnist", "train")
    test = read_idx_pair(folder, "mnist", "t10k")
    transform = Transform((0.1307,), (0.3081,), size=image_size)
    return resident_splits(train, test, transform, TEN_DIGITS)


def load_fashion_mnist(
    root: Path, *, image_size: int | None = None, augment: bool = True
) -> Splits:
    """Load 54,000 / 6,000 / 10,000 articles from FashionMNIST/raw/ below the root.

    Options:
        image_size: side in pixels to resize images to; by default they keep their size
        augment: has no effect, because this data set is never augmented
    """
    folder = root / "FashionMNIST" / "raw"
    train = read_idx_pair(folder, "fashion_mnist", "train")
    test = read_idx_pair(folder, "fashion_mnist", "t10k")
    transform = Transform((0.2860,), (0.3530,), size=image_size)
    return resident_splits(train, test, transform, FASHION)


def load_digits(
    root: Path, *, image_size: int | None = None, augment: bool = True, label_noise: float = 0.0
) -> Splits:
    """Load 300 / 300 / 1,197 images of 10 digits: few to train on, so that calibration is hard.

    Fixed stratified choices: 600 images to train and validate, half of them to train; the rest is
    the test set. The values 0 to 16 are stretched to 0 to 255.

    Options:
        image_size: side in pixels to resize images to; by default they keep their size
        augment: has no effect, because this data set is never augmented
        label_noise: share of the training labels that are wrong, always the same ones; validation
            and test labels are never changed
    """
    from sklearn.datasets import load_digits as embedded

    if not is_number(label_noise) or not 0 <= label_noise <= 1:
        raise ValueError(
            f"label_noise must be a share of the training labels from 0 to 1, got {label_noise!r}"
        )
    values, digits = (np.asarray(part) for part in embedded(return_X_y=True))
    images = np.rint(values.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    labels = digits.astype(np.int64)
    chosen = stratified_subset(labels, 600)
    train = chosen[stratified_subset(labels[chosen], 300)]
    val = np.setdiff1d(chosen, train)
    test = np.setdiff1d(np.arange(len(labels)), chosen)
    train_labels = noisy_labels(labels[train], label_noise, len(TEN_DIGITS))
    return resident_splits(
        train=(images[train], train_labels),
        val=(images[val], labels[val]),
        test=(images[test], labels[test]),
        transform=Transform((0.3053,), (0.3760,), size=image_size),
        class_names=TEN_DIGITS,
    )
