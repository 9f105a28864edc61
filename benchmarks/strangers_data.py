"""The worlds of benchmarks/strangers.py: classes that a model is trained on, and strangers to it.

Each world is drawn by a seed: other classes are left out, and other images train. Photographs and
texts are seen through a pretrained backbone, whose features are computed once and kept in a folder.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from socrates.data import load

Rows = tuple[Tensor, Tensor]  # inputs and labels

SIDE = 96  # pixels of a photograph that the backbone sees
BATCH = 50
# Rows of each class that are embedded, and how many of them train; the others validate.
PHOTOGRAPHS = {"train": 350, "val": 100, "test": 200}
NUM_FAR = 1000  # images of another data set
CLOTHES = {"train": 600, "val": 200}
DIGITS = {"train": 40, "val": 30}
TEXTS = 20  # training texts of an intent
LEFT_OUT_INTENTS = 30


@dataclass(frozen=True)
class World:
    """Samples of known classes, 0 to C - 1, and inputs of strangers by their name."""

    train: Rows
    val: Rows
    test: Rows
    strangers: dict[str, Tensor]
    num_classes: int


def digits(seed: int) -> World:
    """Draw 7 of the 10 digits; the other three are strangers."""
    splits = load("digits", augment=False)
    images, labels = everything(splits)
    known, others = seven_of_ten(seed)
    train, val, test = split_rows(labels, known, DIGITS, seed)
    images = images.float() / 255 * 2 - 1
    return World(
        take(images, labels, train, known),
        take(images, labels, val, known),
        take(images, labels, test, known),
        {"unseen digits": images[torch.isin(labels, others)]},
        len(known),
    )


def clothes(seed: int, data: Path) -> World:
    """Draw 7 of the 10 articles of Fashion-MNIST; the other three and MNIST are strangers."""
    splits = load("fashion_mnist", data)
    images, labels = rows_of(splits.train)
    test_images, test_labels = rows_of(splits.test)
    known, _ = seven_of_ten(seed)
    train, val, _ = split_rows(labels, known, CLOTHES, seed)
    is_known = torch.isin(test_labels, known)
    numbers, _ = rows_of(load("mnist", data).test)
    order = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(seed))

    def normalized(pixels: Tensor) -> Tensor:
        return (pixels.float() / 255 - 0.286) / 0.353

    return World(
        take(normalized(images), labels, train, known),
        take(normalized(images), labels, val, known),
        take(normalized(test_images), test_labels, is_known.nonzero()[:, 0], known),
        {
            "unseen articles": normalized(test_images[~is_known]),
            "MNIST": normalized(numbers[order[: 3 * NUM_FAR]]),
        },
        len(known),
    )


def photographs(seed: int, data: Path, backbone: Path, cache: Path) -> World:
    """Draw 7 of CIFAR-10's classes, seen through a backbone; strangers are near and far."""

    def embedded(name: str, images: Callable[[], Tensor]) -> Tensor:
        return kept(cache / f"{name}-{SIDE}.npz", lambda: embed_images(images(), backbone))

    pool, test_pool = cifar10_pools(data)
    rows = embedded("cifar10-train", lambda: pool[0])
    test_rows = embedded("cifar10-test", lambda: test_pool[0])
    known, _ = seven_of_ten(seed)
    train, val, _ = split_rows(pool[1], known, PHOTOGRAPHS, seed)
    is_known = torch.isin(test_pool[1], known)
    far = {
        "CIFAR-100": embedded("cifar100", lambda: first_rows(load("cifar100", data).test)),
        "SVHN": embedded("svhn", lambda: first_rows(load("svhn", data).test)),
        "Food-101": embedded("food101", lambda: food(data)),
    }
    return World(
        take(rows, pool[1], train, known),
        take(rows, pool[1], val, known),
        take(test_rows, test_pool[1], is_known.nonzero()[:, 0], known),
        {"unseen classes": test_rows[~is_known], **far},
        len(known),
    )


def questions(seed: int, file: Path, backbone: Path, cache: Path, left_out: int = 0) -> World:
    """Draw 20 training texts of each intent of CLINC150; strangers are questions out of scope.

    With `left_out` intents that the model never sees, these are the strangers.
    """
    with gzip.open(file, "rt") as opened:
        content: dict[str, list[list[str]]] = json.load(opened)
    names = sorted({intent for _, intent in content["train"]})
    number = {name: place for place, name in enumerate(names)}

    def embedded(part: str) -> Rows:
        texts = [text for text, _ in content[part]]
        rows = kept(cache / f"clinc150-{part}.npz", lambda: embed_texts(texts, backbone))
        return rows, torch.tensor([number.get(intent, -1) for _, intent in content[part]])

    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(seed))
    known = order[left_out:].sort().values
    rows, labels = embedded("train")
    train, _, _ = split_rows(labels, known, {"train": TEXTS, "val": 0}, seed)
    val_rows, val_labels = embedded("val")
    test_rows, test_labels = embedded("test")
    is_known = torch.isin(test_labels, known)
    strangers = {"unseen intents": test_rows[~is_known]}
    if not left_out:
        strangers = {"out of scope": embedded("oos_test")[0]}
    return World(
        take(rows, labels, train, known),
        take(val_rows, val_labels, torch.isin(val_labels, known).nonzero()[:, 0], known),
        take(test_rows, test_labels, is_known.nonzero()[:, 0], known),
        strangers,
        len(known),
    )


def seven_of_ten(seed: int) -> tuple[Tensor, Tensor]:
    """Return seven of ten classes, drawn by the seed, and the other three."""
    order = torch.randperm(10, generator=torch.Generator().manual_seed(seed))
    return order[:7].sort().values, order[7:]


def split_rows(
    labels: Tensor, known: Tensor, sizes: dict[str, int], seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return random rows of the known classes: so many of each to train, to validate, the rest."""
    generator = torch.Generator().manual_seed(1000 + seed)
    parts: list[list[Tensor]] = [[], [], []]
    for label in known:
        rows = (labels == label).nonzero()[:, 0]
        rows = rows[torch.randperm(len(rows), generator=generator)]
        ends = (sizes["train"], sizes["train"] + sizes["val"])
        parts[0].append(rows[: ends[0]])
        parts[1].append(rows[ends[0] : ends[1]])
        parts[2].append(rows[ends[1] :])
    train, val, rest = (torch.cat(part) for part in parts)
    return train, val, rest


def take(inputs: Tensor, labels: Tensor, rows: Tensor, known: Tensor) -> Rows:
    """Return inputs and labels of these rows, with the known classes numbered from 0."""
    return inputs[rows], torch.searchsorted(known, labels[rows])


def everything(splits: Any) -> Rows:
    """Return the images and labels of all splits together."""
    parts = [rows_of(split) for split in (splits.train, splits.val, splits.test)]
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def rows_of(split: Any) -> Rows:
    """Return the stored images and labels of a split."""
    return split.images, split.labels


def first_rows(split: Any) -> Tensor:
    """Return images spread evenly over a split."""
    images, _ = rows_of(split)
    return images[torch.linspace(0, len(images) - 1, NUM_FAR).long()]


def cifar10_pools(data: Path) -> tuple[Rows, Rows]:
    """Return the first training and test images of each class of CIFAR-10."""
    splits = load("cifar10", data, augment=False)
    per_class = (PHOTOGRAPHS["train"] + PHOTOGRAPHS["val"], PHOTOGRAPHS["test"])
    pools: list[Rows] = []
    for split, count in zip((splits.train, splits.test), per_class, strict=True):
        images, labels = rows_of(split)
        first = [(labels == label).nonzero()[:count, 0] for label in range(10)]
        rows = torch.cat(first)
        pools.append((images[rows], labels[rows]))
    return pools[0], pools[1]


def food(data: Path) -> Tensor:
    """Return test images of Food-101, in CIFAR's size."""
    from PIL import Image

    folder = data / "food-101"
    names = (folder / "meta" / "test.txt").read_text().split()
    chosen = [names[round(place)] for place in np.linspace(0, len(names) - 1, NUM_FAR)]
    pictures: list[Tensor] = []
    for name in chosen:
        with Image.open(folder / "images" / f"{name}.jpg") as picture:
            small = picture.convert("RGB").resize((32, 32), Image.Resampling.BILINEAR)
        pictures.append(torch.from_numpy(np.array(small)).permute(2, 0, 1))
    return torch.stack(pictures)


def kept(file: Path, compute: Callable[[], Tensor]) -> Tensor:
    """Return the rows in a file, which is made if it is missing."""
    if not file.is_file():
        rows = compute()
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, rows=rows.numpy())
        print(f"written: {file.name}, {len(rows):,} rows", flush=True)
    with np.load(file) as arrays:
        return torch.from_numpy(arrays["rows"])


@torch.no_grad()
def embed_images(images: Tensor, backbone: Path) -> Tensor:
    """Return the pooled features (N, D) of uint8 images (N, 3, H, W)."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(backbone, local_files_only=True).eval()
    about = json.loads((backbone / "preprocessor_config.json").read_text())
    mean, std = (torch.tensor(about[name]).view(3, 1, 1) for name in ("image_mean", "image_std"))
    rows: list[Tensor] = []
    for batch in images.split(BATCH):
        large = F.interpolate(batch.float(), size=SIDE, mode="bilinear", antialias=True)
        rows.append(model((large / 255 - mean) / std).pooler_output.flatten(1))
    return torch.cat(rows)


@torch.no_grad()
def embed_texts(texts: Sequence[str], backbone: Path) -> Tensor:
    """Return the mean of the token states (N, D) of texts, with unit norm."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(backbone, local_files_only=True)
    model = AutoModel.from_pretrained(backbone, local_files_only=True).eval()
    rows: list[Tensor] = []
    for batch in batches(texts, BATCH):
        tokens = tokenizer(batch, padding=True, truncation=True, return_tensors="pt")
        mask = tokens["attention_mask"][:, :, None]
        states = model(**tokens).last_hidden_state
        rows.append(F.normalize((states * mask).sum(dim=1) / mask.sum(dim=1), dim=1))
    return torch.cat(rows)


def batches(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    """Yield the texts in lists of that size."""
    for start in range(0, len(texts), size):
        yield list(texts[start : start + size])
