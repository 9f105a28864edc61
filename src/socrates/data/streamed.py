"""Images that stay on the disk, decoded by worker threads a few batches ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from socrates.contracts import Batch, Preparation, Splits, Stream

from .augment import TRIES, Transform, resized_boxes
from .image import decoded, fitted, image_tensor, opened, stretched
from .memory import THREADS
from .resident import check_order
from .splits import Labelled, hold_out

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and deviation
AHEAD = 2  # batches that are decoded while the model works on one


def resized_crop(pixels: Tensor, draws: Tensor, size: int, scale: tuple[float, float]) -> Tensor:
    """Return a random resized crop of an image (C, H, W), from uniform draws (TRIES, 4)."""
    (box,) = resized_boxes(draws[None], pixels.shape[1], pixels.shape[2], scale)
    top, left, height, width = box.tolist()
    crop = pixels[:, top : top + height, left : left + width]
    return stretched(crop[None], (size, size))[0]


def padded(pixels: Tensor, size: int) -> Tensor:
    """Return an image (C, H, W) with black borders that make each side at least `size`.

    >>> padded(torch.ones(1, 1, 3, dtype=torch.uint8), 2).tolist()
    [[[1, 1, 1], [0, 0, 0]]]
    """
    rows, columns = (max(size - side, 0) for side in pixels.shape[1:])
    left, top = columns // 2, rows // 2
    return F.pad(pixels, (left, columns - left, top, rows - top))


@dataclass(eq=False, repr=False)
class StreamedImages:
    """A split of image files; the transform's `size` is needed, its `scale` and `flip` augment.

    `shrink` says whether images larger than `size` are resized to it before the centre crop of
    evaluation; `pad_small`, whether sides that are shorter get black borders instead of being
    enlarged.

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
    pad_small: bool = False
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
        """Decode one image to uint8 (3, size, size); `draws` (TRIES + 1, 4) augment it."""
        path = self.paths[position]
        if draws is None or self.transform.scale is None:
            pixels = self._center(path)
        else:
            with opened(path) as image:
                whole = decoded(image)
            pixels = resized_crop(whole, draws[:TRIES], self.size, self.transform.scale)
        flipped = draws is not None and self.transform.flip and draws[TRIES, 0] < 0.5
        return pixels.flip(2) if flipped else pixels

    def _center(self, path: Path) -> Tensor:
        """Return the center of an image as evaluation sees it, uint8 (3, size, size)."""
        shape = (3, self.size, self.size)
        if not self.pad_small:
            return image_tensor(path, shape, self.shrink)
        with opened(path) as image:
            whole = decoded(image)
        return fitted(padded(whole, self.size)[None], shape[1:], self.shrink)[0]

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
                pixels = pixels.to(self.device, non_blocking=True)
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
    pad_small: bool = False,
) -> Splits:
    """Return the splits of image files; without `val`, a fixed tenth of train validates.

    Images are normalized by ImageNet's mean and deviation. With `augment`, training takes random
    resized crops and flips. For `shrink` and `pad_small`, see `StreamedImages`.
    """
    train, val = (parts["train"], parts["val"]) if "val" in parts else hold_out(parts["train"])
    augmented = Transform(*IMAGENET, flip=True, size=size, scale=(0.08, 1.0))
    plain = augmented.plain

    def split(part: Labelled, transform: Transform) -> StreamedImages:
        files, labels = part
        paths = files.tolist()
        samples = torch.from_numpy(labels)
        return StreamedImages(paths, samples, transform, shrink=shrink, pad_small=pad_small)

    return Splits(
        train=split(train, augmented if augment else plain),
        val=split(val, plain),
        test=split(parts["test"], plain),
        class_names=tuple(class_names),
        image_shape=(3, size, size),
        preparation=Preparation(*IMAGENET, shrink=shrink),
    )
