"""Calibration errors and the reliability diagram: each a reading of the same bin sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from socrates.metrics.binning import BinStats, bin_ece, bin_edges, bin_stats, class_bin_stats, equal_mass, grouped
from socrates.metrics.inputs import LabelsLike, ProbsLike, Top, check_positive, open_samples

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Reliability:
    """The bins of a reliability diagram; an empty bin has NaN for confidence, accuracy and gap.

    Args:
        lower: lower edge of each bin (lower, upper].
        upper: upper edge.
        count: number of samples.
        confidence: mean confidence.
        accuracy: share of right answers.
        gap: confidence - accuracy, positive where the model is too sure.

    >>> bins = reliability([[0.9, 0.1], [0.6, 0.4]], [0, 1], num_bins=2)
    >>> bins.count, bins.gap.round(2)
    (array([0., 2.]), array([ nan, 0.25]))
    """

    lower: Array
    upper: Array
    count: Array
    confidence: Array
    accuracy: Array
    gap: Array


def reliability(probs: ProbsLike, labels: LabelsLike, num_bins: int = 15) -> Reliability:
    """Count, mean confidence, accuracy and gap of each bin: the numbers of a reliability diagram.

    Args:
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`.
        labels: (N,) class numbers.
        num_bins: number of bins of equal width, (lo, hi]; 0 belongs to the first.

    >>> reliability([[0.9, 0.1], [0.6, 0.4]], [0, 1], num_bins=2).accuracy
    array([nan, 0.5])
    """
    num_bins = check_positive("num_bins", num_bins)
    top = open_samples(probs, labels).top()
    stats, edges = bin_stats(top, num_bins), bin_edges(num_bins, top.dtype)
    means = stats.mean(stats.confidence), stats.mean(stats.correct), stats.gap
    return Reliability(edges[:-1], edges[1:], stats.count, *means)


def ece(probs: ProbsLike, labels: LabelsLike, num_bins: int = 15) -> float:
    """Expected calibration error: mean gap between confidence and accuracy over bins of equal width.

    Args:
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`.
        labels: (N,) class numbers.
        num_bins: number of bins (lo, hi].

    >>> round(ece([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.35
    """
    return ece_of(open_samples(probs, labels).top(), num_bins)


def mce(probs: ProbsLike, labels: LabelsLike, num_bins: int = 15) -> float:
    """Maximum calibration error: the largest gap of any bin that holds a sample.

    Args: as for `ece`.

    >>> round(mce([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.6
    """
    return mce_of(open_samples(probs, labels).top(), num_bins)


def ada_ece(probs: ProbsLike, labels: LabelsLike, num_bins: int = 15) -> float:
    """Adaptive calibration error: ECE over bins of equal counts, cut by the rank of the confidence.

    Counts differ by at most 1 (the first bins are the larger ones). Samples of equal confidence that lie across a cut
    give each side their mean, so the value does not depend on the order of the samples.

    Args: as for `ece`.

    >>> round(ada_ece([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]], [0, 1, 0], num_bins=2), 4)
    0.1333
    """
    return ada_ece_of(open_samples(probs, labels).top(), num_bins)


def debiased_ece(probs: ProbsLike, labels: LabelsLike, num_bins: int = 15) -> float:
    """ECE less the part that sampling noise adds to it, not below 0 (Kumar, Liang and Ma, 2019).

    The accuracy of a bin with n samples is taken as normal with variance acc (1 - acc) / n; what that noise adds to the
    absolute gap, on average, is subtracted.

    Args: as for `ece`.

    >>> probs, labels = [[0.8, 0.2]] * 10, [0] * 7 + [1] * 3
    >>> round(ece(probs, labels), 3), round(debiased_ece(probs, labels), 3)
    (0.1, 0.058)
    """
    return debiased_ece_of(open_samples(probs, labels).top(), num_bins)


def cw_ece(probs: ProbsLike, labels: LabelsLike, num_bins: int = 15, num_classes: int | None = None) -> float:
    """Class-wise ECE: the ECE of each class's probability as a forecast of that class, averaged over the classes.

    Args:
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`, whose known classes are the ones averaged over.
        labels: (N,) class numbers.
        num_bins: number of bins (lo, hi].
        num_classes: how many leading columns are classes; all of them unless told.

    >>> round(cw_ece([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.35
    """
    num_bins = check_positive("num_bins", num_bins)
    samples = open_samples(probs, labels, num_classes)
    return class_bin_stats(samples, num_bins, samples.num_classes).ece


def ece_of(top: Top, num_bins: int = 15) -> float:
    """ECE of confidences."""
    return bin_ece(top, check_positive("num_bins", num_bins))


def mce_of(top: Top, num_bins: int = 15) -> float:
    """MCE of confidences."""
    return largest_gap(bin_stats(top, check_positive("num_bins", num_bins)))


def ada_ece_of(top: Top, num_bins: int = 15) -> float:
    """AdaECE of confidences."""
    return equal_mass(grouped(top.confidence, top.correct), check_positive("num_bins", num_bins)).ece


def debiased_ece_of(top: Top, num_bins: int = 15) -> float:
    """Debiased ECE of confidences."""
    stats = bin_stats(top, check_positive("num_bins", num_bins))
    filled = stats.count > 0
    count, gap = stats.count[filled], stats.gap[filled]
    share = stats.correct[filled] / count
    noisy = folded_normal_mean(gap, np.sqrt(share * (1 - share) / count))
    bias = float(count @ (noisy - np.abs(gap)) / count.sum())
    return max(0.0, stats.ece - bias)


def largest_gap(stats: BinStats) -> float:
    """The largest absolute gap of any bin that holds a sample."""
    return float(np.nanmax(np.abs(stats.gap)))


def folded_normal_mean(mean: Array, std: Array) -> Array:
    """Mean of |X| for normal X: std sqrt(2 / pi) exp(-z^2) + mean erf(z), with z = mean / (std sqrt(2))."""
    z = np.divide(mean, std * math.sqrt(2), out=np.copysign(np.full(mean.shape, np.inf), mean), where=std > 0)
    erf = np.array([math.erf(value) for value in z])
    return std * math.sqrt(2 / math.pi) * np.exp(-z * z) + mean * erf
