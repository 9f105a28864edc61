"""The choice of samples that train, validate and test: fixed, and independent of a run's seed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

SPLIT_SEED = 42
# held out where a file or folder has no such part
VAL_FRACTION = 0.1
TEST_FRACTION = 0.2
Integers = NDArray[np.int64]
Labelled = tuple[NDArray[Any], Integers]  # samples (images or their files) and labels


def validation_split(
    num_samples: int, fraction: float = VAL_FRACTION, seed: int = SPLIT_SEED
) -> tuple[Integers, Integers]:
    """Return the indices of the training and of the validation samples.

    Validation is the first `fraction` of a shuffle with a seed. The shuffle is numpy's legacy one,
    so that the split is the one behind the paper's published numbers.

    >>> train, val = validation_split(50_000)
    >>> len(train), len(val), val[:3].tolist()
    (45000, 5000, [33553, 9427, 199])
    """
    num_val = int(num_samples * fraction)
    if not 0 < num_val < num_samples:
        raise ValueError(
            f"a validation split needs samples on both sides, got fraction={fraction} of "
            f"{num_samples} samples: add more"
        )
    order = np.arange(num_samples)
    np.random.RandomState(seed).shuffle(order)
    return order[num_val:], order[:num_val]


def hold_out(pair: Labelled, fraction: float = VAL_FRACTION) -> tuple[Labelled, Labelled]:
    """Return the samples and labels that are kept, and those that are held out.

    `validation_split` chooses which.

    >>> kept, held = hold_out((np.array(["a", "b", "c", "d"]), np.array([0, 1, 0, 1])), 0.25)
    >>> held[0].tolist(), held[1].tolist()
    (['b'], [1])
    """
    samples, labels = pair
    kept, held = validation_split(len(labels), fraction)
    return (samples[kept], labels[kept]), (samples[held], labels[held])


def stratified_subset(labels: Integers, num_samples: int) -> Integers:
    """Return the sorted indices of a fixed subset with the shares of all classes.

    Each class keeps its share to within one sample. Whole samples of each share come first, then
    the largest remainders; ties go to the lower class.

    >>> stratified_subset(np.array([0, 1, 0, 1, 0, 1, 0, 0, 0]), 3).tolist()
    [0, 2, 3]
    """
    classes, position = np.unique(labels, return_inverse=True)
    if not len(classes) <= num_samples <= len(labels):
        raise ValueError(
            f"num_train must be between {len(classes)}, one sample per class, and {len(labels)}, "
            f"all of them, got {num_samples}"
        )
    # Whole numbers throughout: counts * num_samples = quota * total + remainder.
    quota, remainder = np.divmod(np.bincount(position) * num_samples, len(labels))
    by_remainder = np.argsort(-remainder, kind="stable")
    quota[by_remainder[: num_samples - quota.sum()]] += 1
    random = np.random.RandomState(SPLIT_SEED)
    chosen = []
    for k in range(len(classes)):
        shuffled = random.permutation(np.flatnonzero(position == k))
        chosen.append(shuffled[: quota[k]])
    return np.sort(np.concatenate(chosen))


def hold_out_by_class(pair: Labelled, fraction: float) -> tuple[Labelled, Labelled]:
    """Return the samples that are kept, and those that are held out: this share of each class.

    The shares hold to within one sample, each class keeps at least one, and which samples are
    held out is fixed.

    >>> files, labels = np.array([*"abcdefgh"]), np.array([0, 0, 0, 0, 1, 1, 1, 1])
    >>> kept, held = hold_out_by_class((files, labels), 0.5)
    >>> kept[1].tolist(), held[1].tolist()
    ([0, 0, 1, 1], [0, 0, 1, 1])
    """
    samples, labels = pair
    num_held = int(len(labels) * fraction)
    counts = np.bincount(labels)
    quota, remainder = np.divmod(counts * num_held, len(labels))
    for label in np.argsort(-remainder, kind="stable"):
        if quota.sum() < num_held and quota[label] < counts[label] - 1:
            quota[label] += 1
    if quota.sum() == 0:
        raise ValueError(
            f"a split by class needs images on both sides, got a share of {fraction} of "
            f"{len(labels)} images: add more"
        )
    random = np.random.RandomState(SPLIT_SEED)
    is_held = np.zeros(len(labels), dtype=bool)
    for label, count in enumerate(quota):
        is_held[random.permutation(np.flatnonzero(labels == label))[:count]] = True
    return (samples[~is_held], labels[~is_held]), (samples[is_held], labels[is_held])


def noisy_labels(labels: Integers, share: float, num_classes: int) -> Integers:
    """Return the labels with a share of them, chosen by a fixed seed, replaced by other classes.

    A larger share replaces the same labels as a smaller one, and more.

    >>> noisy_labels(np.array([0, 1, 2, 0, 1, 2]), 0.5, num_classes=3).tolist()
    [1, 2, 2, 0, 1, 0]
    """
    random = np.random.RandomState(SPLIT_SEED)
    chosen = random.permutation(len(labels))[: round(share * len(labels))]
    noisy = labels.copy()
    shift = random.randint(1, num_classes, len(labels))
    noisy[chosen] = (labels + shift)[chosen] % num_classes
    return noisy
