"""What a scaler would give: each is fitted on one half of the rows and measured on the other."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from socrates import metrics, scaling
from socrates.metrics import Decomposition
from socrates.scaling import FitReport, Scaler, TemperatureScaling
from socrates.scaling.best import CLEARLY, Best
from socrates.scaling.scaler import Fit

from .rows import JudgedRows

FEWEST_ROWS = 20  # of a half
MOST_VALUES, FEWEST_AND_MOST = 2**20, (5_000, 20_000)  # values, and rows, that scalers are fitted on
SCORES = ("nll", "brier")


@dataclass(frozen=True)
class Recalibrated:
    """Numbers of the held-out half before ("none") and after each scaler, and the one to use.

    Which one that is, the other half alone has decided, so that its numbers are honest: it is "none" unless the best
    clearly lowers the NLL there. `scaler` is of this kind, but fitted on rows of both halves. `parts` splits the
    scores of the held-out half by the best.
    """

    numbers: Mapping[str, Mapping[str, float]]
    winner: str = "none"
    scaler: Scaler | None = None
    parts: Mapping[str, Decomposition] = field(default_factory=dict)
    reason: str = ""  # why nothing was tried

    @property
    def before(self) -> Mapping[str, float]:
        """The held-out half as it is."""
        return self.numbers["none"]

    @property
    def after(self) -> Mapping[str, float]:
        """The held-out half under the scaler to use."""
        return self.numbers[self.winner]


def recalibrate(rows: JudgedRows, seed: int = 0) -> Recalibrated:
    """Scalers compared on held-out rows."""
    order = np.random.default_rng(seed).permutation(len(rows))
    fit, held_out = rows.take(order[: len(rows) // 2]), rows.take(order[len(rows) // 2 :])
    numbers = {"none": numbers_of(held_out)}
    if len(fit) < FEWEST_ROWS:
        given = f"{len(rows)} rows are" if len(rows) > 1 else "1 row is"
        return Recalibrated(numbers, reason=f"{given} too few to fit a scaler on one half and try it on the other")
    if (fit.labels == fit.labels[0]).all():
        only = rows.layout.classes[fit.labels[0]] if not rows.of_confidence else ("wrong", "right")[fit.labels[0]]
        return Recalibrated(numbers, reason=f"all rows to fit a scaler on are of one class, {only}")
    fit = fit.take(slice(most_rows(rows)))
    scalers = scaling.candidates(rows.values.shape[1], rows.has_unknown)
    tried = {**scalers, "none": Unscaled()}
    how = {"unknown_class": rows.has_unknown, "from_probs": rows.from_probs}
    chosen = scaling.best(fit.values, fit.labels, candidates=tried, **how)
    for name in [trial.name for trial in chosen.table if trial.name in scalers and not trial.failed]:
        numbers[name] = numbers_of(held_out, fitted(scalers[name], fit))
    is_better = clearly_better(chosen) and (not rows.has_unknown or helps(tried[chosen.name], fit))
    winner = fitted(tried[chosen.name], rows.take(order[: most_rows(rows)])) if is_better else None
    given = held_out.prediction(), held_out.prediction(chosen.scaler), held_out.labels
    parts = {score: metrics.decompose(score, *given, sample_weight=held_out.weight) for score in SCORES}
    return Recalibrated(numbers, chosen.name if is_better else "none", winner, parts)


class Unscaled(TemperatureScaling):
    """Leaves logits as they are, so that doing nothing is cross-validated beside the scalers."""

    def _fit(self, logits: Tensor, labels: Tensor, unknown_class: bool) -> Fit:
        return {"temperature": 1.0}, FitReport(len(labels), 0, 0.0, math.nan, math.nan), ""


def clearly_better(chosen: Best) -> bool:
    """Whether the best scaler beats none as clearly as another must beat temperature scaling to be chosen."""
    trials = {trial.name: trial for trial in chosen.table}
    none, best = trials["none"], trials[chosen.name]
    if chosen.name == "temperature":
        return none.difference > CLEARLY * none.error
    return best.nll < none.nll


def helps(scaler: Scaler, rows: JudgedRows) -> bool:
    """Whether a scaler lowers the NLL in the reading of the rows: cross-validation reads all unknown by "spread"."""
    fit, held_out = rows.take(slice(0, None, 2)), rows.take(slice(1, None, 2))
    after = numbers_of(held_out, fitted(scaler, fit))
    return after["nll"] < numbers_of(held_out)["nll"]


def fitted(scaler: Scaler, rows: JudgedRows) -> Scaler:
    """A copy of a scaler, fitted on these rows."""
    scaler = copy.deepcopy(scaler)
    fit = scaler.fit_probs if rows.from_probs else scaler.fit
    return fit(rows.values, rows.labels, unknown_class=rows.has_unknown)


def most_rows(rows: JudgedRows) -> int:
    """How many rows scalers are fitted on at most: wide ones are fewer, for they take long."""
    return int(np.clip(MOST_VALUES // rows.values.shape[1], *FEWEST_AND_MOST))


def numbers_of(rows: JudgedRows, scaler: Scaler | None = None) -> dict[str, float]:
    """What scalers are compared by."""
    said = rows.prediction(scaler)
    of_rows = {"nll": metrics.nll, "brier": metrics.brier}
    found = {name: metric(said, rows.labels, sample_weight=rows.weight) for name, metric in of_rows.items()}
    return {"accuracy": metrics.accuracy(rows.top(scaler)), "ece": rows.ece(scaler), **found}
