"""Whether two methods differ by more than their seeds do."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.05
ROUNDING = 1e-12  # differences that vary by less, relative to the values, are equal


@dataclass(frozen=True)
class Difference:
    """The mean of n paired differences, its 95 % interval and the two-sided p value of "no difference"."""

    mean: float
    low: float
    high: float
    p: float
    n: int

    @property
    def beyond_noise(self) -> bool:
        """Whether seeds alone rarely make such a difference: the interval leaves out 0.

        >>> Difference(0.5, 0.1, 0.9, 0.02, 5).beyond_noise, Difference(0.5, -0.1, 1.1, 0.08, 5).beyond_noise
        (True, False)
        """
        return self.p < LEVEL  # False for NaN


def paired(one: Mapping[int, float], other: Mapping[int, float]) -> Difference:
    """`one` minus `other` over the seeds that both have, by the paired t distribution.

    A single common seed gives a difference, but no interval and no p. Equal differences have no spread: p is then 1
    if they are 0, and 0 if not.

    >>> paired({1: 5.0, 2: 6.0, 3: 7.0}, {1: 4.0, 2: 4.0, 3: 4.0, 4: 9.0})
    Difference(mean=2.0, low=-0.48..., high=4.48..., p=0.07..., n=3)
    >>> paired({1: 5.0}, {1: 4.0})
    Difference(mean=1.0, low=nan, high=nan, p=nan, n=1)
    """
    pairs = np.array([(one[seed], other[seed]) for seed in sorted(one.keys() & other.keys())]).reshape(-1, 2)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
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
    reach = float(special.stdtrit(n - 1, 1 - LEVEL / 2)) * error
    p = 2 * float(special.stdtr(n - 1, -abs(mean / error)))
    return Difference(mean, mean - reach, mean + reach, p, n)


def holm(ps: Sequence[float]) -> list[float]:
    """p values of a family of comparisons, corrected by Holm's step-down rule; NaN stays and does not count.

    The smallest of m is multiplied by m, the next by m - 1, and so on; none falls below the one before it.

    >>> holm([0.01, 0.04, float("nan"), 0.03])
    [0.03, 0.06, nan, 0.06]
    """
    corrected = np.array(ps, dtype=float)
    order = np.argsort(corrected)[: np.isfinite(corrected).sum()]  # NaN comes last
    corrected[order] = np.maximum.accumulate(np.minimum(corrected[order] * np.arange(len(order), 0, -1), 1.0))
    return corrected.tolist()


def verdict(mean: float, p: float, larger_is_better: bool) -> str:
    """A difference in words.

    >>> verdict(-1.5, 0.004, larger_is_better=False), verdict(-1.5, 0.2, larger_is_better=False)
    ('better', 'within seed noise')
    """
    if math.isnan(p):
        return "no common seed" if math.isnan(mean) else "too few seeds"
    return ("better" if (mean > 0) == larger_is_better else "worse") if p < LEVEL else "within seed noise"


def mean_std(values: NDArray[Any]) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1), NaN left out; the deviation of one value is NaN.

    >>> mean_std(np.array([1.0, 3.0, np.nan]))
    (2.0, 1.4142135623730951)
    """
    known = values[np.isfinite(values)]
    mean = float(known.mean()) if len(known) else math.nan
    return mean, float(known.std(ddof=1)) if len(known) > 1 else math.nan
