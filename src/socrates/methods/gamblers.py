"""Training by the Deep Gamblers loss (Liu et al. 2019), after cross-entropy for the first epochs."""

from __future__ import annotations

from torch import Tensor

from ..contracts import Method, Task
from ..losses import gamblers_loss
from ..losses.gamblers import check_reward
from .ce import KnownCrossEntropy
from .logits_only import LogitsOnly
from .two_phase import two_phase


class Gamblers(LogitsOnly):
    """Deep Gamblers from the first epoch."""

    unknown_class = True

    def __init__(self, task: Task, *, reward: float = 2.2) -> None:
        super().__init__(task)
        self.reward = check_reward(reward)

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return gamblers_loss(logits, labels, self.reward).mean()


def gamblers(task: Task, *, reward: float = 2.2, start_epoch: int = 0) -> Method:
    """Deep Gamblers (Liu et al. 2019); before `start_epoch` cross-entropy on the known classes."""
    return two_phase(KnownCrossEntropy(task), Gamblers(task, reward=reward), start_epoch)
