"""Training by sample-dependent focal loss (FLSD-53, Mukhoti et al. 2020)."""

from __future__ import annotations

from torch import Tensor

from ..contracts import Task
from ..losses import flsd_loss
from ..losses.socrates import check_gamma
from .logits_only import LogitsOnly


class FLSD(LogitsOnly):
    """Sample-dependent focal loss (FLSD-53, Mukhoti et al. 2020): gamma 5 or 3 for hard samples, `gamma` for others."""

    def __init__(self, task: Task, *, gamma: float = 3.0) -> None:
        super().__init__(task)
        self.gamma = check_gamma(gamma)

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return flsd_loss(logits, labels, self.gamma).mean()
