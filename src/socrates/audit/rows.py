"""The rows of a file as predictions: as they are read, as a sample, and as they are judged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from socrates import metrics
from socrates.arrays.entries import open_top
from socrates.arrays.open import Array
from socrates.metrics import GroupGap, Prediction, Top
from socrates.metrics.predictions import Reading
from socrates.scaling import Scaler

from .layout import Layout
from .read.columns import Words

_HASHES = 1 << 64
AnyRows = TypeVar("AnyRows", bound="PredictionRows")


@dataclass(frozen=True, eq=False)
class PredictionRows:
    """Good rows of a file, in its order.

    Args:
        values: (N, C) probabilities or logits, unknown after the classes if there is one; or (N,)
            confidence.
        labels: (N,) class numbers; with confidence, (N,) whether the answer is correct.
        positions: (N,) their numbers in the whole file from 0, by which the rows of two files are
            paired; bad rows are counted, blank lines are not.
        groups: the words of each column that is carried along.
        weight: (N,) or None; rows of weight 0 are left out.
    """

    values: Array
    labels: Array
    positions: Array
    groups: Mapping[str, Words]
    weight: Array | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def take(self: AnyRows, index: Any) -> AnyRows:
        """Return the rows at these places."""
        return replace(
            self,
            values=self.values[index],
            labels=self.labels[index],
            positions=self.positions[index],
            groups={name: words.take(index) for name, words in self.groups.items()},
            weight=None if self.weight is None else self.weight[index],
        )

    @classmethod
    def joined(cls, parts: Sequence[PredictionRows]) -> PredictionRows:
        """Return the rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        weights = [part.weight for part in parts if part.weight is not None]
        return cls(
            values=np.concatenate([part.values for part in parts]),
            labels=np.concatenate([part.labels for part in parts]),
            positions=np.concatenate([part.positions for part in parts]),
            groups={
                name: Words.joined([part.groups[name] for part in parts])
                for name in parts[0].groups
            },
            weight=np.concatenate(weights) if weights else None,
        )


class Reservoir:
    """A seeded sample of rows: those with the smallest hashes of their positions.

    It depends on the rows alone, not on batches, parts or the number of workers.

    Args:
        size: how many rows are kept.
        seed: of the hashes.
        num_rows: the number of rows in the file, if it is known: then a row without a chance is
            not even copied.
    """

    def __init__(self, size: int, seed: int, num_rows: int | None = None) -> None:
        self.size = size
        self.seed = seed
        self.highest = _HASHES - 1
        self.kept: list[PredictionRows] = []
        if num_rows is not None and num_rows > size:
            # Half of the rows may be bad. With the slack, too few below this are as unlikely as 14
            # standard deviations.
            share = (2 * size + 20 * math.sqrt(2 * size) + 200) / num_rows
            self.highest = min(self.highest, int(share * _HASHES))

    def add(self, rows: PredictionRows) -> None:
        """Keep those of some rows that may belong to the sample."""
        chosen = np.flatnonzero(mixed(rows.positions, self.seed) <= np.uint64(self.highest))
        if len(chosen):
            self._keep(rows.take(chosen))

    def merge(self, other: Reservoir) -> None:
        """Keep what another reservoir kept of other rows."""
        for part in other.kept:
            self._keep(part)

    def _keep(self, part: PredictionRows) -> None:
        self.kept.append(part)
        if sum(map(len, self.kept)) > 2 * self.size:
            self._cut()

    def _cut(self) -> PredictionRows:
        """Put the parts together, and drop all but the smallest hashes."""
        rows = PredictionRows.joined(self.kept)
        if len(rows) > self.size:
            hashes = mixed(rows.positions, self.seed)
            smallest = np.argpartition(hashes, self.size - 1)[: self.size]
            rows = rows.take(smallest)
            self.highest = int(hashes[smallest].max())
        self.kept = [rows]
        return rows

    def sample(self) -> PredictionRows:
        """Return the rows that are left, in the order of the file."""
        rows = self._cut()
        is_sorted = (np.diff(rows.positions) >= 0).all()
        return rows if is_sorted else rows.take(np.argsort(rows.positions))


def mixed(numbers: Array, seed: int) -> Array:
    """Return a 64-bit hash of whole numbers, different for each number (SplitMix64).

    >>> mixed(np.arange(3), seed=0) // np.uint64(10**16)
    array([1629,  796,   48], dtype=uint64)
    """
    start = (seed * 0xD1342543DE82EF95 + 0x9E3779B97F4A7C15) % _HASHES
    hashed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
    hashed = (hashed ^ (hashed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashed = (hashed ^ (hashed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashed ^ (hashed >> np.uint64(31))


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgedRows(PredictionRows):
    """The sample that is judged, in the forms that metrics and scalers accept.

    Where only confidence and correctness are known, the two columns of `values` are the
    probabilities of wrong and right, and `top` is about the second of them, whichever is larger.

    Args:
        layout: what the file holds.
        reading: of an unknown last column, None without one.
        num_bins: of the ECE.
    """

    layout: Layout
    reading: Reading | None
    num_bins: int

    @property
    def of_confidence(self) -> bool:
        """Return whether confidence and correctness are all that is known."""
        return self.layout.kind == "confidence"

    @property
    def has_unknown(self) -> bool:
        """Return whether the last column is belief in unknown."""
        return self.reading is not None

    @property
    def from_probs(self) -> bool:
        """Return whether scalers get probabilities, not logits."""
        return self.layout.kind != "logits"

    def prediction(self, scaler: Scaler | None = None) -> Prediction | Array:
        """Return the predictions of the rows, as they are or scaled."""
        if scaler is not None:
            return metrics.predict(scaler(self.values, from_probs=self.from_probs), self.reading)
        if self.of_confidence:
            return self.values
        return predictions(self.values, self.layout, self.reading)

    def top(self, scaler: Scaler | None = None) -> Top:
        """Return the confidence and correctness of the rows, as they are or scaled."""
        prediction = self.prediction(scaler)
        if not self.of_confidence:
            return open_top(prediction, self.labels, sample_weight=self.weight)
        probs = np.asarray(prediction.probs if isinstance(prediction, Prediction) else prediction)
        return Top.of(probs[:, 1], self.labels == 1, self.weight)

    def ece(self, scaler: Scaler | None = None) -> float:
        """Return the expected calibration error of the rows, as they are or scaled."""
        return metrics.ece(self.top(scaler), num_bins=self.num_bins)

    def worst_classes(self) -> tuple[GroupGap, ...]:
        """Return how far the confidence in each class is off, the surest first.

        There are none where answers are unknown or rows have weights.
        """
        if self.of_confidence or self.weight is not None:
            return ()
        classes = self.layout.classes
        return tuple(metrics.worst_classes(self.prediction(), self.labels, classes=classes))


def predictions(values: Array, layout: Layout, reading: Reading | None) -> Array | Prediction:
    """Return the values of a file in the form that metrics accept.

    >>> logits = Layout("logits", ("z0", "z1"), ("0", "1"))
    >>> predictions(np.array([[0.0, 0.0]]), logits, None).probs
    array([[0.5, 0.5]])
    """
    if layout.kind == "logits":
        return metrics.predict(values, reading)
    if not layout.unknown:
        return values
    with np.errstate(divide="ignore"):
        return metrics.predict(np.log(values), reading)
