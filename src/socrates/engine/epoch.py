"""One epoch of training. The loop never asks which method it runs."""

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from socrates.contracts import Batch, Output, Stream
from socrates.engine.build import clip_gradients, freeze, learning_rate, set_rate, weight_norm
from socrates.engine.evaluate import calibration
from socrates.engine.events import Stepped, Tell
from socrates.engine.ranks import ALONE, Ranks
from socrates.engine.state import Gathered, State, nothing
from socrates.losses.adaptive import AdaptiveTargetLoss

# What follows a loss that is not finite; "collapse" trains on, and the run counts as collapsed.
OnNan = Literal["stop", "skip", "collapse"]
MOST_LISTED = 256  # samples that an error lists
PURPOSES = ("order", "noise", "augmentation")  # of the random numbers of an epoch


def train_epoch(
    fabric: Any,
    model: Any,
    state: State,
    tell: Tell,
    after_step: Callable[[], None] = nothing,
    on_nan: OnNan = "stop",
    ranks: Ranks = ALONE,
) -> dict[str, Any]:
    """Train on every sample once, in an order that seed and epoch decide; return the record.

    An epoch that was stopped continues after the steps that it has done. While `after_step` is
    called the state is whole. No value is read from the device until the end, except with
    `on_nan="skip"`, which has to read the loss of each step.
    """
    settings = state.experiment.optimization
    order, noise, augmentation = (
        Stream(state.experiment.seed, state.epoch, purpose) for purpose in PURPOSES
    )
    gathered = state.begin_epoch()
    model.train()
    freeze(state.model, settings)
    shuffled = torch.randperm(len(state.train), generator=order.generator())
    metas = meta_batches(state, ranks)
    batches = ranks.batches(
        state.train, settings.batch_size, shuffled, augmentation, first_step=state.step
    )
    losses = LossesOfEpoch(state, shuffled)
    state.check = losses.check if on_nan != "collapse" else nothing
    start = time.monotonic() - gathered.seconds
    for step, batch in enumerate(batches, start=state.step):
        state.changing = True
        seed_noise(noise.number(step), fabric.device)
        progress = state.epoch + (step + 0.5) / state.steps_per_epoch
        rate = set_rate(state.optimizer, progress, settings)
        batch = ranks.part_of(replace(batch, meta=next(metas, None), learning_rate=rate))
        undo = Undo(state) if on_nan == "skip" else None
        output = backward(fabric, model, state, batch, ranks)
        if undo is not None and not is_finite(output.loss, state):
            undo.undo()
            gathered.skipped.append(step)
            warnings.warn(losses.skipped(step), stacklevel=2)
        else:
            update(fabric, model, state, batch, output, gathered)
            losses.add(step, output.loss.detach())
        gathered.seconds = time.monotonic() - start
        state.step = step + 1
        state.changing = False
        tell(Stepped(state.epoch, step))
        after_step()
    state.check()
    return record_of(state, gathered, shuffled)


def backward(fabric: Any, model: Any, state: State, batch: Batch, ranks: Ranks) -> Output:
    """Compute the loss of a batch and its gradients."""
    method = state.method
    with fabric.autocast():
        output = method(ranks.model_of(model, batch), batch)
    check_output(output, batch, method.num_outputs, state.experiment.method.name)
    state.optimizer.zero_grad()
    fabric.backward(output.loss)
    return output


def update(
    fabric: Any, model: Any, state: State, batch: Batch, output: Output, gathered: Gathered
) -> None:
    """Let the optimizer move the model, and add the batch to what the epoch has gathered."""
    clip_norm = state.experiment.optimization.clip_norm
    if clip_norm:
        gathered.clipped += clip_gradients(fabric, model, state.optimizer, clip_norm)
    state.optimizer.step()
    state.method.end_step(state.model)
    gathered.total += output.loss.detach() * len(batch)
    gathered.logits[batch.index] = output.logits.detach().to(gathered.logits.dtype)


def record_of(state: State, gathered: Gathered, order: Tensor) -> dict[str, Any]:
    """Return what the steps of an epoch measured; steps that were left out do not count."""
    method = state.method
    experiment = state.experiment
    logits = gathered.logits
    labels = state.train.labels
    if gathered.skipped:
        steps = enumerate(order.split(experiment.optimization.batch_size))
        rows = [samples for step, samples in steps if step not in gathered.skipped]
        if not rows:
            raise ValueError(
                f"every step of epoch {state.epoch + 1} was left out, as none had a finite loss"
            )
        seen = torch.cat(rows).to(labels.device)
        logits = logits[seen]
        labels = labels[seen]
    record: dict[str, Any] = {"train_loss": float(gathered.total / len(labels))}
    if method.task.strangers:
        known = labels < method.task.num_classes
        logits = logits[known]
        labels = labels[known]
    record |= calibration("train", logits, labels, method.task.num_classes, experiment.num_bins)
    if gathered.skipped:
        record["skipped_steps"] = len(gathered.skipped)
    if experiment.optimization.clip_norm:
        num_steps = state.steps_per_epoch - len(gathered.skipped)
        record["clipped_share"] = int(gathered.clipped) / num_steps
    return record | {key: float(value) for key, value in method.diagnostics().items()}


def seed_noise(number: int, device: torch.device) -> None:
    """Seed what dropout draws from.

    torch.manual_seed would walk the stack for every absent accelerator.
    """
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.manual_seed(number)
    elif device.type != "cpu":
        torch.manual_seed(number)


def check_output(output: Any, batch: Batch, num_outputs: int, name: str) -> None:
    """Refuse what is not a loss with the logits of the batch; only shapes are read."""
    if not isinstance(output, Output):
        raise ValueError(
            f"method {name!r} must return Output(loss, logits), got {type(output).__name__}"
        )
    shape = (len(batch), num_outputs)
    if output.logits.shape != shape:
        raise ValueError(
            f"method {name!r} must return the logits of its batch, of shape {shape}, got "
            f"{tuple(output.logits.shape)}: of several views of a sample, return the one to measure"
        )


def meta_batches(state: State, ranks: Ranks) -> Iterator[Batch]:
    """Yield the method's own batches from the next step on, without end, if it has a share."""
    if state.meta is None:
        return
    batch_size = state.experiment.optimization.batch_size
    round_, first_step = divmod(state.step, math.ceil(len(state.meta) / batch_size))
    while True:
        stream = Stream(state.experiment.seed, state.epoch, f"meta {round_}")
        order = torch.randperm(len(state.meta), generator=stream.generator())
        yield from ranks.batches(state.meta, batch_size, order, stream, first_step=first_step)
        round_ += 1
        first_step = 0


class LossesOfEpoch:
    """The losses of an epoch's steps, kept on the device: reading each would make a GPU wait.

    They are read before a checkpoint is written, so that none is written after the first loss that
    is not finite, and when the epoch ends.
    """

    def __init__(self, state: State, order: Tensor) -> None:
        self.state = state
        self.order = order
        self.losses = torch.zeros(state.steps_per_epoch, device=state.device)

    def add(self, step: int, loss: Tensor) -> None:
        """Remember a loss, without reading it."""
        self.losses[step] = loss

    def check(self) -> None:
        """Stop training if a loss was not finite, or if the weights are not."""
        if math.isfinite(float(self.losses.sum() + weight_norm(self.state.model))):
            return
        bad = (~self.losses.isfinite()).nonzero().flatten().tolist()
        step = bad[0] if bad else self.state.step - 1  # a finite loss may have large gradients
        what = f"the loss is {float(self.losses[step])}" if bad else "the weights are not finite"
        epochs, steps = self.state.saved
        raise ValueError(
            f"{what} {self._place(step)}: lower the learning rate, or look at these samples; "
            "with on_nan='skip' such steps are left out. The last good state is kept: "
            f"{epochs} epochs and {steps} steps"
        )

    def skipped(self, step: int) -> str:
        """Return a warning that a step is left out."""
        return f"a step is left out, as its loss or gradient is not finite {self._place(step)}"

    def _place(self, step: int) -> str:
        epoch = self.state.epoch
        settings = self.state.experiment.optimization
        rate = learning_rate(epoch + (step + 0.5) / len(self.losses), settings)
        first = step * settings.batch_size
        index = self.order[first : first + settings.batch_size].tolist()
        samples = ", ".join(map(str, index[:MOST_LISTED]))
        more = f" and {len(index) - MOST_LISTED} more" if len(index) > MOST_LISTED else ""
        return (
            f"in step {step + 1} of {len(self.losses)} of epoch {epoch + 1}, at the learning "
            f"rate {rate:g}, on the training samples {samples}{more}"
        )


class Undo:
    """A copy of what a step changes before the optimizer moves the model.

    That is what the method remembers, and the running means of the model.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.buffers = [*state.model.buffers(), *state.method.buffers()]
        for part in state.method.modules():
            if isinstance(part, AdaptiveTargetLoss):
                self.buffers += part.memory().values()
        self.copies = [buffer.clone() for buffer in self.buffers]
        # a method may add to it in place
        self.epoch_state = copy.deepcopy(state.method.epoch_state())

    def undo(self) -> None:
        """Put everything back as if the step had not been."""
        self.state.method.load_epoch_state(self.epoch_state)
        for buffer, before in zip(self.buffers, self.copies, strict=True):
            buffer.copy_(before)


def is_finite(loss: Tensor, state: State) -> bool:
    """Return whether a loss and its gradients are finite; a scaler looks at gradients itself."""
    total: Any = loss.detach().float()
    if getattr(state.precision, "scaler", None) is None:
        gradients = [parameter.grad for parameter in state.model.parameters()]
        total = total + sum(
            gradient.float().norm() for gradient in gradients if gradient is not None
        )
    return math.isfinite(float(total))
