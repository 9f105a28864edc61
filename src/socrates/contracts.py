"""What everything plugs into: batches, data splits, classifiers and methods.

Read this to extend anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

# what a model takes: only data sets and models know what is in it
Inputs = Tensor | Mapping[str, Tensor]


@dataclass(frozen=True)
class Batch:
    """Inputs as the model takes them, their labels, and each sample's position in its split.

    A data set fills in the first three. The engine adds the rest in each step: `meta` for a method
    that asks for a `meta_share` of the training data, the head's learning rate in this step, and
    `gather` in a run of several processes. There `inputs` are this process's part, the rows `part`
    of the whole batch, while labels, index and the outputs of the model are those of the whole
    batch.
    """

    inputs: Inputs
    labels: Tensor  # (B,) int64
    index: Tensor  # (B,) int64
    meta: Batch | None = None
    learning_rate: float | None = None
    gather: Callable[[Tensor], Tensor] | None = None
    part: slice = field(default_factory=lambda: slice(None))

    def __len__(self) -> int:
        return len(self.labels)

    def whole(self, rows: Tensor) -> Tensor:
        """Return the rows of the whole batch, where a method computes rows without its model."""
        return rows if self.gather is None else self.gather(rows)


class Split(Protocol):
    """One part of a data set: train, val or test."""

    @property
    def labels(self) -> Tensor:
        """(N,) int64, all labels in order."""
        ...

    def __len__(self) -> int: ...

    def to(self, device: torch.device | str) -> Split:
        """Return the same split, with labels and batches on a device."""
        ...

    def batches(
        self,
        batch_size: int,
        order: Tensor,
        stream: Stream | None = None,
        first_step: int = 0,
        part: Callable[[int], slice] | None = None,
    ) -> Iterator[Batch]:
        """Return batches of the samples at `order`, in that order.

        They are augmented if there is a stream of randomness. With `first_step` they are those that
        follow the first `first_step` batches, bit for bit. With `part` the inputs are those of
        `part(len(batch))` only, bit for bit: one process of several asks for that. A split without
        this argument is asked for whole batches.
        """
        ...

    def subset(self, index: Tensor) -> Split:
        """Return the samples at these positions as a split, with positions from 0."""
        ...


@dataclass(frozen=True)
class Preparation:
    """How images from 0 to 255 become what the model sees: the center in its size, normalized.

    `shrink` says whether a larger image is resized, or its center is taken as it is.
    """

    mean: tuple[float, ...]  # of each channel, on the scale where 255 is 1
    std: tuple[float, ...]
    shrink: bool = True

    def constants(self) -> Tensor:
        """Return what is subtracted from images, and what multiplies them then, (2, C, 1, 1).

        >>> Preparation(mean=(0.5,), std=(0.5,)).constants().flatten()
        tensor([1.2750e+02, 7.8431e-03])
        """
        mean, std = torch.tensor([self.mean, self.std], dtype=torch.float64)
        return torch.stack([255 * mean, 1 / (255 * std)]).float()[:, :, None, None]


@dataclass(frozen=True)
class Splits:
    """A data set as an experiment uses it."""

    train: Split
    val: Split
    test: Split
    class_names: tuple[str, ...]  # in the order of the labels
    image_shape: tuple[int, int, int]  # of what the model sees: channels, height, width
    preparation: Preparation | None = None  # of raw images, where they are images
    # strangers, samples of none of the classes; their label is the number of classes
    unknown: Split | None = None
    # training data that are never trained on, and fit scaler and novelty instead of val
    holdout: Split | None = None

    @property
    def fitting(self) -> Split:
        """Return what fits scaler and novelty: the held-out training data, or else val."""
        return self.val if self.holdout is None else self.holdout

    @property
    def num_classes(self) -> int:
        """Return the number of classes, without the unknown one."""
        return len(self.class_names)

    def __str__(self) -> str:
        some = ", ".join(self.class_names[:4]) + (", ..." if self.num_classes > 4 else "")
        shape = "x".join(map(str, self.image_shape))
        counts = f"{len(self.train):,} train, {len(self.val):,} val, {len(self.test):,} test"
        if self.holdout is not None:
            counts += f", {len(self.holdout):,} held out"
        gaps = "".join(
            self._unmeasured(name, split)
            for name, split in (("val", self.val), ("test", self.test))
        )
        strangers = "" if self.unknown is None else f", {len(self.unknown):,} strangers"
        return (
            f"{self.num_classes} classes ({some}), images of {shape} (channels, height, "
            f"width): {counts}{strangers}{gaps}"
        )

    def _unmeasured(self, name: str, split: Split) -> str:
        """Name the classes of which a split has no image, as in small folders; count many."""
        present = set(split.labels.unique().tolist())
        absent = [
            class_name
            for number, class_name in enumerate(self.class_names)
            if number not in present
        ]
        listed = ", ".join(absent) if len(absent) <= 4 else f"{len(absent)} classes"
        return f"; no {name} image of {listed}" if absent else ""


@dataclass(frozen=True)
class Stream:
    """Randomness as a function of seed, epoch and step: no hidden state, so nothing to resume.

    >>> generator = Stream(seed=1, epoch=2).generator(step=3)
    >>> generator.initial_seed() == Stream(1, 2).generator(3).initial_seed()
    True
    """

    seed: int
    epoch: int
    purpose: str = ""

    def number(self, step: int = 0) -> int:
        """Return a 63-bit number that differs for each (seed, epoch, purpose, step)."""
        text = f"{self.seed}/{self.epoch}/{self.purpose}/{step}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1

    def generator(self, step: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
        """Return a generator that is seeded with that number."""
        return torch.Generator(device).manual_seed(self.number(step))


class DropoutLinear(nn.Linear):
    """A last layer that drops some of its inputs in training, so that `features` are whole.

    >>> head = DropoutLinear(4, 2, dropout=0.5)
    >>> isinstance(head, nn.Linear), list(head.state_dict())
    (True, ['weight', 'bias'])
    """

    def __init__(self, num_features: int, num_outputs: int, *, dropout: float) -> None:
        super().__init__(num_features, num_outputs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(self.dropout(input))


class Classifier(nn.Module):
    """A model in two parts: `features(inputs)` of shape (B, D), and a linear `head` for the logits.

    Dropout between the two belongs to the head: see `DropoutLinear`. Any other torch module that
    returns logits is a model too, for the methods that need no features.
    """

    body: nn.Module
    head: nn.Linear

    def features(self, inputs: Any) -> Tensor:
        """Return the inputs of the last layer: by default the outputs of `body`."""
        return self.body(inputs)

    def forward(self, inputs: Any) -> Tensor:
        return self.head(self.features(inputs))


@dataclass(frozen=True)
class Task:
    """What a method has to know before training: sizes only."""

    num_samples: int  # of the training data, the method's own share included
    num_classes: int
    epochs: int = 300  # of the whole training
    # whether the training data also hold strangers, whose label is the number of classes
    strangers: bool = False


class ShareOfEpochs(float):
    """A default that is a share of the training's epochs.

    >>> ShareOfEpochs(0.5), ShareOfEpochs(0.5).of(25)
    (0.5 of the epochs, 12)
    """

    def __repr__(self) -> str:
        return f"{float(self)} of the epochs"

    def of(self, epochs: int) -> int:
        """Return the number of epochs."""
        return int(self * epochs)


class Output(NamedTuple):
    """What a method returns for a batch: the loss, and the logits for the training metrics."""

    loss: Tensor  # one number with a gradient
    logits: Tensor  # (B, C) or (B, C + 1), a row for each sample of the batch, in its order


class Method(nn.Module):
    """How to train: a module, so that its state moves, saves and loads with no code of its own.

    A method takes its Task first and its hyperparameters as keywords with defaults, where `socrates
    list` reads them. What it can build only when it knows the model, it builds in `start_epoch`.
    """

    unknown_class: bool = False  # whether the model has an extra, last output
    # whether it can train that output by strangers, if its task has them
    takes_strangers: bool = False
    # whether the model must be a Classifier, with `features` and `head`
    needs_features: bool = False
    # share of the training data held back for batches that only the method sees
    meta_share: float = 0.0
    # forward passes of the model in each step besides the one that is trained
    extra_passes: int = 0
    # copies of the model in the method's own state
    model_copies: int = 0
    # samples in a batch unless the experiment says otherwise; a method that is made by a function
    # has it as an attribute of the function
    usual_batch_size: int = 128
    # from which it is all it can be, counted from 0: a shorter training is refused
    first_whole_epoch: int = 0

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task

    @property
    def num_outputs(self) -> int:
        """Return the outputs of the model: one for each class and, if there is one, for unknown."""
        return self.task.num_classes + int(self.unknown_class)

    def start_epoch(self, epoch: int, model: nn.Module) -> None:
        """Prepare for an epoch, counted from 0; also called before a checkpoint is loaded."""

    def forward(self, model: nn.Module, batch: Batch) -> Output:
        """Return the loss of a batch, and the model's logits."""
        raise NotImplementedError

    def end_step(self, model: nn.Module) -> None:
        """Follow the model after the optimizer has moved it."""

    def validation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the training objective on held-out logits; no state is read or written."""
        raise NotImplementedError

    def epoch_state(self) -> dict[str, Any]:
        """Return what was gathered since `start_epoch` and is not in the state_dict.

        It may hold tensors, numbers and dicts of them. A checkpoint within an epoch holds it;
        without it, diagnostics start again when the epoch continues.
        """
        return {}

    def load_epoch_state(self, state: Mapping[str, Any]) -> None:
        """Load what `epoch_state` returned, after `start_epoch` and `load_state_dict`."""

    def diagnostics(self) -> Mapping[str, Tensor]:
        """Return means over the epoch so far that are worth a curve, as tensors not yet read."""
        return {}
