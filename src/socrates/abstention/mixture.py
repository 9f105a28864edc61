"""Promises with strangers in the stream: the test of one threshold, and where the tests start.

A stranger is an input of none of the classes, so its answer is always wrong. Let e and c be the
probabilities that a known sample is answered wrongly and rightly, and s that a stranger is
answered. With a share q of strangers, the share of wrong answers is at most `risk` if and only if

    (1 - q) (e - risk (e + c)) + q (1 - risk) s <= 0,

which is linear in q. At q = 0 it follows from any larger q. So one test at the largest share is
enough for all shares from 0 up to it.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays.open import Array

FEWEST_STRANGERS = 60
LEAST_PROBABILITY = 1e-12  # below it, rounding decides
# Chains of tests start where this many times the samples that a certificate needs would be
# answered, if the scores of known samples were uniformly distributed, as 1 - novelty is.
STARTS_TIMES_NEEDED = {1.1: 0.2, 1.5: 0.5, 4.0: 0.15}
# Others start at these scores, for confidences that are mostly close to 1.
STARTS_AT = {0.999: 0.05, 0.99: 0.1}


def weight_of_strangers(share: float, num_known: int, num_strangers: int) -> float:
    """Return how many errors of known samples an answered stranger counts as.

    It is 1 if the certifying samples have the share of strangers that is promised.

    >>> weight_of_strangers(0.3, 210, 90), weight_of_strangers(0.5, 200, 100)
    (1.0, 2.0)
    """
    return round(share / (1 - share) * num_known / num_strangers, 12)


def mixture_probability(
    errors: int, correct: int, strangers: int, weight: float, risk: float
) -> float:
    """Return the p-value of the test that the share of wrong answers is below `risk`.

    It takes the numbers of wrong and right answers to known samples, and of answered strangers.
    Each answered stranger is an event of size `weight`, an error one of size 1. With weight 1 it
    is the exact binomial test of all answers; a fixed number of strangers among the samples only
    makes it safer. Otherwise all events are counted in units of the larger size, of which there
    are then fewer with the same sum, so that the sum varies more than it really does:
    P(unit Gamma(sum / unit + 1) > odds Gamma(correct)) with odds = risk / (1 - risk).
    benchmarks/certificates.py computes its true level.

    >>> from socrates.abstention.search import few_errors_probability
    >>> exact = few_errors_probability(3, 150, 0.05)
    >>> abs(mixture_probability(1, 147, 2, 1.0, 0.05) - exact) < 1e-12
    True
    >>> mixture_probability(0, 100, 5, 0.4, 0.05) < mixture_probability(0, 100, 5, 0.5, 0.05)
    True
    """
    if correct == 0:
        return 1.0
    unit = max(1.0, weight)
    shape = (errors + weight * strangers) / unit + 1
    odds = risk / (1 - risk)
    x = odds / (odds + unit)
    # 1 - I_x(shape, correct), whose series is finite because correct is a whole number.
    number = np.arange(1, correct, dtype=np.float64)
    log_ratios = np.log((shape + number - 1) / number) + math.log1p(-x)
    log_terms = np.concatenate([[0.0], np.cumsum(log_ratios)]) + shape * math.log(x)
    return min(1.0, max(LEAST_PROBABILITY, 1 - float(np.exp(log_terms).sum())))


def mixture_shares(grid: Array, num_known: int, weight: float, risk: float, delta: float) -> Array:
    """Return the share of delta that starts at each threshold of a grid from strict to lax."""
    needed = max(1.0, weight) * math.log(delta / 3) / math.log1p(-risk)
    starts = [*STARTS_AT.items()]
    for times, share in STARTS_TIMES_NEEDED.items():
        most = max(0.5, 1.5 * needed / num_known)
        starts.append((1 - min(0.9, most, times * needed / num_known), share))
    shares = np.zeros(len(grid))
    for score, share in starts:
        shares[np.abs(grid - score).argmin()] += share
    return shares


def check_strangers(num_strangers: int, delta: float) -> None:
    """Refuse to say anything about strangers from a handful of them."""
    if num_strangers < FEWEST_STRANGERS:
        unseen = 1 - delta ** (1 / num_strangers)
        raise ValueError(
            f"{num_strangers} strangers are too few to certify, expected at least "
            f"{FEWEST_STRANGERS}: even if none of them were answered, {unseen:.1%} of all others "
            f"could be; add strangers, or certify without them, among inputs of the classes"
        )
