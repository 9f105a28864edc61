"""Augmentation in batches, on the device: each function takes a batch of uint8 images and the draws for each image.

The draws are arguments, so that the functions are exact and the randomness has one home, `Transform.augment`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

TRIES = 10  # of a random resized crop, before it settles for the centre
RATIO = (3 / 4, 4 / 3)


def windows(images: Tensor, padding: int) -> Tensor:
    """All crops of zero-padded images as one view, (N, C, top, left, H, W) with top and left in [0, 2 padding].

    >>> view = windows(torch.ones(5, 3, 8, 8, dtype=torch.uint8), padding=2)
    >>> view.shape, int(view[0, 0, 0, 0].sum()), int(view[0, 0, 2, 2].sum())
    (torch.Size([5, 3, 5, 5, 8, 8]), 36, 64)
    """
    height, width = images.shape[2:]
    return F.pad(images, [padding] * 4).unfold(2, height, 1).unfold(3, width, 1)


def flip(images: Tensor, chosen: Tensor) -> Tensor:
    """Mirror the chosen images left to right.

    >>> flip(torch.tensor([[[[1, 2, 3]]]]), torch.tensor([True])).tolist()
    [[[[3, 2, 1]]]]
    """
    return torch.where(chosen[:, None, None, None], images.flip(3), images)


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Turn each image counter-clockwise about its centre, nearest pixel, zeros where nothing was: as Pillow does.

    >>> rotate(torch.tensor([[[[1, 2], [3, 4]]]]), torch.tensor([90.0])).tolist()
    [[[[2, 4], [1, 3]]]]
    """
    batch, channels, height, width = images.shape
    angle = -torch.deg2rad(degrees)[:, None, None]
    cos, sin = angle.cos(), angle.sin()
    y = (torch.arange(height, device=images.device) + 0.5 - height / 2)[:, None]
    x = torch.arange(width, device=images.device) + 0.5 - width / 2
    # In float32, exact for these whole numbers, and in place: int64 arithmetic takes far longer.
    column = torch.floor_(cos * x + (sin * y + width / 2))  # (B, H, W), where each pixel comes from
    row = torch.floor_((cos * y + height / 2) - sin * x)
    inside = (column.clamp(0, width - 1) == column) & (row.clamp(0, height - 1) == row)
    source = row.mul_(width).add_(column).mul_(inside).long().view(batch, 1, -1).expand(-1, channels, -1)
    return images.flatten(2).gather(2, source).view_as(images) * inside[:, None]


def resized_boxes(draws: Tensor, height: int, width: int, scale: tuple[float, float]) -> Tensor:
    """Boxes (B, 4) of top, left, height, width from uniform draws (B, TRIES, 4): the usual random resized crop.

    The area is a uniform share in `scale` of the image's, the aspect ratio log-uniform in 3/4 to 4/3; the first try
    that fits counts, and if none does the largest centred box of an allowed ratio.

    >>> resized_boxes(torch.full((1, TRIES, 4), 0.5), 100, 100, scale=(0.25, 0.25)).tolist()
    [[25, 25, 50, 50]]
    """
    area = height * width * (scale[0] + (scale[1] - scale[0]) * draws[..., 0])
    ratio = torch.exp(math.log(RATIO[0]) + (math.log(RATIO[1]) - math.log(RATIO[0])) * draws[..., 1])
    tall, wide = (area / ratio).sqrt().round().long(), (area * ratio).sqrt().round().long()
    fits = (tall > 0) & (tall <= height) & (wide > 0) & (wide <= width)
    top = ((height - tall + 1) * draws[..., 2]).long().minimum(height - tall)
    left = ((width - wide + 1) * draws[..., 3]).long().minimum(width - wide)
    tries = torch.stack([top, left, tall, wide], dim=2)
    first = fits.int().argmax(dim=1)  # the first of the largest, so the first that fits
    boxes = tries[torch.arange(len(draws), device=draws.device), first]
    tall_centre, wide_centre = min(height, round(width / RATIO[0])), min(width, round(height * RATIO[1]))
    centre = ((height - tall_centre) // 2, (width - wide_centre) // 2, tall_centre, wide_centre)
    return torch.where(fits.any(dim=1)[:, None], boxes, torch.tensor(centre, device=draws.device))


def enlarged(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """The boxes of float images, each enlarged to size x size, bilinear and without looking outside the box.

    >>> image = torch.arange(16.0).view(1, 1, 4, 4)
    >>> enlarged(image, torch.tensor([[1, 1, 2, 2]]), size=2).tolist()
    [[[[5.0, 6.0], [9.0, 10.0]]]]
    """
    height, width = images.shape[2:]
    top, left, tall, wide = boxes.to(images.dtype)[:, :, None].unbind(1)  # (B, 1) each
    centre = torch.arange(size, device=images.device) + 0.5
    row = top + (centre * tall / size - 0.5).clamp(min=0).minimum(tall - 1)  # (B, size)
    column = left + (centre * wide / size - 0.5).clamp(min=0).minimum(wide - 1)
    y, x = 2 * row / max(height - 1, 1) - 1, 2 * column / max(width - 1, 1) - 1
    grid = torch.stack([x[:, None, :].expand(-1, size, -1), y[:, :, None].expand(-1, -1, size)], dim=3)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=True)


@dataclass(frozen=True)
class Transform:
    """How a data set's images are augmented and normalised: rotation, crop, flip, resizing, in this order.

    >>> transform = Transform(mean=(0.5,), std=(0.5,), padding=4, flip=True)
    >>> transform.plain
    Transform(mean=(0.5,), std=(0.5,), padding=0, flip=False, degrees=0.0, size=None, scale=None)
    >>> transform.finish(torch.tensor([[[[0, 255]]]]), transform.constants(torch.device("cpu"))).tolist()
    [[[[-1.0, 1.0]]]]
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    padding: int = 0  # zeros around the image before a crop of its own size
    flip: bool = False
    degrees: float = 0.0  # rotation up to this angle in either direction
    size: int | None = None  # the side of what the model sees, the image's own if None
    scale: tuple[float, float] | None = None  # of a random resized crop, as shares of the area

    @property
    def plain(self) -> Transform:
        """The same without augmentation."""
        return Transform(self.mean, self.std, size=self.size)

    def augment(self, store: Tensor, index: Tensor, generator: torch.Generator) -> Tensor:
        """The images at `index` of a store, (N, C, H, W), or its `windows` if there is padding and no rotation."""
        device, count = store.device, len(index)
        # Drawn on the CPU whatever the device, so that a seed means the same images everywhere.
        offsets = torch.randint(2 * self.padding + 1, (2, count), generator=generator).to(device, non_blocking=True)
        draws = torch.rand(2, count, generator=generator).to(device, non_blocking=True)
        if store.dim() == 6:
            images = store[index, :, offsets[0], offsets[1]]
        else:
            images = store[index]
            images = rotate(images, self.degrees * (2 * draws[0] - 1)) if self.degrees else images
            if self.padding:
                every = torch.arange(count, device=device)
                images = windows(images, self.padding)[every, :, offsets[0], offsets[1]]
        images = flip(images, draws[1] < 0.5) if self.flip else images
        if self.scale is not None and self.size is not None:
            height, width = images.shape[2:]
            boxes = resized_boxes(torch.rand(count, TRIES, 4, generator=generator), height, width, self.scale)
            images = enlarged(images.float(), boxes.to(device, non_blocking=True), self.size)
        return images

    def constants(self, device: torch.device) -> Tensor:
        """What `finish` subtracts and multiplies with, (2, C, 1, 1): made once, as a copy to a device takes time."""
        mean, std = torch.tensor([self.mean, self.std], dtype=torch.float64)
        return torch.stack([255 * mean, 1 / (255 * std)]).float()[:, :, None, None].to(device)

    def finish(self, images: Tensor, constants: Tensor) -> Tensor:
        """Resize to what the model sees and normalise: float32. Float images are overwritten: fresh memory is slow."""
        side = self.size
        images = images.float()
        if side is not None and images.shape[2:] != (side, side):
            images = F.interpolate(images, size=(side, side), mode="bilinear", antialias=True)
        return images.sub_(constants[0]).mul_(constants[1])
