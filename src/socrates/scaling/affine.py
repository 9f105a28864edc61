"""What vector, matrix and structured scaling share: the fit, and how strongly it is drawn to temperature scaling."""

import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from socrates.scaling.blocks import chunks
from socrates.scaling.newton import minimize
from socrates.scaling.objective import AffineNLL
from socrates.scaling.scaler import CONVERGED, Fit, FitReport, Scaler
from socrates.scaling.temperature import fit_inverse_temperature

# NLLs of temperature scaling are summed in float32.
ROUNDING = 1e-6
# The share of the gradient that a ruled out unknown column may keep.
RULED_OUT = 0.1 * CONVERGED

SEPARABLE = "the labels can be separated without error, so the NLL falls for ever as the scales grow"


class AffineScaling(Scaler):
    """Maps logits to A z + bias with the least NLL + 1/2 sum of penalty * (T A - I, bias)^2 on the fit data."""

    full: bool  # whether A is a matrix or one number a column
    linear: ClassVar[str]  # the name of A among the buffers
    automatic: ClassVar[str]  # the word for the strength that `_choose` finds
    given: ClassVar[str] = "regularization"  # what the constructor calls the strength
    may_be_none: ClassVar[bool] = True  # for no penalty
    bias: Tensor

    def __init__(self, regularization: str | float | None) -> None:
        super().__init__(**{self.linear: torch.ones((0,) * (1 + self.full)), "bias": torch.zeros(0)})
        if isinstance(regularization, np.floating):  # of any precision
            regularization = float(regularization)
        number = isinstance(regularization, (int, float)) and regularization >= 0
        if not number and regularization not in ((self.automatic, None) if self.may_be_none else (self.automatic,)):
            expected = "a number >= 0 or None" if self.may_be_none else "a number >= 0 (0 for no penalty)"
            raise ValueError(f'{self.given} must be "{self.automatic}", {expected}, got {regularization!r}')
        self.regularization = regularization
        self.strength: float | None = None

    def _choose(self, objective: AffineNLL) -> tuple[float, Tensor]:
        """The strength if its word was given, and a theta near its minimum."""
        raise NotImplementedError

    def _penalty(self, strength: float, num_rows: int, num_classes: int) -> float | Tensor:
        """The penalty of a strength below infinity: one number, or one for each of theta."""
        return strength

    def affine(self) -> tuple[Tensor, Tensor]:
        """A and bias."""
        return self.get_buffer(self.linear), self.bias

    def _fit(self, logits: Tensor, labels: Tensor, unknown_class: bool) -> Fit:
        if bool((labels == labels[0]).all()):
            raise ValueError(
                f"{type(self).__name__}.fit needs labels of at least 2 classes, all {len(labels)} labels are "
                f"{int(labels[0])}: pass more held-out data, or use TemperatureScaling"
            )
        known = logits[:, :-1] if unknown_class else logits
        b, scaled, no_temperature = fit_inverse_temperature(known, labels)
        objective = AffineNLL(known, labels, b, self.full)
        given = self.regularization
        strength, start = self._choose(objective) if isinstance(given, str) else (float(given or 0), objective.centre)
        if strength < math.inf:
            objective.penalty = self._penalty(strength, *known.shape)
        theta, self.strength, report = _minimum(objective, scaled, strength, start)
        # A sum of -log p below log 2 leaves no label a probability below one half: then doubling all logits is better.
        limit = SEPARABLE if report.nll_after * len(labels) < math.log(2) else ""
        # A penalty ends what the scales gain by growing, but not the temperature that they are drawn to.
        if self.strength == math.inf or (limit and self.strength):
            limit = no_temperature
        on_logits = theta * objective.units
        scale, bias = on_logits[:, :-1].squeeze(1), on_logits[:, -1]
        if unknown_class:
            bias = torch.cat([bias, bias.new_tensor([_unknown_bias(logits, objective, theta)])])
            scale = torch.nn.functional.pad(scale, (0, 1) * scale.ndim)
            scale[(-1,) * scale.ndim] = b
        return {self.linear: scale, "bias": bias}, report, limit and f"{limit}; pass more held-out data"

    def extra_repr(self) -> str:
        """The regularisation, and what was fitted."""
        strength = "" if self.strength is None else f"strength={self.strength:.4g}, "
        return f"regularization={self.regularization!r}, {strength}{super().extra_repr()}"


def _minimum(
    objective: AffineNLL, scaled: FitReport, strength: float, start: Tensor
) -> tuple[Tensor, float, FitReport]:
    """theta, its strength and its report, which are those of temperature scaling where nothing else is better."""
    if strength == math.inf:  # the penalty leaves nothing to fit beside the temperature
        return objective.centre, strength, scaled
    theta, steps, gradient_norm = minimize(objective, start, 0.5 * CONVERGED)
    after = objective.nll(theta)
    if after > scaled.nll_after + ROUNDING:  # possible only where a class without labels is likely
        return objective.centre, math.inf, scaled
    after = min(after, scaled.nll_before)
    return theta, strength, FitReport(scaled.num_samples, steps, gradient_norm, scaled.nll_before, after)


def _unknown_bias(logits: Tensor, objective: AffineNLL, theta: Tensor) -> float:
    """The bias that rules out the last column, never above 0.

    The NLL has no minimum in the bias of a column that is never a label: it falls for ever towards -infinity. The bias
    stops where that column's share of the gradient has fallen below the tolerance.
    """
    log_shares: list[Tensor] = []
    for rows in chunks(logits):
        z = logits[rows].double()
        odds = objective.b * z[:, -1] - objective.outputs(z[:, :-1], theta).logsumexp(dim=1)
        log_shares.append(odds + 0.5 * (1 + z.square().sum(dim=1)).log())
    share = torch.cat(log_shares).logsumexp(dim=0) - math.log(len(logits))
    return min(0.0, math.log(RULED_OUT) - float(share))
