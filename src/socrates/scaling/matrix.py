"""Matrix scaling: a full affine map of the logits, drawn towards temperature scaling."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from socrates.scaling.affine import (
    TOLERANCE,
    absent_bias,
    known_columns,
    mean_nll,
    present_classes,
    warn_unless_converged,
)
from socrates.scaling.convex import Minimum, length, minimize
from socrates.scaling.crossvalidation import choose_strength
from socrates.scaling.inputs import Array, check_fit, check_logits
from socrates.scaling.matrixnll import MatrixNLL, nll_gradient
from socrates.scaling.scaler import FitReport, Scaler, folded, working
from socrates.scaling.temperature import fit_inverse_temperature


class MatrixScaling(Scaler):
    """Maps logits z to W z + bias with the least regularised NLL on the data it is fitted on.

    The objective is mean NLL + strength / 2 * (|T W - I|^2 + |bias|^2), T being the temperature of temperature scaling:
    off-diagonal and intercept regularisation (ODIR, Kull et al. 2019) that also holds the diagonal, so that strength
    infinity is temperature scaling. `regularization` is a strength >= 0, None for no penalty, or "cv" (default): 5-fold
    cross-validation on the fit data over infinity and half decades from 1 to 1e-6, taking the largest strength within
    one standard error of the best, and infinity within three, so that scarce data end in temperature scaling.
    The strength used is in `strength`. A class without labels, such as an unknown column, has no finite optimum: it
    keeps its row of temperature scaling and its bias is lowered until its gradient is below 1e-7.

    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    >>> scaler = MatrixScaling(regularization=0.1).fit(logits, torch.tensor([0, 1, 1, 0, 0]))
    >>> scaler.report.converged, scaler.report.nll_after < scaler.report.nll_before
    (True, True)
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, regularization: Literal["cv"] | float | None = "cv") -> None:
        super().__init__()
        if isinstance(regularization, str) and regularization != "cv":
            raise ValueError(f'regularization must be "cv", a number >= 0 or None, got {regularization!r}')
        if isinstance(regularization, (int, float)) and not regularization >= 0:
            raise ValueError(f'regularization must be "cv", a number >= 0 or None, got {regularization}')
        self.regularization = regularization
        self.strength: float | None = None
        self._remember(torch.device("cpu"), weight=torch.ones(0, 0), bias=torch.zeros(0))

    def fit(self, logits: Array, labels: Array) -> "MatrixScaling":
        """Finds W and bias from held-out logits (N, C) and labels (N,), starting at temperature scaling."""
        z, y = check_fit(logits, labels, "MatrixScaling")
        present = present_classes(y, "MatrixScaling")
        temperature = fit_inverse_temperature(*known_columns(z, y, present))
        b = temperature.b
        self.strength = self._choose_strength(z, y, present)
        minimum = _minimum(z, y, present, b, self.strength)
        weight = b * torch.eye(z.shape[1], dtype=torch.float64, device=z.device)
        bias = torch.zeros(z.shape[1], dtype=torch.float64, device=z.device)
        weight[present], bias[present] = b * minimum.theta[:, :-1], minimum.theta[:, -1]
        bias += absent_bias(z, present, lambda rows: rows @ weight.T + bias)
        before, (after, gradient) = mean_nll(z, y, lambda rows: rows), nll_gradient(z, y, weight, bias)
        fallen_back = after > before
        if fallen_back:
            weight, bias = torch.eye(z.shape[1]).to(weight), torch.zeros_like(bias)
            after, gradient = before, nll_gradient(z, y, weight, bias)[1]
        self._remember(z.device, weight=weight, bias=bias)
        if self.strength < math.inf:
            excess = torch.cat([weight / b - torch.eye(z.shape[1]).to(weight), b * bias[:, None]], dim=1)
            gradient[present] += self.strength / b * excess[present]
            steps, norm = minimum.num_steps, length(gradient)
        elif fallen_back:
            steps, norm = temperature.report.num_iterations, abs(float(gradient.diagonal()[present].sum()))
        else:
            steps, norm = temperature.report.num_iterations, temperature.report.gradient_norm
        self.report = FitReport(len(z), steps, norm, before, after)
        self.columns = z.shape[1]
        warn_unless_converged(self.report, "MatrixScaling")
        return self

    def _choose_strength(self, logits: Tensor, labels: Tensor, present: Tensor) -> float:
        if isinstance(self.regularization, str):
            return choose_strength(logits, labels, present)
        return float(self.regularization or 0.0)

    def forward(self, logits: Tensor) -> Tensor:
        """W times each row of logits, plus bias, of any leading shape."""
        z = working(check_logits(logits, "MatrixScaling", self.columns))
        if self.columns == 0:
            return logits
        return nn.functional.linear(z, self.weight.to(z.dtype), self.bias.to(z.dtype)).to(logits.dtype)

    def fold(self, linear: nn.Linear) -> nn.Linear:
        """A new linear layer whose outputs are already scaled: W times its weight and bias, plus the bias."""
        if self.columns == 0:
            return folded(linear, 0, "MatrixScaling", torch.ones(()), None)
        return folded(linear, self.columns, "MatrixScaling", self.weight, self.bias)


def _minimum(logits: Tensor, labels: Tensor, present: Tensor, b: float, strength: float) -> Minimum:
    objective = MatrixNLL(logits, labels, present, b, strength)
    if strength == math.inf:  # temperature scaling: the penalty leaves nothing to fit
        return Minimum(objective.start, 0, math.nan)
    found = minimize(objective, objective.start, TOLERANCE)
    # Adding the same row to all rows changes no probability: take the solution without a common row beyond the start's.
    common = (found.theta - objective.start).mean(dim=0)
    return Minimum(found.theta - common, found.num_steps, found.gradient_norm)
