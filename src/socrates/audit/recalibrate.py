"""What a scaler would give: each is fitted on one half of the rows and measured on the other."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from socrates import metrics, scaling
from socrates.metrics import Decomposition
from socrates.scaling import Scaler

from .rows import JudgedRows

FEWEST_ROWS = 20  # of a half
MOST_VALUES, FEWEST_AND_MOST = 2**20, (5_000, 20_000)  # values, and rows, that scalers are fitted on
SCORES = ("nll", "brier")


@dataclass(frozen=True)
class Recalibrated:
    """Numbers of the held-out half before ("none") and after each scaler, and the one to use.

    Which one that is, the other half alone has decided, so that its numbers are honest: it is "none" where even the
    best does not lower the NLL there. `scaler` is of this kind, but fitted on rows of both halves. `parts` splits the
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
    if len(fit) < FEWEST_ROWS or len(np.unique(fit.labels)) < 2:
        why = f"{len(rows)} rows are too few to fit a scaler on one half and try it on the other"
        return Recalibrated(numbers, reason=why)
    fit = fit.take(slice(most_rows(rows)))
    scalers = scaling.candidates(rows.values.shape[1], rows.has_unknown)
    how = {"unknown_class": rows.has_unknown, "from_probs": rows.from_probs}
    chosen = scaling.best(fit.values, fit.labels, candidates=scalers, **how)
    for name in [trial.name for trial in chosen.table if not trial.failed]:
        numbers[name] = numbers_of(held_out, fitted(scalers[name], fit))
    winner = fitted(scalers[chosen.name], rows.take(order[: most_rows(rows)]))
    given = held_out.prediction(), held_out.prediction(chosen.scaler), held_out.labels
    parts = {score: metrics.decompose(score, *given, sample_weight=held_out.weight) for score in SCORES}
    gain = numbers_of(fit)["nll"] - min(trial.nll for trial in chosen.table if trial.name == chosen.name)
    if gain <= 0:  # by cross-validation on the half that decides
        return Recalibrated(numbers, parts=parts)
    return Recalibrated(numbers, chosen.name, winner, parts)


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
    top, said = rows.top(scaler), rows.prediction(scaler)
    of_rows = {"nll": metrics.nll, "brier": metrics.brier}
    found = {name: metric(said, rows.labels, sample_weight=rows.weight) for name, metric in of_rows.items()}
    return {"accuracy": metrics.accuracy(top), "ece": metrics.ece(top), **found}
