"""Augmentation in batches, on the device: each function takes a batch of uint8 images and the draws for each image.

The draws are arguments, so that the functions are exact and the randomness has one home, `Transform.augment`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from socrates.contracts import Preparation

TRIES = 10  # of a random resized crop, before it settles for the centre
RATIO = (3 / 4, 4 / 3)
FAR = 1e6  # pixels: turned by any angle, it stays outside


def framed(images: Tensor, border: int) -> Tensor:
    """Images with a frame of zeros around them.

    >>> framed(torch.ones(1, 1, 2, 2, dtype=torch.uint8), 1).tolist()
    [[[[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]]]
    """
    return F.pad(images, [border] * 4)


def gathered(images: Tensor, source: Tensor) -> Tensor:
    """Images whose pixels come from the positions `source`, (B, H, W), in the flattened images (B, C, h, w).

    >>> gathered(torch.tensor([[[[1, 2], [3, 4]]]]), torch.tensor([[[3, 0]]])).tolist()
    [[[[4, 1]]]]
    """
    batch, channels = images.shape[:2]
    positions = source.view(batch, 1, -1).expand(-1, channels, -1)
    return images.flatten(2).gather(2, positions).view(batch, channels, *source.shape[1:])


def shifted(rows: Tensor, columns: Tensor, width: int, border: int) -> Tensor:
    """Positions, in framed images, of the pixels at `rows` (B, H) and `columns` (B, W) of images of that width.

    >>> shifted(torch.tensor([[0, 1]]), torch.tensor([[1, 0]]), width=2, border=1).tolist()  # mirrored
    [[[6, 5], [10, 9]]]
    """
    return ((rows + border) * (width + 2 * border))[:, :, None] + (columns + border)[:, None, :]


def turned(rows: Tensor, columns: Tensor, degrees: Tensor, size: tuple[int, int], border: int) -> Tensor:
    """The same in images that are turned counter-clockwise about their centre, nearest pixel, as Pillow does.

    What lies outside of the turned image, or of the place it was cut from, comes from the frame's first zero.
    """
    height, width = size
    angle = -torch.deg2rad(degrees)[:, None]
    cos, sin = angle.cos(), angle.sin()
    y = torch.where((rows >= 0) & (rows < height), rows + (0.5 - height / 2), FAR)  # (B, H)
    x = torch.where((columns >= 0) & (columns < width), columns + (0.5 - width / 2), FAR)
    # In float32, exact for these whole numbers, and in place: int64 arithmetic takes far longer.
    column = torch.floor_((cos * x)[:, None, :] + (sin * y + width / 2)[:, :, None])  # where each pixel comes from
    row = torch.floor_((cos * y + height / 2)[:, :, None] - (sin * x)[:, None, :])
    near_column, near_row = column.clamp(0, width - 1), row.clamp(0, height - 1)
    inside = (near_column == column) & (near_row == row)
    stride = width + 2 * border
    source = near_row.add_(border).mul_(stride).add_(near_column).add_(border)
    return source.mul_(inside).long()


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

    @property
    def border(self) -> int:
        """Of zeros that a store of images must have around each of them."""
        return max(self.padding, 1 if self.degrees else 0)

    def augment(
        self,
        store: Tensor,
        index: Tensor,
        generator: torch.Generator,
        part: slice = slice(None),
    ) -> Tensor:
        """The images at `index` of a store of images `framed` by this transform's border, or a part of them."""
        device, count = store.device, len(index)
        # Drawn on the CPU whatever the device, so that a seed means the same images everywhere.
        offsets = torch.randint(2 * self.padding + 1, (2, count), generator=generator)[:, part]
        draws = torch.rand(2, count, generator=generator)[:, part].to(device, non_blocking=True)
        offsets = offsets.to(device, non_blocking=True)
        images = store.index_select(0, index[part])
        height, width = (side - 2 * self.border for side in images.shape[2:])
        if self.border or self.flip:  # all of it is one look-up: where each pixel comes from
            rows = torch.arange(height, device=device) + (offsets[0] - self.padding)[:, None]  # (B, H)
            columns = torch.arange(width, device=device).expand(len(images), -1)  # (B, W)
            columns = torch.where(draws[1, :, None] < 0.5, columns.flip(1), columns) if self.flip else columns
            columns = columns + (offsets[1] - self.padding)[:, None]
            if self.degrees:
                angles = self.degrees * (2 * draws[0] - 1)
                images = gathered(images, turned(rows, columns, angles, (height, width), self.border))
            else:
                images = gathered(images, shifted(rows, columns, width, self.border))
        if self.scale is not None and self.size is not None:
            tries = torch.rand(count, TRIES, 4, generator=generator)[part]
            boxes = resized_boxes(tries, height, width, self.scale)
            images = enlarged(images.float(), boxes.to(device, non_blocking=True), self.size)
        return images

    def constants(self, device: torch.device) -> Tensor:
        """What `finish` subtracts and multiplies with, (2, C, 1, 1): made once, as a copy to a device takes time."""
        return Preparation(self.mean, self.std).constants().to(device)

    def finish(self, images: Tensor, constants: Tensor) -> Tensor:
        """Resize to what the model sees and normalise: float32. Float images are overwritten: fresh memory is slow."""
        images = images.float()
        if self.size is not None and images.shape[2:] != (self.size, self.size):
            images = F.interpolate(images, size=self.size, mode="bilinear", antialias=True)
        return images.sub_(constants[0]).mul_(constants[1])
