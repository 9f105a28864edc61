"""From an image file to what a model sees: the one way, for training, prediction and export.

`image_tensor` is the whole of it. `fitted` is its last step, which predictors and exported programs
carry out on images that are decoded already.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .download import DataNotFound
from .unreadable import UnreadableImage, kind_of_damage

if TYPE_CHECKING:
    from PIL.Image import Image

# The formats that are decoded, whatever the name says: for PostScript, Pillow runs a program.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "DIB", "WEBP", "TIFF", "PPM")
# Pixels that take memory: of fewer a decoder asks for more only if the file is damaged, and more
# are not an image to classify.
LARGE = range(1_000_000, 64_000_001)
# Half a gray level rounds up. A little more makes that sure where arithmetic is inexact, so that
# all programs round alike.
ROUNDING = 0.5 + 2**-10


def image_tensor(
    source: str | PathLike[str] | Image, image_shape: tuple[int, int, int], shrink: bool = True
) -> Tensor:
    """Return an image file, or an image of Pillow, as a model sees it: uint8 (channels, H, W).

    The image is turned upright by its EXIF orientation, converted to RGB or, for one channel, to
    gray, and its center is resized to the model's height and width: see `fitted`.

    >>> from PIL import Image
    >>> image_tensor(Image.new("L", (100, 50), 7), (3, 32, 32)).shape
    torch.Size([3, 32, 32])
    """
    channels, height, width = image_shape
    if isinstance(source, str | PathLike):
        with opened(Path(source)) as image:
            pixels = decoded(image, channels)
    else:
        pixels = decoded(source, channels)
    return fitted(pixels[None], (height, width), shrink)[0]


def fitted(images: Tensor, size: tuple[int, int], shrink: bool = True) -> Tensor:
    """Return the centers of uint8 images (N, C, H, W), resized to that height and width.

    The center is the largest part of that aspect ratio, the middle square for a square. It is
    resized bilinearly with antialiasing, in floating point, and rounded to whole gray levels. So
    are images that are smaller than `size`. Without `shrink`, the center of a larger image is
    `size` pixels that are taken as they are.

    >>> stripes = torch.arange(6, dtype=torch.uint8).expand(1, 1, 2, 6)
    >>> fitted(stripes, (2, 2)).tolist()
    [[[[2, 3], [2, 3]]]]
    >>> fitted(stripes, (1, 1)).item(), fitted(stripes[:, :, :1, :1], (2, 2)).tolist()
    (3, [[[[0, 0], [0, 0]]]])
    """
    height, width = images.shape[2:]
    rows: Any = torch.sym_min(height, width * size[0] // size[1])
    columns: Any = torch.sym_min(width, height * size[1] // size[0])
    if not shrink:
        rows = torch.sym_min(rows, size[0])
        columns = torch.sym_min(columns, size[1])
    center = _middle(_middle(images, 2, rows), 3, columns)
    return stretched(center, size)


def stretched(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Return whole uint8 images resized to that height and width, in whole gray levels.

    >>> stretched(torch.tensor([[[[0, 1], [0, 4]]]], dtype=torch.uint8), (1, 1)).item()
    1
    """
    resized = F.interpolate(images.float(), size=size, mode="bilinear", antialias=True)
    return (resized + ROUNDING).to(torch.uint8)


def _middle(images: Tensor, axis: int, length: int) -> Tensor:
    """Return the pixels in the middle of an axis, at least two of them.

    A single pixel is repeated, which looks the same: exported programs take no axis of length 1.
    They also take no slices of a length that depends on the image, hence the look-up.
    """
    side = images.shape[axis]
    num_pixels: Any = torch.sym_max(2, length)
    first = torch.sym_max(0, (side - num_pixels) // 2)
    positions = torch.arange(num_pixels, device=images.device) + first
    return images.index_select(axis, positions.clamp(max=side - 1))


def decoded(image: Image, channels: int = 3) -> Tensor:
    """Return the pixels of an opened image, upright: uint8 (3, H, W) of RGB, or (1, H, W) of gray.

    >>> from PIL import Image
    >>> decoded(Image.new("RGBA", (3, 2), (10, 20, 30, 0)))[:, 0, 0].tolist()
    [10, 20, 30]
    """
    if channels not in (1, 3):
        raise ValueError(f"image files have 1 or 3 channels, the model takes {channels}")
    rgb = as_rgb(upright(image))
    pixels = torch.from_numpy(np.array(rgb if channels == 3 else rgb.convert("L")))
    return pixels.permute(2, 0, 1) if channels == 3 else pixels[None]


def upright(image: Image) -> Image:
    """Return an image turned by its EXIF orientation; one without, or with a damaged one, stays."""
    from PIL import ImageOps

    image.load()  # a damaged image is an error, unlike damaged EXIF
    turned = image
    with suppress(Exception):  # Pillow raises many kinds for damaged EXIF
        turned = ImageOps.exif_transpose(image)
        turned.format = image.format
    return turned


def as_rgb(image: Image) -> Image:
    """Decode an opened image to RGB; transparency is left out.

    Gray levels of 16 bits, 0 to 65,535, are divided by 257 to 0 to 255. Wider pixels, integers of
    32 bits and floating point, are refused: no file says which value is white.

    >>> from PIL import Image
    >>> as_rgb(Image.fromarray(np.array([[257, 65_535]], np.uint16))).tobytes()
    b'\\x01\\x01\\x01\\xff\\xff\\xff'
    """
    from PIL import Image as pil

    # Pillow decodes 16 bits of some PNG and PGM files into mode I, where they keep their range.
    if image.mode == "F" or (image.mode == "I" and image.format not in ("PNG", "PPM")):
        raise ValueError(
            f"its pixels have mode {image.mode}, 32 bits with no known white: save it with 8 or "
            "16 bits"
        )
    if image.mode.startswith("I"):
        image = pil.fromarray(((np.asarray(image).astype(np.int32) + 128) // 257).astype(np.uint8))
    return image.convert("RGB")


@contextmanager
def opened(path: Path) -> Iterator[Image]:
    """Open an image file, and name it in the error if it cannot be read."""
    from PIL import Image as pil

    pixels = 0
    try:
        with pil.open(path, formats=FORMATS) as image:
            pixels = image.width * image.height
            yield image
    except FileNotFoundError as error:
        raise DataNotFound(
            f"{path} is missing: it was there when the images were listed"
        ) from error
    except Exception as error:  # decoders raise many kinds for damaged files
        if isinstance(error, MemoryError) and pixels in LARGE:
            raise  # it is not the file
        reason = " ".join(str(error).split()) or type(error).__name__
        words = f"{path}: not a readable image ({reason}): replace or remove the file"
        raise UnreadableImage(words, kind_of_damage(path, error), reason) from error
