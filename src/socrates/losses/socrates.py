"""The Socrates loss (Equations 1 to 3 of the paper). This file needs torch and numpy alone and may be copied as it is.

The last logit column is the unknown class, written `idk`. `socrates_loss_reference` is the paper's equation as it is
read; `socrates_loss` is the same function with its gradient in closed form, and is what `SocratesLoss` runs.
"""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import Any, Literal, cast

import numpy
import torch
from torch import Tensor, nn

Reduction = Literal["mean", "sum", "none"]
TargetOver = Literal["all", "known"]
CACHED_BYTES = 1 << 20  # rows are read in blocks of this size on the CPU


def socrates_loss_reference(logits: Tensor, labels: Tensor, target: Tensor, gamma: float) -> Tensor:
    """Equation 1, one value per sample: the readable twin of `socrates_loss`, by plain autograd.

    >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> socrates_loss_reference(logits, torch.tensor([0]), torch.tensor([0.5]), gamma=2.0)
    tensor([0.1068])
    """
    log_p = logits.log_softmax(dim=1)
    log_p_true = log_p.gather(1, labels[:, None]).squeeze(1)
    beta = uncertainty_penalty(log_p.exp(), labels)
    focal = (1 - log_p_true.exp()) ** gamma
    return -focal * (target * log_p_true + beta * (1 - target) * log_p[:, -1])


def uncertainty_penalty(p: Tensor, labels: Tensor) -> Tensor:
    """Equation 2, the dynamic uncertainty penalty beta: by how much the best wrong class exceeds the unknown class.

    `p` (B, C + 1) are probabilities. The unknown class takes part in the maximum, so beta is never negative.

    >>> uncertainty_penalty(torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.2, 0.3]]), torch.tensor([0, 0]))
    tensor([0.1000, 0.0000])
    """
    others = p.scatter(1, labels[:, None], -1.0)
    return others.max(dim=1).values - p[:, -1]


def adaptive_target(previous: Tensor, p_true: Tensor, alpha: float) -> Tensor:
    """Equation 3, the adaptive target: an average of the past and present probabilities of the true class, no gradient.

    >>> adaptive_target(torch.tensor([1.0]), torch.tensor([0.5]), alpha=0.9)
    tensor([0.9500])
    """
    return torch.lerp(p_true.detach(), previous.to(p_true.dtype), alpha)  # alpha * previous + (1 - alpha) * p_true


def socrates_loss(logits: Tensor, labels: Tensor, target: Tensor, gamma: float) -> Tensor:
    """Equation 1 with its gradient in closed form: one value per sample, for any gamma >= 0 and any finite logits.

    Args:
        logits: (B, C + 1), floating point of any precision; the last column is the unknown class.
        labels: (B,) integers in 0..C-1.
        target: (B,) in [0, 1], the weight of the true class; it receives no gradient.
        gamma: how much easy samples are weighted down; 0 leaves them as they are.

    >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> socrates_loss(logits, torch.tensor([0]), torch.tensor([0.5]), gamma=2.0)
    tensor([0.1068])
    """
    labels = check_inputs(logits, labels, "socrates_loss", unknown=True)
    check_target(target, labels)
    return _fused(logits, labels, target, check_gamma(gamma), None, "all", "none")[0]


class AdaptiveTargetLoss(nn.Module):
    """What losses with an adaptive target share: the buffer `target`, one number per training sample, and its rules.

    A subclass gives `loss_and_target`. The buffer keeps its precision when the module is cast to half precision, where
    an average with alpha = 0.999 would stand still.
    """

    target: Tensor | None

    def __init__(self, num_samples: int | None, alpha: float, target_over: TargetOver, reduction: Reduction) -> None:
        super().__init__()
        if num_samples is not None and not (is_number(num_samples, int) and num_samples >= 1):
            raise ValueError(
                f"num_samples must be the size of the training set, or None without an index, got {num_samples}"
            )
        if not is_number(alpha) or not 0 < alpha <= 1:
            raise ValueError(f"alpha must be in (0, 1], got {alpha!r}")
        if target_over not in ("all", "known"):
            raise ValueError(f"target_over must be 'all' or 'known', got {target_over!r}")
        self.alpha = alpha
        self.target_over: TargetOver = target_over
        self.reduction: Reduction = check_reduction(reduction)
        self.register_buffer("target", None if num_samples is None else torch.ones(num_samples))

    def loss_and_target(
        self, logits: Tensor, labels: Tensor, previous: Tensor, alpha: float | None
    ) -> tuple[Tensor, Tensor]:
        """The batch's reduced loss and each sample's updated target; with `alpha` None the target stays as it is."""
        raise NotImplementedError

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        labels = check_inputs(logits, labels, type(self).__name__, unknown=True)
        if not self.training or self.target is None:
            alpha = self.alpha if self.training else None
            start = torch.ones(labels.shape, dtype=torch.float32, device=labels.device)
            return self.loss_and_target(logits, labels, start, alpha)[0]
        index = self._check_index(index, labels)
        loss, target = self.loss_and_target(logits, labels, self._recall(index), self.alpha)
        # The lowest of several results for one index does not depend on their order, on any device.
        self.target.scatter_reduce_(0, index, target.to(self.target.dtype), "amin", include_self=False)
        return loss

    def _recall(self, index: Tensor) -> Tensor:
        assert self.target is not None
        try:
            return self.target.index_select(0, index)
        except IndexError as error:  # raised on the CPU at no cost; an accelerator asserts on the device
            raise IndexError(
                f"index must be in 0..{len(self.target) - 1} for num_samples={len(self.target)}, got values from "
                f"{int(index.min())} to {int(index.max())}: pass each sample's position in the training set"
            ) from error

    def _check_index(self, index: Tensor | None, labels: Tensor) -> Tensor:
        assert self.target is not None
        name = type(self).__name__
        if index is None:
            raise ValueError(
                f"{name}(num_samples={len(self.target)}) needs the index of each sample while training: "
                f"wrap the training set in IndexedDataset, or use num_samples=None, or call .eval()"
            )
        check_tensor(index, "index", name)
        if index.shape != labels.shape or not is_integer(index):
            raise ValueError(
                f"{name}: index must be integers of the labels' shape {tuple(labels.shape)}, "
                f"got {tuple(index.shape)} of {index.dtype}"
            )
        if self.target.device != labels.device:
            raise ValueError(
                f"{name} is on {self.target.device}, the labels are on {labels.device}: call criterion.to(device) once"
            )
        return index.to(labels.device, torch.int64, non_blocking=True)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AdaptiveTargetLoss:
        before = self.target
        super()._apply(fn, recurse)  # pyright: ignore[reportUnknownMemberType]
        if before is not None and self.target is not None and self.target.itemsize < 4:
            self.target = before.to(self.target.device)
        return self

    def extra_repr(self) -> str:
        num_samples = None if self.target is None else len(self.target)
        return f"num_samples={num_samples}, alpha={self.alpha}, target_over={self.target_over!r}"


class SocratesLoss(AdaptiveTargetLoss):
    """The Socrates loss for a training loop; it remembers one number per training sample, its adaptive target.

    Args:
        num_samples: size of the training set, or None for a stream without an index (each target then starts from 1).
        gamma: the modularity factor of the focal term, at least 0.
        alpha: the momentum of the adaptive target, in (0, 1]; 1 switches the unknown term off.
        target_over: the softmax that feeds the target: over "all" C + 1 columns (the paper), or over the "known" C
            classes (the released code, behind the published numbers).
        reduction: "mean", "sum" or "none".

    Call it with `(logits, labels, index)`: logits (B, C + 1) with the unknown class last, labels (B,) in 0..C-1, and
    the position of each sample in the training set (`IndexedDataset` provides it). In `eval()` it neither reads nor
    writes targets: each is 1, and the index may be left out. A sample with a NaN or infinite logit keeps its previous
    target. If an index occurs twice in a batch, each copy starts from the stored target and the lowest result is kept.

    >>> criterion = SocratesLoss(num_samples=3, gamma=2.0, alpha=0.9)
    >>> logits = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]], requires_grad=True)
    >>> criterion(logits, torch.tensor([0, 0]), index=torch.tensor([2, 0])).backward()
    >>> criterion.target
    tensor([0.9212, 1.0000, 0.9665])
    """

    def __init__(
        self,
        num_samples: int | None,
        gamma: float = 2.0,
        alpha: float = 0.99,
        *,
        target_over: TargetOver = "all",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, alpha, target_over, reduction)
        self.gamma = check_gamma(gamma)

    def loss_and_target(
        self, logits: Tensor, labels: Tensor, previous: Tensor, alpha: float | None
    ) -> tuple[Tensor, Tensor]:
        return _fused(logits, labels, previous, self.gamma, alpha, self.target_over, self.reduction)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, gamma={self.gamma}"


class _ClosedForm(torch.autograd.Function):
    """Equation 1 and its gradient, `a p + b e_true + c e_idk + d e_best` with scalars a, b, c, d per row.

    `best` is the class that attains beta's maximum. One softmax forwards and one product backwards do the work; the
    rest is arithmetic on one number per row (`_row_terms`).
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        labels: Tensor,
        previous: Tensor,
        gamma: float,
        alpha: float | None,
        target_over: TargetOver,
        reduction: Reduction,
    ) -> tuple[Tensor, Tensor]:
        z = at_least_single(logits)
        log_norm_known = z[:, :-1].logsumexp(dim=1) if target_over == "known" else None
        if z.is_cpu and type(z) is Tensor and not torch.compiler.is_compiling():
            history = [None if row is None else row.numpy() for row in (previous.detach().to(z.dtype), log_norm_known)]
            with numpy.errstate(all="ignore"):
                p, pick, rows = _read_on_host(z.detach(), labels)
                loss, target, factors = map(_from_numpy, _row_terms(numpy, rows, history, gamma, alpha))
        else:
            p, pick, rows = _read(z.detach(), labels)
            loss, target, factors = _row_terms(torch, rows, [previous.to(z.dtype), log_norm_known], gamma, alpha)
        if reduction == "mean":
            factors = factors / len(labels)
        ctx.save_for_backward(p, pick, factors)
        ctx.dtype = logits.dtype
        ctx.mark_non_differentiable(target)
        return reduce(loss, reduction), target

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "socrates_loss has no second derivative (create_graph=True asks for one): "
                "use socrates.losses.socrates_loss_reference, the same loss by plain autograd"
            )
        p, pick, factors = ctx.saved_tensors
        factors = factors * grad_outputs[0].reshape(-1, 1)  # one number per row, or one for all if the loss is reduced
        grad = p * factors[:, :1]
        grad.scatter_add_(1, pick, factors[:, 1:])
        return grad.to(ctx.dtype), None, None, None, None, None, None


def _read(z: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
    """p with 0 at the true class; the columns (B, 3) of true, best and idk; and what the loss needs of each row."""
    p = z.softmax(dim=1)  # (B, C + 1)
    p_true = true_class(p, labels, p.shape[1] - 1)
    p.scatter_(1, labels[:, None], 0.0)
    pick = torch.stack([labels, p.argmax(dim=1), torch.full_like(labels, p.shape[1] - 1)], dim=1)
    _, p_best, p_idk = p.gather(1, pick).unbind(dim=1)
    return p, pick, [*z.gather(1, pick).unbind(dim=1), p_true, p_best, p_idk, p.sum(dim=1), z.sum(dim=1)]


def _read_on_host(z: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, list[Any]]:
    """`_read` for the CPU, by numpy: its argmax is ten times as fast as torch's, and its small calls cost a third.

    Rows are read in blocks that stay in the cache between softmax, argmax and the sums.
    """
    num_rows, num_outputs = z.shape
    p = torch.empty(z.shape, dtype=z.dtype)
    p_rows, z_rows, row = p.numpy(), z.numpy(), numpy.arange(num_rows)
    true: Any = labels.numpy()
    if num_rows and true.view(numpy.uint64).max() >= num_outputs - 1:  # a negative label is a huge unsigned number
        raise label_error(labels, num_outputs - 1, num_outputs)
    best, p_true, p_others, z_sum = (numpy.empty(num_rows, kind) for kind in (numpy.int64, *3 * [p_rows.dtype]))
    size = max(1, CACHED_BYTES // (num_outputs * z.itemsize))
    for start in range(0, num_rows, size):
        block = slice(start, start + size)
        torch.softmax(z[block], dim=1, out=p[block])
        p_true[block] = p_rows[row[block], true[block]]
        p_rows[row[block], true[block]] = 0
        p_rows[block].argmax(axis=1, out=best[block])
        p_rows[block].sum(axis=1, out=p_others[block])
        z_rows[block].sum(axis=1, out=z_sum[block])
    logits = [z_rows[row, true], z_rows[row, best], z_rows[:, -1]]
    pick = numpy.stack([true, best, numpy.full(num_rows, num_outputs - 1)], 1)
    return p, _from_numpy(pick), [*logits, p_true, p_rows[row, best], p_rows[:, -1], p_others, z_sum]


def _row_terms(xp: Any, rows: list[Any], history: list[Any], gamma: float, alpha: float | None) -> list[Any]:
    """Loss, target and the gradient's factors (of p; at true, best and idk) of each sample; `xp` is numpy or torch."""
    z_true, z_best, z_idk, p_true, p_best, p_idk, p_others, z_sum = rows
    previous, log_norm_known = history
    # log p_k = (z_k - z_lead) + log p_lead holds where p_k itself underflows.
    z_lead, log_p_lead = xp.maximum(z_true, z_best), xp.log(xp.maximum(p_true, p_best))
    log_p_true, log_p_idk = (z_true - z_lead) + log_p_lead, (z_idk - z_lead) + log_p_lead
    # 1 - p_true loses its digits near p_true = 1; there the sum over the other classes has them, and log1p keeps them.
    sure = p_true > 0.5
    p_wrong = xp.where(sure, p_others, 1 - p_true)
    log_p_true = xp.where(sure, xp.log1p(-p_wrong), log_p_true)

    target = previous
    if alpha is not None:
        s_true = p_true if log_norm_known is None else xp.exp(z_true - log_norm_known)
        target = xp.where(xp.isfinite(z_sum), alpha * previous + (1 - alpha) * s_true, previous)
    focal, beta = p_wrong**gamma, p_best - p_idk
    unknown = beta * (1 - target)
    bracket = target * log_p_true + unknown * log_p_idk

    # The derivative of focal is written with bracket / p_wrong, which is bounded; p_wrong ** (gamma - 1) is not.
    slope = gamma * p_true * xp.where(p_wrong > 0, bracket / p_wrong, 0.0)
    b = focal * (slope - target)
    d = focal * (target - 1) * p_best * log_p_idk
    c_and_d = -focal * unknown * (1 + log_p_idk)
    factors = xp.stack([-(b + c_and_d), b * p_wrong - c_and_d * p_true, d, c_and_d - d], 1)
    return [-focal * bracket, target, factors]


_fused: Callable[..., tuple[Tensor, Tensor]] = cast(Any, _ClosedForm).apply
_from_numpy: Callable[[Any], Tensor] = cast(Any, torch).from_numpy


def true_class(values: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """The entry of each row at its label; a label outside 0..num_classes-1 raises, on the CPU at no cost."""
    try:
        return values[:, :num_classes].gather(1, labels[:, None]).squeeze(1)
    except RuntimeError as error:
        raise label_error(labels, num_classes, values.shape[1]) from error


def label_error(labels: Tensor, num_classes: int, num_outputs: int) -> ValueError:
    """The error for labels that are not all in 0..num_classes-1."""
    advice = "one per class"
    if num_outputs > num_classes:
        advice = "of which the last is the unknown class, never a label: build it with num_classes + 1 outputs"
    return ValueError(
        f"labels must be in 0..{num_classes - 1}, got values from {int(labels.min())} to {int(labels.max())}: "
        f"the model has {num_outputs} outputs, {advice}"
    )


def keep_finite(logits: Tensor, updated: Tensor, previous: Tensor) -> Tensor:
    """The updated targets, but the previous ones for samples with a NaN or infinite logit."""
    return torch.where(logits.detach().sum(dim=1) * 0 == 0, updated, previous)  # 0 * x is 0 for finite x alone


def at_least_single(logits: Tensor) -> Tensor:
    """The logits, in single precision if they are half: a loss of half-precision numbers has two or three digits."""
    return logits.float() if logits.itemsize < 4 else logits


def reduce(loss: Tensor, reduction: Reduction) -> Tensor:
    """The batch's loss from one value per sample."""
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def check_inputs(logits: Tensor, labels: Tensor, name: str, *, unknown: bool) -> Tensor:
    """Labels as int64, or a ValueError that names what is wrong; reads shapes and types only."""
    least = 2 if unknown else 1
    for what, value in (("logits", logits), ("labels", labels)):
        check_tensor(value, what, name)
    if logits.dim() != 2 or not logits.is_floating_point() or logits.shape[1] < least:
        columns = "num_classes + 1 columns, the unknown class last" if unknown else "num_classes columns"
        raise ValueError(
            f"{name} needs floating-point logits of shape (batch, {columns}), "
            f"got {tuple(logits.shape)} of {logits.dtype}"
        )
    if labels.shape != logits.shape[:1] or not is_integer(labels):
        raise ValueError(
            f"{name} needs {len(logits)} integer labels, one per row of logits {tuple(logits.shape)}, "
            f"got {tuple(labels.shape)} of {labels.dtype}: take labels.argmax(1) of one-hot labels"
        )
    return labels.to(torch.int64)


def check_tensor(value: object, what: str, name: str) -> None:
    """Refuse arrays, lists and numbers in the place of a tensor."""
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{name} needs {what} as a torch tensor, got {type(value).__name__}: wrap it in torch.as_tensor"
        )


def is_number(value: object, kind: type | UnionType = int | float) -> bool:
    """Whether a setting is a plain number, as a type checker would have it but a running program need not."""
    return isinstance(value, kind) and not isinstance(value, bool)


def is_integer(values: Tensor) -> bool:
    """Whether a tensor holds integers; truth values are none."""
    return not (values.is_floating_point() or values.is_complex() or values.dtype == torch.bool)


def check_target(target: Tensor, labels: Tensor) -> None:
    """Refuse targets that are not one number per label."""
    check_tensor(target, "target", "the loss")
    if target.shape != labels.shape or not target.is_floating_point():
        raise ValueError(
            f"target must hold one float per label {tuple(labels.shape)}, got {tuple(target.shape)} of {target.dtype}"
        )


def check_gamma(gamma: float) -> float:
    """Refuse a gamma that is negative or not a number."""
    if not is_number(gamma) or not 0 <= gamma < float("inf"):
        raise ValueError(f"gamma must be at least 0, got {gamma!r}: 0 is no focal term, the paper uses 1 to 4")
    return float(gamma)


def check_reduction(reduction: Reduction) -> Reduction:
    """Refuse an unknown reduction."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return reduction
