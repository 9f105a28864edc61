"""Answering only when it is safe: a threshold on the confidence whose error rate is guaranteed, not hoped for.

A threshold that keeps the *observed* error of the answered samples below a limit breaks that limit on new data about
every other time. `certify` tests each threshold of a grid that was fixed before the data were seen (Learn-then-Test,
Angelopoulos et al. 2021), by the exact binomial probability of so few errors, and returns one only if with probability
at least 1 - delta over the calibration samples P(wrong | answered) <= risk.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

__all__ = ["Certificate", "certify"]

Array = NDArray[Any]

STEP = 0.005  # of the grid of thresholds; between 1 - STEP and 1 they are DENSE more, in equal ratios
DENSE, STRICTEST = 30, 1e-4
# Where chains of tests begin, and which share of delta each brings along: at confidences, and where `times` as many
# samples as a certificate needs would be accepted if confidences were spread evenly.
STARTS_AT = {0.99: 0.05, 0.9: 0.20, 0.5: 0.03, 0.0: 0.02}
STARTS_TIMES_NEEDED = {1.5: 0.48, 3.0: 0.22}


@dataclass(frozen=True)
class Certificate:
    """A threshold and its promise: with probability 1 - delta, at most a share `risk` of what is answered is wrong.

    Answered means score >= threshold. `coverage` is the share of the calibration samples that it answers, with
    `num_errors` wrong among the `num_accepted`.

    >>> print(Certificate(0.905, 0.35, 0.05, 0.1, 700, 21))
    answers where the score is at least 0.9050 (35.0 % of the samples): with probability 0.9 at most 5 % of its answers
    are wrong (21 of 700 were)
    """

    threshold: float
    coverage: float
    risk: float
    delta: float
    num_accepted: int
    num_errors: int

    def __str__(self) -> str:
        return (
            f"answers where the score is at least {self.threshold:.4f} ({100 * self.coverage:.1f} % of the samples): "
            f"with probability {1 - self.delta:g} at most {100 * self.risk:g} % of its answers are wrong "
            f"({self.num_errors} of {self.num_accepted} were)"
        )


def certify(
    confidence: ArrayLike | torch.Tensor,
    correct: ArrayLike | torch.Tensor,
    risk: float,
    delta: float = 0.1,
    *,
    thresholds: Sequence[float] | None = None,
) -> Certificate:
    """The lowest threshold that is certified to answer wrongly at most in a share `risk` of its answers.

    `confidence` (N,) is any score that is higher for safer answers, `correct` (N,) whether each answer was right, of
    samples that neither trained nor chose nor calibrated the model. Scores outside [0, 1] need `thresholds` of their
    own, chosen before these samples were looked at. If nothing can be certified, the error says how many more samples
    it would take at the least.

    >>> certificate = certify([0.99] * 60 + [0.4] * 40, [True] * 60 + [False] * 40, risk=0.05)
    >>> certificate.threshold <= 0.99, certificate.num_accepted, certificate.num_errors
    (True, 60, 0)
    >>> certify([0.9] * 20, [True] * 20, risk=0.05)
    Traceback (most recent call last):
    ValueError: nothing can be certified at risk 0.05 with delta 0.1 from 20 samples, ...: it takes at least 45 ...
    """
    for name, value in (("risk", risk), ("delta", delta)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must be a share between 0 and 1, such as 0.05, got {value}")
    scores, right = _checked(confidence, correct, anything=thresholds is not None)
    grid, shares = _grid(len(scores), risk, delta) if thresholds is None else _own_grid(thresholds)
    order = np.argsort(-scores, kind="stable")
    errors_so_far = np.concatenate([[0], np.cumsum(~right[order])])
    accepted = np.searchsorted(-scores[order], -grid, side="right")  # (T,) how many have score >= threshold
    errors = errors_so_far[accepted]
    passed = _passed(accepted, errors, shares * delta, risk)
    if passed is None:
        raise ValueError(_what_is_missing(accepted, errors, shares * delta, risk, delta, len(scores)))
    taken = int(accepted[passed])
    return Certificate(float(grid[passed]), taken / len(scores), risk, delta, taken, int(errors[passed]))


def _passed(accepted: Array, errors: Array, levels: Array, risk: float) -> int | None:
    """The laxest threshold that passes, tests going from strict to lax.

    A test has its own level and that of the test before it, if that one passed (the fallback procedure, Wiens 2003):
    the probability that any threshold passes wrongly is at most the sum of the levels.
    """
    last, level = None, 0.0
    for position, own in enumerate(levels):
        level += own
        if level > 0 and few_errors_probability(int(errors[position]), int(accepted[position]), risk) <= level:
            last = position
        else:
            level = 0.0
    return last


def fewest_samples(risk: float, delta: float) -> int:
    """How many answered samples without an error a certificate takes at the least.

    >>> [fewest_samples(risk, 0.1) for risk in (0.05, 0.02, 0.01)]
    [45, 114, 230]
    """
    return math.ceil(math.log(delta) / math.log1p(-risk))


def few_errors_probability(errors: int, samples: int, risk: float) -> float:
    """P(at most so many errors among so many samples) if each is wrong with probability `risk`: the exact p-value.

    >>> few_errors_probability(0, 45, 0.05) < 0.1 < few_errors_probability(0, 44, 0.05)
    True
    >>> round(few_errors_probability(1, 3, 0.5), 12)
    0.5
    """
    if errors >= samples:
        return 1.0
    k, log_factorial = np.arange(errors + 1), _log_factorials(1 << samples.bit_length())
    choices = log_factorial[samples] - log_factorial[k] - log_factorial[samples - k]
    return min(1.0, float(np.exp(choices + k * math.log(risk) + (samples - k) * math.log1p(-risk)).sum()))


@lru_cache(maxsize=4)
def _log_factorials(largest: int) -> Array:
    return torch.arange(1, largest + 2, dtype=torch.float64).lgamma().numpy()


def _grid(num_samples: int, risk: float, delta: float) -> tuple[Array, Array]:
    """Thresholds from strict to lax, dense near 1, and the share of delta that starts at each: nothing of the data."""
    even = 1 - np.arange(STEP, 1 + STEP / 2, STEP)
    dense = 1 - np.geomspace(STRICTEST, STEP, DENSE, endpoint=False)
    grid = np.concatenate([dense, even]).clip(0.0, 1.0)
    needed = math.log(delta / 3) / math.log1p(-risk)
    starts = [*STARTS_AT.items()]
    starts += [(1 - min(0.5, times * needed / num_samples), share) for times, share in STARTS_TIMES_NEEDED.items()]
    shares = np.zeros(len(grid))
    for confidence, share in starts:
        shares[np.abs(grid - confidence).argmin()] += share
    return grid, shares


def _own_grid(thresholds: Sequence[float]) -> tuple[Array, Array]:
    """The caller's thresholds from strict to lax, with four chains of tests that begin in their stricter half."""
    grid = np.unique(np.asarray(thresholds, dtype=float))[::-1]
    if grid.size == 0 or not np.isfinite(grid).all():
        raise ValueError(f"thresholds must be at least one finite number, got {thresholds}")
    shares = np.zeros(len(grid))
    for part in (0, 1 / 8, 1 / 4, 1 / 2):
        shares[int(part * (len(grid) - 1))] += 1 / 4
    return grid, shares


def _what_is_missing(accepted: Array, errors: Array, levels: Array, risk: float, delta: float, total: int) -> str:
    """Why nothing was certified, and the fewest further samples, all right and answered, with which something is."""
    fewest = fewest_samples(risk, delta)
    found = [
        _more_needed(int(errors[start]), int(accepted[start]), risk, float(levels[start]))
        for start in np.flatnonzero(levels)
    ]
    more = max(min(found), fewest - total)
    return (
        f"nothing can be certified at risk {risk:g} with delta {delta:g} from {total} samples, {int(errors[-1])} of "
        f"them wrong at the lowest threshold: it takes at least {fewest} answered samples without an error, and here "
        f"at least {more} more labelled samples without an error; or allow a higher risk"
    )


def _more_needed(errors: int, accepted: int, risk: float, level: float) -> int:
    """How many more answered samples without an error bring the p-value down to the level."""
    low, high = 0, 1
    while few_errors_probability(errors, accepted + high, risk) > level:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if few_errors_probability(errors, accepted + middle, risk) > level else (low, middle)
    return high


def _checked(confidence: Any, correct: Any, anything: bool) -> tuple[Array, NDArray[np.bool_]]:
    scores, right = (_numpy(values) for values in (confidence, correct))
    if scores.ndim != 1 or scores.shape != right.shape or not len(scores):
        raise ValueError(
            f"confidence and correct must be two lists of one length, got shapes {scores.shape} and {right.shape}"
        )
    scores = scores.astype(float)
    if not np.isfinite(scores).all():
        raise ValueError(f"{int((~np.isfinite(scores)).sum())} of {len(scores)} scores are NaN or infinite: drop them")
    if not anything and (scores.min() < 0 or scores.max() > 1):
        raise ValueError(
            f"scores must be in [0, 1], got {scores.min():g} to {scores.max():g}: for others give thresholds=, "
            f"chosen without these samples"
        )
    if not np.isin(right, (0, 1)).all():
        raise ValueError("correct must say for each sample whether its answer was right: True or False")
    return scores, right.astype(bool)


def _numpy(values: Any) -> Array:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
