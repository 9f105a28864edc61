"""Training by the Brier score."""

from __future__ import annotations

from torch import Tensor

from ..losses import brier_loss
from .logits_only import LogitsOnly


class Brier(LogitsOnly):
    """The Brier score: squared distance between probabilities and label."""

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return brier_loss(logits, labels).mean()
