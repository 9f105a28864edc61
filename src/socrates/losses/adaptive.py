"""The adaptive target (Equation 3 of the paper), and the module that remembers one for each training sample."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, cast

import torch
from torch import Tensor

from .exchange import Group, check_group, gather_samples, gather_sizes, group_of
from .inputs import (
    at_least_single,
    backward_at_work,
    check_tensor,
    is_integer,
    is_number,
    is_transformed,
    is_wrapped,
    true_class,
)
from .module import LossModule, Rows

TargetOver = Literal["all", "known"]
UNVISITED = -1.0  # what `before` holds of a sample that no training step has seen; a target is never negative


def adaptive_target(previous: Tensor, p_true: Tensor, alpha: float) -> Tensor:
    """Equation 3, the adaptive target: an average of the past and present probabilities of the true class, no gradient.

    >>> adaptive_target(torch.tensor([1.0]), torch.tensor([0.5]), alpha=0.9)
    tensor([0.9500])
    """
    return torch.lerp(p_true.detach(), previous.to(p_true.dtype), alpha)  # alpha * previous + (1 - alpha) * p_true


def moved_target(logits: Tensor, labels: Tensor, previous: Tensor, alpha: float | None, over: TargetOver) -> Tensor:
    """The targets after a step, by the softmax over all columns or over the known ones; `alpha` None moves none.

    A sample with a NaN or infinite logit keeps its previous target.

    >>> moved_target(torch.zeros(1, 3), torch.tensor([0]), torch.ones(1), 0.5, "known")
    tensor([0.7500])
    """
    z = at_least_single(logits.detach())
    if alpha is None:
        return previous.to(z.dtype)
    log_norm = (z if over == "all" else z[:, :-1]).logsumexp(dim=1)
    moved = adaptive_target(previous, (true_class(z, labels, z.shape[1] - 1) - log_norm).exp(), alpha)
    return torch.where(z.sum(dim=1).isfinite(), moved, previous.to(z.dtype))


class Step(NamedTuple):
    """What a loss found: its value, and each sample's target and beta (None for a loss without one), no gradient."""

    loss: Tensor
    target: Tensor
    beta: Tensor | None


class AdaptiveTargetLoss(LossModule):
    """What losses with an adaptive target share: the buffer `target`, one number per training sample, and its rules.

    A subclass gives `terms`. The buffer keeps its precision when the module is cast to half precision, where an average
    with alpha = 0.999 would stand still. How ranks of a `process_group` share it is told at `SocratesLoss`.
    """

    unknown = True
    has_beta: ClassVar[bool] = True
    has_unknown_term: bool = True
    target: Tensor | None
    before: Tensor | None  # the target that a sample's last step started from

    @torch.inference_mode(False)  # a buffer that was made in inference mode could never be written
    def __init__(
        self,
        num_samples: int | None,
        alpha: float,
        target_over: TargetOver,
        process_group: Group | Literal["auto"] | None = "auto",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if num_samples is not None and (not is_number(num_samples, Integral) or num_samples < 1):
            raise ValueError(f"num_samples must be the size of the training set or None (no index), got {num_samples}")
        if not is_number(alpha) or not 0 < alpha <= 1:
            raise ValueError(f"alpha must be in (0, 1], got {alpha!r}")
        if target_over not in ("all", "known"):
            raise ValueError(f"target_over must be 'all' or 'known', got {target_over!r}")
        check_group(process_group)
        self.alpha, self.process_group = float(alpha), process_group
        self.target_over: TargetOver = target_over
        self.register_buffer("target", None if num_samples is None else torch.ones(int(num_samples)))
        self._forget_steps()

    def terms(self, logits: Tensor, labels: Tensor, previous: Tensor, alpha: float | None) -> Step:
        """Loss, updated target and beta, one value per sample each; with `alpha` None the target stays as it is."""
        raise NotImplementedError

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        return self.step(logits, labels, index).loss

    def step(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Step:
        """What a call does and returns, with the target and the beta of each sample beside the reduced loss."""
        rows, target, before = self.rows(logits, labels), self.target, cast(Tensor, self.before)
        if not self.training or target is None:
            start = torch.ones(rows.labels.shape, dtype=torch.float32, device=rows.labels.device)
            loss, moved, beta = self.terms(rows.logits, rows.labels, start, self.alpha if self.training else None)
            return Step(self.reduce(loss, rows), moved, beta)
        if is_transformed() and not is_wrapped(target):
            ways = "use eval(), num_samples=None, or the loss as a function of logits, labels and targets"
            raise RuntimeError(f"{type(self).__name__} cannot write its targets under torch.func: {ways}")
        place = self._check_index(index, target, rows.labels)
        # A checkpointed part of the model is computed again in the backward pass, and must find what it found before.
        again = not torch.compiler.is_compiling() and backward_at_work() != -1
        start = _recall(before if again else target, place)
        if again:
            self._check_recomputation(rows, place, start, target)
        loss, moved, beta = self.terms(rows.logits, rows.labels, start, self.alpha)
        group, name, sizes = group_of(self.process_group), type(self).__name__, None
        if group is not None:
            sizes = gather_sizes(len(place), self._total(rows), group, name)
        if not again:
            kept = _kept(rows, moved, start, target)
            if sizes is not None:
                place, kept = gather_samples(place, kept, sizes, len(target), group, name)
                start = target.index_select(0, place)
            before.index_copy_(0, place, start)
            # The lowest of several results for one index does not depend on their order, on any device.
            target.scatter_reduce_(0, place, kept, "amin", include_self=False)
        reduced = self.reduce(loss, rows)
        if sizes is not None and self.reduction == "mean":  # the mean over ranks is then that over all their samples
            total = sizes[:, 1].sum()
            reduced = reduced * (self._total(rows) * len(sizes) / total.masked_fill(total == 0, 1.0)).to(reduced.dtype)
        return Step(reduced, moved, beta)

    def unvisited(self) -> Tensor:
        """The indices that no training step has seen since the module was made or loaded; none after a whole epoch.

        >>> from socrates.losses import SocratesLoss
        >>> criterion = SocratesLoss(num_samples=3)
        >>> loss = criterion(torch.zeros(1, 3), torch.tensor([0]), torch.tensor([1]))
        >>> criterion.unvisited()
        tensor([0, 2])
        """
        return torch.empty(0, dtype=torch.int64) if self.before is None else (self.before < 0).nonzero().squeeze(1)

    def _total(self, rows: Rows) -> Tensor:
        """What the mean of a rank divides by."""
        weights = self.weights(rows, torch.float64)
        count = torch.tensor(len(rows.labels), dtype=torch.float64, device=rows.labels.device)
        return count if weights is None else weights.sum()

    def _check_index(self, index: Tensor | None, target: Tensor, labels: Tensor) -> Tensor:
        name = f"{type(self).__name__}(num_samples={len(target)})"
        if index is None:
            advice = "wrap the training set in IndexedDataset, or use num_samples=None, or call .eval()"
            trainer = "a transformers Trainer needs remove_unused_columns=False"
            raise ValueError(f"{name} needs the index of each sample while training: {advice}; {trainer}")
        check_tensor(index, "index", name)
        if index.shape != labels.shape or not is_integer(index):
            expected, given = f"labels' shape {tuple(labels.shape)}", f"{tuple(index.shape)} of {index.dtype}"
            advice = "for the pixels of images use num_samples=None"
            raise ValueError(f"{name} needs an index of integers in the {expected}, got {given}: {advice}")
        here = labels.device
        if target.device != here:
            raise ValueError(f"{name} is on {target.device}, the labels are on {here}: call criterion.to(device) once")
        return index.to(here, torch.int64, non_blocking=True)

    def _check_recomputation(self, rows: Rows, place: Tensor, start: Tensor, target: Tensor) -> None:
        """Refuse to recompute a step if another one moved its samples since: what it started from is gone then.

        It comes before the loss, as torch ends a recomputation as soon as it has what backward needs.
        """
        kept = _kept(rows, self.terms(rows.logits.detach(), rows.labels, start, self.alpha).target, start, target)
        change = target - target.scatter_reduce(0, place, kept, "amin", include_self=False)
        if group_of(self.process_group) is None:  # another rank may have found a lower one
            change = change.abs()
        if bool((change > 0.01 * (1 - self.alpha) + 1e-6).any()):  # a device may not compute alike twice
            again = f"{type(self).__name__} was called again with the same samples before the backward pass of a call"
            ways = "call backward() in between, or leave the loss out of torch.utils.checkpoint"
            raise RuntimeError(f"{again} that is recomputed now, from targets that are gone: {ways}")

    def _forget_steps(self) -> None:
        before = None if self.target is None else torch.full_like(self.target, UNVISITED)
        self.register_buffer("before", before, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AdaptiveTargetLoss:
        def exact(buffer: Tensor) -> Tensor:
            moved = fn(buffer)
            return moved if moved.itemsize >= 4 else buffer.to(moved.device)

        return super()._apply(exact, recurse)  # pyright: ignore[reportUnknownMemberType]

    def _load_from_state_dict(self, *arguments: Any, **options: Any) -> None:
        super()._load_from_state_dict(*arguments, **options)  # pyright: ignore[reportUnknownMemberType]
        self.target = None if self.target is None else at_least_single(self.target)  # half, if it was assigned
        self._forget_steps()

    def extra_repr(self) -> str:
        num_samples = None if self.target is None else len(self.target)
        return f"num_samples={num_samples}, {super().extra_repr()}"


def _kept(rows: Rows, moved: Tensor, start: Tensor, target: Tensor) -> Tensor:
    """What is remembered of a step: the moved targets, and of samples that are left out what they had."""
    return (moved if rows.counts is None else torch.where(rows.counts, moved, start)).to(target.dtype)


def _recall(targets: Tensor, index: Tensor) -> Tensor:
    try:
        return targets.index_select(0, index)
    except IndexError as error:  # raised on the CPU at no cost; an accelerator asserts on the device
        expected = f"index must be in 0..{len(targets) - 1} for num_samples={len(targets)}"
        given = f"got values from {int(index.min())} to {int(index.max())}"
        raise IndexError(f"{expected}, {given}: pass each sample's position in the training set") from error
