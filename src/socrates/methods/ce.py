"""Cross-entropy, and its form for models that have an unknown class which is not trained yet."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from .logits_only import LogitsOnly


class CrossEntropy(LogitsOnly):
    """Cross-entropy over the known classes.

    >>> import torch
    >>> from socrates.contracts import Task
    >>> CrossEntropy(Task(num_samples=9, num_classes=2, num_features=4)).validation_loss(
    ...     torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.6931)
    """

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels)


class KnownCrossEntropy(CrossEntropy):
    """Cross-entropy over the known classes of a model with an unknown class: its last logit is left out."""

    unknown_class = True

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super().validation_loss(logits[:, :-1], labels)
