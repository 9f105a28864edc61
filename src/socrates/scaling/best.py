"""Choose a scaler: nested cross-validation between those that suit the data."""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, cast

import torch
from torch import Tensor

from socrates.arrays.content import Classes
from socrates.arrays.open import ArrayLike
from socrates.metrics.predictions import probabilities
from socrates.scaling.affine import StructuredScaling
from socrates.scaling.beta import BetaScaling
from socrates.scaling.ensemble import EnsembleTemperatureScaling
from socrates.scaling.held_out import HeldOut, mean, mean_and_error, open_held_out
from socrates.scaling.isotonic import IsotonicScaling
from socrates.scaling.outside import outside_scalers
from socrates.scaling.readout import ReadoutScaling
from socrates.scaling.scaler import Scaler
from socrates.scaling.temperature import TemperatureScaling

REFERENCE = "temperature"
# Standard errors by which temperature scaling must be beaten.
CLEARLY = 2.0
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

    @property
    def clear(self) -> bool:
        """Return whether it is better than temperature scaling by more than two standard errors."""
        return self.difference < -CLEARLY * self.error

    def __str__(self) -> str:
        if self.failed:
            return f"{self.name:<20} failed: {self.failed}"
        against = "" if self.name == REFERENCE else f"{self.difference:+.4f} +- {self.error:.4f}"
        return f"{self.name:<20} {self.nll:>12.4f}   {against:<20} {self.seconds:>7.2f}"


@dataclass(frozen=True, repr=False)
class Best:
    """The winner, fitted on all rows, its name, and what was tried.

    >>> reference = Trial("temperature", 0.52, 0.0, 0.0, 0.01)
    >>> ensemble = Trial("ensemble", 0.51, -0.01, 0.007, 0.2)
    >>> Best(TemperatureScaling(), "temperature", (reference, ensemble))
    best: temperature, TemperatureScaling(not fitted)
    candidate            held-out NLL   against temperature  seconds
    temperature                0.5200                           0.01
    ensemble                   0.5100   -0.0100 +- 0.0070       0.20
    """

    scaler: Scaler
    name: str
    table: tuple[Trial, ...]

    def __repr__(self) -> str:
        head = (
            f"{'candidate':<20} {'held-out NLL':>12}   {'against temperature':<20} {'seconds':>7}"
        )
        return "\n".join([f"best: {self.name}, {self.scaler}", head, *map(str, self.table)])


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
    """Choose the scaler with the least held-out NLL, and fit it on all rows.

    It is temperature scaling unless that is clearly beaten. Each candidate is fitted `folds` times
    on the other folds, where it chooses its own strength, and scored on the one left out. It is
    clearly better where its mean NLL is below that of temperature scaling by more than two standard
    errors of the difference, row by row. With an unknown class the NLL is that of its reading
    "spread".

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
    validation = CrossValidation(data, folds, from_probs)
    scalers = _scalers_to_try(candidates, columns, unknown)
    start = time.perf_counter()
    reference = validation.held_out_nll(scalers[REFERENCE])
    nll = float(mean(reference, data.weight))
    table = [Trial(REFERENCE, nll, 0.0, 0.0, time.perf_counter() - start)]
    for name, scaler in scalers.items():
        if name != REFERENCE:
            table.append(_trial(name, scaler, validation, reference))
    winner = min((trial for trial in table if trial.clear), key=attrgetter("nll"), default=table[0])
    return Best(validation.fitted(scalers[winner.name]), winner.name, tuple(table))


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


class CrossValidation:
    """Fits on all folds of the rows but one; each fold has its part of every class."""

    def __init__(self, data: HeldOut, num_folds: int, from_probs: bool) -> None:
        self.data = data
        self.num_folds = num_folds
        self.from_probs = from_probs
        # As they were passed in: one column of scores where there are two classes.
        self.values = data.logits[:, 1:] if data.are_scores else data.logits
        labels = data.labels
        shuffle = torch.Generator().manual_seed(0)
        shuffled = torch.randperm(len(labels), generator=shuffle).to(labels.device)
        self.order = shuffled[labels[shuffled].argsort(stable=True)]

    def fitted(self, scaler: Scaler, rows: Tensor | slice = slice(None)) -> Scaler:
        """Return a copy of the scaler, fitted on these rows."""
        data = self.data.take(rows)
        return copy.deepcopy(scaler).fit(
            self.values[rows],
            data.labels,
            unknown_class=data.unknown_class,
            from_probs=self.from_probs,
            sample_weight=data.weight,
        )

    def held_out_nll(self, scaler: Scaler) -> Tensor:
        """Return the NLL of each row by the fit on the folds without it, (N,)."""
        labels = self.data.labels
        nll = torch.empty(len(labels), dtype=torch.float64, device=labels.device)
        for k in range(self.num_folds):
            inside = self.order[k :: self.num_folds]
            outside = torch.ones_like(labels, dtype=torch.bool).index_fill_(0, inside, False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a fit without optimum shows in the NLL
                fit = self.fitted(scaler, outside)
                scaled: Tensor = fit(self.values[inside], from_probs=self.from_probs)
            reading = "spread" if self.data.unknown_class else None
            log_p = probabilities(scaled.double(), reading, logarithm=True)
            nll[inside] = -log_p.gather(1, labels[inside, None]).squeeze(1)
        return nll


def _trial(name: str, scaler: Scaler, validation: CrossValidation, reference: Tensor) -> Trial:
    start = time.perf_counter()
    try:
        nll = validation.held_out_nll(scaler)
    # Bad input, no Cholesky factor, overflow.
    except (ValueError, RuntimeError, ArithmeticError) as error:
        reason = " ".join(str(error).split())
        return Trial(name, math.nan, math.nan, math.nan, time.perf_counter() - start, reason)
    weight = validation.data.weight
    difference, error = mean_and_error(nll - reference, weight)
    seconds = time.perf_counter() - start
    return Trial(name, float(mean(nll, weight)), difference, error, seconds)


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
