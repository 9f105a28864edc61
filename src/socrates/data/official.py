"""The official data sets that fit into memory: CIFAR, SVHN, MNIST, Fashion-MNIST and scikit-learn's digits."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from socrates.contracts import Splits

from .augment import Transform
from .download import FILES, DataCorrupt, DataNotFound, fetch, fetch_extracted
from .matlab import read_arrays
from .resident import Arrays, resident_splits
from .splits import noisy_labels, stratified_subset

CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck"
CIFAR100 = """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy
porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel
streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm"""
LARGEST = 1_000_000_000  # bytes of an array, twenty times those of MNIST
TEN_DIGITS = list("0123456789")
FASHION = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


def read_records(paths: Sequence[Path], num_labels: int, num_classes: int) -> Arrays:
    """Images and labels of CIFAR's binary files: records of `num_labels` bytes, the last the class, and pixels."""
    length = num_labels + 3 * 32 * 32
    parts = []
    for path in paths:
        if not path.is_file():
            raise DataNotFound(f"{path} is missing: delete the folder {path.parent} to have it fetched again")
        if path.stat().st_size > LARGEST:
            size = path.stat().st_size
            raise DataCorrupt(f"{path}: {size:,} bytes, expected at most {LARGEST:,}: it is another file")
        content = np.fromfile(path, np.uint8)
        if content.size == 0 or content.size % length:
            raise DataCorrupt(
                f"{path}: {content.size} bytes are no whole number of records of {length} bytes: the file is truncated "
                f"or damaged; delete the folder to have it fetched again"
            )
        parts.append(content.reshape(-1, length))
        labels = parts[-1][:, num_labels - 1]
        if labels.max() >= num_classes:
            row = int(labels.argmax())
            raise DataCorrupt(f"{path}: record {row} has the label {labels[row]}, expected 0 to {num_classes - 1}")
    records = np.concatenate(parts)
    return records[:, num_labels:].reshape(-1, 3, 32, 32), records[:, num_labels - 1].astype(np.int64)


def cifar_transform(mean: tuple[float, ...], std: tuple[float, ...], size: int | None, augment: bool) -> Transform:
    """Crop with padding 4 and flip; for images enlarged as transfer learning wants them, a resized crop and flip."""
    padding, scale = (0, (0.05, 1.0)) if (size or 32) > 32 else (4, None)
    how = Transform(mean, std, padding, flip=True, size=size, scale=scale)
    return how if augment else how.plain


def load_cifar10(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """45,000 / 5,000 / 10,000 images of 10 classes; cifar-10-batches-bin/ below the root.

    Options:
        image_size: side in pixels that images are resized to; as they are by default
        augment: whether training images are cropped with a padding of 4 pixels and flipped; if they are
            enlarged, resized crops and flips
    """
    folder = fetch_extracted("cifar10", root, "cifar-10-batches-bin")
    train = read_records([folder / f"data_batch_{i}.bin" for i in range(1, 6)], 1, 10)
    test = read_records([folder / "test_batch.bin"], 1, 10)
    how = cifar_transform((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010), image_size, augment)
    return resident_splits(train, test, how, CIFAR10.split())


def load_cifar100(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """45,000 / 5,000 / 10,000 images of 100 (fine) classes; cifar-100-binary/ below the root.

    Options:
        image_size: side in pixels that images are resized to; as they are by default
        augment: whether training images are cropped with a padding of 4 pixels and flipped; if they are
            enlarged, resized crops and flips
    """
    folder = fetch_extracted("cifar100", root, "cifar-100-binary")
    train, test = (read_records([folder / name], 2, 100) for name in ("train.bin", "test.bin"))
    how = cifar_transform((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761), image_size, augment)
    return resident_splits(train, test, how, CIFAR100.split())


def read_mat(path: Path) -> Arrays:
    """Images and labels of SVHN's files: X (32, 32, 3, N) and y (N, 1) in 1 to 10, where 10 is the digit 0."""
    with path.open("rb") as file:
        header = file.read(128)
    if len(header) < 128 or not header.startswith(b"MATLAB 5.0"):
        raise DataCorrupt(f"{path}: the header is not that of a MATLAB 5.0 file: the file is damaged or another one")
    try:
        content = read_arrays(path, ("X", "y"), LARGEST)
    except (ValueError, zlib.error) as error:
        raise DataCorrupt(f"{path}: truncated or damaged ({error}); delete it to have it downloaded again") from error
    images, labels = content.get("X"), content.get("y")
    if images is None or labels is None:
        raise DataCorrupt(f"{path}: the variables X and y are expected, found {sorted(content)}")
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise DataCorrupt(f"{path}: X must be uint8 (32, 32, 3, N), is {images.dtype} {images.shape}")
    if labels.size != images.shape[3] or not np.isin(labels, np.arange(1, 11)).all():
        raise DataCorrupt(f"{path}: y must be {images.shape[3]} labels from 1 to 10, is {labels.shape} {labels.dtype}")
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels.ravel().astype(np.int64) % 10


def load_svhn(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """65,932 / 7,325 / 26,032 images of 10 digits; train_32x32.mat and test_32x32.mat in the root.

    Options:
        image_size: side in pixels that images are resized to; as they are by default
        augment: whether training images are turned by up to 15 degrees and cropped with a padding of 4 pixels
    """
    train, test = (read_mat(fetch(f"svhn/{part}", root)) for part in ("train", "test"))
    how = Transform((0.5,) * 3, (0.5,) * 3, padding=4, degrees=15.0, size=image_size)
    return resident_splits(train, test, how if augment else how.plain, TEN_DIGITS)


def read_idx(path: Path, dims: int) -> NDArray[np.uint8]:
    """An array of bytes from an IDX file: a magic number that tells type and dimensions, the sizes, the values."""
    magic, start = bytes([0, 0, 8, dims]), 4 + 4 * dims
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            header = file.read(start)
            if header[:4] != magic or len(header) < start:
                raise DataCorrupt(
                    f"{path}: starts with {header[:4].hex()}, expected {magic.hex()} (IDX of {dims} dimensions)"
                )
            shape = tuple(np.frombuffer(header, ">u4", dims, offset=4).tolist())
            size = int(np.prod(shape, dtype=object))
            if size > LARGEST:
                raise DataCorrupt(
                    f"{path}: the sizes {shape} take {size:,} bytes, expected at most {LARGEST:,}: truncated or damaged"
                )
            content = file.read(size + 1)  # and no more, whatever the file would unfold to
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataCorrupt(f"{path}: truncated or damaged ({error}); delete it to have it downloaded again") from error
    if len(content) != size or size == 0:
        found = f"{start + len(content)} bytes" if len(content) <= size else f"more than {start + size} bytes"
        raise DataCorrupt(f"{path}: {found}, expected {start + size} for the sizes {shape}: truncated or damaged")
    return np.frombuffer(content, np.uint8).reshape(shape)


def read_idx_pair(folder: Path, key: str, part: str) -> Arrays:
    """Images and labels of a part (train or t10k); files are fetched if they are there neither compressed nor plain."""

    def path(kind: str) -> Path:
        plain = folder / FILES[f"{key}/{part}-{kind}"].name.removesuffix(".gz")
        return plain if plain.exists() else fetch(f"{key}/{part}-{kind}", folder)

    images, labels = read_idx(path("images"), 3), read_idx(path("labels"), 1)
    if len(images) != len(labels):
        raise DataCorrupt(f"{path('labels')}: {len(labels)} labels for the {len(images)} images of {path('images')}")
    if images.shape[1:] != (28, 28):
        raise DataCorrupt(f"{path('images')}: images of {images.shape[1:]} pixels, expected (28, 28)")
    if labels.max() > 9:
        row = int(labels.argmax())
        raise DataCorrupt(f"{path('labels')}: entry {row} is the label {labels[row]}, expected 0 to 9")
    return images[:, None], labels.astype(np.int64)


def load_mnist(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """54,000 / 6,000 / 10,000 digits; MNIST/raw/ below the root.

    Options:
        image_size: side in pixels that images are resized to; as they are by default
        augment: accepted for uniformity: this data set is never augmented
    """
    train, test = (read_idx_pair(root / "MNIST" / "raw", "mnist", part) for part in ("train", "t10k"))
    return resident_splits(train, test, Transform((0.1307,), (0.3081,), size=image_size), TEN_DIGITS)


def load_fashion_mnist(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """54,000 / 6,000 / 10,000 articles; FashionMNIST/raw/ below the root.

    Options:
        image_size: side in pixels that images are resized to; as they are by default
        augment: accepted for uniformity: this data set is never augmented
    """
    train, test = (read_idx_pair(root / "FashionMNIST" / "raw", "fashion_mnist", part) for part in ("train", "t10k"))
    return resident_splits(train, test, Transform((0.2860,), (0.3530,), size=image_size), FASHION)


def load_digits(root: Path, *, image_size: int | None = None, augment: bool = True, label_noise: float = 0.0) -> Splits:
    """300 / 300 / 1,197 images of 10 digits: a small training set on purpose, so that calibration is a question.

    Fixed stratified choices: 600 images to train and validate, half of them to train; the rest is the test set. The
    values 0 to 16 are stretched to 0 to 255.

    Options:
        image_size: side in pixels that images are resized to; as they are by default
        augment: accepted for uniformity: this data set is never augmented
        label_noise: share of the training labels that are replaced by another class, always the same ones; labels that
            validate and test stay right
    """
    from sklearn.datasets import load_digits as embedded

    values, digits = (np.asarray(part) for part in embedded(return_X_y=True))
    images = np.rint(values.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    labels = digits.astype(np.int64)
    chosen = stratified_subset(labels, 600)
    train = chosen[stratified_subset(labels[chosen], 300)]
    val, test = np.setdiff1d(chosen, train), np.setdiff1d(np.arange(len(labels)), chosen)
    if isinstance(label_noise, bool) or not isinstance(label_noise, int | float) or not 0 <= label_noise <= 1:
        raise ValueError(f"label_noise must be a share of the training labels from 0 to 1, got {label_noise!r}")
    parts = [(images[index], labels[index]) for index in (train, test, val)]
    parts[0] = images[train], noisy_labels(labels[train], label_noise, len(TEN_DIGITS))
    how = Transform((0.3053,), (0.3760,), size=image_size)
    return resident_splits(parts[0], parts[1], how, TEN_DIGITS, val=parts[2])
