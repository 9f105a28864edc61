"""Bins of confidence: one set of sums that every calibration metric reads, and that adds up over batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from socrates.metrics.inputs import Samples, Top, as_integers, refuse_negative

Array = npt.NDArray[Any]

# Up to here counting the edges below each value, one pass an edge, beats a binary search for each value.
_FEW_BINS = 32
# Values compared with all edges at once: few calls, and the answers stay in the cache.
_BLOCK_VALUES = 1 << 14
# Entries of class-wise bins that wait to be counted together: counting touches every cell, so it is done rarely.
_MAX_WAITING = 1 << 20


@dataclass(frozen=True, eq=False)
class BinStats:
    """Sums over the samples of each bin; the last axis is the bins. `a + b` holds the samples of both.

    >>> import numpy as np
    >>> one = BinStats(count=np.array([1.0, 2.0]), confidence=np.array([0.5, 1.8]), correct=np.array([1.0, 2.0]))
    >>> (one + one).count
    array([2., 4.])
    >>> round(one.ece, 4)
    0.2333
    """

    count: Array
    confidence: Array
    correct: Array

    def __add__(self, other: BinStats) -> BinStats:
        return BinStats(self.count + other.count, self.confidence + other.confidence, self.correct + other.correct)

    @property
    def gap(self) -> Array:
        """Mean confidence minus accuracy of each bin, positive where the model is too sure; NaN in an empty bin."""
        return self.mean(self.confidence - self.correct)

    @property
    def ece(self) -> float:
        """Mean absolute gap, each bin weighted by its count. With one row of bins a class it is class-wise ECE."""
        return float(np.abs(self.confidence - self.correct).sum() / self.count.sum())

    def mean(self, total: Array) -> Array:
        """A sum over each bin divided by the bin's count; NaN in an empty bin."""
        return np.divide(total, self.count, out=np.full(self.count.shape, np.nan), where=self.count > 0)


@lru_cache(maxsize=64)
def bin_edges(num_bins: int, dtype: torch.dtype) -> Array:
    """The num_bins + 1 edges m / num_bins, rounded as the probabilities were, so that 0.2 lies in (..., 0.2]."""
    edges = np.arange(num_bins + 1) / num_bins
    edges = edges if dtype == torch.float64 else torch.tensor(edges, dtype=dtype).double().numpy()
    edges.flags.writeable = False
    return edges


def bin_index(values: Array, edges: Array) -> Array:
    """Position of the bin (lo, hi] of each value: the number of inner edges below it, so that no value is left out."""
    inner = edges[1:-1].astype(values.dtype)
    if len(inner) >= _FEW_BINS or len(values) < _FEW_BINS:
        return np.searchsorted(inner, values, side="left")
    index = np.empty(len(values), np.uint8)
    for start in range(0, len(values), _BLOCK_VALUES):
        block = slice(start, start + _BLOCK_VALUES)
        above = values[block] > inner[:, np.newaxis]
        as_integers(above, "u").sum(axis=0, out=index[block])  # adding booleans would convert them first
    return index


def bin_stats(top: Top, num_bins: int) -> BinStats:
    """Sums over num_bins bins of equal width."""
    index = bin_index(top.confidence, bin_edges(num_bins, top.dtype))
    confidence = np.bincount(index, weights=top.confidence, minlength=num_bins)
    both = np.bincount(2 * index + top.correct, minlength=2 * num_bins).astype(np.float64)  # wrong, right, wrong, ...
    return BinStats(both[::2] + both[1::2], confidence, both[1::2])


def bin_ece(top: Top, num_bins: int) -> float:
    """The `ece` of `bin_stats`, which only needs the gap of each bin: one sum instead of three."""
    index = bin_index(top.confidence, bin_edges(num_bins, top.dtype))
    gap = np.bincount(index, weights=np.subtract(top.confidence, top.correct, dtype=np.float64))
    return float(np.abs(gap).sum() / len(index))


def grouped(confidence: Array, correct: Array) -> BinStats:
    """One bin for each distinct confidence, in rising order."""
    order = np.argsort(confidence)
    ranked = confidence[order].astype(np.float64)
    start = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    count = np.diff(np.append(start, len(ranked))).astype(np.float64)
    return BinStats(count, ranked[start] * count, np.add.reduceat(correct[order], start, dtype=np.float64))


def equal_mass(groups: BinStats, num_bins: int) -> BinStats:
    """Sums over num_bins bins of equal counts (they differ by at most 1), cut by rank from groups in rising order.

    A group that lies across a cut gives each side its share of every sum, so the order of tied samples never matters.
    """
    total = int(groups.count.sum())
    cut = np.arange(num_bins + 1)
    rank = cut * (total // num_bins) + np.minimum(cut, total % num_bins)
    reached = np.concatenate([[0.0], np.cumsum(groups.count)])

    def between_cuts(sums: Array) -> Array:
        return np.diff(np.interp(rank, reached, np.concatenate([[0.0], np.cumsum(sums)])))

    return BinStats(np.diff(rank).astype(np.float64), between_cuts(groups.confidence), between_cuts(groups.correct))


class ClassBins:
    """Bins of every column, filled chunk by chunk: memory num_classes x num_bins, whatever the number of samples.

    At most num_bins - 1 entries of a row exceed 1 / num_bins, so only those are binned one by one; the first bin is
    what remains of the column's total.
    """

    def __init__(self, num_bins: int, num_classes: int, dtype: torch.dtype) -> None:
        self.num_classes = num_classes
        self.edges = bin_edges(num_bins, dtype)
        self.num_rows = 0
        self.total: Array = np.zeros(num_classes)
        self._sums = BinStats(*np.zeros((3, num_classes, num_bins)))
        self._above: list[tuple[Array, Array]] = []  # columns and values
        self._at_label: list[tuple[Array, Array]] = []
        self._waiting = 0

    def add(self, chunk: Array, labels: Array, start: int) -> None:
        """Add contiguous rows of at least num_classes columns, refusing negative values.

        A label beyond the classes is none of them; start is the place of the first row, for the message.
        """
        self.num_rows += len(chunk)
        self.total += chunk.sum(axis=0, dtype=np.float64)[: self.num_classes]
        # Read as unsigned integers, positive numbers keep their order and negative ones exceed them: one search does.
        above = np.flatnonzero(as_integers(chunk, "u") > as_integers(self.edges[1:2].astype(chunk.dtype), "u"))
        value = np.ravel(chunk)[above]
        if value.min(initial=0) < 0:
            refuse_negative(chunk, start)
        self._above.append((above % chunk.shape[1], value))
        self._at_label.append((labels, chunk[np.arange(len(chunk)), labels]))
        self._waiting += len(above) + len(labels)
        if self._waiting > _MAX_WAITING:
            self._count()

    def stats(self) -> BinStats:
        """The sums so far, (num_classes, num_bins) each."""
        self._count()
        sums = self._sums
        count, confidence = np.array(sums.count), np.array(sums.confidence)
        count[:, 0] = self.num_rows - count[:, 1:].sum(axis=1)
        confidence[:, 0] = self.total - confidence[:, 1:].sum(axis=1)
        return BinStats(count, confidence, sums.correct)

    def _count(self) -> None:
        if not self._waiting:
            return
        cell, value = self._cells(self._above)
        label_cell, _ = self._cells(self._at_label)
        self._sums += BinStats(self._tally(cell), self._tally(cell, value), self._tally(label_cell))
        self._above, self._at_label, self._waiting = [], [], 0

    def _cells(self, entries: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        column, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        known = column < self.num_classes
        column, value = column[known], value[known]
        return column * (len(self.edges) - 1) + bin_index(value, self.edges), value

    def _tally(self, cell: Array, weights: Array | None = None) -> Array:
        shape = self._sums.count.shape
        return np.reshape(np.bincount(cell, weights, minlength=self._sums.count.size), shape).astype(np.float64)


def class_bin_stats(samples: Samples, num_bins: int, num_classes: int) -> BinStats:
    """Sums over num_bins bins of each of the first num_classes columns, (num_classes, num_bins)."""
    bins = ClassBins(num_bins, num_classes, samples.dtype)
    for rows, chunk in samples.summed_chunks():
        bins.add(chunk, samples.labels[rows], rows.start)
    return bins.stats()
