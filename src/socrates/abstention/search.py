"""The search for a threshold: Learn then Test over a grid that is fixed in advance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays.open import Array, ArrayLike, as_numpy, check_share, open_scores
from ..arrays.samples import Top
from .certificate import Certificate, Scope, Threshold
from .mixture import (
    check_strangers,
    mixture_probability,
    mixture_shares,
    weight_of_strangers,
)

STEP = 0.005  # between two thresholds of the grid
DENSE = 30  # more thresholds between 1 - STEP and 1 - STRICTEST, in equal ratios
STRICTEST = 1e-4
MOST_SAMPLES = 10**18  # beyond any number of samples; errors ask for no more
# Each chain of tests starts at a threshold with a share of delta. Some start at these confidences.
STARTS_AT = {0.99: 0.05, 0.9: 0.20, 0.5: 0.03, 0.0: 0.02}
# Others start where this many times the samples that a certificate needs would be answered, if
# confidences were uniformly distributed.
STARTS_TIMES_NEEDED = {1.5: 0.48, 3.0: 0.22}


def certify(
    confidence: ArrayLike,
    correct: ArrayLike,
    risk: float,
    delta: float = 0.1,
    *,
    thresholds: Sequence[float] | None = None,
    strangers: ArrayLike | None = None,
    share: float | None = None,
) -> Certificate:
    """Return the lowest threshold whose error rate is certified to be at most `risk`.

    Thresholds are tested from strict to lax by Learn then Test (Angelopoulos et al., 2021), with
    the fallback procedure. If nothing can be certified, the error gives the smallest number of
    further samples that could suffice.

    With `strangers`, samples of none of the classes, the promise holds for every share of strangers
    like them, from 0 up to `share`, whatever their share among the certifying samples is. An answer
    to a stranger is always wrong. See mixture.py.

    Args:
        confidence: (N,) any score that is higher for safer answers, for samples that were not used
            to train, choose or calibrate the model.
        correct: (N,) whether each answer is correct.
        risk: share of answers that may be wrong.
        delta: probability that the guarantee does not hold.
        thresholds: thresholds to test, for scores outside [0, 1]. Choose them before you look at
            these samples.
        strangers: (M,) the scores of at least 60 strangers.
        share: largest share of strangers for which the promise holds, such as 0.3.

    Returns:
        The threshold, with its coverage and its guarantee.

    >>> certificate = certify([0.99] * 60 + [0.4] * 40, [True] * 60 + [False] * 40, risk=0.05)
    >>> certificate.threshold <= 0.99, certificate.num_accepted, certificate.num_errors
    (True, 60, 0)
    >>> certify([0.9] * 20, [True] * 20, risk=0.05)
    Traceback (most recent call last):
    ValueError: nothing can be certified at risk 0.05 ...: it takes at least 45 ...
    >>> print(certify([0.9] * 210, [True] * 210, 0.05, strangers=[0.1] * 90, share=0.3).scope)
    with up to 30% strangers like those that certified it
    """
    check_share("risk", risk, "a share between 0 and 1, such as 0.05")
    check_share("delta", delta, "a share between 0 and 1, such as 0.1")
    top = _open(confidence, correct, in_range=thresholds is None)
    others = _open_strangers(strangers, share, delta, in_range=thresholds is None)
    if thresholds is not None:
        grid, shares = _grid_of(thresholds)
    else:
        grid, shares = _grid(len(top), risk, delta)
        if len(others):
            weight = weight_of_strangers(share or 0.0, len(top), len(others))
            shares = mixture_shares(grid, len(top), weight, risk, delta)
    counts = _Counts.of(grid, top, others)
    share = share or 0.0
    passed = _laxest_passed(counts.probabilities(risk, share), shares * delta)
    if passed is None:
        if len(others):
            raise ValueError(_what_is_missing_with_strangers(counts, risk, delta, share))
        raise ValueError(_what_is_missing(counts, shares * delta, risk, delta))
    threshold = Threshold(
        float(grid[passed]),
        len(top),
        int(counts.accepted[passed]),
        int(counts.errors[passed]),
        num_strangers=len(others),
        num_strangers_accepted=int(counts.strangers[passed]),
    )
    return Certificate(risk, delta, (threshold,), scope=Scope(share=share))


@dataclass(frozen=True, eq=False)
class _Counts:
    """What is answered at each threshold (T,) of a grid, of so many known samples and strangers."""

    accepted: Array
    errors: Array
    strangers: Array
    num_known: int
    num_strangers: int

    @classmethod
    def of(cls, grid: Array, top: Top, strangers: Array) -> _Counts:
        order = np.argsort(-top.confidence, kind="stable")
        errors_so_far = np.concatenate([[0], np.cumsum(~top.correct[order])])
        # number of samples with score >= threshold
        accepted = np.searchsorted(-top.confidence[order], -grid, side="right")
        answered = np.searchsorted(np.sort(-strangers), -grid, side="right")
        return cls(accepted, errors_so_far[accepted], answered, len(top), len(strangers))

    def probabilities(self, risk: float, share: float) -> Callable[[int], float]:
        """Return a function from the position of a threshold to the p-value of its test."""
        if not self.num_strangers:
            return lambda at: few_errors_probability(
                int(self.errors[at]), int(self.accepted[at]), risk
            )
        weight = weight_of_strangers(share, self.num_known, self.num_strangers)

        def probability(at: int) -> float:
            errors = int(self.errors[at])
            correct = int(self.accepted[at]) - errors
            return mixture_probability(errors, correct, int(self.strangers[at]), weight, risk)

        return probability


def _open_strangers(
    strangers: ArrayLike | None, share: float | None, delta: float, in_range: bool
) -> Array:
    """Return the checked scores of strangers, none if there are none."""
    if (strangers is None) != (share is None):
        raise ValueError(
            "strangers and their largest share belong together: pass both, such as "
            "strangers=scores, share=0.3, or neither"
        )
    if strangers is None:
        return np.zeros(0)
    check_share("share", share, "a share between 0 and 1, such as 0.3")
    scores = _open_scores(strangers, "strangers", in_range)
    check_strangers(len(scores), delta)
    return scores


def _open(confidence: ArrayLike, correct: ArrayLike, in_range: bool) -> Top:
    """Return checked float64 scores with their correctness."""
    return Top.ranked(_open_scores(confidence, "confidence", in_range), correct, None)


def _open_scores(values: ArrayLike, name: str, in_range: bool) -> Array:
    """Return checked float64 scores; integers are valid scores, too."""
    scores = as_numpy(values, name)
    if scores.dtype.kind in "biu":
        scores = scores.astype(np.float64)
    scores = open_scores(scores, name).astype(np.float64)
    if in_range and (scores.min() < 0 or scores.max() > 1):
        raise ValueError(
            f"{name} holds {scores.min():g} to {scores.max():g}, expected scores from 0 to 1: "
            f"for other scores pass thresholds=, chosen without these samples"
        )
    return scores


def _laxest_passed(probability: Callable[[int], float], levels: Array) -> int | None:
    """Return the position of the laxest threshold that passes; tests go from strict to lax.

    A test adds the level of the test before it to its own, if that one passed. In this fallback
    procedure (Wiens, 2003) the probability that any threshold passes wrongly is at most the sum of
    the levels.
    """
    last = None
    level = 0.0
    for position, own_level in enumerate(levels):
        level += own_level
        if level == 0:
            continue
        if probability(position) <= level:
            last = position
        else:
            level = 0.0
    return last


def fewest_samples(risk: float, delta: float) -> int:
    """Return the smallest number of answered samples that a certificate needs, if none is wrong.

    >>> [fewest_samples(risk, 0.1) for risk in (0.05, 0.02, 0.01)]
    [45, 114, 230]
    """
    return math.ceil(min(math.log(delta) / math.log1p(-risk), MOST_SAMPLES))


def few_errors_probability(errors: int, samples: int, risk: float) -> float:
    """Return the p-value of the exact binomial test for an error rate below `risk`.

    It is P(at most this many errors) if each sample is wrong with probability `risk`.

    >>> few_errors_probability(0, 45, 0.05) < 0.1 < few_errors_probability(0, 44, 0.05)
    True
    >>> round(few_errors_probability(1, 3, 0.5), 12)
    0.5
    """
    if errors >= samples:
        return 1.0
    # The logarithm of each number of choices is a sum of ratios, not a difference of factorials,
    # which loses its digits beyond 1e9 samples and takes a table of that size.
    k = np.arange(errors + 1, dtype=np.float64)
    log_ratios = np.log(samples - k[:-1]) - np.log1p(k[:-1])
    log_choices = np.concatenate([[0.0], np.cumsum(log_ratios)])
    log_chance = k * math.log(risk) + (samples - k) * math.log1p(-risk)
    return min(1.0, float(np.exp(log_choices + log_chance).sum()))


def _grid(num_samples: int, risk: float, delta: float) -> tuple[Array, Array]:
    """Return thresholds from strict to lax, and the share of delta that starts at each.

    They are dense near 1, and depend on the number of samples but not on their scores.
    """
    even = 1 - np.arange(STEP, 1 + STEP / 2, STEP)
    dense = 1 - np.geomspace(STRICTEST, STEP, DENSE, endpoint=False)
    grid = np.concatenate([dense, even]).clip(0.0, 1.0)
    needed = math.log(delta / 3) / math.log1p(-risk)
    starts = [*STARTS_AT.items()]
    for times, share in STARTS_TIMES_NEEDED.items():
        starts.append((1 - min(0.5, times * needed / num_samples), share))
    shares = np.zeros(len(grid))
    for confidence, share in starts:
        shares[np.abs(grid - confidence).argmin()] += share
    return grid, shares


def _grid_of(thresholds: Sequence[float]) -> tuple[Array, Array]:
    """Return the caller's thresholds from strict to lax, and the share of delta at each.

    Four chains of tests start in the stricter half.
    """
    grid = np.unique(np.asarray(thresholds, dtype=float))[::-1]
    if grid.size == 0 or not np.isfinite(grid).all():
        raise ValueError(f"thresholds={thresholds}, expected at least one finite number")
    shares = np.zeros(len(grid))
    for part in (0, 1 / 8, 1 / 4, 1 / 2):
        shares[int(part * (len(grid) - 1))] += 1 / 4
    return grid, shares


def _what_is_missing_with_strangers(
    counts: _Counts, risk: float, delta: float, share: float
) -> str:
    """Explain why nothing was certified with strangers, and what would help."""
    return (
        f"nothing can be certified at risk {risk:g} with delta {delta:g} and up to {share:.0%} "
        f"strangers from {counts.num_known} samples, {int(counts.errors[-1])} of them wrong at the "
        f"lowest threshold, and {counts.num_strangers} strangers, too many of whom look like the "
        f"classes: bring more of both, or allow a smaller share or a higher risk; every further "
        f"attempt takes new samples"
    )


def _what_is_missing(counts: _Counts, levels: Array, risk: float, delta: float) -> str:
    """Explain why nothing was certified, with the number of further samples that could suffice."""
    fewest = fewest_samples(risk, delta)
    num_samples = counts.num_known
    needed = [
        _more_needed(
            int(counts.errors[start]), int(counts.accepted[start]), risk, float(levels[start])
        )
        for start in np.flatnonzero(levels)
    ]
    more = max(min(needed), fewest - num_samples)
    return (
        f"nothing can be certified at risk {risk:g} with delta {delta:g} from {num_samples} "
        f"samples, {int(counts.errors[-1])} of them wrong at the lowest threshold: it takes at "
        f"least {fewest} answered samples without an error, and here at least {more} more labeled "
        f"samples without an error; or allow a higher risk"
    )


def _more_needed(errors: int, accepted: int, risk: float, level: float) -> int:
    """Return the number of further correct answers that would bring the p-value to the level."""

    def is_too_few(more: int) -> bool:
        return few_errors_probability(errors, accepted + more, risk) > level

    low = 0
    high = 1
    while high < MOST_SAMPLES and is_too_few(high):
        low = high
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if is_too_few(middle):
            low = middle
        else:
            high = middle
    return high
