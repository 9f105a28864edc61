"""What everything plugs into: batches, data splits, classifiers and methods. Read this to extend anything."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Batch:
    """Images as the model takes them, their labels, and the position of each sample in its split."""

    images: Tensor  # (B, channels, height, width), normalised floating point
    labels: Tensor  # (B,) int64
    index: Tensor  # (B,) int64

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        parts = (self.images, self.labels, self.index)
        return Batch(*(part.to(device, non_blocking=True) for part in parts))

    def __len__(self) -> int:
        return len(self.labels)


class Split(Protocol):
    """One part of a data set: train, val or test."""

    @property
    def labels(self) -> Tensor:
        """(N,) int64, all labels in order."""
        ...

    def __len__(self) -> int: ...

    def batches(self, batch_size: int, order: Tensor, stream: Stream | None = None) -> Iterator[Batch]:
        """Batches of the samples at `order`, in that order; augmented if there is a stream of randomness."""
        ...

    def subset(self, index: Tensor) -> Split:
        """The samples at these positions, as a split of its own with positions from 0."""
        ...


@dataclass(frozen=True)
class Splits:
    """A data set as an experiment uses it."""

    train: Split
    val: Split
    test: Split
    num_classes: int
    image_shape: tuple[int, int, int]


@dataclass(frozen=True)
class Stream:
    """Randomness as a function of a seed, an epoch and a step: no hidden state, so resuming needs nothing.

    >>> Stream(seed=1, epoch=2).generator(step=3).initial_seed() == Stream(1, 2).generator(3).initial_seed()
    True
    """

    seed: int
    epoch: int
    purpose: str = ""

    def number(self, step: int = 0) -> int:
        """A 63-bit number, different for each (seed, epoch, purpose, step)."""
        text = f"{self.seed}/{self.epoch}/{self.purpose}/{step}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1

    def generator(self, step: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
        """A generator that starts from that number."""
        return torch.Generator(device).manual_seed(self.number(step))


class Classifier(nn.Module):
    """A model in two parts: `features(images)` gives (B, num_features), the linear layer `head` the logits."""

    num_features: int
    head: nn.Linear

    def features(self, images: Tensor) -> Tensor:
        """What the last layer sees."""
        raise NotImplementedError

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))


class ShareOfEpochs(float):
    """The default of an option that counts epochs: a share of the whole training."""


@dataclass(frozen=True)
class Task:
    """What a method has to know before training: sizes only."""

    num_samples: int
    num_classes: int
    num_features: int
    epochs: int = 300  # of the whole training


class Method(nn.Module):
    """How to train: a module, so that its state moves, saves and loads with no code of its own.

    A method takes its Task first and its hyperparameters as keywords with defaults, where `socrates list` reads them.
    """

    unknown_class: bool = False  # whether the model has an extra, last output
    meta_share: float = 0.0  # share of the training data held back for batches that only the method sees
    first_whole_epoch: int = 0  # from which it is all it can be, counted from 0: a shorter training is refused

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task

    def start_epoch(self, epoch: int, model: Classifier) -> None:
        """Called before each epoch, counted from 0."""

    def forward(self, model: Classifier, batch: Batch, meta: Batch | None = None) -> Tensor:
        """The loss of a batch, one number with a gradient."""
        raise NotImplementedError

    def end_step(self, model: Classifier) -> None:
        """Called after the optimizer moved the model."""

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The training objective on held-out logits: no state is read or written."""
        raise NotImplementedError

    def diagnostics(self) -> Mapping[str, Tensor]:
        """Means over the epoch so far that are worth a curve, such as beta and the target; tensors, not yet read."""
        return {}
