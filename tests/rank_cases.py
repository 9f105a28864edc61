"""What the ranks of a test do: two processes are started once, and carry out one function here
after the other."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import signal
import traceback
import warnings
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from socrates import IndexedDataset, SATLoss, SocratesLoss
from socrates.engine.events import Stepped
from socrates.experiment import Experiment, Optimization, Part, resolve

# the package has a function of that name
engine: Any = importlib.import_module("socrates.engine.train")
RANKS = 2
NUM_SAMPLES, NUM_CLASSES, WIDTH = 23, 3, 5
LOSSES: dict[str, Any] = {"socrates": SocratesLoss, "sat": SATLoss}


def serve(rank: int, rendezvous: str, pipe: Any) -> None:
    """Carry out what the pipe asks for, as a rank of the group that meets at a file."""
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
        "TORCHELASTIC_RUN_ID": "test",
    }
    os.environ |= {
        "LOCAL_WORLD_SIZE": str(RANKS),
        "GROUP_RANK": "0",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "1",
    }
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=RANKS)
    while (asked := pipe.recv()) is not None:
        name, options = asked
        try:
            pipe.send((True, globals()[name](rank=rank, **options)))
        except Exception:
            pipe.send((False, traceback.format_exc()))
    os._exit(0)  # what the other rank still waits for must not hold this one up


def samples():
    """A data set and a model, the same everywhere."""
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(NUM_SAMPLES, WIDTH, generator=generator)
    labels = torch.randint(NUM_CLASSES, (NUM_SAMPLES,), generator=generator)
    torch.manual_seed(6)
    return (
        inputs,
        labels,
        nn.Sequential(nn.Linear(WIDTH, 4), nn.Tanh(), nn.Linear(4, NUM_CLASSES + 1)),
    )


def own_loop(
    rank,
    world=RANKS,
    loss="socrates",
    shares=(0.5, 1.0),
    ignored=False,
    weighted=False,
    wrapped=False,
):
    """A plain loop of DDP, as users write it; `shares` say where each rank's part of a batch
    ends."""
    inputs, labels, model = samples()
    labels = torch.where(torch.arange(NUM_SAMPLES) % 5 == 2, -100, labels) if ignored else labels
    weight = torch.tensor([1.0, 2.0, 0.5]) if weighted else None
    criterion = LOSSES[loss](NUM_SAMPLES, alpha=0.7, weight=weight)
    parallel = DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    counts, values = torch.zeros(NUM_SAMPLES), []
    for epoch in range(3):
        order = torch.randperm(NUM_SAMPLES, generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(6):  # the last one holds 5
            ends = [0, *(int(share * len(batch)) for share in shares)]
            index = batch[ends[rank] : ends[rank + 1]] if world > 1 else batch
            before = criterion.target.clone()

            def whole(x, y=labels[index], i=index):
                return criterion(parallel(x) if world == 1 or not wrapped else model(x), y, i)

            part = inputs[index].requires_grad_(wrapped)
            value = checkpoint(whole, part, use_reentrant=False) if wrapped else whole(part)
            optimizer.zero_grad()
            value.backward()
            # DDP does not see a forward pass inside the checkpoint: its work by hand
            if wrapped and world > 1:
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
                    parameter.grad /= world
            optimizer.step()
            counts += (criterion.target != before).float()
            values.append(float(value.detach()))
    state = torch.cat([value.flatten() for value in model.state_dict().values()])
    return {"target": criterion.target, "weights": state, "moved": counts, "loss": values,
            "unvisited": criterion.unvisited()}  # fmt: skip


def doubles(rank, world=RANKS):
    """A sample that both ranks have at once, and a rank without any."""
    _, labels, _ = samples()
    criterion = SocratesLoss(NUM_SAMPLES, alpha=0.5)
    logits = torch.randn(4, NUM_CLASSES + 1, generator=torch.Generator().manual_seed(1))
    index = torch.tensor([3, 7, 3, 9])
    part = slice(2 * rank, 2 * rank + 2) if world > 1 else slice(None)
    criterion(logits[part], labels[index][part], index[part])
    last = slice(0, 4 if rank == 0 else 0)
    criterion(logits[last], labels[index][last], index[last])
    return criterion.target


def bytes_of_a_step(rank, batch):
    """What the loss gives to torch.distributed, counted."""
    sent = []
    usual = dist.all_gather

    def counted(found, own, group=None):
        sent.append(own.numel() * own.element_size())
        return usual(found, own, group=group)

    criterion = SocratesLoss(NUM_SAMPLES)
    index = torch.arange(batch if rank == 0 else 1)
    dist.all_gather = counted
    try:
        criterion(torch.randn(len(index), 4), torch.zeros(len(index), dtype=torch.int64), index)
        criterion.eval()
        criterion(torch.randn(len(index), 4), torch.zeros(len(index), dtype=torch.int64))
        SocratesLoss(None)(torch.randn(2, 4, 3, 3), torch.zeros(2, 3, 3, dtype=torch.int64))
    finally:
        dist.all_gather = usual
    return sum(sent)


def alone(rank):
    """With process_group=None the ranks do not wait for each other, and remember on their own."""
    criterion = SocratesLoss(NUM_SAMPLES, process_group=None)
    if rank == 0:
        criterion(torch.randn(2, 4), torch.tensor([0, 1]), torch.tensor([1, 2]))
    return criterion.target


def absent(rank):
    """A rank that does not take part: what the other one says, and None."""
    dist.barrier()  # without it the ranks would have those seconds to come here, too
    group = dist.new_group(timeout=timedelta(seconds=5))
    criterion = SocratesLoss(NUM_SAMPLES, process_group=group)
    if rank == 0:
        try:
            criterion(torch.randn(2, 4), torch.tensor([0, 1]), torch.tensor([1, 2]))
        except RuntimeError as error:
            return str(error)
    return None


def in_half_precision(rank):
    """Autocast, and a compiled loss."""
    inputs, labels, model = samples()
    criterion = SocratesLoss(NUM_SAMPLES, alpha=0.5)
    index = torch.arange(rank, NUM_SAMPLES, RANKS)
    with torch.autocast("cpu", torch.bfloat16):
        criterion(model(inputs[index]), labels[index], index).backward()
    return criterion.target


class Answers(nn.Module):
    """A model that answers as those of transformers do."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, inputs, **rest):  # theirs take more, and leave it unread
        return SimpleNamespace(logits=self.layers(inputs))


def hugging_face(rank, batch_size, accumulation, folder):
    """Train by the recipe of docs/loss.md, with the real Trainer; the state of what it trained."""
    from transformers import (
        Trainer,
        TrainingArguments,
    )  # slow to import, and no other case needs it

    settings = {
        "output_dir": str(folder),
        "num_train_epochs": 3,
        "per_device_train_batch_size": batch_size,
        "gradient_accumulation_steps": accumulation,
        "optim": "sgd",  # Adam would hide a gradient that is too large
        "max_grad_norm": 0.0,  # so would clipping; 0 is none
        "learning_rate": 0.5,
        "lr_scheduler_type": "constant",
        "save_strategy": "no",
        "use_cpu": True,
        "dataloader_pin_memory": False,
    }
    inputs, labels, layers = samples()
    whole = 16  # a number of samples that batches of 8 divide
    rows = zip(inputs[:whole], labels[:whole].tolist(), strict=True)
    names: dict[str, Any] = {
        "nn": nn,
        "SocratesLoss": SocratesLoss,
        "IndexedDataset": IndexedDataset,
        "Trainer": Trainer,
        "TrainingArguments": lambda **recipe: TrainingArguments(**{**recipe, **settings}),
        "model": Answers(layers),
        "train_set": [{"inputs": row, "labels": label} for row, label in rows],
    }
    page = (Path(__file__).parents[1] / "docs" / "loss.md").read_text()
    section = page.partition("## Hugging Face Trainer")[2]
    for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(compile(block, "loss.md", "exec"), names)
    trainer = names["trainer"]
    return {**copied("trained", trainer.model), "ranks": torch.tensor(trainer.args.world_size)}


def train_each(rank, out, cases, stop_at=None):
    """Train a small model by each method; the state of model and method at the end, or where a
    signal stops it."""
    states: list[Any] = []

    def tell(event):
        if isinstance(event, Stepped) and (event.epoch, event.step) == stop_at:
            signal.raise_signal(signal.SIGTERM)

    usual = engine.build, engine.finish

    def build(*arguments, **options):
        states.append(usual[0](*arguments, **options))
        return states[-1]

    engine.build, engine.finish = build, lambda *_: None
    try:
        for name, options in cases:
            with contextlib.suppress(SystemExit) if stop_at else contextlib.nullcontext():
                engine.train(small(name, **options), out, accelerator="cpu", tell=tell)
    finally:
        engine.build, engine.finish = usual
    done = [{"done": torch.tensor(state.done)} for state in states]
    return [
        {**copied("model", state.model), **copied("method", state.method), **place}
        for state, place in zip(states, done, strict=True)
    ]


def copied(part, module):
    return {f"{part}.{key}": value.clone() for key, value in module.state_dict().items()}


def small(
    name,
    model="mlp",
    epochs=2,
    precision="32-true",
    choose="last",
    frozen=False,
    clip_norm=0.0,
    **options,
):
    """49 samples in batches of 8: the last batch of an epoch has one, so that a rank has none."""
    factor = 0.0 if frozen else 1.0
    settings = Optimization(
        epochs, 8, learning_rate=0.05, backbone_factor=factor, clip_norm=clip_norm
    )
    parts = Part("digits"), Part(model, width=8), Part(name, **options)
    made = Experiment(
        *parts, num_train=49, precision=precision, choose=choose, optimization=settings
    )
    return resolve(made)
