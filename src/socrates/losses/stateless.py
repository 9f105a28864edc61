"""Losses without memory: Brier, focal loss, its sample-dependent form FLSD-53, Deep Gamblers.

Focal loss is by Lin et al. 2020, FLSD-53 by Mukhoti et al. 2020 (the paper cites Ghosh et al. 2022
for it, but their AdaFocal is another method: see docs/fidelity.md). Deep Gamblers (Liu et al. 2019)
bets on a class at odds `reward`, or keeps the stake on the unknown class.
"""

import math
from typing import Any

import torch
from torch import Tensor

from .inputs import at_least_single, check_gamma, check_inputs, is_number, true_class
from .module import LossModule


def brier_loss(logits: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Compute the Brier score, `sum_k (p_k - [k = y])^2`, one value per sample.

    Smoothing spreads a share of the label over all classes.

    >>> brier_loss(torch.zeros(1, 2), torch.tensor([0]))
    tensor([0.5000])
    """
    labels = check_inputs(logits, labels, "brier_loss", unknown=False)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing must be in [0, 1], got {label_smoothing!r}")
    p = at_least_single(logits).softmax(dim=1)
    p_true = true_class(p, labels, p.shape[1])
    error = p.scatter(1, labels[:, None], (p_true - (1 - label_smoothing))[:, None])
    return (error - label_smoothing / p.shape[1]).square().sum(dim=1)


def focal_loss(logits: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """Compute `-(1 - p)^gamma log p` for the probability p of the true class, per sample.

    Gamma 0 is cross-entropy.

    >>> focal_loss(torch.zeros(1, 2), torch.tensor([0]), gamma=2.0)
    tensor([0.1733])
    """
    return _focal(_log_p(logits, labels, "focal_loss")[1], check_gamma(gamma))


def flsd_loss(logits: Tensor, labels: Tensor, gamma: float = 3.0) -> Tensor:
    """Compute focal loss with gamma 5 where p < 0.2, 3 where p < 0.5, and `gamma` elsewhere.

    The choice has no gradient.

    >>> flsd_loss(torch.zeros(1, 4), torch.tensor([0]))
    tensor([0.5848])
    """
    _, log_p_true = _log_p(logits, labels, "flsd_loss")
    p_true = log_p_true.detach().exp()
    gammas = torch.full_like(p_true, check_gamma(gamma))
    gammas = gammas.masked_fill(p_true < 0.5, 3.0).masked_fill(p_true < 0.2, 5.0)
    return _focal(log_p_true, gammas)


def gamblers_loss(logits: Tensor, labels: Tensor, reward: float) -> Tensor:
    """Compute `-log(p_true + p_idk / reward)`, one value per sample.

    Logits are (B, C + 1) with the unknown class last. This is the original code's form; the
    publication's `-log(reward * p_true + p_idk)` is smaller by the constant `log(reward)` and has
    the same gradient.

    >>> gamblers_loss(torch.zeros(1, 3), torch.tensor([0]), reward=2.0)
    tensor([0.6931])
    """
    log_p, log_p_true = _log_p(logits, labels, "gamblers_loss", unknown=True)
    return -torch.logaddexp(log_p_true, log_p[:, -1] - math.log(check_reward(reward)))


def _log_p(
    logits: Tensor, labels: Tensor, name: str, unknown: bool = False
) -> tuple[Tensor, Tensor]:
    """Check the input and return the log-probabilities of all columns, and of the true classes."""
    labels = check_inputs(logits, labels, name, unknown=unknown)
    log_p = at_least_single(logits).log_softmax(dim=1)
    return log_p, true_class(log_p, labels, log_p.shape[1] - unknown)


def _focal(log_p_true: Tensor, gamma: float | Tensor) -> Tensor:
    # expm1 keeps the digits of 1 - p near p = 1; the clamp keeps the slope of a power below 1
    # finite at p = 1.
    p_wrong = (-torch.expm1(log_p_true)).clamp(min=torch.finfo(log_p_true.dtype).tiny)
    return -(p_wrong**gamma) * log_p_true


def check_reward(reward: float) -> float:
    """Return the reward as a float, or raise for odds at which no bet can pay."""
    if not is_number(reward) or not 1 <= reward < math.inf:
        raise ValueError(
            f"reward must be at least 1 (useful from above 1 to the number of classes), "
            f"got {reward}"
        )
    return float(reward)


class StatelessLoss(LossModule):
    """A loss without memory.

    It takes and ignores an index, so that it can stand in for one that needs it.
    """

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return one value per sample, not yet weighted."""
        raise NotImplementedError

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        rows = self.flatten(logits, labels)
        return self.reduce(self.per_sample(rows.logits, rows.labels), rows)


class BrierLoss(StatelessLoss):
    """The Brier loss for a training loop: `criterion(logits, labels)`, an index is ignored.

    See `LossModule`.

    >>> BrierLoss()(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.5000)
    """

    smooths = True

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the Brier score of each sample."""
        return brier_loss(logits, labels, self.label_smoothing)


class FocalLoss(StatelessLoss):
    """Focal loss for a training loop: `criterion(logits, labels)`, an index is ignored.

    See `LossModule`. With gamma 0 it is `nn.CrossEntropyLoss`, with every option. A smoothed label
    counts as a draw: the loss is a mean of the label's own, with `1 - label_smoothing`, and of the
    loss that each class would have as the label.

    >>> FocalLoss(gamma=2.0)(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.1733)
    """

    smooths = True

    def __init__(self, gamma: float = 2.0, **options: Any) -> None:
        super().__init__(**options)
        self.gamma = check_gamma(gamma)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        rows = self.flatten(logits, labels)
        loss = focal_loss(rows.logits, rows.labels, self.gamma)
        if not self.label_smoothing:
            return self.reduce(loss, rows)
        log_p = at_least_single(rows.logits).log_softmax(dim=1)
        as_if_label = _focal(log_p, self.gamma)  # (B, C): the loss if each class were the label
        if self.weight is not None:
            as_if_label = as_if_label * self.weight.to(as_if_label.dtype)
        unweighted = self.label_smoothing * as_if_label.mean(dim=1)
        return self.reduce((1 - self.label_smoothing) * loss, rows, unweighted)


class FLSDLoss(StatelessLoss):
    """FLSD-53 for a training loop; `gamma` is the exponent of samples with p >= 0.5.

    >>> FLSDLoss()(torch.zeros(1, 4), torch.tensor([0]))
    tensor(0.5848)
    """

    def __init__(self, gamma: float = 3.0, **options: Any) -> None:
        super().__init__(**options)
        self.gamma = check_gamma(gamma)

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the FLSD-53 loss of each sample."""
        return flsd_loss(logits, labels, self.gamma)


class GamblersLoss(StatelessLoss):
    """Deep Gamblers for a training loop: `criterion(logits, labels)`, an index is ignored.

    See `LossModule`.

    >>> GamblersLoss(reward=2.2)(torch.zeros(1, 3), torch.tensor([0]))
    tensor(0.7239)
    """

    unknown = True

    def __init__(self, reward: float = 2.2, **options: Any) -> None:
        super().__init__(**options)
        self.reward = check_reward(reward)

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each bet."""
        return gamblers_loss(logits, labels, self.reward)
