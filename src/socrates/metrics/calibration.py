"""Calibration errors and the reliability diagram: each a reading of the same bin sums."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .binning import BinStats, bin_edges, bin_index, bin_stats, class_bin_stats, equal_mass, grouped
from .entry import class_metric, top_metric
from .inputs import Entry, LabelsLike, TopLike, Unpack, open_top
from .samples import Array, Samples, Top

# Cells of the grid the residuals are shared out to. Sharing between the two nearest centres keeps their place, so the
# error falls with the square of the cell's width over the bandwidth.
_CELLS = 1 << 13
# Of the bandwidth, which three to eight steps find.
_TOLERANCE = 1e-8
_STEPS = 50


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

    @classmethod
    def of(cls, stats: BinStats) -> Reliability:
        """The diagram of sums over bins of equal width, such as those of several runs added up.

        >>> import numpy as np
        >>> sums = BinStats(count=np.array([0.0, 2.0]), confidence=np.array([0.0, 1.5]), correct=np.array([0.0, 1.0]))
        >>> Reliability.of(sums + sums).confidence
        array([ nan, 0.75])
        """
        edges = bin_edges(len(stats.count))
        means = stats.mean(stats.confidence), stats.mean(stats.correct), stats.gap
        return cls(edges[:-1], edges[1:], stats.count, *means)


def reliability(
    probs: TopLike | None = None, labels: LabelsLike | None = None, num_bins: int = 15, **entry: Unpack[Entry]
) -> Reliability:
    """Count, mean confidence, accuracy and gap of each bin: the numbers of a reliability diagram.

    Args: as for `ece`, without groups.

    >>> reliability([[0.9, 0.1], [0.6, 0.4]], [0, 1], num_bins=2).accuracy
    array([nan, 0.5])
    """
    return Reliability.of(bin_stats(open_top(probs, labels, **entry), num_bins))


@top_metric
def ece(top: Top, num_bins: int = 15) -> float:
    """Expected calibration error: mean gap between confidence and accuracy over bins of equal width.

    Of two classes this is the error of the answer, whose confidence is at least one half. How well the score of class 1
    forecasts class 1, which scikit-learn's `calibration_curve` draws and torchmetrics' `BinaryCalibrationError`
    measures, is `ece(confidence=p, correct=y)`.

    Args:
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`; (N,) or (N, 1) scores p of class 1 among two
            classes, which mean the two columns (1 - p, p); or a `Top` alone.
        labels: (N,) class numbers, booleans where there are two classes, or names with `classes`.
        num_bins: number of bins (lo, hi] of equal width; 0 belongs to the first.
        confidence: (N,) probabilities of the predicted classes, beside `correct` and in the place of probs and labels.
        correct: (N,) whether the prediction is right, as booleans or 0 and 1.
        sample_weight: (N,) finite weights, at least 0: 2 counts as the row twice, 0 as if it were not there.
        classes: names of the classes in the order of the columns, where labels hold names.
        groups: (N,) group of each sample, such as strings or integers; the result is a `GroupTable` of their values.

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
    return bin_stats(top, num_bins).ece


@top_metric
def mce(top: Top, num_bins: int = 15) -> float:
    """Maximum calibration error: the largest gap of any bin that holds a sample.

    Args: as for `ece`.

    >>> round(mce([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.6
    """
    return bin_stats(top, num_bins).mce


@top_metric
def ada_ece(top: Top, num_bins: int = 15) -> float:
    """Adaptive calibration error: ECE over bins of equal counts, cut by the rank of the confidence.

    Counts differ by at most 1 (the first bins are the larger ones), with weights as well if those are whole numbers;
    with any other weights each bin holds the same weight. Samples of equal confidence that lie across a cut give each
    side their mean, so the value does not depend on the order of the samples.

    Args: as for `ece`.

    >>> round(ada_ece([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]], [0, 1, 0], num_bins=2), 4)
    0.1333
    """
    return equal_mass(grouped(top), num_bins).ece


@top_metric
def debiased_ece(top: Top, num_bins: int = 15) -> float:
    """ECE less the part that sampling noise adds to it, not below 0 (Kumar, Liang and Ma, 2019).

    The accuracy of a bin with n samples is taken as normal with variance acc (1 - acc) / n; what that noise adds to the
    absolute gap, on average, is subtracted. With weights n is their effective number, (sum w)^2 / sum w^2 (Kish): a
    row of weight 2 is one observation, not two, so that here, and only here, it is less than the row twice.

    Args: as for `ece`.

    >>> probs, labels = [[0.8, 0.2]] * 10, [0] * 7 + [1] * 3
    >>> round(ece(probs, labels), 3), round(debiased_ece(probs, labels), 3)
    (0.1, 0.058)
    """
    stats = bin_stats(top, num_bins)
    filled = stats.count > 0
    count, gap = stats.count[filled], stats.gap[filled]
    share = stats.correct[filled] / count
    number = count
    if top.weight is not None:
        number = count**2 / np.bincount(bin_index(top.confidence, num_bins), top.weight**2, num_bins)[filled]
    noisy = folded_normal_mean(gap, np.sqrt(share * (1 - share) / number))
    bias = float((count * (noisy - np.abs(gap))).sum() / count.sum())
    return max(0.0, stats.ece - bias)


@class_metric
def cw_ece(samples: Samples, num_bins: int = 15) -> float:
    """Class-wise ECE: the ECE of each class's probability as a forecast of that class, averaged over the classes.

    Args:
        probs: as for `nll`; of a `Prediction` the known classes are the ones averaged over.
        labels: as for `nll`.
        num_bins: number of bins (lo, hi].
        num_classes: how many leading columns are classes; all of them unless told.
        sample_weight: as for `ece`, like `classes` and `groups`.

    >>> round(cw_ece([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.35
    """
    return class_bin_stats(samples, num_bins).ece


@top_metric
def smooth_ece(top: Top) -> float:
    """SmoothECE (Blasiok and Nakkiran, 2023): the calibration error of the top class, smoothed at its own scale.

    Residuals, confidence less correctness, are smoothed over the confidence by a Gaussian reflected at 0 and 1; the
    result is the mean absolute value at the bandwidth sigma that equals it. It needs no number of bins and moves
    continuously with the probabilities. A direct sum over the kernel agrees to 1e-5. The `relplot` package, which
    stops its search for sigma at steps of 0.001, is coarser and may differ by 0.007.

    Args: as for `ece`, without bins.

    >>> round(smooth_ece([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 3)
    0.25
    """
    residual = top.confidence.astype(np.float64)
    residual -= top.correct
    if top.weight is not None:
        residual *= top.weight / top.weight.mean()
    residual = _on_grid(top.confidence, residual) / len(top)
    # Mirrored, the grid is periodic, and smoothing with the reflected kernel is a product with a Gaussian.
    spectrum = np.fft.rfft(np.concatenate([residual, residual[::-1]]))
    # Smoothed all the way, only the mean residual is left; not smoothed at all, every absolute one.
    low, high = abs(float(residual.sum())), float(np.abs(residual).sum())
    sigma, last_sigma, last_off = min(max(low, 0.02), high), 1.0, low - 1
    for _ in range(_STEPS):
        # This falls at a rate of 1 or more as sigma grows, so that it bounds what sigma is off.
        off = _smoothed_error(spectrum, sigma) - sigma if high - low > _TOLERANCE else 0.0
        if abs(off) < _TOLERANCE:
            break
        low, high = (sigma, high) if off > 0 else (low, sigma)
        secant = sigma - off * (sigma - last_sigma) / (off - last_off)
        last_sigma, last_off = sigma, off
        sigma = secant if low < secant < high else (low + high) / 2
    return sigma


def folded_normal_mean(mean: Array, std: Array) -> Array:
    """Mean of |X| for normal X: std sqrt(2 / pi) exp(-z^2) + mean erf(z), with z = mean / (std sqrt(2))."""
    z = np.divide(mean, std * math.sqrt(2), out=np.copysign(np.full(mean.shape, np.inf), mean), where=std > 0)
    erf = np.array([math.erf(value) for value in z])
    return std * math.sqrt(2 / math.pi) * np.exp(-z * z) + mean * erf


def _smoothed_error(spectrum: Array, sigma: float) -> float:
    """Integral of the absolute smoothed residual."""
    # Beyond 9 / (pi sigma) the Gaussian is below 1e-17; eight points for the shortest wave that is left are enough.
    num_waves = min(len(spectrum), 2 + int(9 / (np.pi * sigma)))
    cells = min(_CELLS, 1 << (8 * num_waves).bit_length())
    gaussian = np.exp(-0.5 * (np.pi * sigma * np.arange(num_waves)) ** 2)
    return float(np.abs(np.fft.irfft(spectrum[:num_waves] * gaussian, 2 * cells)).sum() / 2)


def _on_grid(position: Array, weight: Array) -> Array:
    """Weights shared between the two nearest of _CELLS cell centres; beyond the outer centres they stay in one cell."""
    place = position.astype(np.float64)  # every copy of many samples costs as much as a sum: the rest is in place
    place *= _CELLS
    place -= 0.5
    np.maximum(place, 0, out=place)
    np.minimum(place, _CELLS - 1, out=place)
    left = place.astype(np.intp)
    place -= left
    place *= weight  # now what the right one of the two cells gets
    grid = np.bincount(left, weights=weight - place, minlength=_CELLS)
    grid[1:] += np.bincount(left, weights=place, minlength=_CELLS)[:-1]
    return grid
