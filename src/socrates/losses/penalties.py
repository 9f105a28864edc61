"""Focal loss or cross-entropy plus a penalty: MDCA, and beta as a regulariser of its own.

MDCA is by Hebbalaguppe et al. 2022. Whether the Socrates loss's beta helps other losses is a
question that its paper leaves open.
"""

from typing import Any

import torch
from torch import Tensor

from .inputs import (
    at_least_single,
    check_gamma,
    check_inputs,
    check_labels_in_range,
    check_setting,
)
from .socrates import uncertainty_penalty
from .stateless import StatelessLoss, focal_loss


def mdca(logits: Tensor, labels: Tensor, counts: Tensor | None = None) -> Tensor:
    """Compute `mean_c |mean p_c - share of label c|`, one number for the whole batch.

    `counts` (B,) booleans leaves rows out; their labels must still be classes.

    >>> mdca(torch.zeros(2, 2), torch.tensor([0, 0]))
    tensor(0.5000)
    """
    labels = check_inputs(logits, labels, "mdca", unknown=False)
    p = at_least_single(logits).softmax(dim=1)
    gap = p - torch.zeros_like(p).scatter(1, labels[:, None], 1.0)
    if counts is None:
        return gap.mean(dim=0).abs().mean()
    total = counts.sum().clamp(min=1)
    return (gap.masked_fill(~counts[:, None], 0.0).sum(dim=0) / total).abs().mean()


def mdca_loss(logits: Tensor, labels: Tensor, gamma: float = 1.0, weight: float = 1.0) -> Tensor:
    """Compute `focal loss + weight * mdca(batch)`, one value per sample.

    The second term belongs to the batch and is the same for each of its samples, so that the mean
    is the published loss. Gamma 0 is cross-entropy with the term.

    >>> mdca_loss(torch.zeros(2, 2), torch.tensor([0, 0]), gamma=0.0)
    tensor([1.1931, 1.1931])
    """
    each = focal_loss(logits, labels, gamma)
    return each + check_setting(weight, "weight") * mdca(logits, labels)


def beta_penalty_loss(
    logits: Tensor, labels: Tensor, gamma: float = 0.0, weight: float = 1.0
) -> Tensor:
    """Compute `-(1 - p_y)^gamma log p_y + weight * beta` per sample.

    Logits are (B, C + 1) with the unknown class last, and p their softmax. beta is Equation 2 of
    the Socrates loss, by how much the best wrong class exceeds the unknown class; its gradient
    moves probability from the former to the latter. There is no adaptive target. Gamma 0 is
    cross-entropy with the penalty.

    >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> beta_penalty_loss(logits, torch.tensor([0]))
    tensor([0.7931])
    """
    labels = check_inputs(logits, labels, "beta_penalty_loss", unknown=True)
    z = at_least_single(logits)
    check_labels_in_range(z, labels, z.shape[1] - 1)
    beta = uncertainty_penalty(z.softmax(dim=1), labels)
    return focal_loss(z, labels, gamma) + check_setting(weight, "weight") * beta


class MDCALoss(StatelessLoss):
    """Focal loss with MDCA for a training loop: `criterion(logits, labels)`.

    `mdca_weight` is the weight of the batch's term, which every sample has, ignored ones apart;
    `weight` is that of the classes, see `LossModule`. An index is ignored.

    >>> MDCALoss(gamma=0.0)(torch.zeros(2, 2), torch.tensor([0, 0]))
    tensor(1.1931)
    """

    def __init__(self, gamma: float = 1.0, mdca_weight: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        self.gamma = check_gamma(gamma)
        self.mdca_weight = check_setting(mdca_weight, "mdca_weight")

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        rows = self.flatten(logits, labels)
        each = focal_loss(rows.logits, rows.labels, self.gamma)
        batch_term = mdca(rows.logits, rows.labels, rows.counts)
        return self.reduce(each + self.mdca_weight * batch_term, rows)


class BetaPenaltyLoss(StatelessLoss):
    """Focal loss with beta for a training loop: `criterion(logits, labels)`.

    `beta_weight` is the weight of beta; `weight` is that of the classes, see `LossModule`. An
    index is ignored.

    >>> BetaPenaltyLoss()(torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.tensor([0]))
    tensor(0.7931)
    """

    unknown = True

    def __init__(self, gamma: float = 0.0, beta_weight: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        self.gamma = check_gamma(gamma)
        self.beta_weight = check_setting(beta_weight, "beta_weight")

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return focal loss and penalty of each sample."""
        return beta_penalty_loss(logits, labels, self.gamma, self.beta_weight)
