"""Methods with one adaptive target per sample: self-adaptive training and the Socrates loss."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..contracts import Batch, Method, Output, Task
from ..losses import SATLoss, SocratesLoss
from ..losses.adaptive import AdaptiveTargetLoss, TargetOver
from .logits_only import KnownCrossEntropy
from .two_phase import two_phase

# The share of the unknown term is measured once in this many steps: every time, it would cost a
# small model a seventh of its speed.
MEASURE_EVERY = 8


class EpochMeans(nn.Module):
    """Means of named per-sample values over an epoch.

    >>> means = EpochMeans("beta")
    >>> means.add(torch.tensor([0.0, 1.0]))
    >>> means.add(torch.tensor([1.0, 1.0]))
    >>> means.read()
    {'beta': tensor(0.7500)}
    """

    sums: Tensor

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names
        self.count = 0
        self.register_buffer("sums", torch.zeros(len(names)), persistent=False)

    @torch.no_grad()
    def add(self, *values: Tensor) -> None:
        """Add one tensor (B,) for each name, in their order."""
        self.sums += torch.stack([value.sum() for value in values])
        self.count += len(values[0])

    def reset(self) -> None:
        """Set all sums back to zero."""
        self.sums = torch.zeros_like(self.sums)
        self.count = 0

    def state(self) -> dict[str, Any]:
        """Return the sums so far, to go on from after a stop."""
        return {"sums": self.sums, "count": self.count}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.sums = state["sums"].to(self.sums.device)
        self.count = state["count"]

    def read(self) -> dict[str, Tensor]:
        """Return the mean of each name, as tensors on the device; none before the first sample."""
        if not self.count:
            return {}
        return dict(zip(self.names, (self.sums / self.count).unbind(), strict=True))


class Adaptive(Method):
    """Train by a loss that remembers one target per sample.

    The means of targets and betas are reported each epoch, and so is `unknown_term`, the share of
    the loss that the unknown class has, measured in every eighth batch.
    """

    unknown_class = True

    def __init__(self, task: Task, criterion: AdaptiveTargetLoss) -> None:
        super().__init__(task)
        self.criterion = criterion
        self.takes_strangers = criterion.takes_unknown_label
        self.means = EpochMeans("target", "beta") if criterion.has_beta else EpochMeans("target")
        self.parts = EpochMeans("whole", "unknown")
        self.step = 0

    def start_epoch(self, epoch: int, model: nn.Module) -> None:
        self.means.reset()
        self.parts.reset()
        self.step = 0

    def forward(self, model: nn.Module, batch: Batch) -> Output:
        logits = model(batch.inputs)  # (B, C + 1)
        loss, target, beta = self.criterion.step(logits, batch.labels, batch.index)
        if self.training:
            self.means.add(target, *([] if beta is None else [beta]))
            if self.criterion.has_unknown_term and self.step % MEASURE_EVERY == 0:
                self._add_parts(loss, logits, batch.labels, target)
            self.step += 1
        return Output(loss, logits)

    @torch.no_grad()
    def _add_parts(self, loss: Tensor, logits: Tensor, labels: Tensor, target: Tensor) -> None:
        """Add the whole loss and its unknown part.

        The loss is linear in the target: the part of the true class is the loss at a target of 1,
        times the target.
        """
        certain = self.criterion.terms(logits, labels, torch.ones_like(target), None).loss
        whole = loss.expand_as(target)
        self.parts.add(whole, whole - target * certain)

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        certain = torch.ones(labels.shape, device=labels.device)
        return self.criterion.terms(logits, labels, certain, None).loss.mean()

    def epoch_state(self) -> dict[str, Any]:
        return {"means": self.means.state(), "parts": self.parts.state(), "step": self.step}

    def load_epoch_state(self, state: Mapping[str, Any]) -> None:
        self.means.load_state(state["means"])
        self.parts.load_state(state["parts"])
        self.step = state["step"]

    def diagnostics(self) -> Mapping[str, Tensor]:
        means = self.means.read()
        parts = self.parts.read()
        if parts:
            means["unknown_term"] = parts["unknown"] / parts["whole"]
        return means


def sat(task: Task, *, alpha: float = 0.9, start_epoch: int = 0) -> Method:
    """Train by self-adaptive training (Huang et al. 2020).

    Before `start_epoch` it is cross-entropy on the known classes.

    Options:
        alpha: momentum of each sample's target: the share of the past that an epoch keeps
        start_epoch: number of epochs of cross-entropy at the start
    """
    # No exchange: the engine shows every process the whole batch.
    strange = task.strangers
    then = SATLoss(task.num_samples, alpha, process_group=None, unknown_label=strange)
    return two_phase(KnownCrossEntropy(task), Adaptive(task, then), start_epoch)


def socrates(
    task: Task,
    *,
    gamma: float = 1.0,
    alpha: float = 0.99,
    start_epoch: int = 0,
    target_over: TargetOver = "all",
) -> Method:
    """Train by the Socrates loss; before `start_epoch` every target is 1 and none moves.

    Options:
        gamma: exponent of the focal term: how much less easy samples count; decrease it if the
            model is underconfident
        alpha: momentum of each sample's target: the share of the past that an epoch keeps
        start_epoch: number of epochs before the targets change
        target_over: whether targets follow the softmax over all outputs ("all") or the known
            classes ("known")
    """
    options = {"alpha": alpha, "target_over": target_over}
    if task.strangers:
        return phases(
            task, partial(SocratesLoss, unknown_label=True), start_epoch, gamma, **options
        )
    return phases(task, SocratesLoss, start_epoch, gamma, **options)


def phases(
    task: Task, loss: Callable[..., AdaptiveTargetLoss], start_epoch: int, gamma: float, **rest: Any
) -> Method:
    """Return both phases of a loss like Socrates': targets of 1, then adaptive ones."""
    # No exchange: the engine shows every process the whole batch.
    then = loss(task.num_samples, gamma, process_group=None, **rest)
    # Without samples to remember, and with all momentum on the past, the target is 1 in every step.
    first = loss(None, gamma, alpha=1.0, target_over="all")
    return two_phase(Adaptive(task, first), Adaptive(task, then), start_epoch)
