"""The validation split: fixed, and independent of a run's seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def validation_split(
    num_samples: int, fraction: float = 0.1, seed: int = 42
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of the training and of the validation samples: validation is the first `fraction` of a seeded shuffle.

    The shuffle is numpy's legacy one, so that the split is the one behind the paper's published numbers.

    >>> train, val = validation_split(50_000)
    >>> len(train), len(val), val[:3].tolist()
    (45000, 5000, [33553, 9427, 199])
    """
    num_val = int(num_samples * fraction)
    if not 0 < num_val < num_samples:
        raise ValueError(
            f"a validation split needs samples on both sides, got fraction={fraction} of {num_samples} samples"
        )
    order = np.arange(num_samples)
    np.random.RandomState(seed).shuffle(order)
    return order[num_val:], order[:num_val]
