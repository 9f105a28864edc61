"""Images that stay on the disk, decoded by worker threads a few batches ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from socrates.contracts import Batch, Preparation, Splits, Stream

from .augment import TRIES, Transform, resized_boxes
from .download import DataNotFound
from .memory import THREADS
from .resident import check_order
from .splits import Labelled, hold_out
from .unreadable import UnreadableImage, kind_of_damage

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and deviation
# The formats that are decoded, whatever the name says: for PostScript, Pillow runs a program.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "DIB", "WEBP", "TIFF", "PPM")
# Pixels that take memory: of fewer a decoder asks for more only if the file is damaged, and more
# are not an image to classify.
LARGE = range(1_000_000, 64_000_001)
AHEAD = 2  # batches that are decoded while the model works on one


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


def as_rgb(image: Image) -> Image:
    """Decode an opened image to RGB.

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


def centre_crop(image: Image, size: int, shrink: bool) -> Image:
    """Return the size x size pixels in the center of an image.

    An image that is too small (or any, with `shrink`) is resized to that shorter side first.

    >>> from PIL import Image
    >>> centre_crop(Image.new("RGB", (100, 50)), 32, shrink=True).size
    (32, 32)
    """
    from PIL import Image as pil

    shorter = min(image.size)
    if shorter < size or (shrink and shorter != size):
        width, height = (max(size, round(side * size / shorter)) for side in image.size)
        image = image.resize((width, height), pil.Resampling.BILINEAR)
    left = (image.width - size) // 2
    top = (image.height - size) // 2
    return image.crop((left, top, left + size, top + size))


def resized_crop(image: Image, draws: Tensor, size: int, scale: tuple[float, float]) -> Image:
    """Return a random resized crop, from uniform draws (TRIES, 4)."""
    from PIL import Image as pil

    (box,) = resized_boxes(draws[None], image.height, image.width, scale)
    top, left, height, width = box.tolist()
    crop = image.crop((left, top, left + width, top + height))
    return crop.resize((size, size), pil.Resampling.BILINEAR)


@dataclass(eq=False, repr=False)
class StreamedImages:
    """A split of image files; the transform's `size` is needed, its `scale` and `flip` augment.

    `shrink` says whether images larger than `size` are resized to it before the centre crop of
    evaluation.

    >>> import tempfile
    >>> from PIL import Image
    >>> path = Path(tempfile.mkdtemp()) / "white.png"
    >>> Image.new("RGB", (60, 40), "white").save(path)
    >>> transform = Transform(mean=(0.5,) * 3, std=(0.5,) * 3, size=32, scale=(0.08, 1.0))
    >>> split = StreamedImages([path, path], torch.tensor([1, 0]), transform)
    >>> batches = split.batches(8, torch.tensor([1, 0]))
    >>> [(tuple(batch.inputs.shape), batch.labels.tolist()) for batch in batches]
    [((2, 3, 32, 32), [0, 1])]
    """

    paths: Sequence[Path]
    labels: Tensor
    transform: Transform
    _: KW_ONLY
    shrink: bool = False
    device: torch.device | str = "cpu"

    def __post_init__(self) -> None:
        transform = self.transform
        if transform.size is None or transform.padding or transform.degrees:
            raise ValueError(
                "streamed images need a size and take a resized crop and a flip only, got "
                f"{transform}"
            )
        num_labels = len(self.labels)
        if len(self.paths) != num_labels:
            raise ValueError(
                f"each image needs one label, got {len(self.paths)} images and {num_labels} labels"
            )
        self.labels = self.labels.long()
        self.size = transform.size

    def __len__(self) -> int:
        return len(self.paths)

    def to(self, device: torch.device | str) -> StreamedImages:
        """Return the same split, whose batches arrive on a device."""
        return replace(self, labels=self.labels.to(device), device=device)

    def subset(self, index: Tensor) -> StreamedImages:
        """Return the samples at these positions as a new split with positions from 0."""
        paths = [self.paths[i] for i in index.tolist()]
        return replace(self, paths=paths, labels=self.labels[index.to(self.labels.device)])

    def _decode(self, position: int, draws: Tensor | None) -> Tensor:
        """Decode one image to uint8 (size, size, 3); `draws` (TRIES + 1, 4) augment it."""
        with opened(self.paths[position]) as file:
            image = as_rgb(file)
        if draws is None or self.transform.scale is None:
            image = centre_crop(image, self.size, self.shrink)
        else:
            image = resized_crop(image, draws[:TRIES], self.size, self.transform.scale)
        pixels = torch.from_numpy(np.array(image))
        flipped = draws is not None and self.transform.flip and draws[TRIES, 0] < 0.5
        return pixels.flip(1) if flipped else pixels

    def batches(
        self,
        batch_size: int,
        order: Tensor,
        stream: Stream | None = None,
        first_step: int = 0,
        part: Callable[[int], slice] | None = None,
    ) -> Iterator[Batch]:
        """Yield batches of the samples at `order`, augmented if there is a stream."""
        check_order(batch_size, order)
        constants = self.transform.constants(torch.device(self.device))
        chosen = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
        pool = ThreadPoolExecutor(THREADS, thread_name_prefix="decode")

        def submit(step: int) -> list[Future[Tensor]]:
            draws: Sequence[Tensor | None] = [None] * batch_size
            if stream is not None:
                draws = list(torch.rand(batch_size, TRIES + 1, 4, generator=stream.generator(step)))
            pairs = list(zip(chosen[step].tolist(), draws, strict=False))
            rows = slice(None) if part is None else part(len(pairs))
            return [pool.submit(self._decode, *pair) for pair in pairs[rows]]

        try:
            submitted = map(submit, range(first_step, len(chosen)))  # each when it is asked for
            waiting = deque(islice(submitted, AHEAD))
            for index in chosen[first_step:]:
                waiting.extend(islice(submitted, 1))
                pixels = torch.stack([future.result() for future in waiting.popleft()])
                pixels = pixels.to(self.device, non_blocking=True).permute(0, 3, 1, 2).contiguous()
                labels = self.labels[index.to(self.labels.device)].to(self.device)
                yield Batch(self.transform.finish(pixels, constants), labels, index.to(self.device))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def streamed_splits(
    parts: dict[str, Labelled],
    class_names: Sequence[str],
    size: int,
    augment: bool,
    shrink: bool = False,
) -> Splits:
    """Return the splits of image files; without `val`, a fixed tenth of train validates.

    Images are normalized by ImageNet's mean and deviation. With `augment`, training takes random
    resized crops and flips. For `shrink`, see `StreamedImages`.
    """
    train, val = (parts["train"], parts["val"]) if "val" in parts else hold_out(parts["train"])
    augmented = Transform(*IMAGENET, flip=True, size=size, scale=(0.08, 1.0))
    plain = augmented.plain

    def split(part: Labelled, transform: Transform) -> StreamedImages:
        files, labels = part
        return StreamedImages(files.tolist(), torch.from_numpy(labels), transform, shrink=shrink)

    return Splits(
        train=split(train, augmented if augment else plain),
        val=split(val, plain),
        test=split(parts["test"], plain),
        class_names=tuple(class_names),
        image_shape=(3, size, size),
        preparation=Preparation(*IMAGENET, shrink=shrink),
    )
