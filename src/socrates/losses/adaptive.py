"""The adaptive target (Equation 3 of the paper), and the module that remembers one per sample."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, cast

import torch
from torch import Tensor

from .exchange import Group, check_group, gather_samples, gather_sizes, group_of
from .guards import OVER, IdleLosses, SeenLabels, is_compared, other_options, stored_targets
from .inputs import at_least_single, check_tensor, is_integer, is_number, true_class
from .module import LossModule, LossRows
from .torch_internals import in_backward, is_on_host, is_transformed, is_wrapped

TargetOver = Literal["all", "known"]
# `before` of a sample that no training step has seen; a target is never negative.
UNVISITED = -1.0


def adaptive_target(previous: Tensor, p_true: Tensor, alpha: float) -> Tensor:
    """Compute Equation 3, the adaptive target, without a gradient.

    It is an average of the past and present probabilities of the true class.

    >>> adaptive_target(torch.tensor([1.0]), torch.tensor([0.5]), alpha=0.9)
    tensor([0.9500])
    """
    # alpha * previous + (1 - alpha) * p_true
    return torch.lerp(p_true.detach(), previous.to(p_true.dtype), alpha)


def updated_target(
    logits: Tensor, labels: Tensor, previous: Tensor, alpha: float | None, over: TargetOver
) -> Tensor:
    """Return the targets after a step, by the softmax over all columns or over the known ones.

    `alpha` None moves none. A sample with a NaN or infinite logit keeps its previous target.

    >>> updated_target(torch.zeros(1, 3), torch.tensor([0]), torch.ones(1), 0.5, "known")
    tensor([0.7500])
    """
    z = at_least_single(logits.detach())
    if alpha is None:
        return previous.to(z.dtype)
    log_norm = (z if over == "all" else z[:, :-1]).logsumexp(dim=1)
    p_true = (true_class(z, labels, z.shape[1] - 1) - log_norm).exp()
    moved = adaptive_target(previous, p_true, alpha)
    return torch.where(z.sum(dim=1).isfinite(), moved, previous.to(z.dtype))


class Step(NamedTuple):
    """The value of a loss, and each sample's target and beta, which have no gradient.

    A loss without a penalty has None as beta.
    """

    loss: Tensor
    target: Tensor
    beta: Tensor | None


class AdaptiveTargetLoss(LossModule):
    """The base of losses with an adaptive target: `target` holds one number per sample.

    A subclass implements `terms`. `target` moves with the module and is saved with it, but it is no
    buffer: DDP sends every buffer from the first rank to the others in each forward pass, and a
    moving average of a model averages them. It keeps its precision when the module is cast to half
    precision, where an average with alpha = 0.999 would stand still. `SocratesLoss` says how the
    ranks of a `process_group` share it.
    """

    unknown = True
    takes_unknown_label: ClassVar[bool] = False  # whether it has a loss for the label C
    has_beta: ClassVar[bool] = True
    has_unknown_term: bool = True
    target: Tensor | None
    # The target that a sample's last step started from, for a step that a checkpoint recomputes;
    # UNVISITED where there was none.
    before: Tensor | None

    @torch.inference_mode(False)  # a buffer that was made in inference mode could never be written
    def __init__(
        self,
        num_samples: int | None,
        alpha: float,
        target_over: TargetOver,
        process_group: Group | Literal["auto"] | None = "auto",
        unknown_label: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if num_samples is not None and (not is_number(num_samples, Integral) or num_samples < 1):
            raise ValueError(
                f"num_samples must be the size of the training set or None (no index), "
                f"got {num_samples}"
            )
        if not is_number(alpha) or not 0 < alpha <= 1:
            raise ValueError(f"alpha must be in (0, 1], got {alpha!r}")
        if target_over not in ("all", "known"):
            raise ValueError(f"target_over must be 'all' or 'known', got {target_over!r}")
        if unknown_label and not self.takes_unknown_label:
            raise ValueError(f"{type(self).__name__} has no loss for the unknown label")
        check_group(process_group)
        self.unknown_label = bool(unknown_label)
        self.alpha = float(alpha)
        self.process_group = process_group
        self.target_over: TargetOver = target_over
        self.target = None if num_samples is None else torch.ones(int(num_samples))
        self._forget_steps()

    def terms(self, logits: Tensor, labels: Tensor, previous: Tensor, alpha: float | None) -> Step:
        """Return loss, updated target and beta, one value per sample each.

        With `alpha` None the target stays as it is.
        """
        raise NotImplementedError

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        return self.step(logits, labels, index).loss

    def step(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Step:
        """Do what a call does; return target and beta per sample beside the reduced loss."""
        rows = self.flatten(logits, labels)
        if not self.training or self.target is None:
            return self._step_without_memory(rows)
        place = self._check_index(index, self.target, rows.labels)
        # A checkpointed part of the model is computed again in the backward pass, and must find
        # what it found before.
        recomputes = not torch.compiler.is_compiling() and in_backward()
        if recomputes:
            self._awaits_backward = False
        start = self._starting_targets(rows, place, recomputes)
        loss, moved, beta = self.terms(rows.logits, rows.labels, start, self.alpha)
        group = group_of(self.process_group)
        sizes = None
        if group is not None:
            sizes = gather_sizes(len(place), self._total(rows), group, type(self).__name__)
        if not recomputes:
            targets = _new_targets(rows, moved, start, self.target)
            self._remember(place, start, targets, sizes, group)
        reduced = self._reduce_over_ranks(loss, rows, sizes)
        if not (recomputes or self._warned or torch.compiler.is_compiling()):
            self._warn_of_validation(rows, place, reduced)
        return Step(reduced, moved, beta)

    def _starting_targets(self, rows: LossRows, place: Tensor, recomputes: bool) -> Tensor:
        """Return the targets that the samples of a step start from."""
        target = cast(Tensor, self.target)
        if is_transformed() and not is_wrapped(target):
            raise RuntimeError(
                f"{type(self).__name__} cannot write its targets under torch.func: use eval(), "
                f"num_samples=None, or the loss as a function of logits, labels and targets"
            )
        if not recomputes:
            return stored_targets(target, place)
        start = stored_targets(cast(Tensor, self.before), place)
        self._check_recomputation(rows, place, start, target)
        return start

    def _step_without_memory(self, rows: LossRows) -> Step:
        """Start every sample from a target of 1: in `eval()`, and where there is no index."""
        start = torch.ones(rows.labels.shape, dtype=torch.float32, device=rows.labels.device)
        alpha = self.alpha if self.training else None
        loss, moved, beta = self.terms(rows.logits, rows.labels, start, alpha)
        return Step(self.reduce(loss, rows), moved, beta)

    def _remember(
        self, place: Tensor, start: Tensor, moved: Tensor, sizes: Tensor | None, group: Group
    ) -> None:
        """Write the targets of a step, those of all ranks where there are several."""
        target = cast(Tensor, self.target)
        before = cast(Tensor, self.before)
        if sizes is not None:
            name = type(self).__name__
            place, moved = gather_samples(place, moved, sizes, len(target), group, name)
            start = target.index_select(0, place)
        before.index_copy_(0, place, start)
        # The lowest of several results for one index does not depend on their order, on any device.
        target.scatter_reduce_(0, place, moved, "amin", include_self=False)

    def _reduce_over_ranks(self, loss: Tensor, rows: LossRows, sizes: Tensor | None) -> Tensor:
        """Reduce the loss so that the mean over ranks is the mean over all their samples."""
        reduced = self.reduce(loss, rows)
        if sizes is None or self.reduction != "mean":
            return reduced
        total = sizes[:, 1].sum().masked_fill(sizes[:, 1].sum() == 0, 1.0)
        share = self._total(rows) * len(sizes) / total
        return reduced * share.to(reduced.dtype)

    def _warn_of_validation(self, rows: LossRows, place: Tensor, loss: Tensor) -> None:
        """Warn once of what looks like validation, which must not move the targets.

        That is another label at the same index, where labels can be read at no cost; a call
        without a gradient that no backward pass computes again before the next call; or many
        calls without a backward pass.
        """
        reason = "without a gradient" if self._awaits_backward else None
        if self._idle.add(loss):
            reason = f"{self._idle.count} times without a backward pass"
        self._awaits_backward = not torch.is_grad_enabled()
        self._calls += 1
        if reason is None and is_compared(self._calls) and is_on_host(rows.labels):
            if self._seen is None:
                self._seen = SeenLabels(len(cast(Tensor, self.target)))
            reason = self._seen.difference(rows.labels, place, rows.counts)
        if reason is not None:
            self._warned = True
            warnings.warn(
                f"{type(self).__name__} was called in training mode {reason}, and moved its "
                f"targets: call criterion.eval() before validation, and criterion.train() after it",
                stacklevel=5,
            )

    def unvisited(self) -> Tensor:
        """Return the indices that no training step has seen since the module was made or loaded.

        After a whole epoch there are none.

        >>> from socrates.losses import SocratesLoss
        >>> criterion = SocratesLoss(num_samples=3)
        >>> loss = criterion(torch.zeros(1, 3), torch.tensor([0]), torch.tensor([1]))
        >>> criterion.unvisited()
        tensor([0, 2])
        """
        if self.before is None:
            return torch.empty(0, dtype=torch.int64)
        return (self.before < 0).nonzero().squeeze(1)

    def set_apart(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the labels with 0 in place of the unknown label, and the rows that have it."""
        if not self.unknown_label:
            return labels, None
        strange = labels == logits.shape[1] - 1
        return labels.masked_fill(strange, 0), strange

    def sample_weights(self, rows: LossRows, dtype: torch.dtype) -> Tensor | None:
        """Return how much each row counts; a sample of none of the classes has a weight of 1."""
        if self.weight is None or not self.unknown_label:
            return super().sample_weights(rows, dtype)
        known, strange = self.set_apart(rows.logits, rows.labels)
        weights = super().sample_weights(rows._replace(labels=known), dtype)
        counts = cast(Tensor, rows.counts)
        return torch.where(cast(Tensor, strange) & counts, 1.0, cast(Tensor, weights))

    def _total(self, rows: LossRows) -> Tensor:
        """Return what the mean of a rank divides by."""
        weights = self.sample_weights(rows, torch.float64)
        if weights is not None:
            return weights.sum()
        return torch.tensor(len(rows.labels), dtype=torch.float64, device=rows.labels.device)

    def _check_index(self, index: Tensor | None, target: Tensor, labels: Tensor) -> Tensor:
        name = f"{type(self).__name__}(num_samples={len(target)})"
        if index is None:
            raise ValueError(
                f"{name} needs the index of each sample while training: "
                f"wrap the training set in IndexedDataset, or use num_samples=None, "
                f"or call .eval(); a transformers Trainer needs remove_unused_columns=False"
            )
        check_tensor(index, "index", name)
        if index.shape != labels.shape or not is_integer(index):
            raise ValueError(
                f"{name} needs an index of integers in the labels' shape {tuple(labels.shape)}, "
                f"got {tuple(index.shape)} of {index.dtype}: "
                f"for the pixels of images use num_samples=None"
            )
        device = labels.device
        if target.device != device:
            raise ValueError(
                f"{name} is on {target.device}, the labels are on {device}: "
                f"call criterion.to(device) once"
            )
        return index.to(device, torch.int64, non_blocking=True)

    def _check_recomputation(
        self, rows: LossRows, place: Tensor, start: Tensor, target: Tensor
    ) -> None:
        """Refuse to recompute a step if a later one moved its samples: its targets are gone.

        This comes before the loss, as torch ends a recomputation as soon as it has what backward
        needs.
        """
        terms = self.terms(rows.logits.detach(), rows.labels, start, self.alpha)
        moved = _new_targets(rows, terms.target, start, target)
        change = target - target.scatter_reduce(0, place, moved, "amin", include_self=False)
        if group_of(self.process_group) is None:  # another rank may have a lower target
            change = change.abs()
        tolerance = 0.01 * (1 - self.alpha) + 1e-6  # a device may not compute alike twice
        if bool((change > tolerance).any()):
            raise RuntimeError(
                f"{type(self).__name__} was called again with the same samples before the "
                f"backward pass of a call that is recomputed now, from targets that are gone: "
                f"call backward() in between, or leave the loss out of torch.utils.checkpoint"
            )

    def memory(self) -> dict[str, Tensor]:
        """Return what a training step changes, by name: `target` and `before`, or nothing."""
        if self.target is None or self.before is None:
            return {}
        return {"target": self.target, "before": self.before}

    @property
    def made_with(self) -> Tensor:
        """Return the options that decide what targets become, as they are saved with them."""
        return torch.tensor([*self._options_of_targets().values()], dtype=torch.float64)

    def _options_of_targets(self) -> dict[str, float]:
        return {"alpha": self.alpha, "target_over": OVER.index(self.target_over)}

    def _forget_steps(self) -> None:
        self.before = None if self.target is None else torch.full_like(self.target, UNVISITED)
        self._seen: SeenLabels | None = None
        self._calls = 0
        self._awaits_backward = False
        self._idle = IdleLosses()
        self._warned = False

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AdaptiveTargetLoss:
        def exact(buffer: Tensor) -> Tensor:
            moved = fn(buffer)
            return moved if moved.itemsize >= 4 else buffer.to(moved.device)

        for name, value in self.memory().items():
            setattr(self, name, exact(value))
        return super()._apply(exact, recurse)  # pyright: ignore[reportUnknownMemberType]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)  # pyright: ignore[reportUnknownMemberType]
        if self.target is not None:
            destination[f"{prefix}target"] = self.target
            destination[f"{prefix}made_with"] = self.made_with

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take the saved targets; a loss without an index leaves them, as inference needs none."""
        names = (f"{prefix}target", f"{prefix}made_with")
        others = {key: value for key, value in state_dict.items() if key not in names}
        super()._load_from_state_dict(  # pyright: ignore[reportUnknownMemberType]
            others, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if self.target is None:
            return
        saved, made_with = (state_dict.get(name) for name in names)
        if saved is None:
            missing_keys.append(names[0])
        elif self.training and saved.shape != self.target.shape:
            error_msgs.append(
                f"{names[0]} holds {len(saved)} targets, this loss has "
                f"num_samples={len(self.target)}: make it with num_samples={len(saved)} to go on "
                f"training, with None to use the model"
            )
        else:
            assign = local_metadata.get("assign_to_params_buffers", False)
            self._take_targets(saved, assign)
            self._warn_of_options(made_with)
        self._forget_steps()

    @torch.no_grad()
    def _take_targets(self, saved: Tensor, assign: bool) -> None:
        target = cast(Tensor, self.target)
        if assign:
            self.target = at_least_single(saved)
        else:
            self.target = saved.to(target.device, target.dtype, copy=True)

    def _warn_of_options(self, made_with: Tensor | None) -> None:
        """Warn if targets were made with other options: they are off until training moves them."""
        saved = [] if made_with is None else cast(list[float], cast(Any, made_with).tolist())
        if saved and (difference := other_options(self._options_of_targets(), saved)):
            warnings.warn(
                f"{type(self).__name__} loads targets that were made with {difference}: make the "
                f"loss with the former to go on as before",
                stacklevel=2,
            )

    def extra_repr(self) -> str:
        num_samples = None if self.target is None else len(self.target)
        return f"num_samples={num_samples}, {super().extra_repr()}"


def _new_targets(rows: LossRows, moved: Tensor, start: Tensor, target: Tensor) -> Tensor:
    """Return the targets to remember: of samples that do not count, what they had."""
    targets = moved if rows.counts is None else torch.where(rows.counts, moved, start)
    return targets.to(target.dtype)
