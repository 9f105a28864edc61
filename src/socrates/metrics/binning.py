"""Sums over bins of confidence, from which every calibration metric is computed.

The sums of two batches, processes or runs are added to get those of both together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays.open import Array, check_positive, entry_per_row
from ..arrays.samples import Rows, Top


@dataclass(frozen=True, eq=False)
class BinStats:
    """The weighted sums over the samples of each bin; the last axis is the bins.

    `a + b` holds the samples of both.

    Args:
        count: number of samples, or the sum of their weights.
        confidence: sum of their confidences.
        correct: number of correct predictions.

    >>> import numpy as np
    >>> stats = BinStats(
    ...     count=np.array([1.0, 2.0]),
    ...     confidence=np.array([0.5, 1.8]),
    ...     correct=np.array([1.0, 2.0]),
    ... )
    >>> (stats + stats).count
    array([2., 4.])
    >>> round(stats.ece, 4), round(stats.mce, 4)
    (0.2333, 0.5)
    """

    count: Array
    confidence: Array
    correct: Array

    def __add__(self, other: BinStats) -> BinStats:
        return BinStats(
            self.count + other.count,
            self.confidence + other.confidence,
            self.correct + other.correct,
        )

    @property
    def gap(self) -> Array:
        """Return mean confidence minus accuracy for each bin; NaN for an empty bin.

        It is positive where the model is overconfident.
        """
        return self.mean(self.confidence - self.correct)

    @property
    def ece(self) -> float:
        """Return the mean absolute gap, with each bin weighted by its count.

        If there is one row of bins per class, this is the class-wise ECE.
        """
        return float(np.abs(self.confidence - self.correct).sum() / self.count.sum())

    @property
    def mce(self) -> float:
        """Return the largest absolute gap of any bin that holds a sample."""
        return float(np.nanmax(np.abs(self.gap)))

    def mean(self, total: Array) -> Array:
        """Divide the sum over each bin by the count of the bin; NaN for an empty bin."""
        undefined = np.full(self.count.shape, np.nan)
        return np.divide(total, self.count, out=undefined, where=self.count > 0)


def bin_edges(num_bins: int) -> Array:
    """Return the num_bins + 1 edges of bins of equal width from 0 to 1."""
    return np.arange(num_bins + 1) / num_bins


@lru_cache(maxsize=64)
def _limits(num_bins: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return the lower and upper limit of each bin; the outermost limits are infinite."""
    inner = np.arange(1, num_bins) / num_bins
    lower = np.append(-np.inf, inner)
    upper = np.append(inner, np.inf)
    return lower.astype(dtype), upper.astype(dtype)


def bin_index(values: Array, num_bins: int) -> Array:
    """Return the index of the bin (lo, hi] that each value belongs to.

    The value 0 belongs to the first bin, and values that exceed 1 by rounding to the last. The
    edges are float32 for float32 values, so that 0.2 lies in (..., 0.2]. Multiplication finds the
    bin to within one; comparing with its edges then makes the index exact.
    """
    lower, upper = _limits(num_bins, values.dtype)
    index = np.minimum((values * num_bins).astype(np.intp), num_bins - 1)
    index -= values <= lower.take(index)
    index += values > upper.take(index)
    return index


def bin_stats(top: Top, num_bins: int) -> BinStats:
    """Return the sums over num_bins bins of equal width."""
    num_bins = check_positive("num_bins", num_bins)
    index = bin_index(top.confidence, num_bins)
    confidence = top.confidence
    correct = top.correct
    if top.weight is not None:
        confidence = top.weight * confidence
        correct = top.weight * correct
    return BinStats(
        count=np.bincount(index, top.weight, num_bins).astype(np.float64),
        confidence=np.bincount(index, confidence, num_bins),
        correct=np.bincount(index, correct, num_bins),
    )


def stats_by_confidence(top: Top) -> BinStats:
    """Return the sums with one bin for each distinct confidence, in ascending order."""
    order = np.argsort(top.confidence)
    ranked = top.confidence[order].astype(np.float64)
    start = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    correct = top.correct[order]
    if top.weight is None:
        count = np.diff(np.append(start, len(ranked))).astype(np.float64)
    else:
        weight = top.weight[order]
        count = np.add.reduceat(weight, start)
        correct = weight * correct
    return BinStats(
        count=count,
        confidence=ranked[start] * count,
        correct=np.add.reduceat(correct, start, dtype=np.float64),
    )


def equal_ranks(count: Array, num_bins: int) -> Array:
    """Return the num_bins + 1 ranks that cut the samples into bins whose counts differ by at most
    1.

    The larger bins come first. If the counts are sums of weights that are not integers, every bin
    gets the same weight.

    Args:
        count: number of samples in each group of equal confidence.
        num_bins: number of bins.
    """
    cut = np.arange(num_bins + 1)
    total = count.sum()
    if (count != np.floor(count)).any():
        return cut * (total / num_bins)
    return cut * (total // num_bins) + np.minimum(cut, total % num_bins)


def equal_mass(groups: BinStats, num_bins: int) -> BinStats:
    """Return the sums over num_bins bins of equal counts, cut by rank.

    The groups are those of `stats_by_confidence`. Counts differ by at most 1. A group that lies
    across a cut is split in proportion, so the order of tied samples does not matter.
    """
    cuts = equal_ranks(groups.count, check_positive("num_bins", num_bins))
    group_ends = np.concatenate([[0.0], np.cumsum(groups.count)])

    def between_cuts(sums: Array) -> Array:
        cumulative = np.concatenate([[0.0], np.cumsum(sums)])
        return np.diff(np.interp(cuts, group_ends, cumulative))

    return BinStats(
        count=np.diff(cuts),
        confidence=between_cuts(groups.confidence),
        correct=between_cuts(groups.correct),
    )


def class_bin_stats(samples: Rows, num_bins: int) -> BinStats:
    """Return the sums over num_bins bins for each class, of shape (num_classes, num_bins).

    At most num_bins - 1 entries of a row exceed 1 / num_bins, so only those are binned one by one.
    The first bin gets the rest of the column's total.
    """
    num_bins = check_positive("num_bins", num_bins)
    num_classes = samples.num_classes
    count = np.zeros(num_classes * num_bins)
    confidence = np.zeros(num_classes * num_bins)
    correct = np.zeros(num_classes * num_bins)
    total = np.zeros(num_classes)
    for place, chunk in samples.chunks():
        known = np.ascontiguousarray(chunk[:, :num_classes])
        label = samples.labels[place]
        weight = np.ones(len(known)) if samples.weight is None else samples.weight[place]
        total += np.einsum("i,ij->j", weight, known)  # no BLAS, see `row_sums`
        _, upper = _limits(num_bins, known.dtype)
        above = np.flatnonzero(known > upper[0])  # all entries beyond the first bin
        value = np.ravel(known)[above]
        cell = above % num_classes * num_bins + bin_index(value, num_bins)
        label_cell = label * num_bins + bin_index(entry_per_row(known, label), num_bins)
        value_weight = weight[above // num_classes]
        # Unlike bincount, this touches only the cells that change.
        np.add.at(count, cell, value_weight)
        np.add.at(confidence, cell, value * value_weight)
        np.add.at(correct, label_cell, weight)
    shape = (num_classes, num_bins)
    stats = BinStats(
        count=np.reshape(count, shape),
        confidence=np.reshape(confidence, shape),
        correct=np.reshape(correct, shape),
    )
    stats.count[:, 0] = stats.correct.sum() - stats.count.sum(axis=1)
    stats.confidence[:, 0] = total - stats.confidence.sum(axis=1)
    return stats
