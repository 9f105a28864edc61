"""Choose a scaler: nested cross-validation between those that suit the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

from torch import Tensor

from socrates.arrays.content import Classes
from socrates.arrays.open import ArrayLike
from socrates.metrics.predictions import Reading
from socrates.scaling.affine import StructuredScaling
from socrates.scaling.beta import BetaScaling
from socrates.scaling.choice import Attempt, CrossValidation, choose
from socrates.scaling.ensemble import EnsembleTemperatureScaling
from socrates.scaling.held_out import mean, mean_and_error, open_held_out
from socrates.scaling.isotonic import IsotonicScaling
from socrates.scaling.outside import outside_scalers
from socrates.scaling.readout import ReadoutScaling
from socrates.scaling.scaler import Scaler
from socrates.scaling.temperature import TemperatureScaling

REFERENCE = "temperature"
# Columns beyond which a full matrix takes minutes.
MOST_COLUMNS = 256


class Trial(NamedTuple):
    """A candidate's mean held-out NLL, its difference to temperature scaling, and its costs.

    `error` is the standard error of the difference, `seconds` the time of the fits. `failed` says
    why there are no numbers, empty if there are.
    """

    name: str
    nll: float
    difference: float
    error: float
    seconds: float
    failed: str = ""

    def __str__(self) -> str:
        if self.failed:
            return f"{self.name:<20} failed: {self.failed}"
        against = "" if self.name == REFERENCE else f"{self.difference:+.4f} +- {self.error:.4f}"
        return f"{self.name:<20} {self.nll:>12.4f}   {against:<20} {self.seconds:>7.2f}"


@dataclass(frozen=True, repr=False)
class Best:
    """The scaler to use, fitted on all rows, its name, what was tried, and why it is this one.

    >>> reference = Trial("temperature", 0.52, 0.0, 0.0, 0.01)
    >>> ensemble = Trial("ensemble", 0.51, -0.01, 0.007, 0.2)
    >>> reason = "the simplest within one standard error"
    >>> Best(TemperatureScaling(), "temperature", (reference, ensemble), reason)
    best: temperature, TemperatureScaling(not fitted)
    why: the simplest within one standard error
    candidate            held-out NLL   against temperature  seconds
    temperature                0.5200                           0.01
    ensemble                   0.5100   -0.0100 +- 0.0070       0.20
    """

    scaler: Scaler
    name: str
    table: tuple[Trial, ...]
    reason: str = ""

    def __repr__(self) -> str:
        head = (
            f"{'candidate':<20} {'held-out NLL':>12}   {'against temperature':<20} {'seconds':>7}"
        )
        first = f"best: {self.name}, {self.scaler}"
        return "\n".join([first, f"why: {self.reason}", head, *map(str, self.table)])


def best(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    candidates: Mapping[str, Scaler] | Iterable[str] | None = None,
    folds: int = 5,
    unknown_class: bool | None = None,
    from_probs: bool = False,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Best:
    """Choose the simplest scaler with nearly the lowest held-out NLL, and fit it on all rows.

    Each candidate is fitted `folds` times on the other folds, where it chooses its own strength,
    and scored on the one left out. Of those within one standard error of the lowest mean NLL, the
    one that fits the fewest numbers is taken. The standard error is that of the difference, row by
    row. A candidate whose answers are right less often than those of temperature scaling, by more
    than one standard error, is not taken. With an unknown class the NLL is that of its reading
    "spread". The `reason` says how the choice came about.

    Args:
        logits: (N, C), or (N,) of class 1; probabilities with `from_probs`.
        labels: (N,) class numbers, or names of classes.
        candidates: unfitted scalers by name, or some of the names "structured" (not by default
            beyond 256 columns), "structured diagonal", "ensemble", "readout" (with an unknown
            class), "beta" and "isotonic" (of two classes), which are the default where they apply,
            with those that were added to SCALERS; temperature scaling is always among them. Those
            that fail stay in the table.
        folds: the number of folds.
        unknown_class: whether the last column is the unknown class.
        from_probs: whether probabilities are passed in.
        sample_weight: (N,) how often each sample counts, by default once.
        classes: the names of the classes in the order of the columns.

    >>> import torch
    >>> generator = torch.Generator().manual_seed(0)
    >>> logits = 3 * torch.randn(400, 3, generator=generator)
    >>> labels = torch.multinomial((logits / 2).softmax(dim=1), 1, generator=generator).squeeze(1)
    >>> result = best(logits, labels, candidates=["ensemble"])
    >>> result.scaler, [trial.name for trial in result.table]
    (TemperatureScaling(temperature=1.996, columns=3), ['temperature', 'ensemble'])
    """
    unknown = bool(unknown_class)
    data = open_held_out(
        logits,
        labels,
        "best",
        unknown_class=unknown,
        from_probs=from_probs,
        sample_weight=sample_weight,
        classes=classes,
    )
    num_rows, columns = data.logits.shape
    if not isinstance(folds, int) or folds < 2 or num_rows < 2 * folds:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"best needs at least 2 folds of at least 2 rows, got {num_rows} rows in {folds} "
            "folds: pass more held-out data, or use TemperatureScaling"
        )
    reading: Reading | None = "spread" if unknown else None
    validation = CrossValidation(data, folds, from_probs, reading)
    scalers = _scalers_to_try(candidates, columns, unknown)
    attempts = {REFERENCE: validation.attempt(scalers[REFERENCE])}
    for name, scaler in scalers.items():
        if name != REFERENCE:
            attempts[name] = validation.try_one(scaler)
    choice = choose(attempts, data.weight)
    table = tuple(
        _trial(name, attempt, attempts[REFERENCE], data.weight)
        for name, attempt in attempts.items()
    )
    return Best(validation.fitted(scalers[choice.name]), choice.name, table, choice.reason)


def candidates(columns: int, unknown_class: bool = False) -> dict[str, Scaler]:
    """Return the unfitted scalers that `best` tries by default on this many columns, by name.

    >>> [*candidates(2)]
    ['temperature', 'structured', 'structured diagonal', 'ensemble', 'beta', 'isotonic']
    """
    unsuited: set[str] = set()
    if columns > MOST_COLUMNS:
        unsuited.add("structured")
    if not unknown_class:
        unsuited.add("readout")
    if columns != 2:
        unsuited |= {"beta", "isotonic"}
    scalers = _named_scalers(unknown_class)
    return {name: scaler for name, scaler in scalers.items() if name not in unsuited}


def _trial(name: str, attempt: Attempt, reference: Attempt, weight: Tensor | None) -> Trial:
    """Return the line of the table for a candidate."""
    if attempt.failed:
        return Trial(name, math.nan, math.nan, math.nan, attempt.seconds, attempt.failed)
    difference, error = mean_and_error(attempt.nll - reference.nll, weight)
    return Trial(name, float(mean(attempt.nll, weight)), difference, error, attempt.seconds)


def _named_scalers(unknown_class: bool) -> dict[str, Scaler]:
    """Return all scalers that have a name here, temperature scaling first."""
    return {
        REFERENCE: TemperatureScaling(),
        "structured": StructuredScaling(),
        "structured diagonal": StructuredScaling(structure="diagonal"),
        "ensemble": EnsembleTemperatureScaling(),
        "readout": ReadoutScaling(),
        "beta": BetaScaling(),
        "isotonic": IsotonicScaling(),
        **outside_scalers(unknown_class),
    }


def _scalers_to_try(
    requested: Mapping[str, Scaler] | Iterable[str] | None, columns: int, unknown_class: bool
) -> dict[str, Scaler]:
    """Return the requested scalers by name, temperature scaling first."""
    if requested is None:
        return candidates(columns, unknown_class)
    known = _named_scalers(unknown_class)
    if isinstance(requested, Mapping):
        scalers = {REFERENCE: known[REFERENCE]} | dict(cast("Mapping[str, Scaler]", requested))
        for name, scaler in scalers.items():
            expected = TemperatureScaling if name == REFERENCE else Scaler
            if not isinstance(scaler, expected):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(
                    f"best needs an unfitted {expected.__name__} as {name!r}, got {scaler!r}: "
                    f"pass e.g. {{'mine': VectorScaling()}}"
                )
        return scalers
    names = [REFERENCE, *([requested] if isinstance(requested, str) else requested)]
    for name in names:
        if name not in known:
            choice = ", ".join([*known][1:])
            raise ValueError(
                f"best does not know {name!r}: choose from {choice}, or pass scalers by name"
            )
    return {name: known[name] for name in names}
