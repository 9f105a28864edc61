"""Digits: 1,797 images of 8 x 8 pixels that come with scikit-learn, the default that needs no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from socrates.contracts import Splits

from .augment import Transform
from .resident import resident_splits
from .splits import stratified_subset

NUM_TRAIN, NUM_VAL = 300, 300


def load_digits(root: Path, *, image_size: int | None = None, augment: bool = True) -> Splits:
    """300 / 300 / 1,197 images of 10 digits: a small training set on purpose, so that calibration is a question.

    Fixed stratified choices: 600 images to train and validate, half of them to train; the rest is the test set. The
    values 0 to 16 are stretched to 0 to 255.

    Options:
        image_size: side in pixels that images are resized to; as they are by default
        augment: accepted for uniformity: this data set is never augmented
    """
    from sklearn.datasets import load_digits as embedded

    values, digits = (np.asarray(part) for part in embedded(return_X_y=True))
    images = np.rint(values.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    labels = digits.astype(np.int64)
    chosen = stratified_subset(labels, NUM_TRAIN + NUM_VAL)
    train = chosen[stratified_subset(labels[chosen], NUM_TRAIN)]
    val, test = np.setdiff1d(chosen, train), np.setdiff1d(np.arange(len(labels)), chosen)
    parts = [(images[index], labels[index]) for index in (train, test, val)]
    how = Transform((0.3053,), (0.3760,), size=image_size)
    return resident_splits(parts[0], parts[1], how, list("0123456789"), val=parts[2])
