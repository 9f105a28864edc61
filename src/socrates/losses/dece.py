"""Differentiable ECE and learned label smoothing (Meta-Calibration, Bohdal et al. 2023)."""

from numbers import Integral

import torch
from torch import Tensor

from .inputs import (
    at_least_single,
    check_inputs,
    check_labels_in_range,
    is_number,
    true_class,
)


def dece(
    logits: Tensor, labels: Tensor, num_bins: int = 15, t_a: float = 100.0, t_b: float = 0.01
) -> Tensor:
    """Compute a smooth expected calibration error of the batch, as one number.

    Accuracy is soft by rank, and membership of bins is soft. `t_a` is the steepness of the soft
    rank and `t_b` the temperature of the soft bins. Only the rank of the true class matters, so
    memory is (B, C).

    >>> round(float(dece(torch.tensor([[4.0, 0.0], [4.0, 0.0]]), torch.tensor([0, 1]))), 3)
    0.482
    """
    labels = check_inputs(logits, labels, "dece", unknown=False)
    if not is_number(num_bins, Integral) or num_bins < 1 or not t_a > 0 or not t_b > 0:
        raise ValueError(
            f"dece needs num_bins >= 1, t_a > 0 and t_b > 0, got {num_bins}, {t_a} and {t_b}"
        )
    p = at_least_single(logits).softmax(dim=1)
    confidence = p.max(dim=1).values
    p_true = true_class(p, labels, p.shape[1])
    rank = 0.5 + torch.sigmoid(t_a * (p - p_true[:, None])).sum(dim=1)  # the best is 1
    accuracy = (2 - rank).relu()
    # Membership of each confidence in bins of equal width, by the cut points of a soft decision
    # tree.
    slope = torch.arange(1, num_bins + 1, dtype=p.dtype, device=p.device)
    cuts = (slope - 1) / num_bins
    member = ((confidence[:, None] * slope - cuts.cumsum(0)) / t_b).softmax(dim=1)  # (B, num_bins)
    smallest = 1e-6  # the original keeps every bin a little occupied
    member = (member + smallest) / (1 + (num_bins + 1) * smallest)
    return ((accuracy - confidence) @ member).abs().sum() / len(labels)


def smoothed_labels(labels: Tensor, omega: Tensor, epsilon: Tensor) -> Tensor:
    """Return soft labels (B, C) of learned label smoothing.

    There is `1 - epsilon[y]` on y, and the rest is shared as `omega[y]` says. `omega` (C, C) is
    not negative, and its diagonal is ignored; a row of zeros leaves the label hard.

    >>> omega = torch.tensor([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    >>> smoothed_labels(torch.tensor([0, 2]), omega, epsilon=torch.tensor([0.2, 0.1, 0.0]))
    tensor([[0.8000, 0.0500, 0.1500],
            [0.0000, 0.0000, 1.0000]])
    """
    num_classes = len(omega)
    if omega.shape != (num_classes, num_classes) or epsilon.shape != (num_classes,):
        raise ValueError(
            f"smoothed_labels needs omega (C, C) and epsilon (C,), "
            f"got {tuple(omega.shape)} and {tuple(epsilon.shape)}"
        )
    labels = labels.to(torch.int64)
    hard = torch.eye(num_classes, dtype=omega.dtype, device=omega.device)
    check_labels_in_range(hard[:1].expand(len(labels), -1), labels, num_classes)
    others = omega * (1 - hard)
    guard = 1e-6  # the original's, for a row of zeros
    shares = others / (others.sum(dim=1, keepdim=True) + guard)
    soft = torch.diag(1 - epsilon) + epsilon[:, None] * shares
    return soft[labels]
