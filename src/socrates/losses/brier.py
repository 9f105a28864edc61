"""The Brier score as a loss: the squared distance between the probabilities and the one-hot label."""

from __future__ import annotations

from torch import Tensor

from .socrates import Reduction, at_least_single, check_inputs, true_class
from .stateless import StatelessLoss


def brier_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """`sum_k (p_k - [k = y])^2`, one value per sample.

    >>> import torch
    >>> brier_loss(torch.zeros(1, 2), torch.tensor([0]))
    tensor([0.5000])
    """
    labels = check_inputs(logits, labels, "brier_loss", unknown=False)
    p = at_least_single(logits).softmax(dim=1)
    p_true = true_class(p, labels, p.shape[1])
    return p.scatter(1, labels[:, None], (p_true - 1)[:, None]).square().sum(dim=1)


class BrierLoss(StatelessLoss):
    """The Brier loss for a training loop: `criterion(logits, labels)`, an index is ignored.

    >>> import torch
    >>> BrierLoss()(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.5000)
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        return brier_loss(logits, labels)
