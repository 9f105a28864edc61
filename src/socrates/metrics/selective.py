"""Selective classification: risk and coverage if the least confident answers are withheld."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays.content import Classes
from ..arrays.entries import Groups, LabelsLike, TopLike, Value, by_group, open_ranked, reads
from ..arrays.open import Array, ArrayLike, check_share
from ..arrays.samples import Top
from .binning import stats_by_confidence


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """The risk-coverage curve, one point for each distinct confidence, from the highest down.

    Args:
        coverage: share of samples that are answered, in ascending order up to 1.
        risk: share of wrong answers among them.
        threshold: lowest confidence that is answered.

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
    *,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> RiskCoverage:
    """Return the risk-coverage curve: the share of wrong answers at each share of samples answered.

    Answers are given in order of confidence, and samples of equal confidence together (El-Yaniv and
    Wiener, 2010).

    Args:
        probs: as for `ece`.
        labels: as for `ece`.
        confidence: (N,) finite scores to rank by, such as 1 - p_unknown, instead of the probability
            of the predicted class. With `correct`, no probs and labels are needed.
        correct: (N,) whether each prediction is correct, as booleans or as 0 and 1.
        sample_weight: as for `ece`.
        classes: as for `ece`.

    >>> risk_coverage([[0.9, 0.1], [0.6, 0.4]], [0, 1], confidence=[0.1, 0.2]).risk
    array([1. , 0.5])
    >>> risk_coverage(confidence=[7.0, -2.0], correct=[True, False]).coverage
    array([0.5, 1. ])
    """
    top = open_ranked(probs, labels, confidence, correct, sample_weight, classes)
    coverage, risk = _curve(top)
    return RiskCoverage(coverage, risk, np.unique(top.confidence)[::-1].astype(np.float64))


@reads(open_ranked)
def aurc(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    confidence: ArrayLike | None = None,
    *,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    groups: Groups | None = None,
) -> Value:
    """Return the area under the risk-coverage curve (Geifman et al., 2019).

    It is the mean over the samples of the risk at the threshold of each sample.

    Args: as for `risk_coverage`, and `groups` as for `ece`.

    >>> aurc([[0.9, 0.1], [0.6, 0.4]], [0, 1])
    0.25
    """
    top = open_ranked(probs, labels, confidence, correct, sample_weight, classes)

    def measure(part: Top) -> float:
        coverage, risk = _curve(part)
        return float((risk * np.diff(coverage, prepend=0.0)).sum())

    return by_group("aurc", measure, top, groups, sample_weight)


@reads(open_ranked)
def augrc(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    confidence: ArrayLike | None = None,
    *,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    groups: Groups | None = None,
) -> Value:
    """Return the area under the generalized risk-coverage curve (Traub et al., 2024).

    The generalized risk is the share of all samples that are both answered and wrong, that is, of
    undetected failures. It is integrated over the coverage by the trapezoidal rule. The result lies
    in [0, 1/2], and depends on the ranks of the failures only.

    Args: as for `risk_coverage`, and `groups` as for `ece`.

    >>> augrc([[0.9, 0.1], [0.6, 0.4]], [0, 1])
    0.125
    """
    top = open_ranked(probs, labels, confidence, correct, sample_weight, classes)

    def measure(part: Top) -> float:
        coverage, risk = _curve(part)
        generalized_risk = np.append(0.0, risk * coverage)
        both_ends = generalized_risk[1:] + generalized_risk[:-1]
        return float((both_ends * np.diff(coverage, prepend=0.0)).sum() / 2)

    return by_group("augrc", measure, top, groups, sample_weight)


@reads(open_ranked)
def coverage_at_risk(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    max_risk: float | None = None,
    confidence: ArrayLike | None = None,
    *,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    groups: Groups | None = None,
) -> Value:
    """Return the largest coverage whose risk is at most max_risk; 0 if there is none.

    This is an observed value, without a guarantee for new samples; `socrates.abstention.certify`
    gives one.

    Args: as for `risk_coverage`, and
        max_risk: largest share of wrong answers allowed, in [0, 1]; required.
        groups: as for `ece`.

    >>> coverage_at_risk([[0.9, 0.1], [0.6, 0.4]], [0, 1], max_risk=0.1)
    0.5
    """
    check_share(
        "max_risk", max_risk, "a share of wrong answers from 0 to 1", allow_0=True, allow_1=True
    )
    assert max_risk is not None
    # The tolerance is far below 1 / N, and keeps a limit such as 0.1 from failing by rounding.
    limit = max_risk + 1e-12
    top = open_ranked(probs, labels, confidence, correct, sample_weight, classes)

    def measure(part: Top) -> float:
        coverage, risk = _curve(part)
        return float(coverage[risk <= limit].max(initial=0.0))

    return by_group("coverage_at_risk", measure, top, groups, sample_weight)


def _curve(top: Top) -> tuple[Array, Array]:
    """Return coverage and risk at each distinct confidence, from the highest down."""
    groups = stats_by_confidence(top)
    answered = np.cumsum(groups.count[::-1])
    correct = np.cumsum(groups.correct[::-1])
    return answered / answered[-1], 1 - correct / answered
