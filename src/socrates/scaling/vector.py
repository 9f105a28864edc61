"""Vector scaling: one scale and one bias a column."""

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
from socrates.scaling.convex import chunks, length, minimize
from socrates.scaling.inputs import Array, check_fit, check_logits
from socrates.scaling.scaler import FitReport, Scaler, folded, working
from socrates.scaling.temperature import fit_inverse_temperature

# Up to this many logits the curvature is float64 as well; beyond, float32 halves its time and the gradient decides.
SMALL = 2**20


class VectorScaling(Scaler):
    """Maps logits z to scale * z + bias, one pair a column, with the least NLL on the data it is fitted on.

    Before `fit` it is the identity for any number of columns. The biases sum to 0 over the classes that occur. A class
    without labels, such as an unknown column, has no finite optimum: it keeps the scale 1 / T of temperature scaling,
    and its bias is lowered until its gradient is below 1e-7, which rules it out (`ReadoutScaling` keeps it instead).

    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    >>> scaler = VectorScaling().fit(logits, torch.tensor([0, 1, 1, 0, 0]))
    >>> scaler.report.converged, scaler.report.nll_after < scaler.report.nll_before
    (True, True)
    """

    scale: Tensor
    bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._remember(torch.device("cpu"), scale=torch.ones(0), bias=torch.zeros(0))

    def fit(self, logits: Array, labels: Array) -> "VectorScaling":
        """Finds scale and bias from held-out logits (N, C) and labels (N,), starting at temperature scaling."""
        z, y = check_fit(logits, labels, "VectorScaling")
        present = present_classes(y, "VectorScaling")
        columns, targets = known_columns(z, y, present)
        b = fit_inverse_temperature(columns, targets).b
        start = torch.stack([torch.full((len(present),), b), torch.zeros(len(present))]).to(z.device, torch.float64)
        minimum = minimize(VectorNLL(columns, targets), start, TOLERANCE)
        scale, bias = torch.full((z.shape[1],), b).to(start), torch.zeros(z.shape[1]).to(start)
        scale[present], bias[present] = minimum.theta[0], minimum.theta[1] - minimum.theta[1].mean()
        bias += absent_bias(z, present, lambda rows: rows * scale + bias)
        nll = VectorNLL(z, y)
        before, (after, gradient) = mean_nll(z, y, lambda rows: rows), nll.evaluate(torch.stack([scale, bias]))
        if after > before:
            scale, bias = torch.ones_like(scale), torch.zeros_like(bias)
            after, gradient = before, nll.evaluate(torch.stack([scale, bias]))[1]
        self._remember(z.device, scale=scale, bias=bias)
        self.report = FitReport(len(z), minimum.num_steps, length(gradient), before, after)
        self.columns = z.shape[1]
        warn_unless_converged(self.report, "VectorScaling")
        return self

    def forward(self, logits: Tensor) -> Tensor:
        """Scale * logits + bias, of any leading shape."""
        z = working(check_logits(logits, "VectorScaling", self.columns))
        if self.columns == 0:
            return logits
        return (z * self.scale.to(z.dtype) + self.bias.to(z.dtype)).to(logits.dtype)

    def fold(self, linear: nn.Linear) -> nn.Linear:
        """A new linear layer whose outputs are already scaled: each row times its scale, plus the bias."""
        if self.columns == 0:
            return folded(linear, 0, "VectorScaling", torch.ones(()), None)
        return folded(linear, self.columns, "VectorScaling", self.scale, self.bias)


class VectorNLL:
    """Mean NLL of softmax(scale * z + bias) as an objective; theta (2, C) holds scale and bias."""

    def __init__(self, logits: Tensor, labels: Tensor) -> None:
        self.logits, self.labels = logits, labels
        wide = logits.dtype == torch.float64 or logits.numel() <= SMALL
        self.probs = logits.new_empty(logits.shape, dtype=torch.float64 if wide else torch.float32)
        self.blocks = torch.empty(0)

    def evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        """Value and gradient at theta."""
        total, gradient, blocks = 0.0, torch.zeros_like(theta), theta.new_zeros(3, theta.shape[1])
        for rows in chunks(*self.logits.shape):
            z, y = self.logits[rows].double(), self.labels[rows, None]
            log_p = (z * theta[0] + theta[1]).log_softmax(dim=1)
            total -= float(log_p.gather(1, y).sum())
            p = log_p.exp_()
            self.probs[rows] = p
            weight = p * (1 - p)
            blocks[2] += weight.sum(dim=0)
            blocks[1] += weight.mul_(z).sum(dim=0)
            blocks[0] += weight.mul_(z).sum(dim=0)
            p.scatter_add_(1, y, torch.full_like(y, -1, dtype=p.dtype))
            gradient[1] += p.sum(dim=0)
            gradient[0] += p.mul_(z).sum(dim=0)
        self.blocks = blocks / len(self.labels)
        return total / len(self.labels), gradient / len(self.labels)

    def curvature(self, direction: Tensor) -> Tensor:
        """Second derivative times direction."""
        out = torch.zeros_like(direction)
        scale, bias = direction.to(self.probs.dtype)
        for rows in chunks(*self.logits.shape):
            z, p = self.logits[rows].to(self.probs.dtype), self.probs[rows]
            change = (z * scale + bias).mul_(p)
            change -= p * change.sum(dim=1, keepdim=True)
            out[1] += change.sum(dim=0)
            out[0] += change.mul_(z).sum(dim=0)
        return out / len(self.labels)

    def precondition(self, residual: Tensor) -> Tensor:
        """Inverts each class's own 2 x 2 block: scale and bias of a class depend on each other the most."""
        a, b, d = self.blocks
        a, d = a * (1 + 1e-9) + 1e-300, d * (1 + 1e-9) + 1e-300
        determinant = (a * d - b * b).clamp(min=1e-18 * a * d)
        r, s = residual
        return torch.stack([(d * r - b * s), (a * s - b * r)]) / determinant

    def norm(self, gradient: Tensor) -> float:
        """Length of the gradient."""
        return length(gradient)
