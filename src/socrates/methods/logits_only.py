"""The methods whose loss is a function of logits and labels alone."""

from torch import Tensor, nn
from torch.nn import functional as F

from ..contracts import Batch, Method, Output, Task
from ..losses import brier_loss, dece, flsd_loss, focal_loss, gamblers_loss
from ..losses.stateless import check_gamma, check_reward
from .two_phase import two_phase


class LogitsOnly(Method):
    """A method without state, which trains on the objective that it reports on held-out data."""

    def forward(self, model: nn.Module, batch: Batch) -> Output:
        logits = model(batch.inputs)
        return Output(self.validation_loss(logits, batch.labels), logits)


class CrossEntropy(LogitsOnly):
    """Cross-entropy over the known classes.

    >>> import torch
    >>> method = CrossEntropy(Task(num_samples=9, num_classes=2))
    >>> method.validation_loss(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.6931)
    """

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels)


class KnownCrossEntropy(CrossEntropy):
    """Cross-entropy over the known classes of a model with an unknown class, its last logit."""

    unknown_class = True

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if not self.task.strangers:
            return super().validation_loss(logits[:, :-1], labels)
        # a batch may have strangers only, whose label is the number of classes
        known = labels < self.task.num_classes
        losses = F.cross_entropy(logits[:, :-1], labels.where(known, 0), reduction="none")
        return (losses * known).sum() / known.sum().clamp(min=1)


class CEDECE(CrossEntropy):
    """Cross-entropy plus `weight` times the batch's differentiable ECE (MC in the paper's tables).

    Options:
        weight: weight of the differentiable calibration error; 0 is cross-entropy
    """

    def __init__(self, task: Task, *, weight: float = 0.5) -> None:
        super().__init__(task)
        if not weight >= 0:
            raise ValueError(
                f"ce_dece: weight must be at least 0, got {weight}: 0 is cross-entropy"
            )
        self.weight = weight

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super().validation_loss(logits, labels) + self.weight * dece(logits, labels)


class Brier(LogitsOnly):
    """The Brier score: squared distance between probabilities and label."""

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return brier_loss(logits, labels).mean()


class Focal(LogitsOnly):
    """Focal loss (Lin et al. 2020): easy samples count less, the more so the larger gamma.

    Options:
        gamma: exponent of the focal term: how much less easy samples count; 0 is cross-entropy
    """

    def __init__(self, task: Task, *, gamma: float = 2.0) -> None:
        super().__init__(task)
        self.gamma = check_gamma(gamma)

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return focal_loss(logits, labels, self.gamma).mean()


class FLSD(Focal):
    """Focal loss by sample (FLSD-53, Mukhoti et al. 2020): 5 or 3 for hard ones, else `gamma`.

    The paper cites Ghosh et al. 2022 for it, but their AdaFocal is another method, which follows
    validation data; the name, the grid of gamma and the released code are those of FLSD.

    Options:
        gamma: focal loss's gamma for samples whose true class has a probability of at least one
            half
        times_gamma: whether the whole loss is multiplied by gamma, as in the paper's released code
    """

    def __init__(self, task: Task, *, gamma: float = 3.0, times_gamma: bool = False) -> None:
        super().__init__(task, gamma=gamma)
        self.factor = self.gamma if times_gamma else 1.0

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.factor * flsd_loss(logits, labels, self.gamma).mean()


class Gamblers(LogitsOnly):
    """Deep Gamblers from the first epoch."""

    unknown_class = True

    def __init__(self, task: Task, *, reward: float = 2.2) -> None:
        super().__init__(task)
        self.reward = check_reward(reward)

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return gamblers_loss(logits, labels, self.reward).mean()


def gamblers(task: Task, *, reward: float = 2.2, start_epoch: int = 0) -> Method:
    """Train by Deep Gamblers (Liu et al. 2019), from `start_epoch` on; cross-entropy before.

    Options:
        reward: payoff of a correct bet, at least 1; the lower it is, the more the model abstains
        start_epoch: number of epochs of cross-entropy at the start
    """
    return two_phase(KnownCrossEntropy(task), Gamblers(task, reward=reward), start_epoch)
