"""Training by focal loss (Lin et al. 2020)."""

from __future__ import annotations

from torch import Tensor

from ..contracts import Task
from ..losses import focal_loss
from ..losses.socrates import check_gamma
from .logits_only import LogitsOnly


class Focal(LogitsOnly):
    """Focal loss (Lin et al. 2020): easy samples count less, the more so the larger gamma."""

    def __init__(self, task: Task, *, gamma: float = 2.0) -> None:
        super().__init__(task)
        self.gamma = check_gamma(gamma)

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return focal_loss(logits, labels, self.gamma).mean()
