"""Losses that keep logits from growing apart: label smoothing, MbLS and LogitNorm.

Label smoothing is by Szegedy et al. 2016, margin-based label smoothing by Liu et al. 2022, and
LogitNorm by Wei et al. 2022.
"""

from typing import Any

from torch import Tensor
from torch.nn import functional as F

from .inputs import (
    at_least_single,
    check_inputs,
    check_labels_in_range,
    check_setting,
    is_number,
    true_class,
    vector_norm,
)
from .stateless import StatelessLoss

# As in the original code: a row of zeros has no direction.
SMALLEST_NORM = 1e-7


def label_smoothing_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.1) -> Tensor:
    """Compute cross-entropy with a share of each label spread evenly over all classes.

    It is `(1 - smoothing) * -log p_y + smoothing * mean_k(-log p_k)` per sample, as in
    `nn.CrossEntropyLoss`. For a training loop, `FocalLoss(gamma=0, label_smoothing=0.1)` has it
    with every option.

    >>> import torch
    >>> label_smoothing_loss(torch.zeros(1, 2), torch.tensor([0]))
    tensor([0.6931])
    """
    labels = check_inputs(logits, labels, "label_smoothing_loss", unknown=False)
    smoothing = check_smoothing(smoothing)
    log_p = at_least_single(logits).log_softmax(dim=1)
    log_p_true = true_class(log_p, labels, log_p.shape[1])
    return -(1 - smoothing) * log_p_true - smoothing * log_p.mean(dim=1)


def mbls_loss(logits: Tensor, labels: Tensor, margin: float = 10.0, weight: float = 0.1) -> Tensor:
    """Compute `-log p_y + weight * mean_k relu(max z - z_k - margin)` per sample.

    Logits z may be apart by the margin at no cost. With margin 0 it is a label smoothing by the
    distance of all logits to the largest.

    >>> import torch
    >>> mbls_loss(torch.tensor([[20.0, 0.0]]), torch.tensor([0]))
    tensor([0.5000])
    """
    labels = check_inputs(logits, labels, "mbls_loss", unknown=False)
    z = at_least_single(logits)
    largest = z.max(dim=1, keepdim=True).values
    excess = F.relu(largest - z - check_setting(margin, "margin")).mean(dim=1)
    log_p_true = true_class(z.log_softmax(dim=1), labels, z.shape[1])
    return check_setting(weight, "weight") * excess - log_p_true


def logit_norm_loss(logits: Tensor, labels: Tensor, temperature: float = 0.04) -> Tensor:
    """Compute the cross-entropy of `z / (temperature * |z|)` per sample.

    The loss does not see the norm |z| of the logits, and so does not train it. The model's
    softmax, which reads the logits as they are, has a confidence that only a scaler can set right.

    >>> import torch
    >>> logit_norm_loss(torch.tensor([[3.0, 0.0]]), torch.tensor([0]), temperature=1.0)
    tensor([0.3133])
    """
    labels = check_inputs(logits, labels, "logit_norm_loss", unknown=False)
    temperature = check_setting(temperature, "temperature", above=True)
    z = at_least_single(logits)
    check_labels_in_range(z, labels, z.shape[1])
    norm = vector_norm(z, 2.0)[:, None]
    direction = z / (norm + SMALLEST_NORM)
    return F.cross_entropy(direction / temperature, labels, reduction="none")


def check_smoothing(smoothing: float) -> float:
    """Return the smoothing as a float, or raise unless it is a share."""
    if not is_number(smoothing) or not 0 <= smoothing <= 1:
        raise ValueError(f"smoothing must be in [0, 1], got {smoothing!r}")
    return float(smoothing)


class MbLSLoss(StatelessLoss):
    """Margin-based label smoothing for a training loop: `criterion(logits, labels)`.

    `margin_weight` is the weight of the margin term; `weight` is that of the classes, see
    `LossModule`. An index is ignored.

    >>> import torch
    >>> MbLSLoss()(torch.tensor([[20.0, 0.0]]), torch.tensor([0]))
    tensor(0.5000)
    """

    def __init__(self, margin: float = 10.0, margin_weight: float = 0.1, **options: Any) -> None:
        super().__init__(**options)
        self.margin = check_setting(margin, "margin")
        self.margin_weight = check_setting(margin_weight, "margin_weight")

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return cross-entropy and margin term of each sample."""
        return mbls_loss(logits, labels, self.margin, self.margin_weight)


class LogitNormLoss(StatelessLoss):
    """LogitNorm for a training loop: `criterion(logits, labels)`, an index is ignored.

    See `LossModule`.

    >>> import torch
    >>> LogitNormLoss(temperature=1.0)(torch.tensor([[3.0, 0.0]]), torch.tensor([0]))
    tensor(0.3133)
    """

    def __init__(self, temperature: float = 0.04, **options: Any) -> None:
        super().__init__(**options)
        self.temperature = check_setting(temperature, "temperature", above=True)

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy of each sample's direction."""
        return logit_norm_loss(logits, labels, self.temperature)
