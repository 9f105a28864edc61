"""The rule by which one of several scalers is chosen, and the cross-validation that it reads."""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from socrates.metrics.predictions import Reading, probabilities
from socrates.scaling.held_out import HeldOut, mean, mean_and_error
from socrates.scaling.scaler import Fit, FitReport, Scaler
from socrates.scaling.temperature import TemperatureScaling

# Standard errors within which two scalers count as equally good.
NEAR = 1.0


class Attempt(NamedTuple):
    """What a candidate does to each row that it was not fitted on.

    Args:
        simplicity: how many numbers a fit chooses; the fewer, the simpler.
        nll: (N,) the NLL of each row.
        correct: (N,) whether each answer is right, None where scaling cannot change an answer.
        seconds: the time of the fits.
        failed: why there are no rows, empty if there are.
    """

    simplicity: float
    nll: Tensor
    correct: Tensor | None = None
    seconds: float = 0.0
    failed: str = ""


@dataclass(frozen=True)
class Choice:
    """The name of the scaler to use, and why it is this one."""

    name: str
    reason: str


class Unscaled(TemperatureScaling):
    """Leave logits as they are, so that doing nothing is cross-validated beside the scalers."""

    def num_fitted(self, columns: int) -> float:
        """Return 0: nothing is simpler."""
        return 0

    def _fit(self, data: HeldOut) -> Fit:
        return {"temperature": 1.0}, FitReport(len(data.labels), 0, 0.0, math.nan, math.nan), ""


class CrossValidation:
    """Fits on all folds of the rows but one; each fold has its part of every class.

    Args:
        data: the rows, logits or, with `from_probs`, probabilities.
        num_folds: the number of folds.
        from_probs: whether the rows are probabilities.
        reading: of the unknown class, None without one.
        answers: whether the largest column is the answer, so that a scaler may change it.
    """

    def __init__(
        self,
        data: HeldOut,
        num_folds: int,
        from_probs: bool,
        reading: Reading | None,
        answers: bool = True,
    ) -> None:
        self.data = data
        self.num_folds = num_folds
        self.from_probs = from_probs
        self.reading: Reading | None = reading
        self.answers = answers
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

    def attempt(self, scaler: Scaler) -> Attempt:
        """Return NLL and correctness of each row by the fit on the folds without it."""
        start = time.perf_counter()
        labels = self.data.labels
        nll = torch.empty(len(labels), dtype=torch.float64, device=labels.device)
        correct = torch.empty_like(labels, dtype=torch.bool)
        for k in range(self.num_folds):
            inside = self.order[k :: self.num_folds]
            outside = torch.ones_like(labels, dtype=torch.bool).index_fill_(0, inside, False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a fit without optimum shows in the NLL
                fit = self.fitted(scaler, outside)
                scaled: Tensor = fit(self.values[inside], from_probs=self.from_probs)
            log_p = probabilities(scaled.double(), self.reading, logarithm=True)
            nll[inside] = -log_p.gather(1, labels[inside, None]).squeeze(1)
            correct[inside] = log_p.argmax(dim=1) == labels[inside]
        simplicity = scaler.num_fitted(self.data.logits.shape[1])
        seconds = time.perf_counter() - start
        return Attempt(simplicity, nll, correct if self.answers else None, seconds)

    def try_one(self, scaler: Scaler) -> Attempt:
        """Return the attempt of a candidate, or why it failed."""
        start = time.perf_counter()
        try:
            return self.attempt(scaler)
        # Bad input, no Cholesky factor, overflow.
        except (ValueError, RuntimeError, ArithmeticError) as error:
            reason = " ".join(str(error).split())
            return Attempt(torch.inf, torch.empty(0), None, time.perf_counter() - start, reason)


def choose(attempts: Mapping[str, Attempt], weight: Tensor | None = None) -> Choice:
    """Return the simplest candidate within one standard error of the lowest mean NLL.

    The standard error is that of the difference, row by row. Candidates whose accuracy is below
    that of the first by more than one standard error, likewise row by row, are left out.

    >>> rows = torch.tensor([0.2, 0.4, 0.6])
    >>> choose({"none": Attempt(0, rows), "temperature": Attempt(1, rows - 0.1)})
    Choice(name='temperature', reason='the lowest cross-validated NLL (0.300)')
    >>> noisy = rows + torch.tensor([0.3, 0.0, -0.5])
    >>> choose({"none": Attempt(0, rows), "temperature": Attempt(1, noisy)}).name
    'none'
    """
    tried = {name: attempt for name, attempt in attempts.items() if not attempt.failed}
    first = next(iter(tried.values()))
    losses = {name: _lost_accuracy(attempt, first, weight) for name, attempt in tried.items()}
    nll = {name: float(mean(attempt.nll, weight)) for name, attempt in tried.items()}
    allowed = [name for name in tried if not losses[name]]
    lowest = min(allowed, key=nll.__getitem__)
    near: list[str] = []
    for name in allowed:
        excess, error = mean_and_error(tried[name].nll - tried[lowest].nll, weight)
        if excess <= NEAR * error:
            near.append(name)
    name = min(near, key=lambda name: (tried[name].simplicity, nll[name]))
    reason = f"the lowest cross-validated NLL ({nll[lowest]:.3f})"
    if name != lowest:
        reason = (
            "the simplest within one standard error of the lowest cross-validated NLL "
            f"({lowest}, {nll[lowest]:.3f})"
        )
    losing = [other for other in tried if losses[other] and nll[other] < nll[lowest]]
    if losing:
        worst = min(losing, key=nll.__getitem__)
        reason += f"; {worst} has a lower one, but loses {100 * losses[worst]:.1f} points accuracy"
    return Choice(name, reason)


def _lost_accuracy(attempt: Attempt, first: Attempt, weight: Tensor | None) -> float:
    """Return how much accuracy is lost to the first candidate, 0 where it may be noise."""
    if attempt.correct is None or first.correct is None:
        return 0.0
    gained = attempt.correct.double() - first.correct.double()
    difference, error = mean_and_error(gained, weight)
    return -difference if difference < -NEAR * error else 0.0
