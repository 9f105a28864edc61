"""Whether methods differ by more than seeds and test rows make them differ.

docs/statistics.md has the rules in words, and how often they are wrong in simulated studies. In
short: the noise of the seeds is pooled over all methods, the noise of the test images, which all
seeds share, is added from the rows, and the difference of any two must be larger than the largest
difference of as many equal methods usually is (Tukey's range). One is called worse calibrated only
if, besides, it fails its own calibration test.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .intervals import ROUNDING, mean_interval, mean_std, share_interval
from .quantiles import dunnett_p, dunnett_reach, range_p, range_reach
from .vocabulary import Metric
from .words import counted

__all__ = [
    "Evidence", "Family", "PairedDifference", "compared", "mean_interval", "mean_std",
    "share_interval",
]  # fmt: skip
LEVEL = 0.05
FEWEST_SEEDS = 3  # with fewer, nothing is called the best
POWER_REACH = 0.84  # standard errors beyond the limit that make a power of 80%
MOST_SEEDS = 20  # more additional seeds are not practical
PRIOR_SEEDS = 3  # how many seeds the variance pooled over the methods counts like
# What is left of chance in calibration errors of unequal floors is allowed for by wider intervals.
WIDER = 1.05
BySeed = Mapping[int, float]
Array = NDArray[Any]
Standing = Literal["best", "with the best", "worse", "unranked"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of one method in one metric.

    `printed` are the values of the seeds as tables print them, `values` those that are compared:
    the same, or the calibration error less chance. `influence` says how much each test row moves
    the value of a seed; where that is unknown, `row_error` is the standard error that test rows
    cause in all seeds alike. `p` is that of the method's own calibration test, NaN for metrics
    that chance does not raise.
    """

    printed: BySeed
    values: BySeed
    influence: Mapping[int, Array] = field(default_factory=dict)
    row_error: float = 0.0
    p: float = math.nan

    @property
    def mean(self) -> float:
        """Return the mean that tables print."""
        return mean_std(np.array([*self.printed.values()]))[0]


@dataclass(frozen=True)
class PairedDifference:
    """A difference over n common seeds, with its interval, its p value and a verdict in words."""

    mean: float
    low: float
    high: float
    p: float
    n: int
    words: str = ""

    @property
    def beyond_noise(self) -> bool:
        """Return whether seeds and rows rarely make such a difference: the interval leaves out 0.

        >>> PairedDifference(0.5, 0.1, 0.9, 0.02, 5).beyond_noise
        True
        >>> PairedDifference(0.5, -0.1, 1.1, 0.08, 5).beyond_noise
        False
        """
        return self.p < LEVEL  # False for NaN


class Family:
    """All methods in one metric, each compared with each.

    >>> from .vocabulary import METRICS
    >>> values = {1: 5.0, 2: 5.1, 3: 5.2}, {1: 2.0, 2: 2.2, 3: 2.1}, {1: 5.1, 2: 5.0, 3: 5.3}
    >>> family = Family([Evidence(own, own) for own in values], METRICS["nll"])
    >>> family.standings()
    ['worse', 'best', 'worse']
    >>> [difference.words for difference in family.against(0)]
    ['reference', 'better', 'not shown by 3 seeds']
    """

    def __init__(self, members: Sequence[Evidence], spec: Metric) -> None:
        self.members = members
        self.spec = spec
        self.seeds = sorted({seed for member in members for seed in member.values})
        table = [[member.values.get(seed, math.nan) for seed in self.seeds] for member in members]
        self.values: Array = np.array(table, dtype=float).reshape(len(members), len(self.seeds))
        self.known = np.isfinite(self.values)
        self.num_common: Array = self.known.astype(int) @ self.known.T.astype(int)

    @cached_property
    def means(self) -> Array:
        """Return the mean of each member as it is printed; NaN where there is none."""
        return np.array([member.mean for member in self.members])

    @cached_property
    def distinct(self) -> list[int]:
        """Return the first of all members with the same values."""
        first: dict[bytes, int] = {}
        for place, row in enumerate(self.values):
            if self.known[place].any():
                first.setdefault(row.tobytes(), place)
        return [*first.values()]

    @cached_property
    def seed_noise(self) -> tuple[Array, float]:
        """Return the variance of one seed of each member, and its degrees of freedom.

        It is that of the residuals of a two-way table of methods and seeds, pooled over the
        methods. A method that varies more than the others has a variance nearer to its own.
        """
        places = [place for place in self.distinct if self.known[place].sum() > 1]
        variances = np.full(len(self.members), math.nan)
        if not places:
            return variances, 0.0
        residual = two_way_residuals(self.values[places])
        cells = int(np.isfinite(residual).sum())
        seeds = int(np.isfinite(residual).any(axis=0).sum())
        df = float(cells - len(places) - seeds + 1 if len(places) > 1 else cells - 1)
        if df <= 0:
            return variances, 0.0
        squares = np.nansum(residual**2, axis=1)
        pooled = float(squares.sum()) / df
        variances[:] = pooled
        for place, square in zip(places, squares, strict=True):
            own_df = df / len(places)
            own = PRIOR_SEEDS * pooled + square
            variances[place] = max(pooled, own / (PRIOR_SEEDS + own_df))
        for place, row in enumerate(self.values):
            same = [one for one in places if row.tobytes() == self.values[one].tobytes()]
            variances[place] = variances[same[0]] if same else pooled
        return variances, df

    @cached_property
    def row_noise(self) -> tuple[Array, Array]:
        """Return two variances that test rows cause in each difference, (M, M) each.

        The first is shared by all seeds, as they have the same rows: it is the covariance of
        different seeds. The second is that of each seed for itself, so seeds never vary by less.
        """
        influences = [
            [member.influence.get(seed) for seed in self.seeds] for member in self.members
        ]
        shared, single = row_covariances(influences)
        known = np.isfinite(np.diag(shared))
        both = known[:, None] & known[None, :]
        shared = np.where(both, shared, 0.0)
        single = np.where(both, single, 0.0)
        errors = np.array([member.row_error**2 for member in self.members])
        np.fill_diagonal(shared, np.where(known, np.diag(shared), errors))
        np.fill_diagonal(single, np.where(known, np.diag(single), errors))
        of_all = _of_differences(shared)
        return np.maximum(of_all, 0.0), np.maximum(_of_differences(single) - of_all, 0.0)

    def difference(self, one: int, other: int) -> tuple[float, float, float]:
        """Return the difference of two members, its standard error and its degrees of freedom."""
        common = self.known[one] & self.known[other]
        n = int(common.sum())
        if n == 0:
            return math.nan, math.nan, 0.0
        mean = float((self.values[one] - self.values[other])[common].mean())
        if n < 2:
            return mean, math.nan, 0.0
        return mean, *self.error(one, other, n)

    def error(self, one: int, other: int, n: int) -> tuple[float, float]:
        """Return the standard error and degrees of freedom of a difference over n seeds."""
        variances, df = self.seed_noise
        shared, single = self.row_noise
        seeds = max(variances[one] + variances[other], float(single[one, other])) / n
        rows = float(shared[one, other])
        scale = float(np.nanmax(np.abs(self.values), initial=0.0))
        if not seeds + rows > (ROUNDING * scale) ** 2:
            return math.nan, 0.0
        # Satterthwaite: the noise of the rows counts as known
        total_df = df if seeds <= 0 else df * ((seeds + rows) / seeds) ** 2
        wider = WIDER if self.spec.has_floor else 1.0
        return wider * math.sqrt(seeds + rows), max(1.0, math.floor(min(total_df, 400.0)))

    @cached_property
    def may_be_worse(self) -> list[bool]:
        """Return which members may be called worse: by Holm's rule all that are not calibrated.

        Metrics that chance does not raise have no such condition.
        """
        if not self.spec.has_floor:
            return [True] * len(self.members)
        p_values = [member.p for member in self.members]
        tested = sorted((p, place) for place, p in enumerate(p_values) if math.isfinite(p))
        fails = [math.isnan(p) for p in p_values]
        for rank, (p, place) in enumerate(tested):
            if p * (len(tested) - rank) >= LEVEL:
                break
            fails[place] = True
        return fails

    def surely_worse(self, one: int, other: int) -> bool:
        """Return whether the first is worse than the other beyond the noise of the family."""
        mean, error, df = self.difference(one, other)
        sign = -1 if self.spec.larger_is_better else 1
        printed = self.means[one] - self.means[other]
        if not (sign * mean > 0 and sign * printed > 0 and self.may_be_worse[one]):
            return False
        if math.isnan(error):
            return False
        return sign * mean > error * range_reach(max(2, len(self.distinct)), df)

    @cached_property
    def best(self) -> int | None:
        """Return the place of the best mean as printed; None if no member has a mean."""
        known = [place for place, mean in enumerate(self.means) if math.isfinite(mean)]
        sign = -1 if self.spec.larger_is_better else 1
        return min(known, key=lambda place: sign * self.means[place], default=None)

    def standings(self) -> list[Standing]:
        """Return where each member stands; nothing stands anywhere if no two seeds are common."""
        places = range(len(self.members))
        standings: list[Standing] = ["unranked"] * len(self.members)
        ranked = [place for place in places if self.known[place].sum() > 1]
        if self.best is None or len(ranked) < 2:
            return standings
        for place in ranked:
            worse = any(self.surely_worse(place, other) for other in ranked if other != place)
            standings[place] = "worse" if worse else "with the best"
        best = self.best
        others = [place for place in ranked if place != best]
        if best in ranked and all(self.surely_worse(place, best) for place in others):
            standings[best] = "best"
        return standings

    def against(self, reference: int, fixed: bool = False) -> list[PairedDifference]:
        """Return every member minus one, with intervals that hold at once, and a verdict.

        A reference that was `fixed` beforehand has Dunnett's intervals, one that the same numbers
        chose has Tukey's.
        """
        return [self._against(place, reference, fixed) for place in range(len(self.members))]

    def _against(self, place: int, reference: int, fixed: bool) -> PairedDifference:
        mean, error, df = self.difference(place, reference)
        n = int(self.num_common[place, reference])
        if place == reference:
            return PairedDifference(0.0, math.nan, math.nan, math.nan, n, "reference")
        if n == 0:
            return PairedDifference(mean, math.nan, math.nan, math.nan, n, "no common seed")
        if math.isnan(error):
            return PairedDifference(mean, math.nan, math.nan, math.nan, n, cannot_tell(n))
        num = max(2, len(self.distinct))
        reach = dunnett_reach(num - 1, df) if fixed else range_reach(num, df)
        p = dunnett_p(mean / error, num - 1, df) if fixed else range_p(mean / error, num, df)
        low = mean - reach * error
        high = mean + reach * error
        worse, better = (place, reference) if self._is_worse(mean) else (reference, place)
        agree = self._is_worse(self.means[worse] - self.means[better])
        words = not_shown(n)
        if abs(mean) > reach * error and agree and self.may_be_worse[worse]:
            words = "worse" if worse == place else "better"
        return PairedDifference(mean, low, high, p, n, words)

    def _is_worse(self, difference: float) -> bool:
        return difference < 0 if self.spec.larger_is_better else difference > 0

    def more_seeds(self, one: int, other: int) -> int | None:
        """Return about how many more seeds would show a difference of this size; None if too many.

        They would show it in 4 of 5 studies. No number of seeds shows it if the test rows are too
        few.
        """
        mean, _, _ = self.difference(one, other)
        n = int(self.num_common[one, other])
        _, df = self.seed_noise
        for more in range(1, MOST_SEEDS + 1):
            error, _ = self.error(one, other, n + more)
            grown = max(1.0, math.floor(df * (n + more - 1) / max(1, n - 1)))
            reach = range_reach(max(2, len(self.distinct)), min(grown, 400.0))
            if abs(mean) >= (reach + POWER_REACH) * error:
                return more
        return None


def compared(values: Sequence[BySeed], reference: int, spec: Metric) -> list[PairedDifference]:
    """Return all minus the one at `reference` by their seeds alone, without the noise of rows.

    >>> from .vocabulary import METRICS
    >>> values = {1: 5.0, 2: 5.1, 3: 5.2}, {1: 2.0, 2: 2.2, 3: 2.1}
    >>> [difference.words for difference in compared(values, 0, METRICS["nll"])]
    ['reference', 'better']
    """
    return Family([Evidence(own, own) for own in values], spec).against(reference)


def two_way_residuals(values: Array, rounds: int = 30) -> Array:
    """Return what method and seed leave of a table with one row per method, (M, S).

    NaN stays NaN. One method has its deviations from its mean.

    >>> two_way_residuals(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[0., 0.],
           [0., 0.]])
    """
    residual = values - np.nanmean(values, axis=1, keepdims=True)
    if len(values) < 2:
        return residual
    used = np.isfinite(values).any(axis=0)
    complete = np.isfinite(values[:, used]).all()
    for _ in range(1 if complete else rounds):
        residual[:, used] -= np.nanmean(residual[:, used], axis=0, keepdims=True)
        residual -= np.nanmean(residual, axis=1, keepdims=True)
    return residual


def row_covariances(influences: Sequence[Sequence[Array | None]]) -> tuple[Array, Array]:
    """Return the covariances that rows cause between methods, (M, M): of two seeds, and of one.

    Rows that move all seeds alike make the first; with what moves a single seed, it is the second.
    NaN on the diagonal of methods without the influence of rows in two seeds.
    """
    lengths = [len(rows) for member in influences for rows in member if rows is not None]
    nothing = np.full((len(influences), len(influences)), math.nan)
    if not lengths:
        return nothing, nothing
    num_rows = max(set(lengths), key=lengths.count)
    zeros = np.zeros(num_rows)
    usable = [
        [zeros if rows is None or len(rows) != num_rows else rows for rows in member]
        for member in influences
    ]
    has = np.array([[rows is not zeros for rows in member] for member in usable], dtype=float)
    total = np.zeros((len(influences), num_rows))
    same = np.zeros_like(nothing)
    for seed in range(has.shape[1]):
        rows = np.stack([member[seed] for member in usable])
        total += rows
        same += rows @ rows.T
    alike = has @ has.T
    different = has.sum(axis=1)[:, None] * has.sum(axis=1)[None, :] - alike
    shared = np.divide(
        total @ total.T - same, different * num_rows**2, out=nothing.copy(), where=different > 0
    )
    single = np.divide(same, alike * num_rows**2, out=nothing.copy(), where=alike > 0)
    few = has.sum(axis=1) < 2
    shared[few] = math.nan
    return shared, single


def _of_differences(covariance: Array) -> Array:
    """Return the variance of each difference of two."""
    own = np.diag(covariance)
    return own[:, None] + own[None, :] - 2 * covariance


def cannot_tell(n: int) -> str:
    """Return the verdict where nothing says how much chance alone would do.

    >>> cannot_tell(1), cannot_tell(2)
    ('1 seed cannot tell', '2 seeds cannot tell')
    """
    return f"{counted(n, 'seed')} cannot tell"


def not_shown(n: int) -> str:
    """Return the verdict where chance may have made a difference.

    >>> not_shown(5)
    'not shown by 5 seeds'
    """
    return f"not shown by {counted(n, 'seed')}"
