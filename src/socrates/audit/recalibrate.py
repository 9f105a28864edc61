"""Try scalers: each is fitted on one half of the rows and measured on the other."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from socrates import metrics, scaling
from socrates.arrays.open import Array
from socrates.metrics import Decomposition, Direction
from socrates.metrics.uncertainty import values_if_calibrated
from socrates.scaling import Scaler
from socrates.scaling.choice import CrossValidation, Unscaled, choose
from socrates.scaling.held_out import open_held_out

from .rows import JudgedRows

FEWEST_ROWS = 20  # of a half
# Scalers are fitted on this many values, but on a number of rows between these.
MOST_VALUES = 2**20
FEWEST_FITTED = 5_000
MOST_FITTED = 20_000
NUM_FOLDS = 5  # of the cross-validation that decides which scaler to use
NUM_DRAWS = 1000  # of labels, for the floor and the calibration test of the held-out half
SCORES = ("nll", "brier")


@dataclass(frozen=True)
class HalfJudgement:
    """How far the held-out half is from calibrated, as it is or under a scaler.

    Args:
        ece: its expected calibration error.
        floor: the mean ECE of a calibrated model with these confidences.
        floor_95: the ECE that a calibrated model stays below in 95% of such halves.
        p_value: of its calibration test.
        direction: whether it is over- or underconfident, and by how much.
    """

    ece: float
    floor: float
    floor_95: float
    p_value: float
    direction: Direction


@dataclass(frozen=True)
class Recalibration:
    """The held-out half of the rows before ("none") and after each scaler, and the one to use.

    Which one to use is decided by cross-validation on the other half, so that the numbers are
    honest: the simplest within one standard error of the lowest NLL, "none" being the simplest of
    all. The held-out half has a veto: nothing is used that raises its NLL.

    Args:
        numbers: the metrics of the held-out half by scaler.
        winner: the name of the scaler to use.
        reason: why it is this one.
        judged: how far the held-out half is from calibrated, for "none" and for the winner.
        num_held_out: the number of rows in the held-out half.
        scaler: of this name, but fitted on rows of both halves.
        parts: the scores of the held-out half, split by the best scaler.
        untried: why nothing was tried, empty if something was.
    """

    numbers: Mapping[str, Mapping[str, float]]
    winner: str = "none"
    reason: str = ""
    judged: Mapping[str, HalfJudgement] = field(default_factory=dict)
    num_held_out: int = 0
    scaler: Scaler | None = None
    parts: Mapping[str, Decomposition] = field(default_factory=dict)
    untried: str = ""

    @property
    def before(self) -> Mapping[str, float]:
        """Return the metrics of the held-out half as it is."""
        return self.numbers["none"]

    @property
    def after(self) -> Mapping[str, float]:
        """Return the metrics of the held-out half under the scaler to use."""
        return self.numbers[self.winner]

    @property
    def remaining(self) -> HalfJudgement:
        """Return how far the held-out half is from calibrated under the scaler to use."""
        return self.judged[self.winner]


def recalibrate(rows: JudgedRows, seed: int = 0) -> Recalibration:
    """Compare all scalers on held-out rows."""
    order = shuffled(rows, seed)
    fit, held_out = halves(rows, seed)
    result = Recalibration(
        numbers={"none": scores_of(held_out)},
        judged={"none": judge_half(held_out)},
        num_held_out=len(held_out),
    )
    if untried := _why_not(rows, fit):
        return replace(result, untried=untried)
    fit = fit.take(slice(most_rows(rows)))
    scalers = scaling.candidates(rows.values.shape[1], rows.has_unknown)
    validation = cross_validation(fit)
    attempts = {"none": validation.try_one(Unscaled())}
    for name, scaler in scalers.items():
        attempts[name] = validation.try_one(scaler)
    fitted = {
        name: fit_copy(scaler, fit) for name, scaler in scalers.items() if not attempts[name].failed
    }
    numbers = {name: scores_of(held_out, scaler) for name, scaler in fitted.items()}
    weight = validation.data.weight
    choice = choose(attempts, weight)
    best = choose({name: attempts[name] for name in fitted}, weight).name
    result = replace(
        result,
        numbers={**result.numbers, **numbers},
        reason=choice.reason,
        parts=parts_of(held_out, fitted[best]),
    )
    if choice.name == "none":
        return result
    before = result.before["nll"]
    after = numbers[choice.name]["nll"]
    if after >= before:
        rise = f"it raises the NLL of the other half from {before:.3f} to {after:.3f}"
        return replace(result, reason=f"{choice.name} has {choice.reason}, but {rise}")
    return replace(
        result,
        winner=choice.name,
        judged={**result.judged, choice.name: judge_half(held_out, fitted[choice.name])},
        scaler=fit_copy(scalers[choice.name], rows.take(order[: most_rows(rows)])),
    )


def halves(rows: JudgedRows, seed: int = 0) -> tuple[JudgedRows, JudgedRows]:
    """Return the rows that scalers are fitted on, and those that they are measured on."""
    order = shuffled(rows, seed)
    half = len(rows) // 2
    return rows.take(order[:half]), rows.take(order[half:])


def shuffled(rows: JudgedRows, seed: int = 0) -> Array:
    """Return the places of all rows in random order; the first half is for fitting."""
    return np.random.default_rng(seed).permutation(len(rows))


def cross_validation(rows: JudgedRows) -> CrossValidation:
    """Return the cross-validation of scalers on these rows, in their reading."""
    data = open_held_out(
        rows.values,
        rows.labels,
        "the audit",
        unknown_class=rows.has_unknown,
        from_probs=rows.from_probs,
        sample_weight=rows.weight,
    )
    return CrossValidation(
        data, NUM_FOLDS, rows.from_probs, rows.reading, answers=not rows.of_confidence
    )


def parts_of(held_out: JudgedRows, scaler: Scaler) -> dict[str, Decomposition]:
    """Return the scores of the held-out half, split by a scaler."""
    before = held_out.prediction()
    after = held_out.prediction(scaler)
    return {
        score: metrics.decompose(
            score, before, after, held_out.labels, sample_weight=held_out.weight
        )
        for score in SCORES
    }


def judge_half(rows: JudgedRows, scaler: Scaler | None = None) -> HalfJudgement:
    """Return how far rows are from calibrated, as they are or scaled."""
    top = rows.top(scaler)
    ece = partial(metrics.ece, num_bins=rows.num_bins)
    draws = values_if_calibrated(ece, top, NUM_DRAWS, 0, None, None)
    return HalfJudgement(
        ece=ece(top),
        floor=float(draws.mean()),
        floor_95=float(np.quantile(draws, 0.95)),
        p_value=metrics.calibration_test(top, num_draws=NUM_DRAWS).p_value,
        direction=metrics.direction(top, num_bins=rows.num_bins),
    )


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


def fit_copy(scaler: Scaler, rows: JudgedRows) -> Scaler:
    """Return a copy of a scaler, fitted on these rows."""
    scaler = copy.deepcopy(scaler)
    return scaler.fit(
        rows.values,
        rows.labels,
        unknown_class=rows.has_unknown,
        from_probs=rows.from_probs,
        sample_weight=rows.weight,
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
