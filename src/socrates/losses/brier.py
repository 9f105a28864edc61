"""The Brier score as a loss: the squared distance between the probabilities and the one-hot label."""

from __future__ import annotations

from torch import Tensor

from .inputs import at_least_single, check_inputs, true_class
from .module import StatelessLoss


def brier_loss(logits: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """`sum_k (p_k - [k = y])^2`, one value per sample; smoothing spreads a share of the label over all classes.

    >>> import torch
    >>> brier_loss(torch.zeros(1, 2), torch.tensor([0]))
    tensor([0.5000])
    """
    labels = check_inputs(logits, labels, "brier_loss", unknown=False)
    p = at_least_single(logits).softmax(dim=1)
    p_true = true_class(p, labels, p.shape[1])
    error = p.scatter(1, labels[:, None], (p_true - (1 - label_smoothing))[:, None])
    return (error - label_smoothing / p.shape[1]).square().sum(dim=1)


class BrierLoss(StatelessLoss):
    """The Brier loss for a training loop: `criterion(logits, labels)`, an index is ignored; see `LossModule`.

    >>> import torch
    >>> BrierLoss()(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.5000)
    """

    smooths = True

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        return brier_loss(logits, labels, self.label_smoothing)
