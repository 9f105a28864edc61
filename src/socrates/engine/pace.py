"""How long training takes, from a few steps that leave no trace."""

import copy
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from socrates import data
from socrates.contracts import Splits, Stream
from socrates.engine.build import build, load_data, make_fabric
from socrates.engine.evaluate import EVAL_BATCH, infer, val_record
from socrates.engine.keep import freeze, reserve
from socrates.engine.optim import make_optimizer
from socrates.engine.state import State
from socrates.experiment import Experiment, resolve
from socrates.predictor import model_file

TRIED = 4  # steps, of which the first is not counted


class Pace(NamedTuple):
    """Seconds of a step of training, and of evaluating an image."""

    step: float
    image: float


def pace(
    experiment: Experiment, *, data_root: Path | None = None, accelerator: str = "auto", start: Path | None = None
) -> float:
    """About how many seconds an epoch of an experiment takes here."""
    experiment = resolve(experiment)
    fabric = make_fabric(accelerator, experiment.precision)
    splits, _ = reserve(data.to_device(load_data(experiment, data_root), fabric.device), experiment.certify)
    return seconds_per_epoch(fabric, build(experiment, splits, fabric, start and model_file(start)), splits)


def seconds_per_epoch(fabric: Any, state: State, splits: Splits) -> float:
    """About how long an epoch takes: steps on a copy of model and method, and a batch of evaluation."""
    pace = try_pace(fabric, state, splits)
    return pace.step * state.steps + pace.image * len(splits.val)


def try_pace(fabric: Any, state: State, splits: Splits, tried: int = TRIED) -> Pace:
    """The pace of a few steps on a copy of model and method, and of a batch of evaluation."""
    experiment, settings = state.experiment, state.experiment.optimization
    size = settings.batch_size
    model, method = copy.deepcopy((state.model, state.method))
    optimizer = make_optimizer(model, settings)
    method.start_epoch(state.epoch, model)
    model.train()
    freeze(model, settings)
    rows = torch.arange(min(len(state.train), tried * size))
    meta = next(iter(state.meta.batches(size, torch.arange(len(state.meta))[:size]))) if state.meta else None
    times: list[float] = []
    start = time.perf_counter()
    for batch in state.train.batches(size, rows, Stream(experiment.seed, 0, "pace")):
        with fabric.autocast():
            loss = method(model, replace(batch, meta=meta, learning_rate=settings.learning_rate)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.end_step(model)
        _wait(fabric.device)
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
    val = splits.val.subset(torch.arange(min(len(splits.val), EVAL_BATCH)))
    with fabric.autocast():
        logits = infer(model, val)
    val_record(logits, val.labels, splits.class_names, experiment.num_bins)
    return Pace(min(times[1:] or times), (time.perf_counter() - start) / len(val))


def _wait(device: torch.device) -> None:
    """Until what was asked of a device is done: it is asked for more than it has done, to be fast."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
