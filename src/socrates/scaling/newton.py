"""Newton's method, and what it minimises for affine maps: the regularised NLL of their logits.

Vector, matrix and structured scaling and beta calibration minimise that NLL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Protocol, cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from socrates.scaling.held_out import HeldOut

Map = Callable[[Tensor], Tensor]

MAX_STEPS = 100
MAX_INNER = 250
# The relative residual of a step where only a gain matters.
LOOSE = 0.3

# A class's block is made of this many rows, for a full matrix those that weigh most.
MOST_ROWS_DIAGONAL = 4096
MOST_ROWS = 512
# Blocks of a full matrix grow with the third power of the classes: beyond this many classes all
# share one.
MOST_BLOCKS = 256
# Up to this many classes double precision costs nothing.
FEW_CLASSES = 32
# Beyond this the features of masked logits would only overflow.
LARGEST_FEATURE = 1e4
# What rounding may need to keep the blocks positive, relative to their largest number.
JITTER = 1e-6

CHUNK_ELEMENTS = 2**18
# Up to this many logits the curvature is float64 as well, for a diagonal and for a full matrix;
# beyond, float32 halves its time and the gradient decides.
SMALL = 2**20
SMALL_FULL = 2**18
# Logits beyond this leave float32 too few digits or none.
LARGEST_NARROW = 1e5
# Up to this many logits the copy with one row per class is kept.
MOST_KEPT = 2**24


class Objective(Protocol):
    """A function of theta that `minimize` descends.

    `direction` and `norm` are those where `evaluate` was last called.
    """

    def evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        """Return the value and the gradient at theta."""
        ...

    def direction(self, gradient: Tensor, forcing: float) -> Tensor:
        """Return Newton's step, to a relative residual of `forcing`."""
        ...

    def norm(self, gradient: Tensor) -> float:
        """Return the length of a gradient."""
        ...


def minimize(
    objective: Objective,
    theta: Tensor,
    tolerance: float,
    rounding: float = 1e-13,
    gain: float = 0.0,
) -> tuple[Tensor, int, float]:
    """Descend from theta until the gradient is short, or no step lowers the value any more.

    Args:
        objective: the function to minimise.
        theta: where to start.
        tolerance: the length of the gradient below which to stop.
        rounding: the relative rounding error of the value.
        gain: a step that promises to lower the value by less is the last.

    Returns:
        The theta that was reached, the number of steps, and the length of the gradient there.
    """
    value, gradient = objective.evaluate(theta)
    for step in range(MAX_STEPS):
        norm = objective.norm(gradient)
        if norm < tolerance:
            return theta, step, norm
        # `evaluate` was last called at the best point reached, so the direction belongs to it.
        direction = objective.direction(gradient, LOOSE if gain else min(0.1, math.sqrt(norm)))
        expected = float((gradient * direction).sum())
        scale = 1.0
        while True:
            target = theta + scale * direction
            new_value, new_gradient = objective.evaluate(target)
            # Near the minimum a step gains less than the value's rounding: there the gradient
            # decides.
            closer = (
                new_value <= value + rounding * (1 + abs(value))
                and objective.norm(new_gradient) < norm
            )
            if closer or new_value <= value + 1e-4 * scale * expected:
                break
            scale /= 2
            if scale < 1e-9:
                return theta, step, norm
        theta = target
        value = new_value
        gradient = new_gradient
        if -expected < 2 * gain:
            return theta, step + 1, objective.norm(gradient)
    return theta, MAX_STEPS, objective.norm(gradient)


def conjugate_gradients(
    curvature: Map, precondition: Map, gradient: Tensor, forcing: float
) -> Tensor:
    """Solve curvature(direction) = -gradient to a relative residual of `forcing`."""
    direction = torch.zeros_like(gradient)
    residual = -gradient
    scaled = precondition(residual)
    search = scaled
    energy = float((residual * scaled).sum())
    goal = forcing * forcing * energy
    for _ in range(MAX_INNER):
        curved = curvature(search)
        bend = float((search * curved).sum())
        if not bend > 1e-300:
            break
        step = energy / bend
        direction = direction + step * search
        residual = residual - step * curved
        scaled = precondition(residual)
        new_energy = float((residual * scaled).sum())
        if not new_energy > goal:
            break
        search = scaled + (new_energy / energy) * search
        energy = new_energy
    return direction if bool((direction != 0).any()) else precondition(-gradient)


class Blocks:
    """A preconditioner: the mean of p_k (1 - p_k) x x^T for each class k, at temperature scaling.

    x is what theta multiplies for that class.
    """

    def __init__(
        self, logits: Tensor, b: float, full: bool, multiple: Tensor | None = None
    ) -> None:
        self.penalty: float | Tensor | None = None
        blocks_of = _blocks_of_matrix if full else _blocks_of_diagonal
        self.blocks = blocks_of(logits, b, multiple)

    def solve(self, penalty: float | Tensor, residual: Tensor) -> Tensor:
        """Apply the inverse of blocks + penalty to each class's row of the residual."""
        if penalty is not self.penalty:
            self.penalty = penalty
            added = torch.zeros_like(residual) + penalty
            if len(self.blocks) == 1:
                added = added.mean(dim=0, keepdim=True)
            largest = self.blocks.diagonal(dim1=1, dim2=2).amax(dim=1, keepdim=True)
            diagonal = (added + JITTER * largest + 1e-30).to(self.blocks.dtype)
            positive = self.blocks + torch.diag_embed(diagonal)
            factor = cast("Tensor", torch.linalg.cholesky(positive))  # pyright: ignore[reportUnknownMemberType]
            self.inverse = torch.cholesky_inverse(factor)
        rows = residual.to(self.inverse.dtype)
        if len(self.inverse) == 1:
            solved = rows @ self.inverse[0]
        else:
            solved = (self.inverse @ rows[:, :, None]).squeeze(2)
        return solved.to(residual.dtype)


def _blocks_of_diagonal(logits: Tensor, b: float, multiple: Tensor | None) -> Tensor:
    """Return one block per class, (C, 2, 2)."""
    some = slice(None, None, 1 + len(logits) // MOST_ROWS_DIAGONAL)
    x = (b * logits[some].double()).clamp(-LARGEST_FEATURE, LARGEST_FEATURE)
    p = x.softmax(dim=1)
    weight = p * (1 - p)
    if multiple is not None:
        weight = weight * multiple[some, None]
    square = (weight * x * x).mean(dim=0)
    cross = (weight * x).mean(dim=0)
    constant = weight.mean(dim=0)
    return torch.stack([square, cross, cross, constant], dim=1).view(-1, 2, 2)


def _blocks_of_matrix(logits: Tensor, b: float, multiple: Tensor | None) -> Tensor:
    """Return one block per class, (C, C + 1, C + 1), or one for all of very many classes."""
    num_rows, num_classes = logits.shape
    x = (b * logits.double()).clamp(-LARGEST_FEATURE, LARGEST_FEATURE)
    x = x.to(torch.float32 if num_classes > FEW_CLASSES else torch.float64)
    p = x.softmax(dim=1).T
    weights = p * (1 - p)
    if multiple is not None:
        weights = weights * multiple.to(x.dtype)
    if num_classes > MOST_BLOCKS:
        weights = weights.mean(dim=0, keepdim=True)
    x = pad(x, (0, 1), value=1.0)
    blocks: list[Tensor] = []
    for weight in weights:
        heavy, index = weight.topk(min(max(MOST_ROWS, 2 * num_classes), num_rows), sorted=False)
        rows = x[index]
        blocks.append((rows * heavy[:, None]).T @ rows / num_rows)
    return torch.stack(blocks)


class AffineNLL:
    """Mean NLL of softmax(A b z + a) + 1/2 sum of penalty * (theta - centre)^2, theta = (A, a).

    theta (C, D + 1) has one row per class and its bias a in the last column: D = C for a full
    matrix A, D = 1 for a diagonal one. The centre, A = I and a = 0, is temperature scaling with T
    = 1 / b; working on b z makes the penalty independent of the logits' scale. The penalty is one
    number, or one for each entry of theta. Adding the same bias (or row of a full matrix) to all
    classes changes no probability, so under one number deviations sum to 0. A class without labels
    stays at the centre, and the others are fitted as if it did not exist, neither ruling it out
    nor reading its column: there is no label among the samples that would show what either does.

    A `coarse` one, whose minimum need not be exact, computes all in float32 where the logits are
    many.
    """

    def __init__(
        self,
        data: HeldOut,
        b: float,
        full: bool,
        *,
        coarse: bool = False,
        blocks: Blocks | None = None,
    ) -> None:
        logits = data.logits
        labels = data.labels
        weight = data.weight
        self.data = data
        self.logits = logits
        self.labels = labels
        # How many samples the rows count as.
        self.num_samples = len(labels) if weight is None else float(weight.sum())
        # How often each row counts beside the others: 1 on average.
        self.multiple = None if weight is None else weight / weight.mean()
        self.b = b
        self.full = full
        self.penalty: float | Tensor = 0.0
        num_classes = logits.shape[1]
        identity = torch.eye(
            num_classes, num_classes + 1, dtype=torch.float64, device=logits.device
        )
        diagonal = torch.stack([identity.diagonal(), identity[:, -1]], dim=1)
        self.centre = identity if full else diagonal
        # theta * units is theta for z instead of b z; gradient * units is the gradient for b z from
        # that for z.
        self.units = torch.full_like(self.centre[0], b)
        self.units[-1] = 1.0
        # The axis of the classes in what is computed from the logits: one row per class is faster
        # for a matrix and for few classes, one row per sample needs no transposed copy.
        self.axis = 0 if full or num_classes <= FEW_CLASSES else 1
        self.absent = labels.bincount(minlength=num_classes) == 0
        unread = pad(self.absent, (0, 1)) if full else self.absent.new_zeros(2)
        self.held = self.absent[:, None] | unread
        coarse = coarse and bool(logits.abs().max() < LARGEST_NARROW)
        many = logits.numel() > (SMALL_FULL if full else SMALL)
        narrow = coarse or (many and logits.dtype != torch.float64)
        self.dtype = torch.float32 if coarse else torch.float64
        self.rounding = 1e-6 if coarse else 1e-13
        self.curvature_dtype = torch.float32 if narrow else torch.float64
        self.probs: list[Tensor] = []
        self.theta: Tensor | None = None
        self.blocks = blocks or Blocks(logits, b, full, self.multiple)
        self.features: dict[torch.dtype, list[Tensor]] = {}

    def set_penalty(self, penalty: float | Tensor) -> None:
        """Use this penalty from now on, on the device of the logits."""
        if isinstance(penalty, Tensor):
            penalty = penalty.to(self.centre.device)
        self.penalty = penalty

    def outputs(self, logits: Tensor, theta: Tensor) -> Tensor:
        """Map some rows, in float64."""
        mapped = self._map(self._features_of(logits, torch.float64), theta * self.units)
        return mapped if self.axis else mapped.T

    def nll(self, theta: Tensor) -> float:
        """Return the mean NLL at theta over all classes, without the penalty."""
        if theta is self.theta and self.dtype == torch.float64 and not bool(self.absent.any()):
            return self.mean_nll
        total = 0.0
        for rows in chunks(self.logits):
            outputs = self.outputs(self.logits[rows], theta)
            if self.multiple is None:
                total += float(cross_entropy(outputs, self.labels[rows], reduction="sum"))
            else:
                each = cross_entropy(outputs, self.labels[rows], reduction="none")
                total += float((each * self.multiple[rows]).sum())
        return total / len(self.labels)

    def evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        """Return value and gradient at theta, where `curvature` then is taken."""
        if theta is not self.theta:  # otherwise only the penalty may have changed
            self.theta = theta
            on_logits = (theta * self.units).to(self.dtype)
            missing = self.absent.nonzero().squeeze(1)
            total = 0.0
            gradient = torch.zeros_like(theta)
            self.probs.clear()
            for rows, x in self._parts(self.dtype):
                y = self.labels[rows].unsqueeze(self.axis)
                outputs = self._map(x, on_logits).index_fill_(self.axis, missing, -torch.inf)
                log_p = outputs.log_softmax(dim=self.axis)
                total -= float(self._weigh(log_p.gather(self.axis, y), rows).sum())
                p = log_p.exp_()
                self.probs.append(p.to(self.curvature_dtype, copy=True))
                p.scatter_add_(self.axis, y, torch.full_like(y, -1, dtype=p.dtype))
                gradient += self._pull_back(x, self._weigh(p, rows))
            self.mean_nll = total / len(self.labels)
            self.gradient = gradient * self.units / len(self.labels)
        excess = theta - self.centre
        value = self.mean_nll + 0.5 * float((self.penalty * excess.square()).sum())
        return value, self._allowed(self.gradient + self.penalty * excess)

    def direction(self, gradient: Tensor, forcing: float) -> Tensor:
        """Return Newton's step to a relative residual of `forcing`."""
        return conjugate_gradients(self.curvature, self.precondition, gradient, forcing)

    def curvature(self, direction: Tensor) -> Tensor:
        """Return the second derivative times a direction."""
        product = torch.zeros_like(direction)
        on_logits = (direction * self.units).to(self.curvature_dtype)
        for (rows, x), p in zip(self._parts(self.curvature_dtype), self.probs, strict=True):
            change = self._map(x, on_logits).mul_(p)
            change.addcmul_(p, change.sum(dim=self.axis, keepdim=True), value=-1)
            product += self._pull_back(x, self._weigh(change, rows))
        return self._allowed(product * self.units / len(self.labels) + self.penalty * direction)

    def precondition(self, residual: Tensor) -> Tensor:
        """Apply an approximate inverse of the second derivative: that of each class alone."""
        return self._allowed(self.blocks.solve(self.penalty, residual))

    def norm(self, gradient: Tensor) -> float:
        """Return the gradient's length by scale or matrix (of z, not of b z) and bias."""
        return float((gradient / self.units).square().sum().sqrt())

    def _weigh(self, values: Tensor, rows: slice) -> Tensor:
        """Multiply values, samples along the other axis, by how often their rows count."""
        if self.multiple is None:
            return values
        return values.mul_(self.multiple[rows].to(values.dtype).unsqueeze(self.axis))

    def _parts(self, dtype: torch.dtype) -> Iterator[tuple[slice, Tensor]]:
        """Return slices of rows with what theta multiplies."""
        slices = list(chunks(self.logits))
        parts = (self._features_of(self.logits[rows], dtype) for rows in slices)
        if self.axis == 0 and self.logits.numel() <= MOST_KEPT:
            if dtype not in self.features:
                self.features[dtype] = list(parts)
            return zip(slices, self.features[dtype], strict=True)
        return zip(slices, parts, strict=True)

    def _features_of(self, logits: Tensor, dtype: torch.dtype) -> Tensor:
        """Return what theta multiplies: logits along the axis, then 1 for a full matrix."""
        if self.axis == 1:
            return logits.to(dtype)
        x = logits.new_ones(logits.shape[1] + self.full, len(logits), dtype=dtype)
        x[: logits.shape[1]] = logits.T
        return x

    def _map(self, x: Tensor, on_logits: Tensor) -> Tensor:
        """Return the outputs, classes along the axis."""
        if self.full:
            return on_logits @ x
        scale, bias = on_logits.T.contiguous().unsqueeze(2 - self.axis)
        return torch.addcmul(bias, x, scale)

    def _pull_back(self, x: Tensor, by_output: Tensor) -> Tensor:
        """Return the gradient by theta on z from the gradient by each output."""
        if self.full:
            return by_output @ x.T
        by_scale = (by_output * x).sum(dim=1 - self.axis)
        by_bias = by_output.sum(dim=1 - self.axis)
        return torch.stack([by_scale, by_bias], dim=1)

    def _allowed(self, change: Tensor) -> Tensor:
        """Return the change without what is common to all classes, and without what is held."""
        if not isinstance(self.penalty, Tensor):  # penalties that differ decide what is common
            common = change.sum(dim=0) / (~self.absent).sum()
            if not self.full:
                common[0] = 0.0
            change = change - common
        return change.masked_fill(self.held, 0.0)


def chunks(logits: Tensor) -> Iterator[slice]:
    """Return slices of rows whose float64 copies stay small."""
    size = max(1, CHUNK_ELEMENTS // logits.shape[1])
    return (slice(start, start + size) for start in range(0, len(logits), size))
