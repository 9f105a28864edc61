"""A seeded sample of rows that depends on the rows alone: not on batches, parts or who reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from socrates.metrics.predictions import Array

from .read import Rows
from .table import Coded

MISSING_GROUP = "(missing)"
MOST_VALUES = 50_000_000  # of wide rows fewer are kept: 200 MB in single precision
_WHOLE = 1 << 64
AnySample = TypeVar("AnySample", bound="Sample")


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows in the order of the file.

    Args:
        values: (N, C) probabilities or logits, or (N,) confidence.
        labels: (N,) class numbers, or whether the answer is right.
        positions: (N,) their numbers in the whole file, by which the rows of two files are paired.
        groups: (N,) words of each column that is carried along.
        weight: (N,) or None.
    """

    values: Array
    labels: Array
    positions: Array
    groups: Mapping[str, Array]
    weight: Array | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def take(self: AnySample, index: Any) -> AnySample:
        """The rows at these places."""
        found: dict[str, Any] = {name: getattr(self, name)[index] for name in ("values", "labels", "positions")}
        groups = {name: words[index] for name, words in self.groups.items()}
        return replace(self, **found, groups=groups, weight=None if self.weight is None else self.weight[index])

    @classmethod
    def joined(cls, parts: Sequence[Sample]) -> Sample:
        """The rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        values, labels, positions = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "labels", "positions")
        )
        groups = {name: np.concatenate([part.groups[name] for part in parts]) for name in parts[0].groups}
        weights = [part.weight for part in parts if part.weight is not None]
        return cls(values, labels, positions, groups, np.concatenate(weights) if weights else None)


def mixed(numbers: Array, seed: int) -> Array:
    """A 64-bit hash of whole numbers, another one for each seed (SplitMix64); different numbers never share one.

    >>> mixed(np.arange(3), seed=0) // np.uint64(10**16)
    array([1629,  796,   48], dtype=uint64)
    """
    start = (seed * 0xD1342543DE82EF95 + 0x9E3779B97F4A7C15) % _WHOLE
    hashed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
    hashed = (hashed ^ (hashed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashed = (hashed ^ (hashed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashed ^ (hashed >> np.uint64(31))


class Reservoir:
    """The rows of the smallest hashes so far.

    Args:
        size: how many are kept.
        seed: of the hashes.
        num_rows: how many rows there are in the whole, if that is known: what has no chance then is not even copied.
    """

    def __init__(self, size: int, seed: int, num_rows: int | None = None) -> None:
        self.size, self.seed = size, seed
        self.highest = _WHOLE - 1
        self.kept: list[Sample] = []
        if num_rows is not None and num_rows > size:
            # Half of the rows may be bad. With the slack, too few below this are as unlikely as 14 standard deviations.
            share = (2 * size + 20 * math.sqrt(2 * size) + 200) / num_rows
            self.highest = min(self.highest, int(share * _WHOLE))

    def add(self, rows: Rows) -> None:
        """Keep those of a batch that may belong to the sample."""
        few = np.flatnonzero(mixed(rows.positions, self.seed) <= np.uint64(self.highest))
        if len(few):
            groups = {name: words_of(column[few]) for name, column in rows.groups.items()}
            weight = None if rows.weight is None else rows.weight[few]
            self._keep(Sample(rows.values[few], rows.labels[few], rows.positions[few], groups, weight))

    def merge(self, other: Reservoir) -> None:
        """Keep what another one kept of other rows."""
        for part in other.kept:
            self._keep(part)

    def _keep(self, part: Sample) -> None:
        self.kept.append(part)
        if sum(map(len, self.kept)) > 2 * self.size:
            self._cut()

    def _cut(self) -> Sample:
        """Put the parts together and drop all but the smallest hashes."""
        rows = Sample.joined(self.kept)
        if len(rows) > self.size:
            hashes = mixed(rows.positions, self.seed)
            few = np.argpartition(hashes, self.size - 1)[: self.size]
            rows, self.highest = rows.take(few), int(hashes[few].max())
        self.kept = [rows]
        return rows

    def sample(self) -> Sample:
        """The rows that are left, in the order of the file."""
        rows = self._cut()
        return rows.take(np.argsort(rows.positions)) if (np.diff(rows.positions) < 0).any() else rows


def words_of(column: Coded) -> Array:
    """The word of each row.

    >>> words_of(Coded.of(["north", None])).tolist()
    ['north', '(missing)']
    """
    return np.array([*column.names, MISSING_GROUP], object)[column.codes]
