"""A schedule of two methods: one until an epoch, the other from it on."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from ..contracts import Batch, Method, Output


class TwoPhase(Method):
    """`first` before `switch_epoch`, `then` from it on; the model needs what either of them needs.

    >>> from socrates.contracts import Task
    >>> from socrates.methods import build
    >>> task = Task(num_samples=9, num_classes=2)
    >>> TwoPhase(build("ce", task), build("focal", task), switch_epoch=10).active
    CrossEntropy()
    """

    def __init__(self, first: Method, then: Method, switch_epoch: int) -> None:
        super().__init__(then.task)
        if isinstance(switch_epoch, bool) or not isinstance(switch_epoch, int) or switch_epoch < 0:
            raise ValueError(f"the switch needs an epoch counted from 0, got {switch_epoch}")
        if first.unknown_class != then.unknown_class:
            raise ValueError(
                f"both phases train one model: {type(first).__name__} has "
                f"unknown_class={first.unknown_class} and "
                f"{type(then).__name__} has unknown_class={then.unknown_class}"
            )
        self.unknown_class = then.unknown_class
        self.takes_strangers = then.takes_strangers
        self.needs_features = first.needs_features or then.needs_features
        self.meta_share = max(first.meta_share, then.meta_share)
        self.extra_passes = then.extra_passes
        self.model_copies = max(first.model_copies, then.model_copies)
        self.first = first
        self.then = then
        self.switch_epoch = self.first_whole_epoch = switch_epoch
        self.epoch = 0

    @property
    def active(self) -> Method:
        """Return the method of the present epoch."""
        return self.first if self.epoch < self.switch_epoch else self.then

    def start_epoch(self, epoch: int, model: nn.Module) -> None:
        self.epoch = epoch
        self.active.start_epoch(epoch, model)

    def forward(self, model: nn.Module, batch: Batch) -> Output:
        return self.active(model, batch)

    def end_step(self, model: nn.Module) -> None:
        self.active.end_step(model)

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.active.validation_loss(logits, labels)

    def epoch_state(self) -> dict[str, Any]:
        return self.active.epoch_state()

    def load_epoch_state(self, state: Mapping[str, Any]) -> None:
        self.active.load_epoch_state(state)

    def diagnostics(self) -> Mapping[str, Tensor]:
        return self.active.diagnostics()


def two_phase(first: Method, then: Method, start_epoch: int) -> Method:
    """Return both methods in their order, or `then` alone if it starts at once."""
    return TwoPhase(first, then, start_epoch) if start_epoch else then
