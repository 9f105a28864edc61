"""Write scikit-learn's digits as folders of images, for the section on strangers in docs/models.md.

    python benchmarks/digit_folders.py FOLDER

writes FOLDER/digits/0 to 6 (100 images each), FOLDER/labeled/0 to 6 (the rest) and
FOLDER/other-digits (90 images each of 7 and 8).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

KNOWN = range(7)
STRANGE = (7, 8)
NUM_TRAIN = 100
NUM_STRANGE = 90


def write(folder: Path, digit: int, first: int, last: int | None) -> None:
    """Write some images of a digit to a folder."""
    images, labels = load_digits(return_X_y=True)
    folder.mkdir(parents=True, exist_ok=True)
    for number, pixels in enumerate(images[labels == digit][first:last]):
        gray = (pixels.reshape(8, 8) * 15.9).astype(np.uint8)
        Image.fromarray(gray).save(folder / f"{digit}-{number:03d}.png")


if __name__ == "__main__":
    place = Path(sys.argv[1])
    for digit in KNOWN:
        write(place / "digits" / str(digit), digit, 0, NUM_TRAIN)
        write(place / "labeled" / str(digit), digit, NUM_TRAIN, None)
    for digit in STRANGE:
        write(place / "other-digits", digit, 0, NUM_STRANGE)
