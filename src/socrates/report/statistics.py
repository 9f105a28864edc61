"""Whether methods differ by more than their seeds do.

Every comparison belongs to a family: all that are compared with the same reference in the same
metric. Interval and p of a family of m are both corrected by Bonferroni's rule: the interval is
that of 1 - 0.05 / m by the paired t distribution, and p is m times the raw one. So an interval
leaves out 0 exactly where p is below 0.05, and with a probability of 95% all intervals of a family
hold at once. Holm's rule would find a little more, but has no intervals that say where the
difference lies beyond 0: those that fit it touch 0 wherever they leave it out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .vocabulary import Metric
from .words import counted

LEVEL = 0.05
ROUNDING = 1e-12  # differences that vary by less, relative to the values, are equal
BySeed = Mapping[int, float]


@dataclass(frozen=True)
class PairedDifference:
    """The mean of n paired differences, with its interval, its p value and a verdict in words."""

    mean: float
    low: float
    high: float
    p: float
    n: int
    words: str = ""

    @property
    def beyond_noise(self) -> bool:
        """Return whether seeds alone rarely make such a difference: the interval leaves out 0.

        >>> PairedDifference(0.5, 0.1, 0.9, 0.02, 5).beyond_noise
        True
        >>> PairedDifference(0.5, -0.1, 1.1, 0.08, 5).beyond_noise
        False
        """
        return self.p < LEVEL  # False for NaN


def paired(values: BySeed, reference: BySeed, comparisons: int = 1) -> PairedDifference:
    """Return values minus reference over their common seeds, by the paired t distribution.

    Interval and p are corrected for this many `comparisons`. A single common seed has a
    difference, but no interval and no p. Differences that are all equal have no spread: p is then
    1 if they are 0, and 0 if not.

    >>> paired({1: 5.0, 2: 6.0, 3: 7.0}, {1: 4.0, 2: 4.0, 3: 4.0, 4: 9.0})
    PairedDifference(mean=2.0, low=-0.48..., high=4.48..., p=0.07..., n=3, words='')
    >>> paired({1: 5.0, 2: 6.0, 3: 7.0}, {1: 4.0, 2: 4.0, 3: 4.0}, comparisons=2).p
    0.14...
    >>> paired({1: 5.0}, {1: 4.0})
    PairedDifference(mean=1.0, low=nan, high=nan, p=nan, n=1, words='')
    """
    pairs = _pairs(values, reference)
    n = len(pairs)
    differences = pairs[:, 0] - pairs[:, 1]
    mean = float(differences.mean()) if n else math.nan
    if n < 2:
        return PairedDifference(mean, math.nan, math.nan, math.nan, n)
    noise = ROUNDING * float(np.abs(pairs).max())
    if float(np.ptp(differences)) <= noise:
        p = 1.0 if abs(mean) <= noise else 0.0
        return PairedDifference(mean, mean, mean, p, n)
    from scipy import special  # the t distribution without the weight of scipy.stats

    error = float(differences.std(ddof=1)) / math.sqrt(n)
    reach = -float(special.stdtrit(n - 1, LEVEL / comparisons / 2)) * error
    p = 2 * float(special.stdtr(n - 1, -abs(mean / error)))
    return PairedDifference(mean, mean - reach, mean + reach, min(1.0, comparisons * p), n)


def compared(values: Sequence[BySeed], reference: int, spec: Metric) -> list[PairedDifference]:
    """Return the family of all minus the one at `reference`, with simultaneous intervals and words.

    Values are as printed, in percent where the metric is. Values that equal those of the reference
    or of another for every seed, as accuracies before and after temperature scaling do, are not
    counted as a further comparison.

    >>> from .vocabulary import METRICS
    >>> values = {1: 5.0, 2: 5.1, 3: 5.2}, {1: 2.0, 2: 2.2, 3: 2.1}, {1: 5.1, 2: 5.0, 3: 5.3}
    >>> [difference.words for difference in compared(values, 0, METRICS["ece"])]
    ['reference', 'better', 'within seed noise']
    """
    pairs = [_pairs(by_seed, values[reference]) for by_seed in values]
    comparisons = max(1, len({test for test in map(_paired_test, pairs) if test}))
    family: list[PairedDifference] = []
    for place, by_seed in enumerate(values):
        difference = paired(by_seed, values[reference], comparisons)
        words = "reference" if place == reference else _verdict(difference, pairs[place], spec)
        family.append(replace(difference, words=words))
    return family


def leaders(values: Sequence[BySeed], spec: Metric) -> list[bool]:
    """Return which are not shown to be worse than the best mean, or are printed like it.

    Where none has a second seed, only those that are printed like the best lead. Otherwise those
    without two seeds in common with the best lead as well: nothing shows them to be worse.

    >>> from .vocabulary import METRICS
    >>> near, other = {1: 2.0, 2: 2.1, 3: 2.2}, {1: 2.1, 2: 2.0, 3: 2.3}
    >>> leaders([near, other, {1: 5.0, 2: 5.1, 3: 5.2}], METRICS["ece"])
    [True, True, False]
    >>> leaders([{1: 2.0}, {1: 2.001}, {1: 2.1}, {}], METRICS["ece"])
    [True, True, False, False]
    >>> leaders([{1: 2.0}, {1: 5.0, 2: 5.1, 3: 5.2}], METRICS["ece"])
    [True, True]
    """
    means = [mean_std(np.array([*by_seed.values()]))[0] for by_seed in values]
    known = [place for place, mean in enumerate(means) if math.isfinite(mean)]
    leads = [False] * len(values)
    if not known:
        return leads
    best = min(known, key=lambda place: -means[place] if spec.larger_is_better else means[place])
    family = compared([values[place] for place in known], known.index(best), spec)
    several = any(len(by_seed) > 1 for by_seed in values)
    for place, difference in zip(known, family, strict=True):
        printed_alike = format(means[place], spec.form) == format(means[best], spec.form)
        not_worse = difference.words != "worse" if difference.n > 1 else several
        leads[place] = printed_alike or not_worse
    return leads


def mean_interval(values: NDArray[Any]) -> tuple[float, float, float, int]:
    """Return the mean over seeds, its 95% interval by the t distribution, and the number of seeds.

    >>> mean_interval(np.array([1.0, 2.0, 3.0, np.nan]))
    (2.0, -0.48..., 4.48..., 3)
    """
    zeros = dict.fromkeys(range(len(values)), 0.0)
    estimate = paired(dict(enumerate(values.tolist())), zeros)
    return estimate.mean, estimate.low, estimate.high, estimate.n


def mean_std(values: NDArray[Any]) -> tuple[float, float]:
    """Return mean and sample standard deviation (n - 1) without NaN; that of one value is NaN.

    >>> mean_std(np.array([1.0, 3.0, np.nan]))
    (2.0, 1.4142135623730951)
    """
    known = values[np.isfinite(values)]
    mean = float(known.mean()) if len(known) else math.nan
    std = float(known.std(ddof=1)) if len(known) > 1 else math.nan
    return mean, std


def cannot_tell(n: int) -> str:
    """Return the verdict where no difference of a plausible size could pass.

    >>> cannot_tell(1), cannot_tell(2)
    ('1 seed cannot tell', '2 seeds cannot tell')
    """
    return f"{counted(n, 'seed')} cannot tell"


def _paired_test(pairs: NDArray[Any]) -> tuple[float, ...]:
    """Return the differences that a test is about, or nothing where there is nothing to test."""
    differences = pairs[:, 0] - pairs[:, 1]
    return tuple(differences) if len(pairs) > 1 and differences.any() else ()


def _verdict(difference: PairedDifference, pairs: NDArray[Any], spec: Metric) -> str:
    """Return a difference in words.

    Seeds cannot tell where even a perfect model would have been within their noise.
    """
    if difference.n == 0:
        return "no common seed"
    if difference.beyond_noise:
        return "better" if (difference.mean > 0) == spec.larger_is_better else "worse"
    worse_to_perfect = float(np.abs(pairs.mean(axis=0) - spec.perfect).max())
    reach = (difference.high - difference.low) / 2
    return "within seed noise" if reach <= worse_to_perfect else cannot_tell(difference.n)


def _pairs(values: BySeed, reference: BySeed) -> NDArray[Any]:
    """Return the finite values of the common seeds, (n, 2)."""
    seeds = sorted(values.keys() & reference.keys())
    pairs = np.array([(values[seed], reference[seed]) for seed in seeds]).reshape(-1, 2)
    return pairs[np.isfinite(pairs).all(axis=1)]
