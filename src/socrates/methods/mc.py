"""Meta-Calibration (Bohdal et al. 2023): smoothing learned by how calibrated it makes a step."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..contracts import Batch, DropoutLinear, Output, Task
from ..losses import dece, smoothed_labels
from .logits_only import CrossEntropy


class MetaCalibration(CrossEntropy):
    """Meta-Calibration (Bohdal et al. 2023): smoothing learned by a virtual step of the last layer.

    Each step asks how cross-entropy and the differentiable ECE of a meta batch change with the
    smoothing, if the last layer took one step of SGD on the smoothed labels; Adam moves the
    smoothing at `meta_rate`; then the model learns from the labels so smoothed. The virtual step
    has the learning rate of the real one that follows, and like it takes the mean of cross-entropy
    over the batch (the sum of the original would be a step as many times longer as the batch is
    large); both parts of what the smoothing is judged by are means over the meta batch.

    Options:
        weight: weight of the differentiable calibration error, which is added to cross-entropy to
            judge the smoothing
        virtual_rate: fixed learning rate of the virtual step of the last layer; by default the
            current learning rate
        meta_rate: learning rate of Adam for the smoothing
    """

    needs_features = True
    meta_share = 0.1
    extra_passes = 1  # of the meta batch
    omega: Tensor
    epsilon: Tensor

    def __init__(
        self,
        task: Task,
        *,
        weight: float = 0.5,
        virtual_rate: float | None = None,
        meta_rate: float = 0.001,
    ) -> None:
        super().__init__(task)
        fixed = isinstance(virtual_rate, int | float) and virtual_rate > 0
        if not (weight >= 0 and (virtual_rate is None or fixed) and meta_rate > 0):
            raise ValueError(
                f"mc needs a weight of at least 0 and rates above 0, got weight={weight}, "
                f"virtual_rate={virtual_rate} and meta_rate={meta_rate}"
            )
        self.weight = weight
        self.virtual_rate = virtual_rate
        self.register_buffer("omega", torch.zeros(task.num_classes, task.num_classes))
        self.register_buffer("epsilon", torch.zeros(task.num_classes))
        self.adam = nn.ModuleDict(
            {"omega": Adam(self.omega, meta_rate), "epsilon": Adam(self.epsilon, meta_rate)}
        )

    def forward(self, model: Any, batch: Batch) -> Output:
        features, logits = last_layer(model.head, model.features(batch.inputs))  # (B, D), (B, C)
        if self.training:
            omega_slope, epsilon_slope = self.slopes(
                model, batch, features.detach(), logits.detach()
            )
            self.omega.add_(self.adam["omega"](omega_slope)).clamp_(min=0.0)
            self.epsilon.add_(self.adam["epsilon"](epsilon_slope)).clamp_(0.0, 0.5)
        soft = smoothed_labels(batch.labels, self.omega, self.epsilon).to(logits.dtype)
        return Output(F.cross_entropy(logits, soft), logits)

    def slopes(self, model: Any, batch: Batch, features: Tensor, logits: Tensor) -> list[Tensor]:
        """Return the gradient of the outer loss by omega and epsilon, through the virtual step."""
        if batch.meta is None:
            raise ValueError(
                "mc needs a meta batch in every step: hold back meta_share of the training data"
            )
        rate = batch.learning_rate if self.virtual_rate is None else self.virtual_rate
        if rate is None:
            raise ValueError(
                "mc needs the learning rate of the step: set the batch's learning_rate, or pass a "
                "virtual_rate"
            )
        with torch.no_grad():
            meta_features, _ = last_layer(model.head, model.features(batch.meta.inputs))
        with torch.enable_grad():
            smoothing = [self.omega.clone().requires_grad_(), self.epsilon.clone().requires_grad_()]
            soft = smoothed_labels(batch.labels, *smoothing)
            weight, bias = virtual_head(model.head, features, logits, soft, rate)
            after = F.linear(meta_features.to(weight.dtype), weight, bias)
            labels = batch.meta.labels
            outer = F.cross_entropy(after, labels) + self.weight * dece(after, labels)
            return list(torch.autograd.grad(outer, smoothing))


def last_layer(head: nn.Linear, features: Tensor) -> tuple[Tensor, Tensor]:
    """Return what reaches the weights of the last layer, after its dropout, and the logits."""
    if isinstance(head, DropoutLinear):
        features = head.dropout(features)
        return features, F.linear(features, head.weight, head.bias)
    return features, head(features)


def virtual_head(
    head: nn.Linear, features: Tensor, logits: Tensor, soft: Tensor, learning_rate: float
) -> tuple[Tensor, Tensor | None]:
    """Return weight and bias of the last layer after an SGD step on mean soft cross-entropy.

    They are differentiable in the labels.
    """
    # The gradient of soft cross-entropy in closed form; the original's labels need not sum to 1.
    p = logits.to(soft.dtype).softmax(dim=1)
    residual = (p * soft.sum(dim=1, keepdim=True) - soft) / len(soft)
    weight = head.weight.detach() - learning_rate * residual.T @ features.to(soft.dtype)
    bias = None if head.bias is None else head.bias.detach() - learning_rate * residual.sum(dim=0)
    return weight, bias


class Adam(nn.Module):
    """Adam's step for one tensor, with its moments as buffers that save with the method."""

    mean: Tensor
    square: Tensor
    count: Tensor

    def __init__(
        self, like: Tensor, rate: float, decay: tuple[float, float] = (0.9, 0.999)
    ) -> None:
        super().__init__()
        self.rate = rate
        self.decay = decay
        self.register_buffer("mean", torch.zeros_like(like))
        self.register_buffer("square", torch.zeros_like(like))
        self.register_buffer("count", torch.zeros((), dtype=like.dtype))

    @torch.no_grad()
    def forward(self, slope: Tensor) -> Tensor:
        self.count += 1
        self.mean.lerp_(slope, 1 - self.decay[0])
        self.square.lerp_(slope.square(), 1 - self.decay[1])
        mean = self.mean / (1 - self.decay[0] ** self.count)
        square = self.square / (1 - self.decay[1] ** self.count)
        return -self.rate * mean / (square.sqrt() + 1e-8)
