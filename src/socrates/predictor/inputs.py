"""Image files and images of Pillow, of any sizes, as the tensor that a predictor takes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from ..data.image import image_tensor
from .description import Description

if TYPE_CHECKING:
    from PIL.Image import Image

Picture: TypeAlias = "str | PathLike[str] | Image"
THREADS = 8


def as_pictures(inputs: Any) -> list[Picture] | None:
    """Return a list of the image files or images of Pillow that are passed, or None for all else.

    >>> as_pictures("cat.png"), as_pictures(["cat.png", "dog.png"]), as_pictures([1.5, 2.5])
    (['cat.png'], ['cat.png', 'dog.png'], None)
    """
    if _is_picture(inputs):
        return [inputs]
    if not isinstance(inputs, Sequence) or not inputs:
        return None
    items = list(inputs)
    return items if all(map(_is_picture, items)) else None


def _is_picture(item: Any) -> bool:
    """Return whether this is a path or, if Pillow was ever imported, an image of it."""
    pillow = sys.modules.get("PIL.Image")
    is_image = pillow is not None and isinstance(item, pillow.Image)
    return is_image or isinstance(item, str | PathLike)


def read_pictures(pictures: Sequence[Picture], about: Description) -> Tensor:
    """Return images as the model was trained on them: uint8 (N, channels, height, width)."""
    preparation = about.preparation
    if preparation is None or about.image_shape[0] not in (1, 3):
        raise ValueError(
            f"{about.model} takes no gray or RGB images that files could be read into: pass it "
            "tensors"
        )
    shape = about.image_shape
    with ThreadPoolExecutor(THREADS) as pool:
        tensors = pool.map(lambda item: image_tensor(item, shape, preparation.shrink), pictures)
        return torch.stack(list(tensors))
