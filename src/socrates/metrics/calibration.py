"""Calibration errors and the reliability diagram, all computed from the sums in binning.py."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..arrays.content import Classes
from ..arrays.entries import (
    Groups,
    LabelsLike,
    ProbsLike,
    TopLike,
    Value,
    by_group,
    open_samples,
    open_top,
    reads,
)
from ..arrays.open import Array, ArrayLike
from ..arrays.samples import Top
from .binning import (
    BinStats,
    bin_edges,
    bin_index,
    bin_stats,
    class_bin_stats,
    equal_mass,
    stats_by_confidence,
)


@dataclass(frozen=True, eq=False)
class Reliability:
    """The bins of a reliability diagram; an empty bin has NaN for confidence, accuracy and gap.

    Args:
        lower: lower edge of each bin (lower, upper].
        upper: upper edge of each bin.
        count: number of samples in each bin.
        confidence: mean confidence in each bin.
        accuracy: share of correct predictions in each bin.
        gap: confidence - accuracy, positive where the model is overconfident.

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

    @classmethod
    def of(cls, stats: BinStats) -> Reliability:
        """Return the diagram for sums over bins of equal width, such as those of several runs.

        >>> stats = BinStats(
        ...     count=np.array([0.0, 2.0]),
        ...     confidence=np.array([0.0, 1.5]),
        ...     correct=np.array([0.0, 1.0]),
        ... )
        >>> Reliability.of(stats + stats).confidence
        array([ nan, 0.75])
        """
        edges = bin_edges(len(stats.count))
        return cls(
            lower=edges[:-1],
            upper=edges[1:],
            count=stats.count,
            confidence=stats.mean(stats.confidence),
            accuracy=stats.mean(stats.correct),
            gap=stats.gap,
        )


def reliability(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    num_bins: int = 15,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Reliability:
    """Return the numbers behind a reliability diagram: one entry per bin of equal width.

    Args: as for `ece`, without groups.

    >>> reliability([[0.9, 0.1], [0.6, 0.4]], [0, 1], num_bins=2).accuracy
    array([nan, 0.5])
    """
    top = open_top(probs, labels, confidence, correct, sample_weight, classes)
    return Reliability.of(bin_stats(top, num_bins))


@reads(open_top)
def ece(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    num_bins: int = 15,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    groups: Groups | None = None,
) -> Value:
    """Return the expected calibration error (Guo et al., 2017).

    It is the mean absolute gap between confidence and accuracy over bins of equal width, where each
    bin is weighted by its number of samples. For two classes, the confidence is that of the
    predicted class, and so at least one half. Use `ece(confidence=p, correct=y)` to measure instead
    how well the score p of class 1 forecasts class 1, as scikit-learn's `calibration_curve` and
    torchmetrics' `BinaryCalibrationError` do.

    Args:
        probs: (N, C) probabilities in any kind of array, or a `Prediction`. For two classes, (N,)
            or (N, 1) scores p of class 1 stand for the columns (1 - p, p). A `Top` needs no labels.
        labels: (N,) class numbers, booleans if there are two classes, or names with `classes`.
        num_bins: number of bins (lo, hi] of equal width; 0 belongs to the first bin.
        confidence: (N,) probabilities of the predicted classes. Pass it with `correct`, instead of
            probs and labels.
        correct: (N,) whether each prediction is correct, as booleans or as 0 and 1.
        sample_weight: (N,) finite weights, at least 0. A row of weight 2 counts twice, a row of
            weight 0 does not count.
        classes: names of the classes in the order of the columns, if labels are names.
        groups: (N,) group of each sample, such as strings or integers.

    Returns:
        A float, or a `GroupTable` with the value of each group if groups are passed.

    >>> round(ece([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.35
    >>> round(ece([0.1, 0.4], ["dog", "cat"], classes=["dog", "cat"]), 4)
    0.35
    >>> round(ece(confidence=[0.9, 0.6], correct=[True, False]), 4)
    0.35
    >>> ece(confidence=[0.9, 0.6, 0.7], correct=[1, 0, 1], groups=["a", "a", "b"])
    group  count  ece
    a          2  0.3500
    b          1  0.3000
    """
    top = open_top(probs, labels, confidence, correct, sample_weight, classes)
    return by_group("ece", lambda part: bin_stats(part, num_bins).ece, top, groups, sample_weight)


@reads(open_top)
def mce(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    num_bins: int = 15,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    groups: Groups | None = None,
) -> Value:
    """Return the maximum calibration error (Naeini et al., 2015).

    It is the largest absolute gap between confidence and accuracy of any bin that holds a sample.

    Args: as for `ece`.

    >>> round(mce([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.6
    """
    top = open_top(probs, labels, confidence, correct, sample_weight, classes)
    return by_group("mce", lambda part: bin_stats(part, num_bins).mce, top, groups, sample_weight)


@reads(open_top)
def ada_ece(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    num_bins: int = 15,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    groups: Groups | None = None,
) -> Value:
    """Return the adaptive ECE, over bins of equal counts (Nguyen and O'Connor, 2015).

    The bins are cut by the rank of the confidence. Their counts differ by at most 1, and the first
    bins are the larger ones. Where all weights are integers, they count as repeated rows. If one is
    not, every bin holds the same weight, and a weight of 2 is not a row that is repeated: half of
    each weight may give another value. Samples of equal confidence that lie across a cut give each
    side their mean, so the value does not depend on the order of the samples.

    Args: as for `ece`.

    >>> round(ada_ece([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]], [0, 1, 0], num_bins=2), 4)
    0.1333
    """
    top = open_top(probs, labels, confidence, correct, sample_weight, classes)

    def measure(part: Top) -> float:
        return equal_mass(stats_by_confidence(part), num_bins).ece

    return by_group("ada_ece", measure, top, groups, sample_weight)


@reads(open_top)
def debiased_ece(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    num_bins: int = 15,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    groups: Groups | None = None,
) -> Value:
    """Return the ECE minus the bias that sampling noise adds to it (Kumar et al., 2019).

    The result is at least 0. The accuracy of a bin with n samples is modeled as normal with
    variance acc (1 - acc) / n. The amount by which this noise raises the absolute gap on average is
    subtracted. With weights, n is Kish's effective sample size, (sum w)^2 / sum w^2: a row of
    weight 2 is one observation, not a row that is repeated. In the other metrics it counts as two.

    Args: as for `ece`.

    >>> probs, labels = [[0.8, 0.2]] * 10, [0] * 7 + [1] * 3
    >>> round(ece(probs, labels), 3), round(debiased_ece(probs, labels), 3)
    (0.1, 0.058)
    """
    top = open_top(probs, labels, confidence, correct, sample_weight, classes)
    return by_group(
        "debiased_ece", lambda part: _debiased(part, num_bins), top, groups, sample_weight
    )


@reads(open_samples)
def cw_ece(
    probs: ProbsLike,
    labels: LabelsLike | None = None,
    num_bins: int = 15,
    num_classes: int | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    groups: Groups | None = None,
) -> Value:
    """Return the class-wise ECE (Kull et al., 2019).

    For each class, it measures the ECE of the class's probability as a forecast of that class. The
    result is the mean over the classes.

    Args:
        probs: as for `nll`. For a `Prediction`, the mean is over the known classes.
        labels: as for `nll`.
        num_bins: number of bins (lo, hi] of equal width.
        num_classes: number of leading columns that are classes; all columns by default.
        sample_weight: as for `ece`.
        classes: as for `ece`.
        groups: as for `ece`.

    >>> round(cw_ece([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.35
    """
    samples = open_samples(probs, labels, None, None, sample_weight, classes, num_classes)
    return by_group(
        "cw_ece", lambda part: class_bin_stats(part, num_bins).ece, samples, groups, sample_weight
    )


def _debiased(top: Top, num_bins: int) -> float:
    """Return the debiased ECE of samples that are already opened."""
    stats = bin_stats(top, num_bins)
    filled = stats.count > 0
    count = stats.count[filled]
    gap = stats.gap[filled]
    accuracy = stats.correct[filled] / count
    effective_count = count
    if top.weight is not None:
        index = bin_index(top.confidence, num_bins)
        squared_weight = np.bincount(index, top.weight**2, num_bins)[filled]
        effective_count = count**2 / squared_weight
    accuracy_std = np.sqrt(accuracy * (1 - accuracy) / effective_count)
    noisy_gap = folded_normal_mean(gap, accuracy_std)
    bias = float((count * (noisy_gap - np.abs(gap))).sum() / count.sum())
    return max(0.0, stats.ece - bias)


def folded_normal_mean(mean: Array, std: Array) -> Array:
    """Return the mean of |X| for a normal variable X, the mean of the folded normal distribution.

    It is std sqrt(2 / pi) exp(-z^2) + mean erf(z), with z = mean / (std sqrt(2)).
    """
    without_noise = np.copysign(np.full(mean.shape, np.inf), mean)
    z = np.divide(mean, std * math.sqrt(2), out=without_noise, where=std > 0)
    erf = np.array([math.erf(value) for value in z])
    return std * math.sqrt(2 / math.pi) * np.exp(-z * z) + mean * erf
