"""Whether methods differ by more than their seeds do.

Every comparison belongs to a family: all that are compared with the same reference in the same metric. Interval and p
of a family of m are both corrected by Bonferroni's rule: the interval is that of 1 - 0.05 / m by the paired t
distribution, and p is m times the raw one. So an interval leaves out 0 exactly where p is below 0.05, and with a
probability of 95 % all intervals of a family hold at once. Holm's rule would find a little more, but has no intervals
that say where the difference lies beyond 0: those that fit it touch 0 wherever they leave it out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .vocabulary import Metric
from .words import counted

LEVEL = 0.05
ROUNDING = 1e-12  # differences that vary by less, relative to the values, are equal
BySeed = Mapping[int, float]


@dataclass(frozen=True)
class Difference:
    """The mean of n paired differences, its interval, the p value of "no difference", and what they say in words."""

    mean: float
    low: float
    high: float
    p: float
    n: int
    words: str = ""

    @property
    def beyond_noise(self) -> bool:
        """Whether seeds alone rarely make such a difference: the interval leaves out 0.

        >>> Difference(0.5, 0.1, 0.9, 0.02, 5).beyond_noise, Difference(0.5, -0.1, 1.1, 0.08, 5).beyond_noise
        (True, False)
        """
        return self.p < LEVEL  # False for NaN


def paired(one: BySeed, other: BySeed, comparisons: int = 1) -> Difference:
    """`one` minus `other` over the seeds that both have, by the paired t distribution; one of so many comparisons.

    A single common seed gives a difference, but no interval and no p. Equal differences have no spread: p is then 1
    if they are 0, and 0 if not.

    >>> paired({1: 5.0, 2: 6.0, 3: 7.0}, {1: 4.0, 2: 4.0, 3: 4.0, 4: 9.0})
    Difference(mean=2.0, low=-0.48..., high=4.48..., p=0.07..., n=3, words='')
    >>> paired({1: 5.0, 2: 6.0, 3: 7.0}, {1: 4.0, 2: 4.0, 3: 4.0}, comparisons=2).p
    0.14...
    >>> paired({1: 5.0}, {1: 4.0})
    Difference(mean=1.0, low=nan, high=nan, p=nan, n=1, words='')
    """
    pairs = _pairs(one, other)
    n = len(pairs)
    differences = pairs[:, 0] - pairs[:, 1]
    mean = float(differences.mean()) if n else math.nan
    if n < 2:
        return Difference(mean, math.nan, math.nan, math.nan, n)
    noise = ROUNDING * float(np.abs(pairs).max())
    if float(np.ptp(differences)) <= noise:
        return Difference(mean, mean, mean, 1.0 if abs(mean) <= noise else 0.0, n)
    from scipy import special  # the t distribution without the weight of scipy.stats

    error = float(differences.std(ddof=1)) / math.sqrt(n)
    reach = -float(special.stdtrit(n - 1, LEVEL / comparisons / 2)) * error
    p = 2 * float(special.stdtr(n - 1, -abs(mean / error)))
    return Difference(mean, mean - reach, mean + reach, min(1.0, comparisons * p), n)


def compared(values: Sequence[BySeed], reference: int, spec: Metric) -> list[Difference]:
    """The family of all against one of them: each minus the reference, with simultaneous intervals and words.

    Values are as printed, in percent where the metric is. Those that a reference or another equals for every seed, as
    accuracies before and after temperature scaling, are no comparison of their own, and not counted as one.

    >>> from .vocabulary import METRICS
    >>> values = {1: 5.0, 2: 5.1, 3: 5.2}, {1: 2.0, 2: 2.2, 3: 2.1}, {1: 5.1, 2: 5.0, 3: 5.3}
    >>> [one.words for one in compared(values, 0, METRICS["ece"])]
    ['reference', 'better', 'within seed noise']
    """
    pairs = [_pairs(own, values[reference]) for own in values]
    tests = {tuple(own[:, 0] - own[:, 1]) for own in pairs if len(own) > 1 and (own[:, 0] != own[:, 1]).any()}
    found: list[Difference] = []
    for place, own in enumerate(values):
        made = paired(own, values[reference], max(1, len(tests)))
        words = "reference" if place == reference else _verdict(made, pairs[place], spec)
        found.append(Difference(made.mean, made.low, made.high, made.p, made.n, words))
    return found


def leaders(values: Sequence[BySeed], spec: Metric) -> list[bool]:
    """Which of some cannot be told from the one with the best mean: not worse, or printed alike.

    Where none has a second seed, only what is printed alike; else what has no two seeds in common with the best
    cannot be told from it either.

    >>> from .vocabulary import METRICS
    >>> leaders([{1: 2.0, 2: 2.1, 3: 2.2}, {1: 2.1, 2: 2.0, 3: 2.3}, {1: 5.0, 2: 5.1, 3: 5.2}], METRICS["ece"])
    [True, True, False]
    >>> leaders([{1: 2.0}, {1: 2.001}, {1: 2.1}, {}], METRICS["ece"])
    [True, True, False, False]
    >>> leaders([{1: 2.0}, {1: 5.0, 2: 5.1, 3: 5.2}], METRICS["ece"])
    [True, True]
    """
    means = [mean_std(np.array([*own.values()]))[0] for own in values]
    known = [place for place, mean in enumerate(means) if math.isfinite(mean)]
    if not known:
        return [False] * len(values)
    best = min(known, key=lambda place: -means[place] if spec.larger_is_better else means[place])
    family = dict(zip(known, compared([values[place] for place in known], known.index(best), spec), strict=True))
    alike = [format(mean, spec.form) == format(means[best], spec.form) for mean in means]
    several = any(len(own) > 1 for own in values)
    untold = {place for place, one in family.items() if (one.words != "worse" if one.n > 1 else several)}
    return [alike[place] or place in untold for place in range(len(values))]


def mean_interval(values: NDArray[Any]) -> tuple[float, float, float, int]:
    """The mean of values of different seeds, its own 95 % interval by the t distribution, and how many there are.

    >>> mean_interval(np.array([1.0, 2.0, 3.0, np.nan]))
    (2.0, -0.48..., 4.48..., 3)
    """
    own = paired(dict(enumerate(values.tolist())), dict.fromkeys(range(len(values)), 0.0))
    return own.mean, own.low, own.high, own.n


def mean_std(values: NDArray[Any]) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1), NaN left out; the deviation of one value is NaN.

    >>> mean_std(np.array([1.0, 3.0, np.nan]))
    (2.0, 1.4142135623730951)
    """
    known = values[np.isfinite(values)]
    mean = float(known.mean()) if len(known) else math.nan
    return mean, float(known.std(ddof=1)) if len(known) > 1 else math.nan


def cannot_tell(n: int) -> str:
    """What is said where no difference of a plausible size could pass.

    >>> cannot_tell(1), cannot_tell(2)
    ('1 seed cannot tell', '2 seeds cannot tell')
    """
    return f"{counted(n, 'seed')} cannot tell"


def _verdict(made: Difference, pairs: NDArray[Any], spec: Metric) -> str:
    """A difference in words; seeds cannot tell where even a perfect model would have been within their noise."""
    if made.n == 0:
        return "no common seed"
    if made.beyond_noise:
        return "better" if (made.mean > 0) == spec.larger_is_better else "worse"
    largest = float(np.abs(pairs.mean(axis=0) - spec.perfect).max())  # from the worse of both to perfect
    reach = (made.high - made.low) / 2
    return "within seed noise" if reach <= largest else cannot_tell(made.n)


def _pairs(one: BySeed, other: BySeed) -> NDArray[Any]:
    """The finite values of the seeds that both have, (n, 2)."""
    pairs = np.array([(one[seed], other[seed]) for seed in sorted(one.keys() & other.keys())]).reshape(-1, 2)
    return pairs[np.isfinite(pairs).all(axis=1)]
