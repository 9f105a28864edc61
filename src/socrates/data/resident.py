"""Images that live on the device as one uint8 tensor, augmented and normalised a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from socrates.contracts import Batch, Preparation, Splits, Stream

from .augment import Transform, framed
from .splits import hold_out

Arrays = tuple[NDArray[np.uint8], NDArray[np.int64]]  # images (N, C, H, W) and labels (N,)


class ResidentImages:
    """A split whose images are resident: uint8 images (N, C, H, W), int64 labels (N,) and how to transform them.

    >>> transform = Transform(mean=(0.5,), std=(0.5,), padding=1)
    >>> split = ResidentImages(torch.zeros(5, 1, 4, 4, dtype=torch.uint8), torch.arange(5), transform)
    >>> [batch.index.tolist() for batch in split.batches(2, torch.tensor([4, 0, 2]), Stream(seed=1, epoch=0))]
    [[4, 0], [2]]
    >>> split.subset(torch.tensor([3, 1])).labels.tolist()
    [3, 1]
    """

    def __init__(self, images: Tensor, labels: Tensor, transform: Transform) -> None:
        if images.dtype != torch.uint8 or images.dim() != 4 or labels.shape != images.shape[:1]:
            raise ValueError(
                f"images must be uint8 (N, C, H, W) with labels (N,), got {images.dtype} {tuple(images.shape)} "
                f"and labels {tuple(labels.shape)}"
            )
        if images.shape[1] != len(transform.mean) or images.shape[1] != len(transform.std):
            raise ValueError(
                f"the transform has means for {len(transform.mean)} channels, the images have {images.shape[1]}"
            )
        self.transform = transform
        self.labels: Tensor = labels.long()
        self.constants = transform.constants(images.device)
        border, (height, width) = transform.border, images.shape[2:]
        self.store = framed(images, border) if border else images
        self.images = self.store[:, :, border : border + height, border : border + width]  # one copy serves both

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str) -> ResidentImages:
        """The same split on a device."""
        if torch.device(device) == self.images.device:
            return self
        return ResidentImages(self.images.to(device), self.labels.to(device), self.transform)

    def subset(self, index: Tensor) -> ResidentImages:
        """The samples at these positions, as a split of its own with positions from 0."""
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
        """Batches of the samples at `order`, in that order; augmented if there is a stream of randomness."""
        check_order(batch_size, order)
        order = order.to(self.labels.device)
        for step in range(first_step, -(-len(order) // batch_size)):
            index = order[step * batch_size : (step + 1) * batch_size]
            own = slice(None) if part is None else part(len(index))
            if stream is None:
                images = self.images.index_select(0, index[own])
            else:
                images = self.transform.augment(self.store, index, stream.generator(step), own)
            yield Batch(self.transform.finish(images, self.constants), self.labels[index], index)


def check_order(batch_size: int, order: Tensor) -> None:
    """Refuse what is not a batch size and a list of positions."""
    if batch_size < 1 or order.dim() != 1 or order.dtype != torch.int64:
        raise ValueError(
            f"batches need a batch size of at least 1 and a 1-D int64 order, "
            f"got {batch_size} and {order.dtype} {tuple(order.shape)}"
        )


def resident_splits(
    train: Arrays, test: Arrays, transform: Transform, class_names: Sequence[str], val: Arrays | None = None
) -> Splits:
    """Splits of arrays: validation is a fixed tenth of the training samples, unless it is given.

    >>> images, labels = np.zeros((20, 1, 8, 8), np.uint8), np.arange(20) % 2
    >>> splits = resident_splits((images, labels), (images, labels), Transform((0.5,), (0.5,)), ["a", "b"])
    >>> len(splits.train), len(splits.val), len(splits.test), splits.image_shape
    (18, 2, 20, (1, 8, 8))
    """
    if val is None:
        train, val = hold_out(train)

    def split(arrays: Arrays, how: Transform) -> ResidentImages:
        images, labels = (torch.from_numpy(np.require(array, requirements=["C", "W"])) for array in arrays)
        return ResidentImages(images, labels, how)

    channels, height, width = train[0].shape[1:]
    shape = (channels, transform.size or height, transform.size or width)
    plain = transform.plain
    how = Preparation(transform.mean, transform.std)
    return Splits(split(train, transform), split(val, plain), split(test, plain), tuple(class_names), shape, how)


def statistics(images: NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, on the scale where 255 is 1; at least a grey level of deviation.

    >>> statistics(np.array([0, 255], np.uint8).reshape(2, 1, 1, 1))
    ((0.5,), (0.5,))
    """
    levels, mean, std = np.arange(256) / 255, [], []
    for channel in np.moveaxis(images, 1, 0):
        counts = np.bincount(channel.ravel(), minlength=256) / channel.size
        mean.append(float(counts @ levels))
        std.append(max(float(counts @ (levels - mean[-1]) ** 2) ** 0.5, 1 / 255))
    return tuple(mean), tuple(std)
