"""Means over seeds and their intervals."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TAIL = 0.025  # on each side of a 95% interval
# A spread below this share of the values is rounding.
ROUNDING = 1e-9


def mean_interval(values: Array) -> tuple[float, float, float, int]:
    """Return the mean over seeds, its 95% interval by the t distribution, and the number of seeds.

    Equal values have no interval: they show no spread, which is not the same as none.

    >>> mean_interval(np.array([1.0, 2.0, 3.0, np.nan]))
    (2.0, -0.48..., 4.48..., 3)
    """
    known = values[np.isfinite(values)]
    n = len(known)
    mean, std = mean_std(known)
    if n < 2 or not std > ROUNDING * abs(mean):
        return mean, math.nan, math.nan, n
    from scipy import special  # the t distribution without the weight of scipy.stats

    reach = -float(special.stdtrit(n - 1, TAIL)) * std / math.sqrt(n)
    return mean, mean - reach, mean + reach, n


def share_interval(values: Array) -> tuple[float, float, float]:
    """Return mean and 95% interval of percentages over seeds, which stays between 0 and 100.

    The interval is symmetric on the scale of log-odds.

    >>> share_interval(np.array([99.0, 100.0, 99.5, 100.0]))
    (99.625, 97.1..., 99.9...)
    """
    mean, low, _, _ = mean_interval(values)
    if math.isnan(low) or not 0 < mean < 100:
        return mean, math.nan, math.nan
    odds = math.log(mean / (100 - mean))
    reach = min((mean - low) * 100 / (mean * (100 - mean)), 700.0)
    low, high = (100 / (1 + math.exp(min(-odds - sign * reach, 700.0))) for sign in (-1, 1))
    return mean, low, high


def mean_std(values: Array) -> tuple[float, float]:
    """Return mean and sample standard deviation (n - 1) without NaN; that of one value is NaN.

    >>> mean_std(np.array([1.0, 3.0, np.nan]))
    (2.0, 1.4142135623730951)
    """
    known = values[np.isfinite(values)]
    mean = float(known.mean()) if len(known) else math.nan
    std = float(known.std(ddof=1)) if len(known) > 1 else math.nan
    return mean, std
