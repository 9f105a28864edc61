"""Correctness ranking loss (CRL, Moon et al. 2020)."""

from torch import nn

from ..contracts import Batch, Output, Task
from ..losses import CorrectnessHistory, crl_loss
from ..losses.inputs import check_setting
from .logits_only import CrossEntropy


class CorrectnessRanking(CrossEntropy):
    """CRL (Moon et al. 2020): confidence in the order of how often samples were correct.

    Each sample's correct answers are counted by its index. On held-out data, which have no past,
    it is cross-entropy.

    Options:
        weight: weight of the ranking term, which is added to cross-entropy
    """

    def __init__(self, task: Task, *, weight: float = 1.0) -> None:
        super().__init__(task)
        self.weight = check_setting(weight, "weight")
        self.history = CorrectnessHistory(task.num_samples)

    def start_epoch(self, epoch: int, model: nn.Module) -> None:
        self.history.start_epoch(epoch)

    def forward(self, model: nn.Module, batch: Batch) -> Output:
        logits = model(batch.inputs)  # (B, C)
        correctness = self.history.read(batch.index)
        loss = crl_loss(logits, batch.labels, correctness, self.weight).mean()
        if self.training:
            self.history.add(batch.index, logits.detach().argmax(dim=1) == batch.labels)
        return Output(loss, logits)
