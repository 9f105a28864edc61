"""Measure which images the guard of certificates takes for images that trained a model.

    python benchmarks/thumbnails.py [--data FOLDER] [--write]

The first column is the share of new images, those of the test set, that are recognized: false
alarms, but for real duplicates. The others are 1,000 training images that were changed: one gray
level brighter, saved as JPEG, and made larger or smaller and back. Digits are inside scikit-learn;
the other sets are those of the data folder that are there. --write puts the table into
docs/models.md.
"""

import argparse
import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from socrates import data
from socrates.data.image import decoded, image_tensor, stretched
from socrates.data.thumbnail import nearest_distance, thumbnails, tolerance

NAMES = ("digits", "fashion_mnist", "cifar10", "food101")
PAGE = Path(__file__).parents[1] / "docs" / "models.md"
MARKS = ("<!-- thumbnails: begin -->", "<!-- thumbnails: end -->")
FOOD_SIZE = 64


def images_of(name: str, root: Path | None) -> tuple[Tensor, Tensor]:
    """Return the images that train or validate, and those that test."""
    splits = data.load(name, root)
    parts = []
    for split in (splits.train, splits.val, splits.test):
        if isinstance(split, data.StreamedImages):
            shape = (3, FOOD_SIZE, FOOD_SIZE)
            parts.append(torch.stack([image_tensor(path, shape) for path in split.paths]))
        else:
            parts.append(split.images)
    return torch.cat(parts[:2]), parts[2]


def as_jpeg(quality: int) -> Callable[[Tensor], Tensor]:
    """Return what saves images as JPEG and reads them again."""

    def change(images: Tensor) -> Tensor:
        pictures: list[Tensor] = []
        for image in images:
            file = io.BytesIO()
            pixels = image.permute(1, 2, 0).numpy()
            Image.fromarray(pixels.squeeze()).save(file, "JPEG", quality=quality)
            pictures.append(decoded(Image.open(file), len(image)))
        return torch.stack(pictures)

    return change


def resized(factor: float) -> Callable[[Tensor], Tensor]:
    """Return what resizes images by a factor and back."""

    def change(images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        size = (round(factor * height), round(factor * width))
        return stretched(stretched(images, size), (height, width))

    return change


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "+1 level": lambda images: images.clamp(max=254) + 1,
    "JPEG 90": as_jpeg(90),
    "JPEG 75": as_jpeg(75),
    "JPEG 50": as_jpeg(50),
    "x 1.5": resized(1.5),
    "x 0.8": resized(0.8),
}


def row(name: str, root: Path | None) -> str:
    """Return the row of a data set."""
    known_images, new = images_of(name, root)
    known = thumbnails(known_images)
    limit = tolerance(known)

    def share(images: Tensor) -> float:
        return 100 * float((nearest_distance(thumbnails(images), known) <= limit).double().mean())

    order = torch.randperm(len(known), generator=torch.Generator().manual_seed(0))
    chosen = known_images[order[:1000]]
    shares = " | ".join(f"{share(change(chosen)):.1f}" for change in CHANGES.values())
    size = "x".join(map(str, new.shape[2:]))
    images = f"{name}, {len(new):,} new and {len(known):,} known images of {size}"
    return f"| {images} | {share(new):.2f} | {shares} |"


def main() -> None:
    """Print the table, and write it into the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = [
        f"| recognized, in % | new images | {' | '.join(CHANGES)} |",
        f"|---|---:|{'---:|' * len(CHANGES)}",
    ]
    warnings.simplefilter("ignore")
    for name in NAMES:
        try:
            lines.append(row(name, options.data))
        except (data.DataNotFound, OSError) as error:
            print(f"left out: {error}")
    table = "\n".join(lines)
    print(table)
    if options.write:
        begin, end = MARKS
        page = re.sub(
            f"{begin}.*?{end}", f"{begin}\n{table}\n{end}", PAGE.read_text(), flags=re.DOTALL
        )
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
