"""The calibration error less chance, and two predictions of the same rows compared by it.

A measured calibration error is never 0: even a perfectly calibrated model measures some by chance,
the less accurate one more. So raw errors of two models do not compare. `excess` estimates what is
left without chance.
A bin counts with its gap between confidence and accuracy, as in the ECE, if that is larger than
chance usually makes it. A smaller gap g counts as a parabola in g, which is so low at 0 that the
mean over all gaps that chance makes is 0. So the calibration error less chance is 0 on average for
a calibrated model, negative in about half of all cases, and equals the ECE for a model whose gaps
are far larger than chance.

The test of calibration is another statistic, which is 0 on average, too: the sum over the bins of

    (n / N)^2 (sum(r)^2 - sum(r^2)) / (n (n - 1))

for bins of n of the N rows, with residuals r (1 or 0 for right or wrong, minus the confidence).
Products of different rows hold no noise squared, and bins of few rows, which are mostly noise,
count little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays.entries import open_top
from ..arrays.open import Array
from ..arrays.samples import Prediction, Top
from .binning import bin_index
from .uncertainty import Z

LEVEL = 0.05
# In standard deviations of what chance makes of a gap: gaps beyond the first count in full, others
# as the parabola with this curvature, whose mean over a normal distribution is then 0.
_NEAR_CHANCE = 1.6
_CURVATURE = 0.9514
# Rows that are taken out one by one show the noise of gaps near chance twice.
_TWICE = math.sqrt(0.5)


@dataclass(frozen=True, eq=False)
class Excess:
    """The calibration error of some rows less chance.

    Args:
        value: the error, in the unit of the ECE; may be negative.
        influence: (N,) how much each row moves `value`; its variance over N is that of `value`.
        square: sum of the squared gaps of the bins, the statistic of the calibration test.
        chance: standard deviation of `square` for a calibrated model of the same confidences.
        skew: skewness of the same distribution.
        residual: (N,) 1 or 0 for right or wrong, minus the confidence.

    >>> found = excess(Top(np.full(200, 0.8), np.arange(200) < 130))
    >>> round(found.value, 2), found.p < 0.001, found.calibrated
    (0.15, True, False)
    """

    value: float
    influence: Array
    square: float
    chance: float
    skew: float
    residual: Array

    @property
    def p(self) -> float:
        """Return the p-value of the hypothesis that the model is calibrated."""
        return chance_p(self.square, self.chance, self.skew)

    @property
    def calibrated(self) -> bool:
        """Return whether the rows do not show that the model is not calibrated."""
        return self.p >= LEVEL


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

    >>> ExcessDifference(0.02, 0.01, 0.03, 0.001, "worse").verdict
    'worse'
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
    residual = top.correct - confidence
    weighted = weight * residual

    def sums(values: Array) -> Array:
        return np.bincount(index, values, num_bins)

    count = sums(weight)
    share = count / count.sum()
    filled = count.clip(1e-300)
    mean_residual = sums(weighted) / filled
    variance = sums(weight**2 * confidence * (1 - confidence))
    gap, slope = less_chance(mean_residual, np.sqrt(variance) / filled)
    value = float((share * gap).sum())
    moved = slope[index] * (residual - mean_residual[index]) + gap[index] - value
    pairs = count**2 - sums(weight**2)  # products of the weights of different rows
    pairs[pairs <= 1e-9 * count**2] = np.inf  # a single row says nothing
    square = (sums(weighted) ** 2 - sums(weighted**2)) / pairs
    spread = share**2 * variance / pairs  # by chance, the bin's part is this times (chi^2 - 1)
    chance = math.sqrt(2 * float((spread**2).sum()))
    skew = 8 * float((spread**3).sum()) / chance**3 if chance > 0 else 0.0
    influence = weight / weight.mean() * moved
    return Excess(value, influence, float((share**2 * square).sum()), chance, skew, residual)


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
    if len(ours.residual) != len(other.residual):
        raise ValueError(
            f"got predictions of {len(ours.residual):,} and of {len(other.residual):,} rows: pass "
            "two predictions of the same rows"
        )
    value = ours.value - other.value
    error = float((ours.influence - other.influence).std()) / math.sqrt(len(ours.residual))
    p = math.erfc(abs(value) / error / math.sqrt(2)) if error > 0 else 1.0
    verdict = ""
    if p < LEVEL and not (other if value < 0 else ours).calibrated:
        verdict = "better" if value < 0 else "worse"
    return ExcessDifference(value, value - Z * error, value + Z * error, p, verdict)


def less_chance(gap: Array, spread: Array) -> tuple[Array, Array]:
    """Return what signed gaps count for, and how much they move it; see the module.

    `spread` is the standard deviation that chance alone gives each gap.

    >>> less_chance(np.array([-0.2, 0.0]), np.array([0.02, 0.02]))[0].round(4)
    array([ 0.2   , -0.0167])
    """
    size = np.minimum(np.abs(gap) / spread.clip(1e-12), 1e6)
    near = size < _NEAR_CHANCE
    parabola = _NEAR_CHANCE + _CURVATURE * (size**2 - _NEAR_CHANCE**2)
    counted = np.where(near, spread * parabola, np.abs(gap))
    slope = np.where(near, _TWICE * 2 * _CURVATURE * size, 1.0)
    return counted, np.sign(gap) * slope


def several_p(runs: Sequence[Excess]) -> float:
    """Return the p-value of the hypothesis that all runs are calibrated, on the same rows.

    The mean of their squares varies the less, the less the residuals of the runs are alike.
    """
    count = len(runs)
    residuals = [run.residual for run in runs]
    alike = 1.0
    if count > 1 and len({len(residual) for residual in residuals}) == 1:
        own = sum(float((residual**2).sum()) for residual in residuals)
        both = float((np.sum(residuals, axis=0) ** 2).sum())
        alike = min(max((both - own) / max((count - 1) * own, 1e-300), 0.0), 1.0)
    mean, chance, skew = (
        sum(getattr(run, name) for run in runs) / count for name in ("square", "chance", "skew")
    )
    return chance_p(mean, chance * math.sqrt((1 + (count - 1) * alike**2) / count), skew)


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
