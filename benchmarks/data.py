"""Time the input pipeline: images in memory against Pillow in a DataLoader with two workers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from timing import Row, in_pairs
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from socrates.contracts import Stream
from socrates.data import ResidentImages, Transform

BATCH = 128
MUST = 5.0
TRANSFORMS = {
    "crop, flip, normalize": Transform((0.5,) * 3, (0.25,) * 3, padding=4, flip=True),
    "rotate, crop, normalize": Transform((0.5,) * 3, (0.25,) * 3, padding=4, degrees=15.0),
}


class PillowImages(Dataset[tuple[Tensor, int]]):
    """Images that are prepared the usual way: one at a time, by Pillow."""

    def __init__(self, pixels: np.ndarray, transform: Transform) -> None:
        self.pixels, self.transform = pixels, transform  # (N, H, W, 3)
        self.mean, self.std = (
            torch.tensor(value)[:, None, None] for value in (transform.mean, transform.std)
        )

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, position: int) -> tuple[Tensor, int]:
        image, how = Image.fromarray(self.pixels[position]), self.transform
        if how.degrees:
            image = image.rotate(random.uniform(-how.degrees, how.degrees))
        left, top = random.randint(0, 2 * how.padding), random.randint(0, 2 * how.padding)
        image = ImageOps.expand(image, how.padding).crop((left, top, left + 32, top + 32))
        if how.flip and random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div_(255)
        return tensor.sub_(self.mean).div_(self.std), 0


def epochs(num_samples: int, transform: Transform) -> dict[str, Callable[[], object]]:
    """Return an epoch of each contender over the same images; the workers live on."""
    images = torch.randint(256, (num_samples, 3, 32, 32), dtype=torch.uint8)
    split = ResidentImages(images, torch.zeros(num_samples), transform)
    pixels = images.permute(0, 2, 3, 1).contiguous().numpy()
    settings: dict[str, Any] = {
        "batch_size": BATCH,
        "shuffle": True,
        "num_workers": 2,
        "persistent_workers": True,
    }
    loader = DataLoader(PillowImages(pixels, transform), **settings)

    def ours() -> int:
        order = torch.randperm(num_samples)
        return sum(len(batch) for batch in split.batches(BATCH, order, Stream(seed=1, epoch=0)))

    return {
        "ours": ours,
        "Pillow, DataLoader, 2 workers": lambda: sum(len(labels) for _, labels in loader),
    }


def rows(quick: bool = False) -> list[Row]:
    """Return one row per transform: an epoch of augmented batches on one thread."""
    torch.set_num_threads(1)
    num_samples, repeats = (5_000, 3) if quick else (10_000, 7)
    table: list[Row] = []
    for name, transform in TRANSFORMS.items():
        contenders = epochs(num_samples, transform)
        for peer, times in in_pairs(contenders.pop("ours"), contenders, repeats).items():
            note = (
                " and ".join(f"{1000 * num_samples / time:,.0f}" for time in times) + " samples/s"
            )
            table.append(
                Row(f"{num_samples:,} images, {name}", times[0], peer, times[1], MUST, None, note)
            )
    return table


if __name__ == "__main__":
    for row in rows():
        print(
            f"{row.work}: {row.ours_ms:.1f} ms, {row.peer} {row.peer_ms:.1f} ms, {row.ratio:.2f} "
            f"times, {row.note}"
        )
