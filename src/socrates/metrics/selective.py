"""Selective classification: what accuracy remains if the least confident answers are withheld."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import ArrayLike, check_share
from .binning import grouped
from .entry import rank_metric
from .inputs import LabelsLike, Ranked, TopLike, Unpack, open_ranked
from .samples import Array, Top


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """The risk-coverage curve, one point for each distinct confidence, from the most confident down.

    Args:
        coverage: share of samples answered, rising to 1.
        risk: share of wrong answers among them.
        threshold: the least confidence that is answered.

    >>> curve = risk_coverage([[0.9, 0.1], [0.6, 0.4]], [0, 1])
    >>> curve.coverage, curve.risk
    (array([0.5, 1. ]), array([0. , 0.5]))
    """

    coverage: Array
    risk: Array
    threshold: Array


def risk_coverage(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    confidence: ArrayLike | None = None,
    **entry: Unpack[Ranked],
) -> RiskCoverage:
    """Share of wrong answers as the answered share grows; samples of equal confidence are answered together.

    Args:
        probs: as for `ece`.
        labels: as for `ece`.
        confidence: (N,) scores to rank by, such as 1 - p_unknown, in the place of the predicted class's probability;
            any finite numbers. Beside `correct` they stand in the place of probs and labels, too.
        correct: (N,) whether the prediction is right, as booleans or 0 and 1.
        sample_weight: as for `ece`, like `classes` and, of the metrics that are numbers, `groups`.

    >>> risk_coverage([[0.9, 0.1], [0.6, 0.4]], [0, 1], confidence=[0.1, 0.2]).risk
    array([1. , 0.5])
    >>> risk_coverage(confidence=[7.0, -2.0], correct=[True, False]).coverage
    array([0.5, 1. ])
    """
    top = open_ranked(probs, labels, confidence=confidence, **entry)
    return RiskCoverage(*_curve(top), np.unique(top.confidence)[::-1].astype(np.float64))


@rank_metric
def aurc(top: Top) -> float:
    """Area under the risk-coverage curve: the risk at each sample's own threshold, averaged over the samples.

    Args: as for `risk_coverage`.

    >>> aurc([[0.9, 0.1], [0.6, 0.4]], [0, 1])
    0.25
    """
    coverage, risk = _curve(top)
    return float((risk * np.diff(coverage, prepend=0.0)).sum())


@rank_metric
def augrc(top: Top) -> float:
    """Area under the generalised risk-coverage curve (Traub et al., 2024): the mean share of undetected failures.

    The generalised risk is the share of all samples that are both answered and wrong; it is integrated over the
    coverage by trapezes. The result lies in [0, 1/2] and weighs every failure by its rank alone.

    Args: as for `risk_coverage`.

    >>> augrc([[0.9, 0.1], [0.6, 0.4]], [0, 1])
    0.125
    """
    coverage, risk = _curve(top)
    failures = np.append(0.0, risk * coverage)
    return float(((failures[1:] + failures[:-1]) * np.diff(coverage, prepend=0.0)).sum() / 2)


@rank_metric
def coverage_at_risk(top: Top, max_risk: float) -> float:
    """The largest share of samples that can be answered with a risk of at most max_risk; 0 if there is none.

    Args:
        probs: as for `ece`.
        labels: as for `ece`.
        max_risk: greatest share of wrong answers allowed, in [0, 1].
        confidence: as for `risk_coverage`, like all the others.

    >>> coverage_at_risk([[0.9, 0.1], [0.6, 0.4]], [0, 1], max_risk=0.1)
    0.5
    """
    check_share("max_risk", max_risk, "a share of wrong answers from 0 to 1", zero=True, one=True)
    coverage, risk = _curve(top)
    # Shares of integers: a slack far below 1 / N keeps a limit such as 0.1 from failing by rounding.
    return float(coverage[risk <= max_risk + 1e-12].max(initial=0.0))


def _curve(top: Top) -> tuple[Array, Array]:
    """Coverage and risk at each distinct confidence, from the highest down."""
    groups = grouped(top)
    answered, right = np.cumsum(groups.count[::-1]), np.cumsum(groups.correct[::-1])
    return answered / answered[-1], 1 - right / answered
