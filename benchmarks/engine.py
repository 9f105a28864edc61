"""Time the engine's training epoch against a bare loop with the same model, data and loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from lightning_fabric import Fabric
from timing import Row, in_pairs
from torch.nn import functional as F

from socrates.contracts import Splits, Stream
from socrates.data import ResidentImages, Transform
from socrates.engine.events import to_nobody
from socrates.engine.train import build, train_epoch
from socrates.experiment import Experiment, Optimization, Part

NUM_IMAGES = 2048


def setting(model: str, **options: int) -> tuple[Experiment, Splits]:
    """Return an experiment, and images of CIFAR's size in memory that are not augmented."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (NUM_IMAGES, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, 10, (NUM_IMAGES,), generator=generator)
    split = ResidentImages(images, labels, Transform(mean=(0.5,) * 3, std=(0.5,) * 3))
    experiment = Experiment(
        Part("-"), Part(model, **options), Part("ce"), optimization=Optimization(epochs=1)
    )
    return experiment, Splits(split, split, split, tuple("0123456789"), (3, 32, 32))


def loops(model: str, **options: int) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Return an epoch of the engine, and one of a bare loop."""
    experiment, splits = setting(model, **options)
    fabric = Fabric(accelerator="cpu", devices=1)
    state = build(experiment, splits, fabric)
    wrapped, state.optimizer = fabric.setup(state.model, state.optimizer)
    wrapped.mark_forward_method("features")
    bare_state = build(experiment, splits, fabric)

    def engine() -> Any:
        record = train_epoch(fabric, wrapped, state, to_nobody)
        state.end_epoch()
        state.epoch = 0  # the same epoch again, from its first step
        return record

    def bare() -> None:
        bare_state.model.train()
        order = torch.randperm(NUM_IMAGES, generator=Stream(1, 0, "order").generator())
        for batch in bare_state.train.batches(128, order, Stream(1, 0, "augmentation")):
            loss = F.cross_entropy(bare_state.model(batch.inputs), batch.labels)
            bare_state.optimizer.zero_grad()
            loss.backward()
            bare_state.optimizer.step()

    return engine, bare


def rows(quick: bool = False) -> list[Row]:
    """Return two rows: whole epochs, and the engine's own cost added to the bare loop.

    The goal is 0.97 of the bare loop's samples per second. On a shared machine epochs vary by some
    percent, and a ratio this close to 1 is lost in the noise. So the engine's own milliseconds are
    measured again with a model that takes almost no time.
    """
    torch.set_num_threads(1)
    work = f"engine, an epoch of {NUM_IMAGES} images, cnn"
    engine, bare = loops("cnn")
    ours, peer = in_pairs(engine, {"bare loop": bare}, repeats=3 if quick else 41)["bare loop"]
    engine, bare = loops("mlp", width=4, depth=1)
    small = in_pairs(engine, {"bare loop": bare}, repeats=9 if quick else 101)["bare loop"]
    cost = small[0] - small[1]
    note = (
        f"the bare loop plus the engine's own {cost:.1f} ms, measured with a model that takes "
        "almost no time"
    )
    return [
        Row(work, ours, "bare loop", peer, 0.97, 1.0, "includes the training metrics of the epoch"),
        Row(f"{work}, by its own cost", peer + cost, "bare loop", peer, 0.97, None, note),
    ]


if __name__ == "__main__":
    start = time.perf_counter()
    for row in rows():
        print(
            f"{row.work}: {row.ours_ms:.0f} ms, {row.peer} {row.peer_ms:.0f} ms, {row.ratio:.3f} "
            "of its speed"
        )
    print(f"{time.perf_counter() - start:.0f} s")
