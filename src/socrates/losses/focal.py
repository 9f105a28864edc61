"""Focal loss (Lin et al. 2020) and its sample-dependent form FLSD-53 (Mukhoti et al. 2020)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .inputs import at_least_single, check_gamma, check_inputs, true_class
from .module import StatelessLoss


def focal_loss(logits: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """`-(1 - p)^gamma log p` for the probability p of the true class, one value per sample; gamma 0 is cross-entropy.

    >>> focal_loss(torch.zeros(1, 2), torch.tensor([0]), gamma=2.0)
    tensor([0.1733])
    """
    labels = check_inputs(logits, labels, "focal_loss", unknown=False)
    return _focal(_log_p_true(logits, labels), check_gamma(gamma))


def flsd_loss(logits: Tensor, labels: Tensor, gamma: float = 3.0) -> Tensor:
    """Focal loss with gamma 5 where p < 0.2, 3 where p < 0.5, and `gamma` elsewhere; the choice has no gradient.

    >>> flsd_loss(torch.zeros(1, 4), torch.tensor([0]))
    tensor([0.5848])
    """
    labels = check_inputs(logits, labels, "flsd_loss", unknown=False)
    log_p_true = _log_p_true(logits, labels)
    p_true = log_p_true.detach().exp()
    chosen = torch.full_like(p_true, check_gamma(gamma)).masked_fill(p_true < 0.5, 3.0).masked_fill(p_true < 0.2, 5.0)
    return _focal(log_p_true, chosen)


def _log_p_true(logits: Tensor, labels: Tensor) -> Tensor:
    return true_class(at_least_single(logits).log_softmax(dim=1), labels, logits.shape[1])


def _focal(log_p_true: Tensor, gamma: float | Tensor) -> Tensor:
    # expm1 keeps the digits of 1 - p near p = 1; the clamp keeps the slope of a power below 1 finite at p = 1.
    p_wrong = (-torch.expm1(log_p_true)).clamp(min=torch.finfo(log_p_true.dtype).tiny)
    return -(p_wrong**gamma) * log_p_true


class FocalLoss(StatelessLoss):
    """Focal loss for a training loop: `criterion(logits, labels)`, an index is ignored; see `LossModule`.

    With gamma 0 it is `nn.CrossEntropyLoss`, with every option. A smoothed label counts as a draw: the loss is a mean
    of the label's own, with `1 - label_smoothing`, and of the loss that each class would have as the label.

    >>> FocalLoss(gamma=2.0)(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.1733)
    """

    smooths = True

    def __init__(self, gamma: float = 2.0, **options: Any) -> None:
        super().__init__(**options)
        self.gamma = check_gamma(gamma)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        rows = self.rows(logits, labels)
        loss = focal_loss(rows.logits, rows.labels, self.gamma)
        if not self.label_smoothing:
            return self.reduce(loss, rows)
        every = _focal(at_least_single(rows.logits).log_softmax(dim=1), self.gamma)  # (B, C), as if each were the label
        every = every if self.weight is None else every * self.weight.to(every.dtype)
        return self.reduce((1 - self.label_smoothing) * loss, rows, self.label_smoothing * every.mean(dim=1))


class FLSDLoss(StatelessLoss):
    """FLSD-53 for a training loop; `gamma` is the exponent of samples with p >= 0.5.

    >>> FLSDLoss()(torch.zeros(1, 4), torch.tensor([0]))
    tensor(0.5848)
    """

    def __init__(self, gamma: float = 3.0, **options: Any) -> None:
        super().__init__(**options)
        self.gamma = check_gamma(gamma)

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        return flsd_loss(logits, labels, self.gamma)
