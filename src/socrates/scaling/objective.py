"""The regularised NLL of an affine map of the logits: the one objective of vector, matrix and structured scaling."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from socrates.scaling.blocks import FEW, Blocks, chunks
from socrates.scaling.newton import conjugate_gradients

# Up to this many logits the curvature is float64 as well; beyond, float32 halves its time and the gradient decides.
SMALL, SMALL_FULL = 2**20, 2**18
# Logits beyond this leave float32 too few digits or none.
LARGEST_NARROW = 1e5
# Up to this many logits the copy with one row a class is kept.
MOST_KEPT = 2**24


class AffineNLL:
    """Mean NLL of softmax(A b z + a) + 1/2 sum of penalty * (theta - centre)^2, where theta = (A, a).

    theta (C, D + 1) has one row a class and its bias a in the last column: D = C for a full matrix A, D = 1 for a
    diagonal one. The centre, A = I and a = 0, is temperature scaling with T = 1 / b; working on b z makes the penalty
    independent of the logits' scale. The penalty is a number or one for each of theta. Adding the same bias (or row of
    a full matrix) to all classes changes no probability, so under one number deviations sum to 0. A class without
    labels stays at the centre, and the others are fitted as if it did not exist, neither ruling it out nor reading its
    column: on the samples that show what either does there is no label.

    A `coarse` one, whose minimum need not be exact, computes all in float32 where the logits are many.
    """

    def __init__(
        self, logits: Tensor, labels: Tensor, b: float, full: bool, coarse: bool = False, blocks: Blocks | None = None
    ) -> None:
        self.logits, self.labels, self.b, self.full = logits, labels, b, full
        self.penalty: float | Tensor = 0.0
        num_classes = logits.shape[1]
        identity = torch.eye(num_classes, num_classes + 1, dtype=torch.float64, device=logits.device)
        self.centre = identity if self.full else torch.stack([identity.diagonal(), identity[:, -1]], dim=1)
        # theta * units is theta for z instead of b z; gradient * units is the gradient for b z from that for z.
        self.units = torch.full_like(self.centre[0], b)
        self.units[-1] = 1.0
        # The axis of the classes in what is made of the logits: one row a class is faster for a matrix and for few
        # classes, one row a sample needs no turned copy of the logits.
        self.axis = 0 if full or num_classes <= FEW else 1
        self.absent = labels.bincount(minlength=num_classes) == 0
        unread = torch.nn.functional.pad(self.absent, (0, 1)) if self.full else self.absent.new_zeros(2)
        self.held = self.absent[:, None] | unread
        coarse = coarse and bool(logits.abs().max() < LARGEST_NARROW)
        many = logits.numel() > (SMALL_FULL if full else SMALL)
        narrow = coarse or (many and logits.dtype != torch.float64)
        self.dtype = torch.float32 if coarse else torch.float64
        self.rounding = 1e-6 if coarse else 1e-13
        self.curvature_dtype = torch.float32 if narrow else torch.float64
        self.probs: list[Tensor] = []
        self.theta: Tensor | None = None
        self.blocks = blocks or Blocks(logits, b, full)
        self.features: dict[torch.dtype, list[Tensor]] = {}

    def outputs(self, logits: Tensor, theta: Tensor) -> Tensor:
        """The map of some rows, in float64."""
        mapped = self._mapped(self._featured(logits, torch.float64), theta * self.units)
        return mapped if self.axis else mapped.T

    def nll(self, theta: Tensor) -> float:
        """Mean NLL at theta over all classes, also those without labels, and without the penalty."""
        if theta is self.theta and self.dtype == torch.float64 and not bool(self.absent.any()):
            return self.mean_nll
        parts = ((self.outputs(self.logits[rows], theta), self.labels[rows]) for rows in chunks(self.logits))
        return sum(float(cross_entropy(*part, reduction="sum")) for part in parts) / len(self.labels)

    def evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        """Value and gradient at theta, where `curvature` then is taken."""
        if theta is not self.theta:  # otherwise it is only the penalty that may be another
            self.theta = theta
            self.mean_nll, self.gradient = self._evaluate(theta)
        excess = theta - self.centre
        value = self.mean_nll + 0.5 * float((self.penalty * excess.square()).sum())
        return value, self._allowed(self.gradient + self.penalty * excess)

    def _evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        on_logits, total, gradient = (theta * self.units).to(self.dtype), 0.0, torch.zeros_like(theta)
        missing = self.absent.nonzero().squeeze(1)
        self.probs.clear()
        for rows, x in self._parts(self.dtype):
            y = self.labels[rows].unsqueeze(self.axis)
            log_p = self._mapped(x, on_logits).index_fill_(self.axis, missing, -torch.inf).log_softmax(dim=self.axis)
            total -= float(log_p.gather(self.axis, y).sum())
            p = log_p.exp_()
            self.probs.append(p.to(self.curvature_dtype, copy=True))
            p.scatter_add_(self.axis, y, torch.full_like(y, -1, dtype=p.dtype))
            gradient += self._pulled_back(x, p)
        return total / len(self.labels), gradient * self.units / len(self.labels)

    def direction(self, gradient: Tensor, forcing: float) -> Tensor:
        """Newton's step to a relative residual of `forcing`."""
        return conjugate_gradients(self.curvature, self.precondition, gradient, forcing)

    def curvature(self, direction: Tensor) -> Tensor:
        """Second derivative times direction."""
        out, on_logits = torch.zeros_like(direction), (direction * self.units).to(self.curvature_dtype)
        for (_, x), p in zip(self._parts(self.curvature_dtype), self.probs, strict=True):
            change = self._mapped(x, on_logits).mul_(p)
            change.addcmul_(p, change.sum(dim=self.axis, keepdim=True), value=-1)
            out += self._pulled_back(x, change)
        return self._allowed(out * self.units / len(self.labels) + self.penalty * direction)

    def precondition(self, residual: Tensor) -> Tensor:
        """An approximate inverse of the second derivative: that of each class on its own."""
        return self._allowed(self.blocks.solve(self.penalty, residual))

    def norm(self, gradient: Tensor) -> float:
        """Length of the gradient with respect to the scale or matrix (which multiplies z, not b z) and the bias."""
        return float((gradient / self.units).square().sum().sqrt())

    def _parts(self, dtype: torch.dtype) -> Iterator[tuple[slice, Tensor]]:
        """Slices of rows with what theta multiplies."""
        slices = list(chunks(self.logits))
        parts = (self._featured(self.logits[rows], dtype) for rows in slices)
        if self.axis == 0 and self.logits.numel() <= MOST_KEPT:
            if dtype not in self.features:
                self.features[dtype] = list(parts)
            return zip(slices, self.features[dtype], strict=True)
        return zip(slices, parts, strict=True)

    def _featured(self, logits: Tensor, dtype: torch.dtype) -> Tensor:
        """What theta multiplies: the logits along the axis, and 1 behind them for a full matrix."""
        if self.axis == 1:
            return logits.to(dtype)
        x = logits.new_ones(logits.shape[1] + self.full, len(logits), dtype=dtype)
        x[: logits.shape[1]] = logits.T
        return x

    def _mapped(self, x: Tensor, on_logits: Tensor) -> Tensor:
        """The outputs, classes along the axis."""
        if self.full:
            return on_logits @ x
        scale, bias = on_logits.T.contiguous().unsqueeze(2 - self.axis)
        return torch.addcmul(bias, x, scale)

    def _pulled_back(self, x: Tensor, by_output: Tensor) -> Tensor:
        """The gradient by theta on z from the gradient by each output."""
        if self.full:
            return by_output @ x.T
        return torch.stack([(by_output * x).sum(dim=1 - self.axis), by_output.sum(dim=1 - self.axis)], dim=1)

    def _allowed(self, change: Tensor) -> Tensor:
        """The change without what is common to all classes that occur, and none of what is held."""
        if not isinstance(self.penalty, Tensor):  # penalties that differ decide themselves what is common
            common = change.sum(dim=0) / (~self.absent).sum()
            if not self.full:
                common[0] = 0.0
            change = change - common
        return change.masked_fill(self.held, 0.0)
