"""The calibration error less chance, and two predictions of the same rows compared by it.

A measured calibration error is never 0: even a perfectly calibrated model measures some by chance,
the less accurate one more. So raw errors of two models do not compare. `excess` estimates what is
left without chance. In each bin of n rows with residuals r (1 or 0 for right or wrong, minus the
confidence),

    (sum(r)^2 - sum(r^2)) / (n (n - 1))

has the squared gap of the bin as its mean, whatever n is: products of different rows hold no noise
squared. Its mean over the bins, weighted by their rows, is `square`, the squared calibration error
(of the mean square, where the ECE has the mean absolute gap) without bias. It is 0 on average for a
calibrated model, negative in half of all cases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..arrays.entries import open_top
from ..arrays.open import Array
from ..arrays.samples import Prediction, Top
from .binning import bin_index
from .uncertainty import Z

LEVEL = 0.05
# Chance makes squares of up to about this many of its standard deviations; below that, the root
# of the square is replaced by a straight line through 0, which has no bias there.
_NEAR_CHANCE = 2.0


@dataclass(frozen=True, eq=False)
class Excess:
    """The calibration error of some rows less chance.

    Args:
        square: squared calibration error without bias; may be negative.
        chance: standard deviation of `square` for a calibrated model of the same confidences.
        skew: skewness of the same distribution.
        per_row: (N,) parts of `square`, whose mean it is.
    """

    square: float
    chance: float
    skew: float
    per_row: Array

    @property
    def value(self) -> float:
        """Return the error in the unit of the ECE: about its root mean square, less chance."""
        return less_chance(self.square, self.chance)

    @property
    def p(self) -> float:
        """Return the p-value of the hypothesis that the model is calibrated."""
        return chance_p(self.square, self.chance, self.skew)

    @property
    def calibrated(self) -> bool:
        """Return whether the rows do not show that the model is not calibrated."""
        return self.p >= LEVEL

    @property
    def influence(self) -> Array:
        """Return how much each row moves `value`, (N,) with a mean of about 0."""
        return slope(self.square, self.chance) * 2 * (self.per_row - self.square)


@dataclass(frozen=True)
class ExcessDifference:
    """The calibration error less chance of one prediction minus that of another, by their rows.

    Args:
        value: the difference, in the unit of the ECE.
        low: lower end of its 95% interval.
        high: upper end of its 95% interval.
        p: how often rows alone make such a difference.
        verdict: "better", "worse", or "" if that is not shown: the interval holds 0, or the one
            that would be worse passes its own calibration test.
    """

    value: float
    low: float
    high: float
    p: float
    verdict: str


def excess(probs: Top | Prediction, labels: Array | None = None, num_bins: int = 15) -> Excess:
    """Return the calibration error of the predictions less chance; see the module.

    Args:
        probs: a `Top`, or a `Prediction` with labels.
        labels: (N,) class numbers; not for a `Top`.
        num_bins: number of bins of equal width.

    >>> sure = Top(np.full(200, 0.8), np.arange(200) < 130)
    >>> round(excess(sure).value, 2), excess(sure).calibrated
    (0.15, False)
    >>> right = Top(np.full(200, 0.8), np.arange(200) < 158)
    >>> excess(right).value < 0.01, excess(right).calibrated
    (True, True)
    """
    top = open_top(probs, labels)
    confidence = top.confidence.astype(np.float64)
    weight = np.ones(len(top)) if top.weight is None else top.weight
    index = bin_index(top.confidence, num_bins)
    residual = weight * (top.correct - confidence)
    variance = weight**2 * confidence * (1 - confidence)

    def sums(values: Array) -> Array:
        return np.bincount(index, values, num_bins)

    count = sums(weight)
    pairs = count**2 - sums(weight**2)  # products of weights of different rows
    used = pairs > 1e-9 * count**2
    share = np.divide(count / count.sum(), pairs, out=np.zeros(num_bins), where=used)
    per_row = share[index] * residual * (sums(residual)[index] - residual)
    spread = share * sums(variance)  # the bin's part is about this times (chi^2 - 1)
    chance = math.sqrt(max(2 * float((spread**2).sum()), 0.0))
    skew = 8 * float((spread**3).sum()) / chance**3 if chance > 0 else 0.0
    return Excess(float(per_row.sum()), chance, skew, len(top) * per_row)


def compare_excess(
    probs: Excess | Top, reference: Excess | Top, num_bins: int = 15
) -> ExcessDifference:
    """Compare two predictions of the same rows by their calibration errors less chance.

    One is better only if the 95% interval of the difference leaves out 0 and the other fails its
    own calibration test. Noise that both share, as two models on the same images and a model with
    its own scaled self do, drops out of the difference.

    >>> sure = Top(np.full(200, 0.8), np.arange(200) < 130)
    >>> right = Top(np.full(200, 0.65), np.arange(200) < 130)
    >>> compare_excess(right, sure).verdict
    'better'
    """
    ours = probs if isinstance(probs, Excess) else excess(probs, num_bins=num_bins)
    other = reference if isinstance(reference, Excess) else excess(reference, num_bins=num_bins)
    if len(ours.per_row) != len(other.per_row):
        raise ValueError(
            f"got predictions of {len(ours.per_row):,} and of {len(other.per_row):,} rows: pass "
            "two predictions of the same rows"
        )
    value = ours.value - other.value
    error = float((ours.influence - other.influence).std()) / math.sqrt(len(ours.per_row))
    p = math.erfc(abs(value) / error / math.sqrt(2)) if error > 0 else 1.0
    verdict = ""
    if p < LEVEL and not (other if value < 0 else ours).calibrated:
        verdict = "better" if value < 0 else "worse"
    return ExcessDifference(value, value - Z * error, value + Z * error, p, verdict)


def less_chance(square: float, chance: float) -> float:
    """Return an unbiased square in the unit of the ECE: its root, or a line through 0 near chance.

    >>> less_chance(0.0004, 0.00001), less_chance(-0.00001, 0.00005)
    (0.02, -0.001)
    """
    scale = max(square, _NEAR_CHANCE * chance)
    return square / math.sqrt(scale) if scale > 0 else 0.0


def slope(square: float, chance: float) -> float:
    """Return the derivative of `less_chance` by the square."""
    near = _NEAR_CHANCE * chance
    if square > near:
        return 0.5 / math.sqrt(square)
    return 1 / math.sqrt(near) if near > 0 else 0.0


def chance_p(square: float, chance: float, skew: float) -> float:
    """Return how often a calibrated model reaches a square, by a shifted gamma distribution.

    >>> round(chance_p(2.0, 1.0, 0.5), 3), chance_p(0.0, 0.0, 0.0)
    (0.034, 1.0)
    """
    if chance <= 0:
        return 1.0
    z = square / chance
    if skew > 1e-6:
        shape = 4 / skew**2
        ratio = 1 + z / math.sqrt(shape)
        if ratio <= 0:
            return 1.0
        # the cube root of a gamma variable is nearly normal (Wilson and Hilferty, 1931)
        z = (ratio ** (1 / 3) - 1 + 1 / (9 * shape)) * 3 * math.sqrt(shape)
    return 0.5 * math.erfc(z / math.sqrt(2))
