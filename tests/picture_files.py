"""Image files of odd shapes, modes and EXIF orientations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, TiffImagePlugin

SHAPES = (  # width and height
    (32, 32),
    (1, 1),
    (1, 90),
    (300, 1),
    (900, 20),
    (5, 7),
    (31, 33),
    (64, 64),
    (97, 41),
    (41, 97),
    (200, 150),
)
ORIENTATION = 0x0112


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    """Smooth colors with some noise, different in every corner."""
    generator = np.random.default_rng(seed)
    corners = generator.integers(0, 256, (3, 3, 3), dtype=np.uint8)
    smooth = Image.fromarray(corners).resize((width, height), Image.Resampling.BICUBIC)
    noise = generator.normal(scale=12, size=(height, width, 3))
    return Image.fromarray((np.asarray(smooth) + noise).clip(0, 255).astype(np.uint8))


def write_pictures(folder: Path) -> list[Path]:
    """Write an image for each shape, mode and orientation, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, shape in enumerate(SHAPES):
        picture(*shape, number).save(folder / f"shape-{shape[0]}x{shape[1]}.png")
    rgb = picture(57, 40, 20)
    alpha = Image.fromarray(np.arange(57 * 40, dtype=np.uint32).reshape(40, 57).astype(np.uint8))
    rgb.convert("L").save(folder / "mode-L.png")
    rgb.convert("1").save(folder / "mode-1.png")
    Image.merge("LA", [rgb.convert("L"), alpha]).save(folder / "mode-LA.png")
    Image.merge("RGBA", [*rgb.split(), alpha]).save(folder / "mode-RGBA.png")
    rgb.convert("P", palette=Image.Palette.ADAPTIVE).save(folder / "mode-P.png", transparency=3)
    rgb.convert("CMYK").save(folder / "mode-CMYK.jpg")
    wide = np.asarray(rgb.convert("L")).astype(np.uint16) * 257 + 100
    Image.fromarray(wide.clip(0, 65_535).astype(np.uint16)).save(folder / "mode-I16.png")
    Image.fromarray(wide.clip(0, 65_535).astype(np.uint16)).save(folder / "mode-I16.tif")
    rgb.save(folder / "photo.jpg", quality=90)
    for orientation in range(1, 9):
        for suffix in ("jpg", "png"):
            exif = Image.Exif()
            exif[ORIENTATION] = orientation
            rgb.save(folder / f"exif-{orientation}.{suffix}", exif=exif)
        tags = TiffImagePlugin.ImageFileDirectory_v2()
        tags[ORIENTATION] = orientation
        rgb.save(folder / f"exif-{orientation}.tif", tiffinfo=tags)
    return sorted(folder.iterdir())
