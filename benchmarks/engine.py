"""The engine's own cost: its training epoch against a bare loop with the same model, data and cross-entropy."""

from __future__ import annotations

import time
from typing import Any

import torch
from lightning_fabric import Fabric
from timing import Row, in_pairs
from torch.nn import functional as F

from socrates.contracts import Splits, Stream
from socrates.data import ResidentImages, Transform
from socrates.engine.train import Watcher, build, train_epoch
from socrates.experiment import Experiment, Optimization, Part

NUM_IMAGES = 1024


def setting() -> tuple[Experiment, Splits]:
    """The four-layer CNN on images of CIFAR's size, held in memory, not augmented."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (NUM_IMAGES, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, 10, (NUM_IMAGES,), generator=generator)
    split = ResidentImages(images, labels, Transform(mean=(0.5,) * 3, std=(0.5,) * 3))
    experiment = Experiment(Part("-"), Part("cnn"), Part("ce"), optimization=Optimization(epochs=1))
    return experiment, Splits(split, split, split, 10, (3, 32, 32))


def rows(quick: bool = False) -> list[Row]:
    """One row: at least 0.97 of the bare loop's samples per second."""
    torch.set_num_threads(1)
    experiment, splits = setting()
    fabric = Fabric(accelerator="cpu", devices=1)
    state, split, _ = build(experiment, splits, fabric.device)
    model, state.optimizer = fabric.setup(state.model, state.optimizer)
    model.mark_forward_method("features")
    bare_state, _, _ = build(experiment, splits, fabric.device)

    def engine() -> Any:
        return train_epoch(fabric, model, state, experiment, 0, split, None, Watcher())

    def bare() -> None:
        bare_state.model.train()
        order = torch.randperm(NUM_IMAGES, generator=Stream(1, 0, "order").generator())
        for batch in split.batches(128, order, Stream(1, 0, "augmentation")):
            loss = F.cross_entropy(bare_state.model(batch.images), batch.labels)
            bare_state.optimizer.zero_grad()
            loss.backward()
            bare_state.optimizer.step()

    # Many short turns: a ratio this near to 1 drowns in what other programs take of a few long ones.
    times = in_pairs(engine, {"bare loop": bare}, repeats=3 if quick else 81)["bare loop"]
    work = f"engine, an epoch of {NUM_IMAGES} images, cnn"
    return [Row(work, times[0], "bare loop", times[1], 0.97, 1.0, note="training metrics of the epoch included")]


if __name__ == "__main__":
    start = time.perf_counter()
    for row in rows():
        print(f"{row.work}: {row.ours_ms:.0f} ms, {row.peer} {row.peer_ms:.0f} ms, {row.ratio:.3f} of its speed")
    print(f"{time.perf_counter() - start:.0f} s")
