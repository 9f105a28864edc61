"""What a scaler would give: each is fitted on one half of the rows and measured on the other."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from socrates import metrics, scaling
from socrates.metrics import Decomposition
from socrates.scaling import Scaler

from .rows import JudgedRows

FEWEST_ROWS = 20  # in a half
MOST_VALUES = 2**21  # that scalers are fitted on
MOST_ROWS = 20_000


@dataclass(frozen=True)
class Recalibrated:
    """Scores on the held-out half before ("none") and after each scaler, and the one to use, fitted on all rows.

    `winner` is "none" where no scaler is clearly better; `skipped` says why a scaler was not tried.
    """

    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    winner: str = "none"
    scaler: Scaler | None = None
    parts: Mapping[str, Decomposition] = field(default_factory=dict)  # of nll and brier, by the winner
    skipped: Mapping[str, str] = field(default_factory=dict)


def recalibrate(sample: JudgedRows, seed: int = 0) -> Recalibrated:
    """Scalers compared on a held-out half; the winner is chosen on the other half alone."""
    order = np.random.default_rng(seed).permutation(len(sample))
    fit, held_out = sample.take(order[: len(order) // 2]), sample.take(order[len(order) // 2 :])
    if len(fit) < FEWEST_ROWS or len(np.unique(fit.labels)) < 2:
        why = f"{len(sample)} rows are too few to fit a scaler on one half and try it on the other"
        return Recalibrated({"none": scores(held_out)}, skipped={"all": why})
    few = min(MOST_ROWS, max(FEWEST_ROWS, MOST_VALUES // fit.logits.shape[1]))
    fit, unknown = fit.take(slice(few)), sample.reading is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a limit without optimum is a result here, and shows in the numbers
        chosen = scaling.best(fit.logits, fit.labels, unknown_class=unknown)
        ...
    return Recalibrated()


def scores(sample: JudgedRows, logits=None) -> dict[str, float]:
    """The numbers that scalers are compared by."""
    prediction, top = sample.prediction(logits), sample.top(logits)
    given = {"sample_weight": sample.weight}
    return {
        "accuracy": metrics.accuracy(top),
        "ece": metrics.ece(top),
        "nll": metrics.nll(prediction, sample.labels, **given),
        "brier": metrics.brier(prediction, sample.labels, **given),
    }
