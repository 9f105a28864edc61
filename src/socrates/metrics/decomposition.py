"""Split proper scores into calibration and the rest, by a scaler or by the CORP curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ..arrays.content import Classes
from ..arrays.entries import LabelsLike, ProbsLike, TopLike, open_event
from ..arrays.open import Array, ArrayLike
from ..isotonic import pool_starts
from .binning import stats_by_confidence
from .scoring import brier, nll

ProperScore: TypeAlias = Literal["nll", "brier"] | Callable[..., float]


@dataclass(frozen=True)
class Decomposition:
    """A proper score as the sum of refinement and calibration.

    Args:
        total: the score of the model.
        refinement: the score after recalibration.
        calibration: the part that recalibration removes.

    >>> print(Decomposition(total=0.52, refinement=0.48, calibration=0.04))
    0.5200 = 0.4800 refinement + 0.0400 calibration
    """

    total: float
    refinement: float
    calibration: float

    def __str__(self) -> str:
        return (
            f"{self.total:.4f} = {self.refinement:.4f} refinement + {self.calibration:.4f} "
            "calibration"
        )


def decompose(
    score: ProperScore,
    probs: ProbsLike,
    recalibrated: ProbsLike,
    labels: LabelsLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Decomposition:
    """Split a proper score into refinement and calibration (Berta et al., 2025).

    Refinement is the score of the recalibrated probabilities, and calibration is the rest. Fit the
    scaler that recalibrates on other samples, or by cross-validation: a scaler fitted on these
    labels would count its own overfitting as miscalibration. The calibration part is negative if
    the scaler makes the score worse. A value near 0 means that this kind of scaler cannot improve
    the model, not that the model is calibrated. If you only have confidence and correctness, pass
    them as binary scores and labels: the event is then that a prediction is correct.

    Args:
        score: "nll" or "brier", or one of these functions.
        probs: (N, C) probabilities or (N,) scores of class 1 in any kind of array, or a
            `Prediction`.
        recalibrated: probabilities of the same samples after recalibration.
        labels: (N,) class numbers, or names with `classes`.
        sample_weight: (N,) weights, as for `ece`.
        classes: names of the classes in the order of the columns, if labels are names.

    >>> overconfident = [[0.9, 0.1]] * 4
    >>> recalibrated = [[0.75, 0.25]] * 4
    >>> parts = decompose("brier", overconfident, recalibrated, [0, 0, 0, 1])
    >>> round(parts.total, 3), round(parts.refinement, 3), round(parts.calibration, 3)
    (0.42, 0.375, 0.045)
    """
    measure = next((known for known in (nll, brier) if score in (known, known.__name__)), None)
    if measure is None:
        raise ValueError(f"score={score!r}, expected 'nll' or 'brier': only these can be split")
    total = measure(probs, labels, sample_weight=sample_weight, classes=classes)
    try:
        refinement = measure(recalibrated, labels, sample_weight=sample_weight, classes=classes)
    except ValueError as error:
        raise ValueError(f"recalibrated cannot be read: {error}") from error
    return Decomposition(total, refinement, total - refinement)


@dataclass(frozen=True, eq=False)
class Corp:
    """The Brier score of one event as mcb - dsc + unc, and the reliability curve that splits it.

    Args:
        score: mean squared difference between forecast and event.
        mcb: miscalibration, by how much the best monotone recalibration improves the score.
        dsc: discrimination, by how much the recalibrated forecasts are better than a constant one.
        unc: uncertainty, the score of that constant forecast, the frequency of the event.
        forecast: (P,) mean forecast of each pool, in ascending order.
        frequency: (P,) frequency of the event in each pool, which is its recalibrated forecast.
        count: (P,) number of samples in each pool, or the sum of their weights.

    >>> print(corp(confidence=[0.4, 0.3, 0.2, 0.1, 0.5, 0.9], correct=[0, 0, 0, 1, 1, 1]))
    score 0.227 = miscalibration 0.102 - discrimination 0.125 + uncertainty 0.250
    """

    score: float
    mcb: float
    dsc: float
    unc: float
    forecast: Array
    frequency: Array
    count: Array

    def __str__(self) -> str:
        parts = (
            f"miscalibration {self.mcb:.3f} - discrimination {self.dsc:.3f} + uncertainty "
            f"{self.unc:.3f}"
        )
        return f"score {self.score:.3f} = {parts}"


def corp(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Corp:
    """Return the CORP reliability curve and its split of the Brier score.

    Forecasts are recalibrated by isotonic regression (pool-adjacent-violators), so there are no
    bins to choose (Dimitriadis, Gneiting and Jordan, 2021). The curve is fitted to the samples that
    it is measured on. So mcb is never negative, and it is above 0 for a calibrated model, too;
    `calibration_test` shows whether it is larger than chance.

    For (N, C) probabilities, the event is that the top class is correct. For (N,) binary scores
    with labels, the event is that the label is class 1. The score counts the event only, so it is
    half of `brier` for the same scores.

    Args: as for `ece`.

    >>> curve = corp([0.4, 0.3, 0.2, 0.1, 0.5, 0.9], [0, 0, 0, 1, 1, 1])
    >>> curve.frequency, curve.count
    (array([0.25, 1.  ]), array([4., 2.]))
    """
    top = open_event(probs, labels, confidence, correct, sample_weight, classes)
    groups = stats_by_confidence(top)
    start = pool_starts(sums=groups.correct, weights=groups.count)
    count = np.add.reduceat(groups.count, start)
    forecast = np.add.reduceat(groups.confidence, start) / count
    frequency = np.add.reduceat(groups.correct, start) / count
    share = count / count.sum()
    squares = (top.confidence.astype(np.float64) - top.correct) ** 2
    score = float(np.average(squares, weights=top.weight))
    refined = float((share * frequency * (1 - frequency)).sum())
    mean = float((share * frequency).sum())
    unc = mean * (1 - mean)
    return Corp(
        score=score,
        mcb=score - refined,
        dsc=unc - refined,
        unc=unc,
        forecast=forecast,
        frequency=frequency,
        count=count,
    )
