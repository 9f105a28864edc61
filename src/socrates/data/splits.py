"""Which samples train, validate and test: fixed, and independent of a run's seed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

SPLIT_SEED = 42
VAL_FRACTION, TEST_FRACTION = 0.1, 0.2  # held out where a file or folder has no such part
Integers = NDArray[np.int64]
Labelled = tuple[NDArray[Any], Integers]  # samples, be they images or their files, and labels


def validation_split(
    num_samples: int, fraction: float = VAL_FRACTION, seed: int = SPLIT_SEED
) -> tuple[Integers, Integers]:
    """Indices of the training and of the validation samples: validation is the first `fraction` of a seeded shuffle.

    The shuffle is numpy's legacy one, so that the split is the one behind the paper's published numbers.

    >>> train, val = validation_split(50_000)
    >>> len(train), len(val), val[:3].tolist()
    (45000, 5000, [33553, 9427, 199])
    """
    num_val = int(num_samples * fraction)
    if not 0 < num_val < num_samples:
        raise ValueError(
            f"a validation split needs samples on both sides, got fraction={fraction} of {num_samples} samples: "
            f"give more"
        )
    order = np.arange(num_samples)
    np.random.RandomState(seed).shuffle(order)
    return order[num_val:], order[:num_val]


def hold_out(pair: Labelled, fraction: float = VAL_FRACTION) -> tuple[Labelled, Labelled]:
    """Samples and labels that are kept, and those that are held out, by `validation_split`.

    >>> kept, held = hold_out((np.array(["a", "b", "c", "d"]), np.array([0, 1, 0, 1])), 0.25)
    >>> held[0].tolist(), held[1].tolist()
    (['b'], [1])
    """
    kept, held = validation_split(len(pair[1]), fraction)
    return (pair[0][kept], pair[1][kept]), (pair[0][held], pair[1][held])


def stratified_subset(labels: Integers, num_samples: int, seed: int = SPLIT_SEED) -> Integers:
    """Sorted indices of a fixed subset in which each class keeps its share to within one sample.

    Whole samples of each share come first, then the largest remainders, ties to the lower class.

    >>> stratified_subset(np.array([0, 1, 0, 1, 0, 1, 0, 0, 0]), 3).tolist()
    [0, 2, 3]
    """
    classes, position = np.unique(labels, return_inverse=True)
    if not len(classes) <= num_samples <= len(labels):
        raise ValueError(
            f"a stratified subset of {len(labels)} samples in {len(classes)} classes has between {len(classes)} and "
            f"{len(labels)} samples, got {num_samples}"
        )
    # Whole numbers throughout: counts * num_samples = quota * total + remainder.
    quota, remainder = np.divmod(np.bincount(position) * num_samples, len(labels))
    quota[np.argsort(-remainder, kind="stable")[: num_samples - quota.sum()]] += 1
    random = np.random.RandomState(seed)
    chosen = [random.permutation(np.flatnonzero(position == k))[: quota[k]] for k in range(len(classes))]
    return np.sort(np.concatenate(chosen))


def noisy_labels(labels: Integers, share: float, num_classes: int, seed: int = SPLIT_SEED) -> Integers:
    """The labels with a share of them, chosen by a fixed seed, each replaced by another class.

    A larger share replaces those of a smaller one, and more.

    >>> noisy_labels(np.array([0, 1, 2, 0, 1, 2]), 0.5, num_classes=3).tolist()
    [1, 2, 2, 0, 1, 0]
    """
    random = np.random.RandomState(seed)
    chosen = random.permutation(len(labels))[: round(share * len(labels))]
    noisy = labels.copy()
    noisy[chosen] = (labels + random.randint(1, num_classes, len(labels)))[chosen] % num_classes
    return noisy
