"""Try scalers: each is fitted on one half of the rows and measured on the other."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from socrates import metrics, scaling
from socrates.metrics import Decomposition
from socrates.scaling import FitReport, Scaler, TemperatureScaling
from socrates.scaling.best import CLEARLY, Best
from socrates.scaling.held_out import HeldOut
from socrates.scaling.scaler import Fit

from .rows import JudgedRows

FEWEST_ROWS = 20  # of a half
# Scalers are fitted on this many values, but on a number of rows between these.
MOST_VALUES = 2**20
FEWEST_FITTED = 5_000
MOST_FITTED = 20_000
SCORES = ("nll", "brier")


@dataclass(frozen=True)
class Recalibration:
    """The held-out half of the rows before ("none") and after each scaler, and the one to use.

    Which one to use is decided on the other half alone, so that the numbers are honest: it is
    "none" unless the best scaler clearly lowers the NLL there.

    Args:
        numbers: the metrics of the held-out half by scaler.
        winner: the name of the scaler to use.
        scaler: of this name, but fitted on rows of both halves.
        parts: the scores of the held-out half, split by the best scaler.
        reason: why nothing was tried.
    """

    numbers: Mapping[str, Mapping[str, float]]
    winner: str = "none"
    scaler: Scaler | None = None
    parts: Mapping[str, Decomposition] = field(default_factory=dict)
    reason: str = ""

    @property
    def before(self) -> Mapping[str, float]:
        """Return the metrics of the held-out half as it is."""
        return self.numbers["none"]

    @property
    def after(self) -> Mapping[str, float]:
        """Return the metrics of the held-out half under the scaler to use."""
        return self.numbers[self.winner]


def recalibrate(rows: JudgedRows, seed: int = 0) -> Recalibration:
    """Compare all scalers on held-out rows."""
    order = np.random.default_rng(seed).permutation(len(rows))
    half = len(rows) // 2
    fit = rows.take(order[:half])
    held_out = rows.take(order[half:])
    numbers = {"none": scores_of(held_out)}
    if reason := _why_not(rows, fit):
        return Recalibration(numbers, reason=reason)
    fit = fit.take(slice(most_rows(rows)))
    scalers = scaling.candidates(rows.values.shape[1], rows.has_unknown)
    tried = {**scalers, "none": Unscaled()}
    best = scaling.best(
        fit.values,
        fit.labels,
        candidates=tried,
        unknown_class=rows.has_unknown,
        from_probs=rows.from_probs,
    )
    for trial in best.table:
        if trial.name in scalers and not trial.failed:
            scaler = fit_copy(scalers[trial.name], fit)
            numbers[trial.name] = scores_of(held_out, scaler)
    parts = {
        score: metrics.decompose(
            score,
            held_out.prediction(),
            held_out.prediction(best.scaler),
            held_out.labels,
            sample_weight=held_out.weight,
        )
        for score in SCORES
    }
    if not is_clearly_better(best) or (rows.has_unknown and not helps(tried[best.name], fit)):
        return Recalibration(numbers, parts=parts)
    scaler = fit_copy(tried[best.name], rows.take(order[: most_rows(rows)]))
    return Recalibration(numbers, best.name, scaler, parts)


def _why_not(rows: JudgedRows, fit: JudgedRows) -> str:
    """Return why no scaler can be tried, "" if one can."""
    if len(fit) < FEWEST_ROWS:
        count = f"{len(rows)} rows are" if len(rows) > 1 else "1 row is"
        return f"{count} too few to fit a scaler on one half and try it on the other"
    first = fit.labels[0]
    if (fit.labels == first).all():
        classes = ("wrong", "right") if rows.of_confidence else rows.layout.classes
        return f"all rows to fit a scaler on are of one class, {classes[first]}"
    return ""


class Unscaled(TemperatureScaling):
    """Leave logits as they are, so that doing nothing is cross-validated beside the scalers."""

    def _fit(self, data: HeldOut) -> Fit:
        return {"temperature": 1.0}, FitReport(len(data.labels), 0, 0.0, math.nan, math.nan), ""


def is_clearly_better(best: Best) -> bool:
    """Return whether the best scaler clearly beats none.

    It must do so as clearly as another must beat temperature scaling to be chosen.
    """
    trials = {trial.name: trial for trial in best.table}
    unscaled = trials["none"]
    if best.name == "temperature":
        return unscaled.difference > CLEARLY * unscaled.error
    return trials[best.name].nll < unscaled.nll


def helps(scaler: Scaler, rows: JudgedRows) -> bool:
    """Return whether a scaler lowers the NLL in the reading of the rows.

    Cross-validation reads all unknown by "spread".
    """
    fit = rows.take(slice(0, None, 2))
    held_out = rows.take(slice(1, None, 2))
    after = scores_of(held_out, fit_copy(scaler, fit))
    return after["nll"] < scores_of(held_out)["nll"]


def fit_copy(scaler: Scaler, rows: JudgedRows) -> Scaler:
    """Return a copy of a scaler, fitted on these rows."""
    scaler = copy.deepcopy(scaler)
    return scaler.fit(
        rows.values,
        rows.labels,
        unknown_class=rows.has_unknown,
        from_probs=rows.from_probs,
    )


def most_rows(rows: JudgedRows) -> int:
    """Return how many rows scalers are fitted on at most: fewer if they are wide, to save time."""
    return int(np.clip(MOST_VALUES // rows.values.shape[1], FEWEST_FITTED, MOST_FITTED))


def scores_of(rows: JudgedRows, scaler: Scaler | None = None) -> dict[str, float]:
    """Return the metrics by which scalers are compared."""
    prediction = rows.prediction(scaler)
    return {
        "accuracy": metrics.accuracy(rows.top(scaler)),
        "ece": rows.ece(scaler),
        "nll": metrics.nll(prediction, rows.labels, sample_weight=rows.weight),
        "brier": metrics.brier(prediction, rows.labels, sample_weight=rows.weight),
    }
