"""Which scaler to take: nested cross-validation between those that suit the data."""

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
from torch.nn.functional import cross_entropy

from socrates.scaling.beta import BetaScaling
from socrates.scaling.ensemble import EnsembleTemperatureScaling
from socrates.scaling.inputs import Array, check_fit
from socrates.scaling.isotonic import IsotonicScaling
from socrates.scaling.readout import ReadoutScaling
from socrates.scaling.scaler import Scaler
from socrates.scaling.structured import StructuredScaling
from socrates.scaling.temperature import TemperatureScaling

REFERENCE = "temperature"
# Standard errors by which temperature scaling must be beaten.
CLEARLY = 2.0
# Columns beyond which a full matrix takes minutes.
MOST_COLUMNS = 256


class Trial(NamedTuple):
    """A candidate: mean held-out NLL, its difference to temperature scaling with standard error, seconds of its fits.

    `failed` says why there are no numbers, empty if there are.
    """

    name: str
    nll: float
    difference: float
    error: float
    seconds: float
    failed: str = ""

    @property
    def clear(self) -> bool:
        """Whether it is better than temperature scaling by more than two standard errors."""
        return self.difference < -CLEARLY * self.error

    def __str__(self) -> str:
        if self.failed:
            return f"{self.name:<20} failed: {self.failed}"
        against = "" if self.name == REFERENCE else f"{self.difference:+.4f} +- {self.error:.4f}"
        return f"{self.name:<20} {self.nll:>12.4f}   {against:<20} {self.seconds:>7.2f}"


@dataclass(frozen=True, repr=False)
class Best:
    """The winner, fitted on all rows, its name, and what was tried.

    >>> trials = Trial("temperature", 0.52, 0.0, 0.0, 0.01), Trial("ensemble", 0.51, -0.01, 0.007, 0.2)
    >>> Best(TemperatureScaling(), "temperature", trials)
    best: temperature, TemperatureScaling(not fitted)
    candidate            held-out NLL   against temperature  seconds
    temperature                0.5200                           0.01
    ensemble                   0.5100   -0.0100 +- 0.0070       0.20
    """

    scaler: Scaler
    name: str
    table: tuple[Trial, ...]

    def __repr__(self) -> str:
        head = f"{'candidate':<20} {'held-out NLL':>12}   {'against temperature':<20} {'seconds':>7}"
        return "\n".join([f"best: {self.name}, {self.scaler}", head, *map(str, self.table)])


def best(
    logits: Array,
    labels: Array,
    *,
    candidates: Mapping[str, Scaler] | Iterable[str] | None = None,
    folds: int = 5,
    unknown_class: bool | None = None,
    from_probs: bool = False,
) -> Best:
    """The scaler with the least held-out NLL, fitted on all rows: temperature scaling unless that is clearly beaten.

    Each candidate is fitted `folds` times on the other folds, where it chooses its own strength, and scored on the one
    left out. It is clearly better where its mean NLL is below that of temperature scaling by more than two standard
    errors of the difference, row by row. With `from_probs` the logits are probabilities. With an unknown class the NLL
    is that of its reading `spread`.

    Candidates are unfitted scalers by name, or some of the names "structured" (not by default beyond 256 columns),
    "structured diagonal", "ensemble", "readout" (with an unknown class), "beta" and "isotonic" (of two classes), which
    are the default where they apply; temperature scaling is always among them. Those that fail stay in the table.

    >>> generator = torch.Generator().manual_seed(0)
    >>> logits = 3 * torch.randn(400, 3, generator=generator)
    >>> labels = torch.multinomial((logits / 2).softmax(dim=1), 1, generator=generator).squeeze(1)
    >>> found = best(logits, labels, candidates=["ensemble"])
    >>> found.name, found.scaler, [trial.name for trial in found.table]
    ('temperature', TemperatureScaling(temperature=1.996, columns=3), ['temperature', 'ensemble'])
    """
    unknown = bool(unknown_class)
    z, y = check_fit(logits, labels, "best", unknown, "probs" if from_probs else "logits")
    if not isinstance(folds, int) or folds < 2 or len(z) < 2 * folds:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"best needs at least 2 folds of at least 2 rows, got {len(z)} rows in {folds} folds: "
            f"pass more held-out data, or use TemperatureScaling"
        )
    data = Folds(z, y, folds, unknown, from_probs)
    chosen = _chosen(candidates, z.shape[1], unknown)
    start = time.perf_counter()
    reference = data.held_out_nll(chosen[REFERENCE])
    table = [Trial(REFERENCE, float(reference.mean()), 0.0, 0.0, time.perf_counter() - start)]
    table += [_trial(name, scaler, data, reference) for name, scaler in chosen.items() if name != REFERENCE]
    winner = min((trial for trial in table if trial.clear), key=attrgetter("nll"), default=table[0])
    return Best(data.fitted(chosen[winner.name], z, y), winner.name, tuple(table))


def candidates(columns: int, unknown_class: bool = False) -> dict[str, Scaler]:
    """The unfitted scalers that `best` tries by default on so many columns, by name, temperature scaling first.

    >>> [*candidates(2)]
    ['temperature', 'structured', 'structured diagonal', 'ensemble', 'beta', 'isotonic']
    """
    names = ["structured"] * (columns <= MOST_COLUMNS) + ["structured diagonal", "ensemble"]
    names += ["readout"] * unknown_class + ["beta", "isotonic"] * (columns == 2)
    return {name: known for name, known in _known().items() if name in (REFERENCE, *names)}


class Folds:
    """The rows in folds that share out each class."""

    def __init__(self, values: Tensor, labels: Tensor, number: int, unknown_class: bool, from_probs: bool) -> None:
        self.values, self.labels, self.number = values, labels, number
        self.unknown_class, self.from_probs = unknown_class, from_probs
        shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)).to(labels.device)
        self.order = shuffled[labels[shuffled].argsort(stable=True)]

    def fitted(self, scaler: Scaler, values: Tensor, labels: Tensor) -> Scaler:
        """A copy of the scaler, fitted on these rows."""
        scaler = copy.deepcopy(scaler)
        return (scaler.fit_probs if self.from_probs else scaler.fit)(values, labels, unknown_class=self.unknown_class)

    def held_out_nll(self, scaler: Scaler) -> Tensor:
        """NLL of each row by the fit on the folds without it, (N,)."""
        nll = torch.empty(len(self.labels), dtype=torch.float64, device=self.labels.device)
        for k in range(self.number):
            inside = self.order[k :: self.number]
            outside = torch.ones_like(self.labels, dtype=torch.bool).index_fill_(0, inside, False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a fit without optimum shows in the NLL
                fit = self.fitted(scaler, self.values[outside], self.labels[outside])
                scaled: Tensor = fit(self.values[inside], from_probs=self.from_probs)
            nll[inside] = self._nll(scaled.double(), self.labels[inside])
        return nll

    def _nll(self, scaled: Tensor, labels: Tensor) -> Tensor:
        if not self.unknown_class:
            return cross_entropy(scaled, labels, reduction="none")
        log_p = scaled.log_softmax(dim=1)
        shared = log_p[:, -1] - math.log(scaled.shape[1] - 1)
        return -torch.logaddexp(log_p.gather(1, labels[:, None]).squeeze(1), shared)


def _trial(name: str, scaler: Scaler, data: Folds, reference: Tensor) -> Trial:
    start = time.perf_counter()
    try:
        nll = data.held_out_nll(scaler)
    except (ValueError, RuntimeError, ArithmeticError) as error:  # bad input, no Cholesky factor, overflow
        reason = " ".join(str(error).split())
        return Trial(name, math.nan, math.nan, math.nan, time.perf_counter() - start, reason)
    difference = nll - reference
    error = float(difference.std()) / math.sqrt(len(difference))
    return Trial(name, float(nll.mean()), float(difference.mean()), error, time.perf_counter() - start)


def _known() -> dict[str, Scaler]:
    """All scalers that have a name here, temperature scaling first."""
    return {
        REFERENCE: TemperatureScaling(),
        "structured": StructuredScaling(),
        "structured diagonal": StructuredScaling(structure="diagonal"),
        "ensemble": EnsembleTemperatureScaling(),
        "readout": ReadoutScaling(),
        "beta": BetaScaling(),
        "isotonic": IsotonicScaling(),
    }


def _chosen(given: Mapping[str, Scaler] | Iterable[str] | None, columns: int, unknown_class: bool) -> dict[str, Scaler]:
    """What was asked for by name, temperature scaling first."""
    if given is None:
        return candidates(columns, unknown_class)
    known = _known()
    if isinstance(given, Mapping):
        own = {REFERENCE: known[REFERENCE]} | dict(cast("Mapping[str, Scaler]", given))
        for name, scaler in own.items():
            wanted: type = TemperatureScaling if name == REFERENCE else Scaler
            if not isinstance(scaler, wanted):
                raise ValueError(
                    f"best needs an unfitted {wanted.__name__} as {name!r}, got {scaler!r}: "
                    f"pass e.g. {{'mine': VectorScaling()}}"
                )
        return own
    names = [REFERENCE, *([given] if isinstance(given, str) else given)]
    if strange := [name for name in names if name not in known]:
        choice = ", ".join([*known][1:])
        raise ValueError(f"best knows no {strange[0]!r}: choose from {choice}, or give scalers by name")
    return {name: known[name] for name in names}
