"""Bins of confidence: one set of sums that every calibration metric reads, and that adds up over batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .arrays import check_positive, picked
from .samples import Array, Samples, Top


@dataclass(frozen=True, eq=False)
class BinStats:
    """Sums over the samples of each bin, times their weights; the last axis is the bins. `a + b` holds both's samples.

    >>> import numpy as np
    >>> one = BinStats(count=np.array([1.0, 2.0]), confidence=np.array([0.5, 1.8]), correct=np.array([1.0, 2.0]))
    >>> (one + one).count
    array([2., 4.])
    >>> round(one.ece, 4), round(one.mce, 4)
    (0.2333, 0.5)
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

    @property
    def mce(self) -> float:
        """The largest absolute gap of any bin that holds a sample."""
        return float(np.nanmax(np.abs(self.gap)))

    def mean(self, total: Array) -> Array:
        """A sum over each bin divided by the bin's count; NaN in an empty bin."""
        return np.divide(total, self.count, out=np.full(self.count.shape, np.nan), where=self.count > 0)


def bin_edges(num_bins: int) -> Array:
    """The num_bins + 1 edges m / num_bins."""
    return np.arange(num_bins + 1) / num_bins


@lru_cache(maxsize=64)
def _limits(num_bins: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Lower and upper limit of each bin; the outer ones let nothing out."""
    inner = bin_edges(num_bins)[1:-1]
    lower, upper = np.append(-np.inf, inner), np.append(inner, np.inf)
    return lower.astype(dtype), upper.astype(dtype)


def bin_index(values: Array, num_bins: int) -> Array:
    """Position of the bin (lo, hi] of each value; 0 is in the first bin, and what exceeds 1 by rounding in the last.

    The edges are float32 for float32 values, so that 0.2 lies in (..., 0.2]. A product gives the place to within one
    bin, comparisons with the edges give it exactly, whatever the number of bins.
    """
    lower, upper = _limits(num_bins, values.dtype)
    index = np.minimum((values * num_bins).astype(np.intp), num_bins - 1)
    index -= values <= lower.take(index)
    index += values > upper.take(index)
    return index


def bin_stats(top: Top, num_bins: int) -> BinStats:
    """Sums over num_bins bins of equal width."""
    num_bins = check_positive("num_bins", num_bins)
    index, weight = bin_index(top.confidence, num_bins), top.weight
    values = (top.confidence, top.correct) if weight is None else (weight * top.confidence, weight * top.correct)
    count, *sums = (np.bincount(index, each, num_bins) for each in (weight, *values))
    return BinStats(count.astype(np.float64), *sums)


def grouped(top: Top) -> BinStats:
    """One bin for each distinct confidence, in rising order."""
    order = np.argsort(top.confidence)
    ranked = top.confidence[order].astype(np.float64)
    start = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    right = top.correct[order]
    if top.weight is None:
        count = np.diff(np.append(start, len(ranked))).astype(np.float64)
    else:
        weight = top.weight[order]
        count, right = np.add.reduceat(weight, start), weight * right
    return BinStats(count, ranked[start] * count, np.add.reduceat(right, start, dtype=np.float64))


def equal_ranks(count: Array, num_bins: int) -> Array:
    """The num_bins + 1 ranks that cut samples, counted by groups, into counts that differ by at most 1.

    The larger ones come first. If counts are sums of weights that are no whole numbers, the cuts are at equal weight.
    """
    cut, total = np.arange(num_bins + 1), count.sum()
    if (count != np.floor(count)).any():
        return cut * (total / num_bins)
    return cut * (total // num_bins) + np.minimum(cut, total % num_bins)


def equal_mass(groups: BinStats, num_bins: int) -> BinStats:
    """Sums over num_bins bins of equal counts (they differ by at most 1), cut by rank from groups in rising order.

    A group that lies across a cut gives each side its share of every sum, so the order of tied samples never matters.
    """
    rank = equal_ranks(groups.count, check_positive("num_bins", num_bins))
    reached = np.concatenate([[0.0], np.cumsum(groups.count)])

    def between_cuts(sums: Array) -> Array:
        return np.diff(np.interp(rank, reached, np.concatenate([[0.0], np.cumsum(sums)])))

    return BinStats(np.diff(rank), between_cuts(groups.confidence), between_cuts(groups.correct))


def class_bin_stats(samples: Samples, num_bins: int) -> BinStats:
    """Sums over num_bins bins of each of the classes, (num_classes, num_bins), in memory of that size.

    At most num_bins - 1 entries of a row exceed 1 / num_bins, so only those are binned one by one; the first bin is
    what remains of the column's total.
    """
    num_bins, num_classes = check_positive("num_bins", num_bins), samples.num_classes
    count, confidence, correct = (np.zeros(num_classes * num_bins) for _ in range(3))
    total = np.zeros(num_classes)
    for rows, chunk in samples.chunks():
        known, label = np.ascontiguousarray(chunk[:, :num_classes]), samples.labels[rows]
        weight = np.ones(len(known)) if samples.weight is None else samples.weight[rows]
        total += np.einsum("i,ij->j", weight, known)  # no BLAS, see `row_sums`
        above = np.flatnonzero(known > _limits(num_bins, known.dtype)[1][0])
        value = np.ravel(known)[above]
        cell = above % num_classes * num_bins + bin_index(value, num_bins)
        label_cell = label * num_bins + bin_index(picked(known, label), num_bins)
        each = np.ones(len(above)) if samples.weight is None else weight[above // num_classes]
        # Unlike bincount, this touches only the cells that change.
        np.add.at(count, cell, each)
        np.add.at(confidence, cell, value * each)
        np.add.at(correct, label_cell, weight)
    stats = BinStats(*(np.reshape(sums, (num_classes, num_bins)) for sums in (count, confidence, correct)))
    stats.count[:, 0] = stats.correct.sum() - stats.count.sum(axis=1)
    stats.confidence[:, 0] = total - stats.confidence.sum(axis=1)
    return stats
