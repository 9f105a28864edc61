"""One epoch of training. The loop never asks which method it runs."""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from socrates.contracts import Batch, Output, Stream
from socrates.engine.evaluate import calibration
from socrates.engine.events import Stepped, Tell
from socrates.engine.finite import OnNan, Undo, Watch, is_finite
from socrates.engine.keep import freeze
from socrates.engine.optim import set_rate
from socrates.engine.ranks import ALONE, Ranks
from socrates.engine.state import Gathered, State, nothing

RANDOM = ("order", "noise", "augmentation")  # what is drawn in an epoch


def train_epoch(
    fabric: Any,
    model: Any,
    state: State,
    tell: Tell,
    after_step: Callable[[], None] = nothing,
    on_nan: OnNan = "stop",
    ranks: Ranks = ALONE,
) -> dict[str, Any]:
    """Every training sample once, in an order that seed and epoch decide; nothing is read back until the end.

    An epoch that was stopped goes on after the steps that it has done. While `after_step` is called the state is whole.
    Only if steps with a loss that is not finite are to be skipped, each loss is read.
    """
    method, experiment, settings = state.method, state.experiment, state.experiment.optimization
    order, noise, augmentation = (Stream(experiment.seed, state.epoch, use) for use in RANDOM)
    gathered = state.begin_epoch()
    model.train()
    freeze(state.model, settings)
    shuffled = torch.randperm(len(state.train), generator=order.generator())
    metas = meta_batches(state, ranks)
    batches = ranks.batches(state.train, settings.batch_size, shuffled, augmentation, first_step=state.step)
    watch = Watch(state, shuffled)
    state.check = watch.check if on_nan != "collapse" else nothing
    start = time.monotonic() - gathered.seconds
    for step, batch in enumerate(batches, start=state.step):
        state.changing = True
        seed_noise(noise.number(step), fabric.device)
        rate = set_rate(state.optimizer, state.epoch + (step + 0.5) / state.steps, settings)
        batch = ranks.part_of(replace(batch, meta=next(metas, None), learning_rate=rate))
        undo = Undo(state) if on_nan == "skip" else None
        with fabric.autocast():
            output = method(ranks.model_of(model, batch), batch)
        check_output(output, batch, method.num_outputs, experiment.method.name)
        state.optimizer.zero_grad()
        fabric.backward(output.loss)
        if undo is not None and not is_finite(output.loss, state):
            undo.undo()
            gathered.skipped.append(step)
            warnings.warn(watch.told(step), stacklevel=2)
        else:
            state.optimizer.step()
            method.end_step(state.model)
            gathered.total += output.loss.detach() * len(batch)
            gathered.logits[batch.index] = output.logits.detach().to(gathered.logits.dtype)
            watch.note(step, output.loss.detach())
        gathered.seconds = time.monotonic() - start
        state.step = step + 1
        state.changing = False
        tell(Stepped(state.epoch, step))
        after_step()
    state.check()
    return record_of(state, gathered, shuffled)


def record_of(state: State, gathered: Gathered, order: Tensor) -> dict[str, Any]:
    """What the steps of an epoch gave; those that were left out count for nothing."""
    method, experiment = state.method, state.experiment
    logits, labels = gathered.logits, state.train.labels
    if gathered.skipped:
        steps = enumerate(order.split(experiment.optimization.batch_size))
        rows = [samples for step, samples in steps if step not in gathered.skipped]
        if not rows:
            raise ValueError(f"every step of epoch {state.epoch + 1} was left out, as none had a finite loss")
        seen = torch.cat(rows).to(labels.device)
        logits, labels = logits[seen], labels[seen]
    record: dict[str, Any] = {"train_loss": float(gathered.total / len(labels))}
    record |= calibration("train", logits, labels, method.task.num_classes, experiment.num_bins)
    record |= {"skipped_steps": len(gathered.skipped)} if gathered.skipped else {}
    return record | {key: float(value) for key, value in method.diagnostics().items()}


def seed_noise(number: int, device: torch.device) -> None:
    """Seed what dropout draws from; torch.manual_seed would walk the stack for every absent accelerator."""
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.manual_seed(number)
    elif device.type != "cpu":
        torch.manual_seed(number)


def check_output(output: Any, batch: Batch, num_outputs: int, name: str) -> None:
    """Refuse what is not a loss with the logits of the batch; only shapes are looked at, no value is read."""
    if not isinstance(output, Output):
        raise ValueError(f"method {name!r} must return Output(loss, logits), got {type(output).__name__}")
    if output.logits.shape != (len(batch), num_outputs):
        raise ValueError(
            f"method {name!r} must return the logits of its batch, of shape {(len(batch), num_outputs)}, got "
            f"{tuple(output.logits.shape)}: of several views of a sample, return the one to measure"
        )


def meta_batches(state: State, ranks: Ranks) -> Iterator[Batch]:
    """The method's own batches from the next step on, without end; none at all without a share of its own."""
    if state.meta is None:
        return
    split, size = state.meta, state.experiment.optimization.batch_size
    round_, first_step = divmod(state.step, -(-len(split) // size))
    while True:
        stream = Stream(state.experiment.seed, state.epoch, f"meta {round_}")
        order = torch.randperm(len(split), generator=stream.generator())
        yield from ranks.batches(split, size, order, stream, first_step=first_step)
        round_, first_step = round_ + 1, 0
