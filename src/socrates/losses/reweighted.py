"""Cross-entropy with a weight per sample that follows its probabilities: rivals of focal loss.

Dual focal loss is by Tao et al. 2023, BSCE-GRA by Lin et al. 2025.
"""

from typing import Any

import torch
from torch import Tensor

from .inputs import (
    at_least_single,
    check_gamma,
    check_inputs,
    check_setting,
    true_class,
    vector_norm,
)
from .stateless import StatelessLoss


def dual_focal_loss(logits: Tensor, labels: Tensor, gamma: float = 2.0) -> Tensor:
    """Compute `-(1 - p_y + p_j)^gamma log p_y` per sample.

    p_j is the largest probability below that of the true class y, or 0 if there is none. Gamma 0
    is cross-entropy.

    >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> dual_focal_loss(logits, torch.tensor([0]), gamma=2.0)
    tensor([0.4436])
    """
    labels = check_inputs(logits, labels, "dual_focal_loss", unknown=False)
    gamma = check_gamma(gamma)
    z = at_least_single(logits)
    log_p = z.log_softmax(dim=1)
    log_p_true = true_class(log_p, labels, z.shape[1])
    is_below = log_p < log_p_true.detach()[:, None]
    p_next = (log_p.exp() * is_below).max(dim=1).values
    # expm1 keeps the digits of 1 - p near p = 1; the clamp keeps the slope of a power below 1
    # finite at p = 1.
    distance = (p_next - torch.expm1(log_p_true)).clamp(min=torch.finfo(z.dtype).tiny)
    return -(distance**gamma) * log_p_true


def bsce_gra_loss(logits: Tensor, labels: Tensor, gamma: float = 1.0, norm: float = 1.0) -> Tensor:
    """Compute cross-entropy times `|e_y - p|^gamma` per sample; the factor has no gradient.

    e_y is the one-hot label, and the distance that of the `norm`: 1 is the sum of absolute
    differences, `2 (1 - p_y)`, and 2 the root of the Brier score. So the gradient of
    cross-entropy, rather than the loss, is weighted by the uncertainty of a sample. Gamma 0 is
    cross-entropy.

    >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> bsce_gra_loss(logits, torch.tensor([0]), gamma=2.0)
    tensor([0.6931])
    """
    labels = check_inputs(logits, labels, "bsce_gra_loss", unknown=False)
    gamma = check_gamma(gamma)
    norm = check_norm(norm)
    log_p = at_least_single(logits).log_softmax(dim=1)
    log_p_true = true_class(log_p, labels, log_p.shape[1])
    with torch.no_grad():
        error = log_p.exp().scatter(1, labels[:, None], torch.expm1(log_p_true)[:, None])
        distance = vector_norm(error, norm)
    return -(distance**gamma) * log_p_true


def check_norm(norm: float) -> float:
    """Return the order of a norm as a float, or raise for one below 1."""
    norm = check_setting(norm, "norm")
    if norm < 1:
        raise ValueError(f"norm must be at least 1 (the paper uses 1 or 2), got {norm}")
    return norm


class DualFocalLoss(StatelessLoss):
    """Dual focal loss for a training loop: `criterion(logits, labels)`, an index is ignored.

    See `LossModule`.

    >>> DualFocalLoss()(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.1733)
    """

    def __init__(self, gamma: float = 2.0, **options: Any) -> None:
        super().__init__(**options)
        self.gamma = check_gamma(gamma)

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the dual focal loss of each sample."""
        return dual_focal_loss(logits, labels, self.gamma)


class BSCEGRALoss(StatelessLoss):
    """BSCE-GRA for a training loop: `criterion(logits, labels)`, an index is ignored.

    See `LossModule`.

    >>> BSCEGRALoss()(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.6931)
    """

    def __init__(self, gamma: float = 1.0, norm: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        self.gamma = check_gamma(gamma)
        self.norm = check_norm(norm)

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the weighted cross-entropy of each sample."""
        return bsce_gra_loss(logits, labels, self.gamma, self.norm)
