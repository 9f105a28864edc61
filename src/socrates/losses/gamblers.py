"""Deep Gamblers (Liu et al. 2019): bet on a class at odds `reward`, or keep the stake on the unknown class."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .inputs import at_least_single, check_inputs, is_number, true_class
from .module import StatelessLoss


def gamblers_loss(logits: Tensor, labels: Tensor, reward: float) -> Tensor:
    """`-log(p_true + p_idk / reward)`, one value per sample; logits (B, C + 1) with the unknown class last.

    This is the original code's form; the publication's `-log(reward * p_true + p_idk)` is smaller by the constant
    `log(reward)` and has the same gradient.

    >>> gamblers_loss(torch.zeros(1, 3), torch.tensor([0]), reward=2.0)
    tensor([0.6931])
    """
    labels = check_inputs(logits, labels, "gamblers_loss", unknown=True)
    log_p = at_least_single(logits).log_softmax(dim=1)
    log_p_true = true_class(log_p, labels, logits.shape[1] - 1)
    return -torch.logaddexp(log_p_true, log_p[:, -1] - math.log(check_reward(reward)))


def check_reward(reward: float) -> float:
    """Refuse odds at which no bet can pay."""
    if not is_number(reward) or not 1 <= reward < math.inf:
        raise ValueError(f"reward must be at least 1 (useful from above 1 to the number of classes), got {reward}")
    return float(reward)


class GamblersLoss(StatelessLoss):
    """Deep Gamblers for a training loop: `criterion(logits, labels)`, an index is ignored; see `LossModule`.

    >>> GamblersLoss(reward=2.2)(torch.zeros(1, 3), torch.tensor([0]))
    tensor(0.7239)
    """

    unknown = True

    def __init__(self, reward: float = 2.2, **options: Any) -> None:
        super().__init__(**options)
        self.reward = check_reward(reward)

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        return gamblers_loss(logits, labels, self.reward)
