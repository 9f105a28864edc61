"""The shell of the losses that remember nothing: a module around a pure function."""

from __future__ import annotations

from torch import Tensor, nn

from .socrates import Reduction, check_reduction, reduce


class StatelessLoss(nn.Module):
    """A loss without memory; it takes and ignores an index, so that it can stand in for one that needs it."""

    def __init__(self, reduction: Reduction) -> None:
        super().__init__()
        self.reduction: Reduction = check_reduction(reduction)

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        """One value per sample."""
        raise NotImplementedError

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        return reduce(self.per_sample(logits, labels), self.reduction)
