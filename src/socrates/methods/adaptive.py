"""Methods with an adaptive target, one number a sample: self-adaptive training and the Socrates loss."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..contracts import Batch, Method, Output, Task
from ..losses import SATLoss, SocratesLoss
from ..losses.adaptive import AdaptiveTargetLoss, TargetOver
from .epoch_means import EpochMeans
from .logits_only import KnownCrossEntropy
from .two_phase import two_phase


class Adaptive(Method):
    """Training by a loss that remembers one target per sample; means of targets and betas are told epoch by epoch."""

    unknown_class = True

    def __init__(self, task: Task, criterion: AdaptiveTargetLoss) -> None:
        super().__init__(task)
        self.criterion = criterion
        self.means = EpochMeans("target", "beta") if criterion.has_beta else EpochMeans("target")

    def start_epoch(self, epoch: int, model: nn.Module) -> None:
        self.means.reset()

    def forward(self, model: nn.Module, batch: Batch) -> Output:
        logits = model(batch.inputs)  # (B, C + 1)
        loss, *seen = self.criterion.step(logits, batch.labels, batch.index)
        if self.training:
            self.means.add(*(value for value in seen if value is not None))
        return Output(loss, logits)

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        certain = torch.ones(labels.shape, device=labels.device)
        return self.criterion.terms(logits, labels, certain, None).loss.mean()

    def diagnostics(self) -> Mapping[str, Tensor]:
        return self.means.read()


def sat(task: Task, *, alpha: float = 0.9, start_epoch: int = 0) -> Method:
    """Self-adaptive training (Huang et al. 2020); before `start_epoch` cross-entropy on the known classes.

    Options:
        alpha: momentum of each sample's target: the share of the past that an epoch keeps
        start_epoch: epochs of cross-entropy before it
    """
    return two_phase(KnownCrossEntropy(task), Adaptive(task, SATLoss(task.num_samples, alpha)), start_epoch)


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
    then = SocratesLoss(task.num_samples, gamma, alpha, target_over=target_over)
    # Without samples to remember, and with all momentum on the past, the target is 1 in every step.
    first = SocratesLoss(None, gamma, alpha=1.0)
    return two_phase(Adaptive(task, first), Adaptive(task, then), start_epoch)
