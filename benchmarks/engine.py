"""The engine's own cost: its training epoch against a bare loop with the same model, data and cross-entropy."""

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
    """A model on images of CIFAR's size, held in memory, not augmented."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (NUM_IMAGES, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, 10, (NUM_IMAGES,), generator=generator)
    split = ResidentImages(images, labels, Transform(mean=(0.5,) * 3, std=(0.5,) * 3))
    experiment = Experiment(Part("-"), Part(model, **options), Part("ce"), optimization=Optimization(epochs=1))
    return experiment, Splits(split, split, split, tuple("0123456789"), (3, 32, 32))


def loops(model: str, **options: int) -> tuple[Callable[[], Any], Callable[[], None]]:
    """An epoch of the engine, and one of a bare loop."""
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
    """At least 0.97 of the bare loop's samples per second, whole and from the engine's own cost alone.

    A ratio this near to 1 drowns in the noise of a shared machine, whose whole epochs vary by some percent. So the
    engine's own milliseconds are measured once more beside a model that takes almost no time.
    """
    torch.set_num_threads(1)
    work = f"engine, an epoch of {NUM_IMAGES} images, cnn"
    engine, bare = loops("cnn")
    ours, peer = in_pairs(engine, {"bare loop": bare}, repeats=3 if quick else 41)["bare loop"]
    engine, bare = loops("mlp", width=4, depth=1)
    small = in_pairs(engine, {"bare loop": bare}, repeats=9 if quick else 101)["bare loop"]
    cost = small[0] - small[1]
    note = f"the engine's own {cost:.1f} ms, beside a model that takes none, added to the bare loop's"
    return [
        Row(work, ours, "bare loop", peer, 0.97, 1.0, "training metrics of the epoch included"),
        Row(f"{work}, by its own cost", peer + cost, "bare loop", peer, 0.97, None, note),
    ]


if __name__ == "__main__":
    start = time.perf_counter()
    for row in rows():
        print(f"{row.work}: {row.ours_ms:.0f} ms, {row.peer} {row.peer_ms:.0f} ms, {row.ratio:.3f} of its speed")
    print(f"{time.perf_counter() - start:.0f} s")
