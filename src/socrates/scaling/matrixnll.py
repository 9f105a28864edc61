"""The regularised NLL of matrix scaling as an objective for the solver."""

import math

import torch
from torch import Tensor

from socrates.scaling.convex import chunks, length

# Up to this many logits the curvature is float64 as well; beyond, float32 halves its time and the gradient decides.
SMALL = 2**18
# Nearly free fits of few rows are close to separable: only each class's exact block preconditions those well.
BLOCKS_BELOW, BLOCKS_ROWS, BLOCKS_COLUMNS = 1e-4, 8192, 256


class MatrixNLL:
    """Mean NLL of softmax(x' theta^T) + strength / 2 * |theta - start|^2, where x' is b z with a column of ones.

    theta (P, C + 1) has one row for each class that occurs. The start is temperature scaling: 1 where a class meets its
    own column, 0 elsewhere. Working on b z makes the strength independent of the logits' scale.
    """

    def __init__(self, logits: Tensor, labels: Tensor, present: Tensor, b: float, strength: float) -> None:
        self.b, self.strength = b, strength
        self.labels = torch.searchsorted(present, labels)
        self.inputs = self.extended(logits)  # (N, C + 1)
        self.start = torch.eye(self.inputs.shape[1], dtype=torch.float64, device=logits.device)[present]
        narrow = torch.float64 if logits.dtype == torch.float64 or logits.numel() <= SMALL else torch.float32
        self.fast_inputs = self.inputs.to(narrow)
        self.probs = self.fast_inputs.new_empty((len(logits), len(present)))
        self.weights = torch.empty(0)
        self.factors: Tensor | None = None
        few = len(logits) <= BLOCKS_ROWS and logits.shape[1] <= BLOCKS_COLUMNS
        self.largest_for_blocks = BLOCKS_BELOW if few else -1.0
        gram = self.inputs.T @ self.inputs / len(logits)
        self.spectrum: Tensor
        self.basis: Tensor
        self.spectrum, self.basis = torch.linalg.eigh(gram)  # pyright: ignore[reportUnknownMemberType]

    def extended(self, logits: Tensor) -> Tensor:
        """b z with a column of ones, in float64."""
        z = self.b * logits.double()
        return torch.cat([z, z.new_ones(len(z), 1)], dim=1)

    def evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        """Value and gradient at theta."""
        excess = theta - self.start
        total, gradient, weights = 0.0, torch.zeros_like(theta), theta.new_zeros(len(theta))
        for rows in chunks(*self.inputs.shape):
            x, y = self.inputs[rows], self.labels[rows, None]
            log_p = (x @ theta.T).log_softmax(dim=1)
            total -= float(log_p.gather(1, y).sum())
            p = log_p.exp_()
            self.probs[rows] = p
            weights += (p * (1 - p)).sum(dim=0)
            p.scatter_add_(1, y, torch.full_like(y, -1, dtype=p.dtype))
            gradient += p.T @ x
        count = len(self.labels)
        self.weights, self.factors = weights / count, None
        value = total / count + 0.5 * self.strength * float(excess.square().sum())
        return value, gradient / count + self.strength * excess

    def curvature(self, direction: Tensor) -> Tensor:
        """Second derivative times direction."""
        out = torch.zeros_like(direction)
        narrow = direction.to(self.fast_inputs.dtype)
        for rows in chunks(*self.inputs.shape):
            x, p = self.fast_inputs[rows], self.probs[rows]
            change = (x @ narrow.T).mul_(p)
            change -= p * change.sum(dim=1, keepdim=True)
            out += change.T @ x
        return out / len(self.labels) + self.strength * direction

    def precondition(self, residual: Tensor) -> Tensor:
        """Inverts each class's block of the second derivative, or w_k * gram + strength, w_k = mean p_k (1 - p_k)."""
        if self.factors is None and self.strength <= self.largest_for_blocks:
            self.factors = self._factored_blocks()
        if self.factors is not None:
            return residual.unsqueeze(2).cholesky_solve(self.factors).squeeze(2)
        scale = self.weights[:, None] * (self.spectrum.clamp(min=0.0) + 1e-10 * self.spectrum[-1]) + self.strength
        return (residual @ self.basis / scale.clamp(min=1e-300)) @ self.basis.T

    def _factored_blocks(self) -> Tensor:
        spread = self.probs.double() * (1 - self.probs.double())  # (N, P)
        blocks = torch.stack([(self.inputs * w[:, None]).T @ self.inputs for w in spread.T]) / len(self.labels)
        diagonal = blocks.diagonal(dim1=1, dim2=2)
        # The small share keeps a block positive when there are fewer rows than columns, or none that is in doubt.
        diagonal += self.strength + 1e-9 * diagonal.mean(dim=1, keepdim=True) + 1e-30
        return torch.linalg.cholesky(blocks)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def norm(self, gradient: Tensor) -> float:
        """Length of the gradient with respect to the matrix (which multiplies z, not b z) and the bias."""
        return math.hypot(length(gradient[:, :-1]) / self.b, length(gradient[:, -1:]))


def nll_gradient(logits: Tensor, labels: Tensor, weight: Tensor, bias: Tensor) -> tuple[float, Tensor]:
    """Mean NLL of softmax(W z + bias) over all columns, and its gradient by (W, bias) side by side, (C, C + 1)."""
    total, gradient = 0.0, weight.new_zeros(len(weight), len(weight) + 1)
    for rows in chunks(*logits.shape):
        z, y = logits[rows].double(), labels[rows, None]
        log_p = (z @ weight.T + bias).log_softmax(dim=1)
        total -= float(log_p.gather(1, y).sum())
        p = log_p.exp_()
        p.scatter_add_(1, y, torch.full_like(y, -1, dtype=p.dtype))
        gradient[:, :-1] += p.T @ z
        gradient[:, -1] += p.sum(dim=0)
    return total / len(labels), gradient / len(labels)
