"""Methods with an adaptive target, one number a sample: self-adaptive training and the Socrates loss."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..contracts import Batch, Method, Output, Task
from ..losses import SATLoss, SocratesLoss
from ..losses.adaptive import AdaptiveTargetLoss, TargetOver
from .logits_only import KnownCrossEntropy
from .two_phase import two_phase

# The share of the unknown term is looked at once in so many steps: every time, it would cost a small model a seventh.
STEPS_A_PART = 8


class EpochMeans(nn.Module):
    """Sums of named per-sample values and how many there were; each epoch starts anew.

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
        """One tensor (B,) for each name, in their order."""
        self.sums += torch.stack([value.sum() for value in values])
        self.count += len(values[0])

    def reset(self) -> None:
        """Forget everything."""
        self.sums = torch.zeros_like(self.sums)
        self.count = 0

    def so_far(self) -> dict[str, Any]:
        """All that it holds."""
        return {"sums": self.sums, "count": self.count}

    def go_on(self, so_far: Mapping[str, Any]) -> None:
        """From what `so_far` gave."""
        self.sums, self.count = so_far["sums"].to(self.sums.device), so_far["count"]

    def read(self) -> dict[str, Tensor]:
        """The mean of each name, as tensors on the device; nothing before the first sample."""
        if not self.count:
            return {}
        return dict(zip(self.names, (self.sums / self.count).unbind(), strict=True))


class Adaptive(Method):
    """Training by a loss that remembers one target per sample; means of targets and betas are told epoch by epoch.

    So is `unknown_term`, the share of the loss that the unknown class has, from every eighth batch.
    """

    unknown_class = True

    def __init__(self, task: Task, criterion: AdaptiveTargetLoss) -> None:
        super().__init__(task)
        self.criterion = criterion
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
            if self.criterion.has_unknown_term and self.step % STEPS_A_PART == 0:
                self._add_parts(loss, logits, batch.labels, target)
            self.step += 1
        return Output(loss, logits)

    @torch.no_grad()
    def _add_parts(self, loss: Tensor, logits: Tensor, labels: Tensor, target: Tensor) -> None:
        """The loss is linear in the target, so that the part of the true class is that of a target of 1, times it."""
        certain = self.criterion.terms(logits, labels, torch.ones_like(target), None).loss
        whole = loss.expand_as(target)
        self.parts.add(whole, whole - target * certain)

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        certain = torch.ones(labels.shape, device=labels.device)
        return self.criterion.terms(logits, labels, certain, None).loss.mean()

    def epoch_state(self) -> dict[str, Any]:
        return {"means": self.means.so_far(), "parts": self.parts.so_far(), "step": self.step}

    def load_epoch_state(self, state: Mapping[str, Any]) -> None:
        self.means.go_on(state["means"])
        self.parts.go_on(state["parts"])
        self.step = state["step"]

    def diagnostics(self) -> Mapping[str, Tensor]:
        found = self.means.read()
        if parts := self.parts.read():
            found["unknown_term"] = parts["unknown"] / parts["whole"]
        return found


def sat(task: Task, *, alpha: float = 0.9, start_epoch: int = 0) -> Method:
    """Self-adaptive training (Huang et al. 2020); before `start_epoch` cross-entropy on the known classes.

    Options:
        alpha: momentum of each sample's target: the share of the past that an epoch keeps
        start_epoch: epochs of cross-entropy before it
    """
    then = SATLoss(task.num_samples, alpha, process_group=None)  # every process of a run sees the whole batch
    return two_phase(KnownCrossEntropy(task), Adaptive(task, then), start_epoch)


def socrates(
    task: Task, *, gamma: float = 2.0, alpha: float = 0.99, start_epoch: int = 0, target_over: TargetOver = "all"
) -> Method:
    """The Socrates loss; before `start_epoch` every target is 1 and none moves.

    Options:
        gamma: of the focal term: how much less easy samples count; smaller if the model is underconfident
        alpha: momentum of each sample's target: the share of the past that an epoch keeps
        start_epoch: epochs before the targets begin to move
        target_over: whether targets follow the softmax over all outputs ("all") or the known classes ("known")
    """
    return phases(task, SocratesLoss, start_epoch, gamma, alpha=alpha, target_over=target_over)


def phases(task: Task, loss: Callable[..., AdaptiveTargetLoss], start_epoch: int, gamma: float, **rest: Any) -> Method:
    """Both phases of a loss like Socrates': targets of 1 before the start epoch, then adaptive ones."""
    then = loss(task.num_samples, gamma, process_group=None, **rest)  # every process of a run sees the whole batch
    # Without samples to remember, and with all momentum on the past, the target is 1 in every step.
    first = loss(None, gamma, alpha=1.0, target_over="all")
    return two_phase(Adaptive(task, first), Adaptive(task, then), start_epoch)
