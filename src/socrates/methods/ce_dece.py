"""Cross-entropy plus a differentiable calibration error on the training batch."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from ..contracts import Task
from ..losses import dece
from .logits_only import LogitsOnly


class CEDECE(LogitsOnly):
    """Cross-entropy plus `weight` times the differentiable ECE of the batch (the paper's tables call this MC)."""

    def __init__(self, task: Task, *, weight: float = 0.5) -> None:
        super().__init__(task)
        if not weight >= 0:
            raise ValueError(f"ce_dece: weight must be at least 0, got {weight}: 0 is cross-entropy")
        self.weight = weight

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels) + self.weight * dece(logits, labels)
