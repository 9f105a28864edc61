"""CIFAR-10 and CIFAR-100 from their binary versions: records of labels and 3 x 32 x 32 bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from socrates.contracts import Splits

from .augment import Transform
from .download import DataCorrupt, DataNotFound, fetch_extracted
from .resident import Arrays, resident_splits

PIXELS = 3 * 32 * 32
CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck"
CIFAR100 = """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy
porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel
streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm"""


def read_records(paths: Sequence[Path], num_labels: int, num_classes: int) -> Arrays:
    """Images and labels of record files; a record has `num_labels` label bytes, of which the last is the class."""
    length = num_labels + PIXELS
    parts = []
    for path in paths:
        if not path.is_file():
            raise DataNotFound(f"{path} is missing: delete the folder {path.parent} to have it fetched again")
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


def transform(mean: tuple[float, ...], std: tuple[float, ...], image_size: int | None, augment: bool) -> Transform:
    """Crop with padding 4 and flip; for images enlarged as transfer learning wants them, a resized crop and flip."""
    padding, scale = (0, (0.05, 1.0)) if (image_size or 32) > 32 else (4, None)
    how = Transform(mean, std, padding, flip=True, size=image_size, scale=scale)
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
    how = transform((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010), image_size, augment)
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
    how = transform((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761), image_size, augment)
    return resident_splits(train, test, how, CIFAR100.split())
