"""What SAT, Socrates and its ablations share: a loss with an adaptive target, and curves of what it did."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..contracts import Batch, Classifier, Method, Task
from ..losses.adaptive import AdaptiveTargetLoss
from .epoch_means import EpochMeans


class Adaptive(Method):
    """Training by a loss that remembers one target per sample; means of targets and betas are told epoch by epoch."""

    unknown_class = True

    def __init__(self, task: Task, criterion: AdaptiveTargetLoss) -> None:
        super().__init__(task)
        self.criterion = criterion
        self.means = EpochMeans("target", "beta") if criterion.has_beta else EpochMeans("target")

    def start_epoch(self, epoch: int, model: Classifier) -> None:
        self.means.reset()

    def forward(self, model: Classifier, batch: Batch, meta: Batch | None = None) -> Tensor:
        logits = model(batch.images)  # (B, C + 1)
        loss, *seen = self.criterion.step(logits, batch.labels, batch.index)
        if self.training:
            self.means.add(*(value for value in seen if value is not None))
        return loss

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        certain = torch.ones(labels.shape, device=labels.device)
        return self.criterion.terms(logits, labels, certain, None).loss.mean()

    def diagnostics(self) -> Mapping[str, Tensor]:
        return self.means.read()
