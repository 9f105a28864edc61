"""Small coarse pictures, by which an image is recognized after it was saved again or resized."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

SIDE = 8  # pixels of a thumbnail
LUMA = (0.299, 0.587, 0.114)  # red, green and blue in a gray level
BRIGHTNESS = 0.25  # weight of the mean gray level: images saved again may be brighter or darker
FLAT = 4.0  # gray levels: images with a smaller deviation look like any other flat one
# Thumbnails of the same image differ by less than this, in deviations: at least, where different
# images are alike, and at most.
CLOSEST = 0.03
FARTHEST = 0.15
LOOK_ALIKES = 0.002  # the share of new images that may be taken for a known one
SAMPLE = 2000  # known images that tell how alike different images are
PAIRS = 1 << 23  # thumbnails that are compared at once


def thumbnails(images: Tensor) -> Tensor:
    """Return thumbnails of uint8 images (N, C, H, W): gray, of 8 x 8 pixels, uint8 (N, 64).

    >>> thumbnails(torch.full((5, 3, 32, 32), 7, dtype=torch.uint8))[0, :3].tolist()
    [7, 7, 7]
    """
    channels = images.shape[1]
    shares = torch.tensor(LUMA if channels == 3 else [1 / channels] * channels)
    pictures = [torch.zeros(0, SIDE * SIDE, dtype=torch.uint8)]
    for part in images.split(1024):
        floats = part.cpu().float()
        small = F.interpolate(floats, size=(SIDE, SIDE), mode="bilinear", antialias=True)
        gray = torch.einsum("nchw,c->nhw", small, shares).flatten(1)
        pictures.append(gray.round().clamp(0, 255).to(torch.uint8))
    return torch.cat(pictures)


def recognized(pictures: Tensor, known: Tensor) -> Tensor:
    """Return which thumbnails (N, 64) show one of the known images.

    They do if they differ from a known one by at most `tolerance(known)` of their own deviation.
    Flat images, all of one color, are never recognized.

    >>> image = torch.randint(256, (1, 3, 32, 32), dtype=torch.uint8)
    >>> known = thumbnails(image)
    >>> recognized(thumbnails(image.clamp(1, 254)), known)
    tensor([True])
    >>> recognized(thumbnails(image.flip(2)), known)
    tensor([False])
    """
    return nearest_distance(pictures, known) <= tolerance(known)


def tolerance(known: Tensor) -> float:
    """Return the distance up to which two thumbnails show the same image.

    It is so small that about 0.2% of the known images, at most, would be taken for another known
    one: small gray pictures of clothes are more alike than photographs are. So at most about this
    share of new images of the same kind is recognized by mistake.
    """
    if len(known) < 2:
        return FARTHEST
    chosen = torch.linspace(0, len(known) - 1, min(SAMPLE, len(known))).long()
    distances = nearest_distance(known[chosen], known, chosen)
    closest = float(distances.quantile(LOOK_ALIKES, interpolation="lower"))
    return min(max(closest, CLOSEST), FARTHEST)


def nearest_distance(pictures: Tensor, known: Tensor, own: Tensor | None = None) -> Tensor:
    """Return the distance of each thumbnail to the nearest known one, infinite for flat images.

    It is the root of the mean squared difference, in units of the deviation of both. `own` are
    positions of the thumbnails themselves among the known ones, which do not count.
    """
    if not len(pictures) or not len(known):
        return torch.full((len(pictures),), torch.inf)
    rows = torch.arange(len(pictures))
    parts = zip(rows.split(max(1, PAIRS // len(known))), _squares(pictures, known), strict=True)
    nearest: list[Tensor] = []
    for part, squares in parts:
        if own is not None:
            squares[torch.arange(len(part)), own[part]] = torch.inf
        nearest.append(squares.amin(dim=1).clamp(min=0).sqrt())
    return torch.cat(nearest)


def _squares(pictures: Tensor, known: Tensor) -> Iterator[Tensor]:
    """Yield the squared distances of some thumbnails after others to all known ones."""
    theirs, their_deviation = _compared(known)
    their_lengths = theirs.square().sum(dim=1)
    for part in pictures.split(max(1, PAIRS // len(known))):
        ours, deviation = _compared(part)
        lengths = ours.square().sum(dim=1, keepdim=True)
        differences = lengths + their_lengths - 2 * ours @ theirs.T
        deviations = deviation[:, None] * their_deviation
        yield (differences / deviations).where(deviations > 0, torch.inf)


def _compared(pictures: Tensor) -> tuple[Tensor, Tensor]:
    """Return vectors whose squared distances are those of pictures, and the deviations of these.

    A flat picture gets the deviation 0.
    """
    levels = pictures.cpu().float()
    mean = levels.mean(dim=1, keepdim=True)
    vectors = torch.cat([(levels - mean) / SIDE, BRIGHTNESS * mean], dim=1)
    deviation = (levels - mean).square().mean(dim=1).sqrt()
    return vectors, deviation.where(deviation >= FLAT, 0)
