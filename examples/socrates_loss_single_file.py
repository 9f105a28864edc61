"""The Socrates loss in one file that needs only torch: copy it into your project.

    L    = -(1 - p_y)^gamma * [ t * log p_y + beta * (1 - t) * log p_idk ]     mean over the batch
    beta = max_{k != y} p_k - p_idk                                            never negative
    t   <- alpha * t + (1 - alpha) * p_y                                       one t per sample

`p` is the softmax over C + 1 outputs, the last of which is the unknown class `idk`. `t` starts at
1, moves at every visit before it is used, and receives no gradient; the focal term and beta do.
The paper is "Socrates Loss: Unifying Confidence Calibration and Classification by Leveraging the
Unknown" (TMLR, 2026). `socrates.SocratesLoss` is the same loss, faster, with checks of its inputs,
class weights, several processes and warnings; the tests hold both equal, also in their gradients
and in what they save.

    criterion = SocratesLoss(num_samples=len(train_set))
    for inputs, labels, index in loader:     # index: the position of each sample in train_set
        loss = criterion(model(inputs), labels, index)
    criterion.eval()                         # before validation: targets are 1 and stay as they are
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def socrates_loss(logits: Tensor, labels: Tensor, target: Tensor, gamma: float) -> Tensor:
    """Return the loss of each sample (B,), for logits (B, C + 1) and labels (B,) in 0..C-1."""
    log_p = logits.log_softmax(dim=1)
    log_p_true = log_p.gather(1, labels[:, None]).squeeze(1)
    p = log_p.exp()
    p_best_other = p.scatter(1, labels[:, None], -1.0).amax(dim=1)  # idk is one of the others
    beta = p_best_other - p[:, -1]
    # 1 - p_true without losing digits; not 0, where a gamma below 1 would have no gradient
    p_wrong = (-log_p_true.expm1()).clamp(min=torch.finfo(p.dtype).tiny)
    return -(p_wrong**gamma) * (target * log_p_true + beta * (1 - target) * log_p[:, -1])


class SocratesLoss(nn.Module):
    """Remember one adaptive target per training sample, and return the mean loss of a batch."""

    target: Tensor

    def __init__(self, num_samples: int, gamma: float = 1.0, alpha: float = 0.99) -> None:
        super().__init__()
        self.gamma = gamma
        self.alpha = alpha
        self.register_buffer("target", torch.ones(num_samples))
        # Saved beside the targets as the package does; its second entry says: softmax over C + 1.
        options = torch.tensor([alpha, 0.0, gamma], dtype=torch.float64)
        self.register_buffer("made_with", options)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """Return the mean loss; in training mode the samples' targets move first."""
        if not self.training:
            ones = torch.ones(len(labels), dtype=logits.dtype, device=logits.device)
            return socrates_loss(logits, labels, ones, self.gamma).mean()
        if index is None:
            raise ValueError("SocratesLoss needs the index of each sample while training")
        target = self._moved_target(logits.detach(), labels, index)
        return socrates_loss(logits, labels, target, self.gamma).mean()

    def _moved_target(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        p_true = logits.softmax(dim=1).gather(1, labels[:, None]).squeeze(1)
        previous = self.target[index].to(p_true.dtype)
        moved = self.alpha * previous + (1 - self.alpha) * p_true
        moved = torch.where(moved.isfinite(), moved, previous)  # of a diverged sample
        # If an index occurs twice in a batch the lowest result is kept, whatever their order.
        stored = moved.to(self.target.dtype)
        self.target.scatter_reduce_(0, index, stored, "amin", include_self=False)
        return moved
