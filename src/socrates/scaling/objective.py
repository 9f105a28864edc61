"""The regularised NLL of an affine map of the logits: the one objective of vector and matrix scaling."""

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from socrates.scaling.newton import conjugate_gradients

CHUNK_ELEMENTS = 2**18
# Up to this many logits the curvature is float64 as well; beyond, float32 halves its time and the gradient decides.
SMALL, SMALL_FULL = 2**20, 2**18


class AffineNLL:
    """Mean NLL of softmax(A b z + a) + 1/2 sum of penalty * (theta - centre)^2, where theta = (A, a).

    theta (C, D + 1) has one row a class and its bias a in the last column: D = C for a full matrix A, D = 1 for a
    diagonal one. The centre, A = I and a = 0, is temperature scaling with T = 1 / b; working on b z makes the penalty
    independent of the logits' scale. Adding the same bias (or row of a full matrix)
    to all classes changes no probability, so deviations sum to 0. A class without labels stays at the centre, and the
    others are fitted as if it did not exist, neither ruling it out nor reading its column: on the samples that show
    what either does there is no label.
    """

    def __init__(self, logits: Tensor, labels: Tensor, b: float, full: bool) -> None:
        self.logits, self.labels, self.b, self.full = logits, labels, b, full
        self.penalty = 0.0
        num_classes = logits.shape[1]
        identity = torch.eye(num_classes, num_classes + 1, dtype=torch.float64, device=logits.device)
        self.centre = identity if self.full else torch.stack([identity.diagonal(), identity[:, -1]], dim=1)
        # theta * units is theta for z instead of b z; gradient * units is the gradient for b z from that for z.
        self.units = torch.full_like(self.centre[0], b)
        self.units[-1] = 1.0
        self.absent = labels.bincount(minlength=num_classes) == 0
        unread = torch.nn.functional.pad(self.absent, (0, 1)) if self.full else self.absent.new_zeros(2)
        self.held = self.absent[:, None] | unread
        wide = logits.dtype == torch.float64 or logits.numel() <= (SMALL_FULL if full else SMALL)
        self.probs = logits.new_empty(logits.shape, dtype=torch.float64 if wide else torch.float32)
        self.spectrum, self.basis = cast("tuple[Tensor, Tensor]", torch.linalg.eigh(self._gram()))  # pyright: ignore[reportUnknownMemberType]

    def outputs(self, logits: Tensor, theta: Tensor) -> Tensor:
        """The map of some rows, in float64."""
        return self._mapped(logits.double(), theta * self.units)

    def nll(self, theta: Tensor) -> float:
        """Mean NLL at theta over all classes, also those without labels, and without the penalty."""
        parts = ((self.outputs(self.logits[rows], theta), self.labels[rows]) for rows in chunks(self.logits))
        return sum(float(cross_entropy(*part, reduction="sum")) for part in parts) / len(self.labels)

    def evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        """Value and gradient at theta, where `curvature` and `precondition` then are taken."""
        on_logits, total, gradient = theta * self.units, 0.0, torch.zeros_like(theta)
        variances = theta.new_zeros(len(theta))
        for rows in chunks(self.logits):
            z, y = self.logits[rows].double(), self.labels[rows, None]
            log_p = self._mapped(z, on_logits).masked_fill_(self.absent, -torch.inf).log_softmax(dim=1)
            total -= float(log_p.gather(1, y).sum())
            p = log_p.exp_()
            self.probs[rows] = p
            variances += (p * (1 - p)).sum(dim=0)
            p.scatter_add_(1, y, torch.full_like(y, -1, dtype=p.dtype))
            gradient += self._pulled_back(z, p)
        self.variances = variances / len(self.labels)  # mean p_k (1 - p_k), (C,)
        excess = theta - self.centre
        value = total / len(self.labels) + 0.5 * float((self.penalty * excess.square()).sum())
        return value, self._allowed(gradient * self.units / len(self.labels) + self.penalty * excess)

    def direction(self, gradient: Tensor, forcing: float) -> Tensor:
        """Newton's step to a relative residual of `forcing`."""
        return conjugate_gradients(self.curvature, self.precondition, gradient, forcing)

    def curvature(self, direction: Tensor) -> Tensor:
        """Second derivative times direction."""
        out, on_logits = torch.zeros_like(direction), (direction * self.units).to(self.probs.dtype)
        for rows in chunks(self.logits):
            z, p = self.logits[rows].to(self.probs.dtype), self.probs[rows]
            change = self._mapped(z, on_logits).mul_(p)
            change -= p * change.sum(dim=1, keepdim=True)
            out += self._pulled_back(z, change)
        return self._allowed(out * self.units / len(self.labels) + self.penalty * direction)

    def precondition(self, residual: Tensor) -> Tensor:
        """An approximate inverse of the second derivative: class k's block as variance_k * gram_k + penalty."""
        spectrum = self.spectrum.clamp(min=0.0) + 1e-10 * self.spectrum[:, -1:]
        scale = (self.variances[:, None] * spectrum + self.penalty).clamp(min=1e-300)
        if self.full:
            return self._allowed((residual @ self.basis[0] / scale) @ self.basis[0].T)
        return self._allowed(((residual[:, None] @ self.basis / scale[:, None]) @ self.basis.mT).squeeze(1))

    def norm(self, gradient: Tensor) -> float:
        """Length of the gradient with respect to the scale or matrix (which multiplies z, not b z) and the bias."""
        return float((gradient / self.units).square().sum().sqrt())

    def _mapped(self, z: Tensor, on_logits: Tensor) -> Tensor:
        if self.full:
            return torch.addmm(on_logits[:, -1], z, on_logits[:, :-1].T)
        return torch.addcmul(on_logits[:, 1], z, on_logits[:, 0])

    def _pulled_back(self, z: Tensor, by_output: Tensor) -> Tensor:
        """The gradient by theta on z from the gradient by each output."""
        by_scale = by_output.T @ z if self.full else (by_output * z).sum(dim=0)[:, None]
        return torch.cat([by_scale, by_output.sum(dim=0)[:, None]], dim=1)

    def _gram(self) -> Tensor:
        """Mean products of what theta multiplies, b z and 1: (1, C + 1, C + 1), or for a diagonal (C, 2, 2)."""
        width = self.centre.shape[1]
        total = self.centre.new_zeros(1 if self.full else len(self.centre), width, width)
        for rows in chunks(self.logits):
            x = self.b * self.logits[rows].double()
            if self.full:
                x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
                total += x.T @ x
            else:
                cross, count = x.sum(dim=0), x.new_full((x.shape[1],), len(x))
                total += torch.stack([x.square().sum(dim=0), cross, cross, count], dim=1).view_as(total)
        return total / len(self.labels)

    def _allowed(self, change: Tensor) -> Tensor:
        """The change without what is common to all classes that occur, and none of what is held."""
        common = change.sum(dim=0) / (~self.absent).sum()
        if not self.full:
            common[0] = 0.0
        return (change - common).masked_fill_(self.held, 0.0)


def chunks(logits: Tensor) -> Iterator[slice]:
    """Slices of rows whose float64 copies stay small."""
    size = max(1, CHUNK_ELEMENTS // logits.shape[1])
    return (slice(start, start + size) for start in range(0, len(logits), size))
