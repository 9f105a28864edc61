"""What part of a score is miscalibration: by a recalibrated twin, or by the CORP reliability curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .binning import grouped
from .inputs import Entry, LabelsLike, ProbsLike, Shared, TopLike, Unpack, open_event, refuse_unknown
from .samples import Array
from .scoring import brier, nll

Score = Literal["nll", "brier"] | Callable[..., float]


@dataclass(frozen=True)
class Decomposition:
    """A score of which recalibration would take off `calibration` and leave `refinement`.

    >>> print(Decomposition(total=0.52, refinement=0.48, calibration=0.04))
    0.5200 = 0.4800 refinement + 0.0400 calibration
    """

    total: float
    refinement: float
    calibration: float

    def __str__(self) -> str:
        return f"{self.total:.4f} = {self.refinement:.4f} refinement + {self.calibration:.4f} calibration"


def decompose(
    score: Score, probs: ProbsLike, recalibrated: ProbsLike, labels: LabelsLike, **shared: Unpack[Shared]
) -> Decomposition:
    """Split a proper score into refinement, the score of the recalibrated probabilities, and calibration, the rest.

    Recalibrate by a scaler that was fitted on other samples, or by cross-validation: fitted on these very labels it
    counts its own overfitting as miscalibration. The calibration part is negative where the scaler does harm; a value
    near 0 says that this kind of scaler has nothing left to gain, not that the model is calibrated. Where confidence
    and correctness are all there is, they are binary scores with their labels: the event is that an answer is right.

    Args:
        score: "nll" or "brier", or these functions themselves.
        probs: (N, C) probabilities or (N,) scores of class 1, torch or numpy, or a `Prediction`.
        recalibrated: the same samples' probabilities after recalibration.
        labels: (N,) class numbers.
        sample_weight: (N,) how much each sample counts.
        classes: names of the columns, where labels are names.

    >>> sure, calibrated = [[0.9, 0.1]] * 4, [[0.75, 0.25]] * 4
    >>> parts = decompose("brier", sure, calibrated, [0, 0, 0, 1])
    >>> round(parts.total, 3), round(parts.refinement, 3), round(parts.calibration, 3)
    (0.42, 0.375, 0.045)
    """
    measure = next((each for each in (nll, brier) if score in (each, each.__name__)), None)
    if measure is None:
        raise ValueError(f"score={score!r}, expected 'nll' or 'brier', which a split like this is defined for")
    refuse_unknown(shared)
    total = measure(probs, labels, **shared)
    try:
        refinement = measure(recalibrated, labels, **shared)
    except ValueError as error:
        raise ValueError(f"recalibrated cannot be read: {error}") from error
    return Decomposition(total, refinement, total - refinement)


@dataclass(frozen=True, eq=False)
class Corp:
    """The Brier score of one event as mcb - dsc + unc, and the reliability curve that splits it.

    Args:
        score: mean squared distance between forecast and event.
        mcb: miscalibration, what the best monotone recalibration would take off.
        dsc: discrimination, what the recalibrated forecasts are better than one constant.
        unc: uncertainty, the score of the constant: the event's share times the rest.
        forecast: (P,) mean forecast of each pool, rising.
        frequency: (P,) share of events in the pool, its recalibrated forecast, rising.
        count: (P,) samples in the pool, or their weight.

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
        parts = f"miscalibration {self.mcb:.3f} - discrimination {self.dsc:.3f} + uncertainty {self.unc:.3f}"
        return f"score {self.score:.3f} = {parts}"


def corp(probs: TopLike | None = None, labels: LabelsLike | None = None, **entry: Unpack[Entry]) -> Corp:
    """The CORP reliability curve and its split of the Brier score (Dimitriadis, Gneiting and Jordan, 2021).

    Forecasts are recalibrated by the best monotone curve, which pools adjacent violators: no number of bins to choose.
    The curve is fitted to the very samples it is measured on, so that mcb is never negative, and above 0 for a
    calibrated model as well; `calibration_test` tells what is chance.

    The event is that the answer is right: (N, C) probabilities are read by their top class. Binary (N,) scores with
    labels forecast the event that the label is class 1. The score counts the event alone, so that it is half of `brier`
    of the same scores.

    Args: as for `ece`.

    >>> curve = corp([0.4, 0.3, 0.2, 0.1, 0.5, 0.9], [0, 0, 0, 1, 1, 1])
    >>> curve.frequency, curve.count
    (array([0.25, 1.  ]), array([4., 2.]))
    """
    top = open_event(probs, labels, **entry)
    groups = grouped(top)
    start = pooled(groups.count, groups.correct)
    count, forecast, events = (
        np.add.reduceat(sums, start) for sums in (groups.count, groups.confidence, groups.correct)
    )
    frequency, share = events / count, count / count.sum()
    score = float(np.average((top.confidence.astype(np.float64) - top.correct) ** 2, weights=top.weight))
    refined, mean = float((share * frequency * (1 - frequency)).sum()), float((share * frequency).sum())
    unc = mean * (1 - mean)
    return Corp(score, score - refined, unc - refined, unc, forecast / count, frequency, count)


def pooled(count: Array, total: Array) -> Array:
    """Where pools start if neighbours are joined until the means total / count rise: isotonic regression.

    >>> pooled(np.array([1.0, 1.0, 2.0]), np.array([1.0, 0.0, 2.0]))
    array([0, 2])
    """
    pools: list[tuple[int, float, float]] = []
    for start, (weight, amount) in enumerate(zip(count.tolist(), total.tolist(), strict=True)):
        while pools and pools[-1][2] * weight >= amount * pools[-1][1]:
            start, more_weight, more_amount = pools.pop()
            weight, amount = weight + more_weight, amount + more_amount
        pools.append((start, weight, amount))
    return np.array([start for start, _, _ in pools])
