"""Images that live on the device as one uint8 tensor, augmented and normalized in batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from socrates.contracts import Batch, Preparation, Splits, Stream

from .augment import Transform, add_border
from .splits import hold_out

Arrays = tuple[NDArray[np.uint8], NDArray[np.int64]]  # images (N, C, H, W) and labels (N,)


class ResidentImages:
    """A split whose images are in memory: uint8 (N, C, H, W), with int64 labels (N,).

    >>> transform = Transform(mean=(0.5,), std=(0.5,), padding=1)
    >>> images = torch.zeros(5, 1, 4, 4, dtype=torch.uint8)
    >>> split = ResidentImages(images, torch.arange(5), transform)
    >>> batches = split.batches(2, torch.tensor([4, 0, 2]), Stream(seed=1, epoch=0))
    >>> [batch.index.tolist() for batch in batches]
    [[4, 0], [2]]
    >>> split.subset(torch.tensor([3, 1])).labels.tolist()
    [3, 1]
    """

    def __init__(self, images: Tensor, labels: Tensor, transform: Transform) -> None:
        if images.dtype != torch.uint8 or images.dim() != 4 or labels.shape != images.shape[:1]:
            raise ValueError(
                f"images must be uint8 (N, C, H, W) with labels (N,), got {images.dtype} "
                f"{tuple(images.shape)} and labels {tuple(labels.shape)}"
            )
        if images.shape[1] != len(transform.mean) or images.shape[1] != len(transform.std):
            raise ValueError(
                f"the transform has means for {len(transform.mean)} channels, the images have "
                f"{images.shape[1]}"
            )
        self.transform = transform
        self.labels: Tensor = labels.long()
        self.constants = transform.constants(images.device)
        border = transform.border
        height, width = images.shape[2:]
        self.store = add_border(images, border) if border else images
        # a view of the store: one copy of the images serves both
        self.images = self.store[:, :, border : border + height, border : border + width]

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str) -> ResidentImages:
        """Return the same split on a device."""
        if torch.device(device) == self.images.device:
            return self
        return ResidentImages(self.images.to(device), self.labels.to(device), self.transform)

    def subset(self, index: Tensor) -> ResidentImages:
        """Return the samples at these positions as a new split with positions from 0."""
        index = index.to(self.labels.device)
        return ResidentImages(self.images[index], self.labels[index], self.transform)

    def batches(
        self,
        batch_size: int,
        order: Tensor,
        stream: Stream | None = None,
        first_step: int = 0,
        part: Callable[[int], slice] | None = None,
    ) -> Iterator[Batch]:
        """Yield batches of the samples at `order`, augmented if there is a stream."""
        order = order.to(self.labels.device)
        for step, index, rows in steps_of(batch_size, order, first_step, part):
            if stream is None:
                images = self.images.index_select(0, index[rows])
            else:
                images = self.transform.augment(self.store, index, stream.generator(step), rows)
            yield Batch(self.transform.finish(images, self.constants), self.labels[index], index)


def steps_of(
    batch_size: int,
    order: Tensor,
    first_step: int = 0,
    part: Callable[[int], slice] | None = None,
) -> Iterator[tuple[int, Tensor, slice]]:
    """Yield the number of each step, the positions of its batch, and which of them are wanted.

    >>> [index.tolist() for _, index, _ in steps_of(2, torch.arange(5), first_step=1)]
    [[2, 3], [4]]
    """
    check_order(batch_size, order)
    for step in range(first_step, math.ceil(len(order) / batch_size)):
        index = order[step * batch_size : (step + 1) * batch_size]
        yield step, index, slice(None) if part is None else part(len(index))


def check_order(batch_size: int, order: Tensor) -> None:
    """Refuse a batch size below 1 and an order that is not a list of positions."""
    if batch_size < 1 or order.dim() != 1 or order.dtype != torch.int64:
        raise ValueError(
            f"batches need a batch size of at least 1 and a 1-D int64 order, "
            f"got {batch_size} and {order.dtype} {tuple(order.shape)}"
        )


def resident_splits(
    train: Arrays,
    test: Arrays,
    transform: Transform,
    class_names: Sequence[str],
    val: Arrays | None = None,
    augment: bool = True,
) -> Splits:
    """Return the splits of arrays; without `val`, a fixed tenth of the training samples validates.

    Without `augment`, training images are only resized and normalized, as the others are.

    >>> images, labels = np.zeros((20, 1, 8, 8), np.uint8), np.arange(20) % 2
    >>> samples, transform = (images, labels), Transform((0.5,), (0.5,))
    >>> splits = resident_splits(samples, samples, transform, ["a", "b"])
    >>> len(splits.train), len(splits.val), len(splits.test), splits.image_shape
    (18, 2, 20, (1, 8, 8))
    """
    if val is None:
        train, val = hold_out(train)

    def split(arrays: Arrays, how: Transform) -> ResidentImages:
        images, labels = (
            torch.from_numpy(np.require(array, requirements=["C", "W"])) for array in arrays
        )
        return ResidentImages(images, labels, how)

    channels, height, width = train[0].shape[1:]
    return Splits(
        train=split(train, transform if augment else transform.plain),
        val=split(val, transform.plain),
        test=split(test, transform.plain),
        class_names=tuple(class_names),
        image_shape=(channels, transform.size or height, transform.size or width),
        preparation=Preparation(transform.mean, transform.std),
    )


def statistics(images: NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and standard deviation of each channel, on the scale where 255 is 1.

    The deviation is at least one gray level.

    >>> statistics(np.array([0, 255], np.uint8).reshape(2, 1, 1, 1))
    ((0.5,), (0.5,))
    """
    levels = np.arange(256) / 255
    means: list[float] = []
    deviations: list[float] = []
    for channel in np.moveaxis(images, 1, 0):
        shares = np.bincount(channel.ravel(), minlength=256) / channel.size
        mean = float(shares @ levels)
        deviation = float(shares @ (levels - mean) ** 2) ** 0.5
        means.append(mean)
        deviations.append(max(deviation, 1 / 255))
    return tuple(means), tuple(deviations)
