"""Write photographs of CIFAR-10 as folders of images, for door 3 of the README and docs/models.md.

    python benchmarks/photo_folders.py DATA FOLDER [--images 100]

writes 100 images of each of car, cat and ship to FOLDER/my-images/CLASS, 100 others to
FOLDER/labeled/CLASS, and 14 to FOLDER/new: four of each class, a deer and a frog. They are the
first ones in the order of the official training data, which DATA holds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from socrates.data import load

CLASSES = {"car": 1, "cat": 3, "ship": 8}  # with their labels
STRANGE = {"deer": 4, "frog": 6}
NUM_NEW = 4


def write(images: Tensor, folder: Path, prefix: str = "") -> None:
    """Write images (N, 3, 32, 32) to a folder as PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(images):
        pixels = image.permute(1, 2, 0).numpy()
        Image.fromarray(pixels).save(folder / f"{prefix}{number}.png")


def main() -> None:
    """Write the three folders."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=100, help="of each class in my-images")
    options = parser.parse_args()
    train = load("cifar10", options.data, augment=False).train
    place, count = options.folder, options.images
    for name, label in CLASSES.items():
        rows = torch.nonzero(train.labels == label).flatten()
        images = train.images[rows[: 2 * count + NUM_NEW]]
        write(images[:count], place / "my-images" / name)
        write(images[count : 2 * count], place / "labeled" / name)
        write(images[2 * count :], place / "new", f"{name}-")
    for name, label in STRANGE.items():
        rows = torch.nonzero(train.labels == label).flatten()
        write(train.images[rows[:1]], place / "new", f"{name}-")


if __name__ == "__main__":
    main()
