"""How long training takes, from a few steps that leave no trace."""

import copy
import time
from dataclasses import replace
from typing import Any

import torch

from socrates.contracts import Splits, Stream
from socrates.engine.evaluate import EVAL_BATCH, infer
from socrates.engine.keep import freeze
from socrates.engine.optim import make_optimizer
from socrates.engine.state import State
from socrates.experiment import Experiment

TRIED = 4  # steps, of which the first is not counted


def seconds_per_epoch(fabric: Any, state: State, experiment: Experiment, splits: Splits) -> float:
    """About how long an epoch takes: steps on a copy of model and method, and a batch of evaluation."""
    size = experiment.optimization.batch_size
    model, method = copy.deepcopy((state.model, state.method))
    optimizer = make_optimizer(model, experiment.optimization)
    method.start_epoch(state.epoch, model)
    model.train()
    if experiment.optimization.backbone_factor == 0:
        freeze(model)
    rows = torch.arange(min(len(state.train), TRIED * size))
    meta = next(iter(state.meta.batches(size, torch.arange(len(state.meta))[:size]))) if state.meta else None
    times: list[float] = []
    start = time.perf_counter()
    for batch in state.train.batches(size, rows, Stream(experiment.seed, 0, "pace")):
        with fabric.autocast():
            rate = experiment.optimization.learning_rate
            loss = method(model, replace(batch, meta=meta, learning_rate=rate)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.end_step(model)
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
    tried = splits.val.subset(torch.arange(min(len(splits.val), EVAL_BATCH)))
    with fabric.autocast():
        infer(model, tried)
    evaluation = (time.perf_counter() - start) * len(splits.val) / len(tried)
    return min(times[1:] or times) * state.steps(size) + evaluation
