"""A seeded sample of rows that depends on the rows alone: not on batches, parts or who reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from socrates.metrics.predictions import Array

from .read import Rows
from .table import Coded

MISSING_GROUP = "(missing)"
MOST_VALUES = 50_000_000  # of wide rows fewer are kept: 200 MB in single precision
_WHOLE = 1 << 64


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
        self.kept: list[dict[str, Any]] = []
        if num_rows is not None and num_rows > size:
            # Half of the rows may be bad. With the slack, too few below this are as unlikely as 14 standard deviations.
            share = (2 * size + 20 * math.sqrt(2 * size) + 200) / num_rows
            self.highest = min(self.highest, int(share * _WHOLE))

    def add(self, rows: Rows) -> None:
        """Keep those of a batch that may belong to the sample."""
        hashes = mixed(rows.positions, self.seed)
        few = np.flatnonzero(hashes <= np.uint64(self.highest))
        if len(few):
            parts = {"hashes": hashes, "values": rows.values, "labels": rows.labels, "positions": rows.positions}
            parts |= {} if rows.weight is None else {"weight": rows.weight}
            groups = {f"group {name}": words_of(column[few]) for name, column in rows.groups.items()}
            self._keep({name: part[few] for name, part in parts.items()} | groups)

    def merge(self, other: Reservoir) -> None:
        """Keep what another one kept of other rows."""
        for chunk in other.kept:
            self._keep(chunk)

    def _keep(self, chunk: dict[str, Any]) -> None:
        self.kept.append(chunk)
        if sum(len(each["hashes"]) for each in self.kept) > 2 * self.size:
            self._cut()

    def _cut(self) -> None:
        """Put the chunks together and drop all but the smallest hashes."""
        if len(self.kept) > 1:
            self.kept = [{name: np.concatenate([chunk[name] for chunk in self.kept]) for name in self.kept[0]}]
        hashes = self.kept[0]["hashes"]
        if len(hashes) > self.size:
            few = np.argpartition(hashes, self.size - 1)[: self.size]
            self.kept = [{name: part[few] for name, part in self.kept[0].items()}]
            self.highest = int(self.kept[0]["hashes"].max())

    def sample(self) -> Sample:
        """The rows that are left, in the order of the file."""
        self._cut()
        parts = self.kept[0]
        if (np.diff(parts["positions"]) < 0).any():
            order = np.argsort(parts["positions"])
            parts = {name: part[order] for name, part in parts.items()}
        groups = {name.removeprefix("group "): part for name, part in parts.items() if name.startswith("group ")}
        return Sample(parts["values"], parts["labels"], parts["positions"], groups, parts.get("weight"))


def words_of(column: Coded) -> Array:
    """The word of each row.

    >>> words_of(Coded.of(["north", None])).tolist()
    ['north', '(missing)']
    """
    return np.array([*column.names, MISSING_GROUP], object)[column.codes]
