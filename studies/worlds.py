"""The data of the study: features or small images to train on, and an evaluation pool.

Each seed draws other training and validation samples. Validation samples choose settings and
epochs, and have the same wrong labels as the training samples. The pool has right labels; it fits
scalers on one part and measures on the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from socrates.data import load

NORM = 8.0  # of a row of features, as `socrates train` has it for a frozen backbone
POOL = 5_000  # samples of an evaluation pool at most


@dataclass(frozen=True)
class World:
    """Training, validation and evaluation samples of one seed."""

    train: tuple[Tensor, Tensor]
    val: tuple[Tensor, Tensor]
    pool: tuple[Tensor, Tensor]
    num_classes: int
    num_fit: int  # samples of the pool that fit a scaler
    true_labels: Tensor  # of the training samples
    strangers: dict[str, Tensor] = field(default_factory=dict)


def draw(count: int, seed: int) -> Tensor:
    """Return a random order of this many samples."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(1000 + seed))


def flipped(labels: Tensor, share: float, num_classes: int, seed: int) -> Tensor:
    """Return labels of which this share is replaced by another class, drawn evenly."""
    generator = torch.Generator().manual_seed(2000 + seed)
    wrong = torch.rand(len(labels), generator=generator) < share
    step = torch.randint(1, num_classes, (len(labels),), generator=generator)
    return torch.where(wrong, (labels + step) % num_classes, labels)


def digits(seed: int, folder: Path, noise: float = 0.0) -> World:
    """Return 300 training and 200 validation digits of scikit-learn's 1,797."""
    splits = load("digits", augment=False)
    parts = (splits.train, splits.val, splits.test)
    images = torch.cat([part.images for part in parts]).flatten(1).float() / 127.5 - 1
    labels = torch.cat([part.labels for part in parts])
    order = draw(len(labels), seed)
    train, val, pool = order[:300], order[300:500], order[500:]
    noisy = flipped(labels, noise, 10, seed)
    return World(
        (images[train], noisy[train]),
        (images[val], noisy[val]),
        (images[pool], labels[pool]),
        10,
        300,
        labels[train],
    )


def rows(folder: Path, name: str, count: int | None = None) -> tuple[Tensor, Tensor]:
    """Return features of constant norm and labels that studies/embed.py wrote."""
    with np.load(folder / f"{name}.npz") as arrays:
        features = torch.from_numpy(arrays["rows"][:count]).float()
        labels = torch.from_numpy(arrays["labels"][:count])
    return NORM * torch.nn.functional.normalize(features, dim=1), labels


def parts(folder: Path, name: str, count: int) -> tuple[Tensor, Tensor]:
    """Return the first training features of a set that is kept in several files."""
    files = [rows(folder, f"{name}-{place}") for place in range(-(-count // 5_000))]
    features, labels = (torch.cat(columns) for columns in zip(*files, strict=True))
    return features[:count], labels[:count]


def divided(
    seed: int,
    train: tuple[Tensor, Tensor],
    given: Tensor,
    pool: tuple[Tensor, Tensor],
    num_val: int,
    num_fit: int,
    strangers: dict[str, Tensor],
) -> World:
    """Return a world whose validation samples are drawn from the training data."""
    features, labels = train
    order = draw(len(labels), seed)
    val, rest = order[:num_val], order[num_val:]
    classes = int(pool[1].max()) + 1
    return World(
        (features[rest], given[rest]),
        (features[val], given[val]),
        pool,
        classes,
        num_fit,
        labels[rest],
        strangers,
    )


def clinc150(seed: int, folder: Path, noise: float = 0.0) -> World:
    """Return 20 training texts of each of CLINC150's intents."""
    features, labels = rows(folder, "clinc150-train")
    order = draw(len(labels), seed)
    chosen = torch.cat([order[labels[order] == intent][:20] for intent in range(150)])
    noisy = flipped(labels, noise, 150, seed)
    val_features, val_labels = rows(folder, "clinc150-val")
    return World(
        (features[chosen], noisy[chosen]),
        (val_features, flipped(val_labels, noise, 150, seed)),
        rows(folder, "clinc150-test"),
        150,
        1_500,
        labels[chosen],
        {"out of scope": rows(folder, "clinc150-oos_test")[0]},
    )


def cifar10(seed: int, folder: Path, noise: float = 0.0, people: str = "") -> World:
    """Return 5,000 photographs of CIFAR-10; `people` names a set of labels of CIFAR-10N."""
    train = parts(folder, "cifar10-train", 5_000)
    given = flipped(train[1], noise, 10, seed)
    if people:
        with np.load(folder / "cifar10n.npz") as arrays:
            given = torch.from_numpy(arrays[people][:5_000].astype(np.int64))
    far = {
        name: rows(folder, file, 1_000)[0]
        for name, file in (("CIFAR-100", "cifar100-test"), ("SVHN", "svhn"))
        if (folder / f"{file}.npz").exists()
    }
    return divided(seed, train, given, rows(folder, "cifar10-test", POOL), 1_000, 1_000, far)


def cifar100(seed: int, folder: Path, noise: float = 0.0) -> World:
    """Return the 50,000 photographs of CIFAR-100."""
    train = parts(folder, "cifar100-train", 50_000)
    given = flipped(train[1], noise, 100, seed)
    far = {"CIFAR-10": rows(folder, "cifar10-test", 1_000)[0]}
    return divided(seed, train, given, rows(folder, "cifar100-test", POOL), 5_000, 1_500, far)


def food101(seed: int, folder: Path, noise: float = 0.0) -> World:
    """Return the 10,100 training photographs of Food-101-64."""
    train = parts(folder, "food101-train", 10_100)
    given = flipped(train[1], noise, 101, seed)
    pool = rows(folder, "food101-test", None)
    order = draw(len(pool[1]), 0)[:POOL]
    far = {"CIFAR-10": rows(folder, "cifar10-test", 1_000)[0]}
    return divided(seed, train, given, (pool[0][order], pool[1][order]), 1_000, 1_500, far)


WORLDS: dict[str, Callable[..., World]] = {
    "digits": digits,
    "clinc150": clinc150,
    "cifar10": cifar10,
    "food101": food101,
    "cifar100": cifar100,
}
