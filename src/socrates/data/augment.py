"""Augmentation in batches, on the device.

Each function takes a batch of uint8 images and the random draws for each image. The draws are
arguments, so that the functions are exact and all randomness comes from `Transform.augment`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from socrates.contracts import Preparation

from .image import fitted

TRIES = 10  # of a random resized crop, before it takes the center
RATIO = (3 / 4, 4 / 3)  # width to height of a random resized crop
FAR = 1e6  # pixels: rotated by any angle, it stays outside


def add_border(images: Tensor, border: int) -> Tensor:
    """Return images with a border of zeros around them.

    >>> add_border(torch.ones(1, 1, 2, 2, dtype=torch.uint8), 1).tolist()
    [[[[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]]]
    """
    return F.pad(images, [border] * 4)


def gather_pixels(images: Tensor, source: Tensor) -> Tensor:
    """Return images (B, C, H, W) whose pixels are those at the positions `source` (B, H, W).

    Positions count the pixels of an image (B, C, h, w) row by row.

    >>> gather_pixels(torch.tensor([[[[1, 2], [3, 4]]]]), torch.tensor([[[3, 0]]])).tolist()
    [[[[4, 1]]]]
    """
    batch, channels = images.shape[:2]
    positions = source.view(batch, 1, -1).expand(-1, channels, -1)
    return images.flatten(2).gather(2, positions).view(batch, channels, *source.shape[1:])


def crop_positions(rows: Tensor, columns: Tensor, width: int, border: int) -> Tensor:
    """Return the positions of the pixels at `rows` (B, H) and `columns` (B, W).

    `width` is that of the images before their border was added.

    >>> mirrored = torch.tensor([[1, 0]])
    >>> crop_positions(torch.tensor([[0, 1]]), mirrored, width=2, border=1).tolist()
    [[[6, 5], [10, 9]]]
    """
    stride = width + 2 * border
    starts = (rows + border) * stride
    return starts[:, :, None] + (columns + border)[:, None, :]


def rotated_positions(
    rows: Tensor, columns: Tensor, degrees: Tensor, size: tuple[int, int], border: int
) -> Tensor:
    """Return the same positions in images rotated counter-clockwise about their center.

    The nearest pixel is taken, as Pillow does. What lies outside of the rotated image, or of the
    image it was cut from, comes from the first zero of the border.
    """
    height, width = size
    angle = -torch.deg2rad(degrees)[:, None]
    cos = angle.cos()
    sin = angle.sin()
    y = torch.where((rows >= 0) & (rows < height), rows + (0.5 - height / 2), FAR)  # (B, H)
    x = torch.where((columns >= 0) & (columns < width), columns + (0.5 - width / 2), FAR)
    # In float32, exact for these whole numbers, and in place: int64 arithmetic takes far longer.
    column = torch.floor_((cos * x)[:, None, :] + (sin * y + width / 2)[:, :, None])
    row = torch.floor_((cos * y + height / 2)[:, :, None] - (sin * x)[:, None, :])
    near_column = column.clamp(0, width - 1)
    near_row = row.clamp(0, height - 1)
    inside = (near_column == column) & (near_row == row)
    stride = width + 2 * border
    source = near_row.add_(border).mul_(stride).add_(near_column).add_(border)
    return source.mul_(inside).long()


def resized_boxes(draws: Tensor, height: int, width: int, scale: tuple[float, float]) -> Tensor:
    """Return the boxes (B, 4) of random resized crops: top, left, height, width.

    The uniform draws are (B, TRIES, 4). The area is a uniform share in `scale` of the image's, the
    aspect ratio log-uniform in 3/4 to 4/3. The first try that fits counts; if none does, the box is
    the largest centered one of an allowed ratio.

    >>> resized_boxes(torch.full((1, TRIES, 4), 0.5), 100, 100, scale=(0.25, 0.25)).tolist()
    [[25, 25, 50, 50]]
    """
    area = height * width * (scale[0] + (scale[1] - scale[0]) * draws[..., 0])
    log_low = math.log(RATIO[0])
    log_high = math.log(RATIO[1])
    ratio = torch.exp(log_low + (log_high - log_low) * draws[..., 1])
    tall = (area / ratio).sqrt().round().long()
    wide = (area * ratio).sqrt().round().long()
    fits = (tall > 0) & (tall <= height) & (wide > 0) & (wide <= width)
    top = ((height - tall + 1) * draws[..., 2]).long().minimum(height - tall)
    left = ((width - wide + 1) * draws[..., 3]).long().minimum(width - wide)
    tries = torch.stack([top, left, tall, wide], dim=2)
    first_fit = fits.int().argmax(dim=1)  # argmax returns the first of equal values
    boxes = tries[torch.arange(len(draws), device=draws.device), first_fit]
    center = torch.tensor(center_box(height, width), device=draws.device)
    return torch.where(fits.any(dim=1)[:, None], boxes, center)


def center_box(height: int, width: int) -> tuple[int, int, int, int]:
    """Return top, left, height and width of the largest centered box of an allowed ratio.

    >>> center_box(10, 1000)
    (0, 493, 10, 13)
    """
    tall = min(height, round(width / RATIO[0]))
    wide = min(width, round(height * RATIO[1]))
    return (height - tall) // 2, (width - wide) // 2, tall, wide


def resize_boxes(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Return the boxes of float images, each resized to size x size.

    The interpolation is bilinear and never looks outside of the box.

    >>> image = torch.arange(16.0).view(1, 1, 4, 4)
    >>> resize_boxes(image, torch.tensor([[1, 1, 2, 2]]), size=2).tolist()
    [[[[5.0, 6.0], [9.0, 10.0]]]]
    """
    height, width = images.shape[2:]
    top, left, tall, wide = boxes.to(images.dtype)[:, :, None].unbind(1)  # (B, 1) each
    centers = torch.arange(size, device=images.device) + 0.5
    row = top + (centers * tall / size - 0.5).clamp(min=0).minimum(tall - 1)  # (B, size)
    column = left + (centers * wide / size - 0.5).clamp(min=0).minimum(wide - 1)
    # grid_sample counts from -1 to 1
    y = 2 * row / max(height - 1, 1) - 1
    x = 2 * column / max(width - 1, 1) - 1
    x_grid = x[:, None, :].expand(-1, size, -1)
    y_grid = y[:, :, None].expand(-1, -1, size)
    grid = torch.stack([x_grid, y_grid], dim=3)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=True)


@dataclass(frozen=True)
class Transform:
    """How a data set's images are augmented and normalized.

    The order is rotation, crop, flip, resizing.

    >>> transform = Transform(mean=(0.5,), std=(0.5,), padding=4, flip=True)
    >>> transform.plain
    Transform(mean=(0.5,), std=(0.5,), padding=0, flip=False, degrees=0.0, size=None, scale=None)
    >>> constants = transform.constants(torch.device("cpu"))
    >>> transform.finish(torch.tensor([[[[0, 255]]]]), constants).tolist()
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
        """Return the same transform without augmentation."""
        return Transform(self.mean, self.std, size=self.size)

    @property
    def border(self) -> int:
        """Return the width of the border of zeros that stored images need."""
        return max(self.padding, 1 if self.degrees else 0)

    def augment(
        self,
        store: Tensor,
        index: Tensor,
        generator: torch.Generator,
        part: slice = slice(None),
    ) -> Tensor:
        """Return the augmented images at `index` of a store, or a part of them.

        The images in the store have a border of zeros as wide as this transform's `border`.
        """
        device = store.device
        count = len(index)
        # Drawn on the CPU whatever the device, so that a seed means the same images everywhere.
        offsets = torch.randint(2 * self.padding + 1, (2, count), generator=generator)[:, part]
        draws = torch.rand(2, count, generator=generator)[:, part].to(device, non_blocking=True)
        offsets = offsets.to(device, non_blocking=True)
        images = store.index_select(0, index[part])
        height, width = (side - 2 * self.border for side in images.shape[2:])
        if self.border or self.flip:
            source = self._source(offsets, draws, (height, width))
            images = gather_pixels(images, source)
        if self.scale is not None and self.size is not None:
            tries = torch.rand(count, TRIES, 4, generator=generator)[part]
            boxes = resized_boxes(tries, height, width, self.scale)
            images = resize_boxes(images.float(), boxes.to(device, non_blocking=True), self.size)
        return images

    def _source(self, offsets: Tensor, draws: Tensor, size: tuple[int, int]) -> Tensor:
        """Return where each pixel (B, H, W) comes from: crop, flip and rotation are one look-up."""
        height, width = size
        device = draws.device
        rows = torch.arange(height, device=device) + (offsets[0] - self.padding)[:, None]  # (B, H)
        columns = torch.arange(width, device=device).expand(draws.shape[1], -1)  # (B, W)
        if self.flip:
            columns = torch.where(draws[1, :, None] < 0.5, columns.flip(1), columns)
        columns = columns + (offsets[1] - self.padding)[:, None]
        if not self.degrees:
            return crop_positions(rows, columns, width, self.border)
        angles = self.degrees * (2 * draws[0] - 1)
        return rotated_positions(rows, columns, angles, size, self.border)

    def constants(self, device: torch.device) -> Tensor:
        """Return what `finish` subtracts and multiplies with, (2, C, 1, 1).

        Call it once and keep the result: a copy to a device takes time.
        """
        return Preparation(self.mean, self.std).constants().to(device)

    def finish(self, images: Tensor, constants: Tensor) -> Tensor:
        """Resize images to what the model sees and normalize them to float32.

        Float images are overwritten, as fresh memory is slow.
        """
        if self.size is not None and images.shape[2:] != (self.size, self.size):
            images = fitted(images, (self.size, self.size))
        return images.float().sub_(constants[0]).mul_(constants[1])
