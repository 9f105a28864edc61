"""What SAT, Socrates and its ablations share: a loss with an adaptive target, and curves of what it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ..contracts import Batch, Classifier, Method, Task
from ..losses.socrates import AdaptiveTargetLoss, at_least_single
from .epoch_means import EpochMeans

Penalty = Callable[[Tensor, Tensor], Tensor]


class Adaptive(Method):
    """Training by a loss that remembers one target per sample; `penalty(p, labels)` is its beta, if it has one."""

    unknown_class = True

    def __init__(self, task: Task, criterion: AdaptiveTargetLoss, penalty: Penalty | None = None) -> None:
        super().__init__(task)
        self.criterion = criterion
        self.penalty = penalty
        self.means = EpochMeans("target") if penalty is None else EpochMeans("target", "beta")

    def start_epoch(self, epoch: int, model: Classifier) -> None:
        self.means.reset()

    def forward(self, model: Classifier, batch: Batch, meta: Batch | None = None) -> Tensor:
        logits = model(batch.images)  # (B, C + 1)
        loss = self.criterion(logits, batch.labels, batch.index)
        if self.training:
            self._observe(logits.detach(), batch)
        return loss

    @torch.no_grad()
    def _observe(self, logits: Tensor, batch: Batch) -> None:
        stored = self.criterion.target
        target = torch.ones_like(logits[:, 0]) if stored is None else stored.index_select(0, batch.index)
        if self.penalty is None:
            self.means.add(target)
        else:
            self.means.add(target, self.penalty(at_least_single(logits).softmax(dim=1), batch.labels))

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        certain = torch.ones(labels.shape, device=labels.device)
        return self.criterion.loss_and_target(logits, labels, certain, None)[0]

    def diagnostics(self) -> Mapping[str, Tensor]:
        return self.means.read()
