"""Losses that are not finite: noticed without a wait in each step, told with their batch, or left out."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from socrates.engine.optim import learning_rate, weight_norm

if TYPE_CHECKING:
    from socrates.engine.state import State

OnNan = Literal["stop", "skip", "collapse"]  # what is done; the last goes on, and the run is recorded as collapsed
MOST = 256  # indices that are told


class Watch:
    """The losses of an epoch's steps, kept on the device: to read one in each step would make a GPU wait.

    They are looked at before a checkpoint is written, so that none is written after the first bad one, and when the
    epoch ends.
    """

    def __init__(self, state: State, order: Tensor) -> None:
        self.state, self.order = state, order
        self.size = state.experiment.optimization.batch_size
        self.losses = torch.zeros(state.steps, device=state.device)

    def note(self, step: int, loss: Tensor) -> None:
        """Remember a loss; nothing is read."""
        self.losses[step] = loss

    def check(self) -> None:
        """Stop if a loss was not finite, or if the weights are not."""
        if math.isfinite(float(self.losses.sum() + weight_norm(self.state.model))):
            return
        bad = (~self.losses.isfinite()).nonzero().flatten().tolist()
        step = bad[0] if bad else self.state.step - 1  # large gradients can come from a finite loss
        what = f"the loss is {float(self.losses[step])}" if bad else "the weights are not finite"
        epochs, steps = self.state.saved
        raise ValueError(
            f"{what} {self._place(step)}: lower the learning rate, or look at these samples; with on_nan='skip' "
            f"(--on-nan skip) such steps are left out. What was good is kept: {epochs} epochs and {steps} steps"
        )

    def told(self, step: int) -> str:
        """That a step is left out."""
        return f"a step is left out, as its loss or gradient is not finite {self._place(step)}"

    def _place(self, step: int) -> str:
        epoch, settings = self.state.epoch, self.state.experiment.optimization
        rate = learning_rate(epoch + (step + 0.5) / len(self.losses), settings)
        index = self.order[step * self.size : (step + 1) * self.size].tolist()
        more = f" and {len(index) - MOST} more" if len(index) > MOST else ""
        samples = ", ".join(map(str, index[:MOST]))
        return (
            f"in step {step + 1} of {len(self.losses)} of epoch {epoch + 1}, at the learning rate {rate:g}, on the "
            f"training samples {samples}{more}"
        )


class Undo:
    """What a step changes before the optimizer moves: what the method remembers, and the model's running means."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.buffers = [*state.model.buffers(), *state.method.buffers()]
        self.copies = [buffer.clone() for buffer in self.buffers]
        self.epoch_state = copy.deepcopy(state.method.epoch_state())  # a method may add to it in place

    def undo(self) -> None:
        """As if the step had not been."""
        self.state.method.load_epoch_state(self.epoch_state)
        for buffer, before in zip(self.buffers, self.copies, strict=True):
            buffer.copy_(before)


def is_finite(loss: Tensor, state: State) -> bool:
    """Whether a step can be done: its loss and, unless a scaler looks at them itself, its gradients are finite."""
    total: Any = loss.detach().float()
    if getattr(state.precision, "scaler", None) is None:
        slopes = [parameter.grad for parameter in state.model.parameters() if parameter.grad is not None]
        total = total + sum(slope.float().norm() for slope in slopes)
    return math.isfinite(float(total))
