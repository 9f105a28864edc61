"""Pool adjacent violators: isotonic regression, for the CORP curve and for isotonic scaling.

It imports nothing else of ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def pool_adjacent_violators(
    sums: Iterable[float], weights: Iterable[float]
) -> list[tuple[float, float, int]]:
    """Merge neighbours until the means, sum / weight, rise.

    Args:
        sums: the weighted sum of each group, in the order of the groups.
        weights: the weight of each group.

    Returns:
        The sum, the weight and the number of groups of each pool.

    >>> pool_adjacent_violators([1.0, 3.0, 2.0, 9.0], [1.0, 1.0, 1.0, 2.0])
    [(1.0, 1.0, 1), (5.0, 2.0, 2), (9.0, 2.0, 1)]
    """
    pools: list[tuple[float, float, int]] = []
    for total, weight in zip(sums, weights, strict=True):
        size = 1
        while pools and pools[-1][0] * weight >= total * pools[-1][1]:
            left_total, left_weight, left_size = pools.pop()
            total += left_total
            weight += left_weight
            size += left_size
        pools.append((total, weight, size))
    return pools


def pool_starts(sums: Array, weights: Array) -> Array:
    """Return the first group of each pool, as `np.add.reduceat` takes it.

    >>> pool_starts(sums=np.array([1.0, 0.0, 2.0]), weights=np.array([1.0, 1.0, 2.0]))
    array([0, 2])
    """
    pools = pool_adjacent_violators(sums.tolist(), weights.tolist())
    sizes = [size for _, _, size in pools]
    return np.cumsum([0, *sizes[:-1]])
