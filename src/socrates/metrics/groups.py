"""One value for each group of samples: what `groups=` gives in the place of a single number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import Array, ArrayLike, as_numpy
from .inputs import counted

Groups = ArrayLike


class GroupTable(dict[Any, float]):
    """The value of a metric for each group, in the order of their names; it prints as a table.

    Args:
        metric: name of the metric, the title of its column.
        values: the value of each group.
        counts: number of samples of each group, which `table.counts` gives back.

    >>> from socrates.metrics import accuracy
    >>> table = accuracy([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], [0, 1, 1], groups=["old", "old", "new"])
    >>> table
    group  count  accuracy
    new        1  1.0000
    old        2  0.5000
    >>> table["old"], table.counts["old"]
    (0.5, 2)
    """

    def __init__(self, metric: str, values: dict[Any, float], counts: dict[Any, int]) -> None:
        super().__init__(values)
        self.metric = metric
        self.counts = counts

    def __repr__(self) -> str:
        width = max(5, *(len(str(group)) for group in self))
        lines = [f"{group!s:{width}}  {self.counts[group]:5}  {value:.4f}" for group, value in self.items()]
        return "\n".join([f"{'group':{width}}  count  {self.metric}", *lines])


def by_group(
    metric: str, groups: Groups, num_samples: int, sample_weight: ArrayLike | None, value_at: Callable[[Array], float]
) -> GroupTable:
    """The table of `value_at` of the positions of each group's samples."""
    found, place = named_groups(groups, num_samples, sample_weight)
    members = np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place))[:-1])
    values = {group: value_at(index) for group, index in zip(found, members, strict=True)}
    return GroupTable(metric, values, {group: len(index) for group, index in zip(values, members, strict=True)})


def named_groups(groups: Groups, num_samples: int, sample_weight: ArrayLike | None = None) -> tuple[list[Any], Array]:
    """The names of the groups in order, and each sample's place among them."""
    names = as_numpy(groups, "groups")
    if names.ndim != 1:
        raise ValueError(f"groups has shape {names.shape}, expected (N,): pass the name of one group a sample")
    names = counted(names, sample_weight)
    if len(names) != num_samples:
        raise ValueError(f"{len(names)} groups for {num_samples} samples: expected one a sample")
    names = names.astype(np.str_) if names.dtype == object else names
    found, place = np.unique(names, return_inverse=True)
    return found.tolist(), place
