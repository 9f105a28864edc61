"""How long training takes, measured by a few steps that leave no trace."""

import copy
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from socrates import data
from socrates.contracts import Splits, Stream
from socrates.engine.build import build, freeze, load_data, make_fabric, make_optimizer
from socrates.engine.epoch import backward, meta_batches, update
from socrates.engine.evaluate import EVAL_BATCH, infer, val_record
from socrates.engine.keep import reserve, with_holdout
from socrates.engine.ranks import ALONE
from socrates.engine.state import State
from socrates.experiment import Experiment, resolve
from socrates.predictor import model_file

TRIED = 3  # steps, of which the first is not counted


class Pace(NamedTuple):
    """The seconds of a training step, and of the evaluation of an image."""

    step: float
    image: float


def measure_epoch_seconds(
    experiment: Experiment,
    *,
    data_root: Path | None = None,
    accelerator: str = "auto",
    start: Path | None = None,
) -> float:
    """Return about how many seconds an epoch of an experiment takes on this machine."""
    experiment = resolve(experiment)
    fabric = make_fabric(accelerator, experiment.precision)
    loaded = data.to_device(load_data(experiment, data_root), fabric.device)
    splits, _ = reserve(loaded, experiment.certify)
    splits = with_holdout(splits, experiment.holdout)
    state = build(experiment, splits, fabric, start and model_file(start))
    return seconds_per_epoch(fabric, state, splits)


def seconds_per_epoch(fabric: Any, state: State, splits: Splits) -> float:
    """Return about how many seconds an epoch takes."""
    pace = try_pace(fabric, state, splits)
    return pace.step * state.steps_per_epoch + pace.image * len(splits.val)


def try_pace(fabric: Any, state: State, splits: Splits) -> Pace:
    """Measure a few steps on a copy of model and method, and a batch of evaluation."""
    experiment = state.experiment
    settings = experiment.optimization
    model, method = copy.deepcopy((state.model, state.method))
    optimizer = make_optimizer(model, settings)
    trial = replace(state, model=model, method=method, optimizer=optimizer, gathered=None)
    gathered = trial.begin_epoch()
    model.train()
    freeze(model, settings)
    rows = torch.arange(min(len(state.train), TRIED * settings.batch_size))
    meta = next(meta_batches(trial, ALONE), None)
    times: list[float] = []
    start = time.perf_counter()
    for batch in state.train.batches(settings.batch_size, rows, Stream(experiment.seed, 0, "pace")):
        batch = replace(batch, meta=meta, learning_rate=settings.learning_rate)
        output = backward(fabric, model, trial, batch, ALONE)
        update(fabric, model, trial, batch, output, gathered)
        _wait(fabric.device)
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
    val = splits.val.subset(torch.arange(min(len(splits.val), EVAL_BATCH)))
    with fabric.autocast():
        logits = infer(model, val)
    val_record(logits, val.labels, splits.class_names, experiment.num_bins)
    return Pace(min(times[1:] or times), (time.perf_counter() - start) / len(val))


def _wait(device: torch.device) -> None:
    """Wait until a device has done its queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
