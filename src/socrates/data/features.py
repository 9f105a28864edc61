"""Features of images, computed once by a pretrained backbone and remembered on the disk.

An image that has been seen before, in whatever data set of that name, is not computed again: rows
are found by a digest of what the backbone sees, so that other pixels, sizes or means are others.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from socrates.contracts import Batch, Preparation, Split, Splits, Stream
from socrates.files import replacing

from .resident import ResidentImages, steps_of
from .streamed import StreamedImages

EMBED_BATCH = 32  # images that the backbone sees at once
DIGEST_BYTES = 16
SECONDS_BETWEEN_SAVES = 60.0

Embed = Callable[[Tensor], Tensor]  # images (B, C, H, W), normalized, to features (B, D)
Report = Callable[[int, int], None]  # more images that are done, and those that were computed


class FeatureSplit:
    """A split whose inputs are features (N, D); `images` is the split that they were computed of.

    >>> split = FeatureSplit(torch.eye(3), torch.tensor([0, 1, 0]), None)
    >>> [batch.inputs.shape for batch in split.batches(2, torch.arange(3))]
    [torch.Size([2, 3]), torch.Size([1, 3])]
    """

    def __init__(self, features: Tensor, labels: Tensor, images: Split | None) -> None:
        self.features = features
        self.labels: Tensor = labels.long()
        self.images = images

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str) -> FeatureSplit:
        """Return the same split on a device; its images stay where they are."""
        return FeatureSplit(self.features.to(device), self.labels.to(device), self.images)

    def subset(self, index: Tensor) -> FeatureSplit:
        """Return the samples at these positions as a new split with positions from 0."""
        images = self.images and self.images.subset(index)
        here = index.to(self.labels.device)
        return FeatureSplit(self.features[here], self.labels[here], images)

    def batches(
        self,
        batch_size: int,
        order: Tensor,
        stream: Stream | None = None,
        first_step: int = 0,
        part: Callable[[int], slice] | None = None,
    ) -> Iterator[Batch]:
        """Yield batches of the samples at `order`; features are never augmented."""
        order = order.to(self.labels.device)
        for _, index, rows in steps_of(batch_size, order, first_step, part):
            yield Batch(self.features[index[rows]], self.labels[index], index)


class FeatureCache:
    """Rows of features by the digest of the image, in one file that is written whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[bytes, np.ndarray[Any, Any]] = {}
        self.num_saved = 0
        # a file that is missing, damaged or not ours: its features are computed again
        with contextlib.suppress(OSError, ValueError, LookupError, zipfile.BadZipFile):
            with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
                digests = content["digests"]
                features = content["features"]
            self.rows = {bytes(key): row for key, row in zip(digests, features, strict=True)}
            self.num_saved = len(self.rows)

    def save(self) -> None:
        """Write all rows, if there are new ones and the folder can be written."""
        if len(self.rows) == self.num_saved:
            return
        digests = np.frombuffer(b"".join(self.rows), np.uint8).reshape(-1, DIGEST_BYTES)
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.path) as file:
                np.savez(file, digests=digests, features=np.stack(list(self.rows.values())))
            self.num_saved = len(self.rows)

    def features(self, split: Split, embed: Embed, report: Report) -> Tensor:
        """Return the features (N, D) of a split without augmentation; compute the missing ones."""
        found: list[np.ndarray[Any, Any]] = []
        last_save = time.monotonic()
        for batch in split.batches(EMBED_BATCH, torch.arange(len(split))):
            images = batch.inputs
            assert isinstance(images, Tensor)
            keys = [digest_of(image) for image in images]
            new = [row for row, key in enumerate(keys) if key not in self.rows]
            if new:
                rows = embed(images[new]).float().cpu().numpy()
                self.rows |= {keys[row]: values for row, values in zip(new, rows, strict=True)}
            found += [self.rows[key] for key in keys]
            report(len(images), len(new))
            if time.monotonic() - last_save > SECONDS_BETWEEN_SAVES:
                self.save()
                last_save = time.monotonic()
        self.save()
        return torch.from_numpy(np.stack(found))


def digest_of(image: Tensor) -> bytes:
    """Return a digest of what a model sees of an image."""
    pixels = image.detach().cpu().contiguous().numpy()
    digest = hashlib.blake2b(str(pixels.shape).encode(), digest_size=DIGEST_BYTES)
    digest.update(pixels.data)
    return digest.digest()


def feature_file(root: Path, backbone: str, dataset: str) -> Path:
    """Return the file of the data folder that remembers a backbone's features of a data set."""
    name = hashlib.sha256(dataset.encode()).hexdigest()[:16]
    return root / "features" / f"{backbone}-{name}.npz"


def with_features(
    splits: Splits,
    embed: Embed,
    cache: FeatureCache,
    report: Report,
    finish: Callable[[Tensor], Tensor],
) -> Splits:
    """Return the same splits with features instead of images; `finish` makes inputs of rows."""

    def split(part: Split) -> FeatureSplit:
        rows = cache.features(part, embed, report)
        return FeatureSplit(finish(rows), part.labels, part)

    return replace(
        splits,
        train=split(splits.train),
        val=split(splits.val),
        test=split(splits.test),
        unknown=splits.unknown and split(splits.unknown),
    )


def with_images(splits: Splits) -> Splits:
    """Return splits of features with the images that these were computed of; others as they are."""
    names = ("train", "val", "test", "unknown", "holdout")
    parts = {name: getattr(splits, name) for name in names}
    images = {
        name: part.images
        for name, part in parts.items()
        if isinstance(part, FeatureSplit) and part.images is not None
    }
    return replace(splits, **images)


def normalized_as(splits: Splits, mean: tuple[float, ...], std: tuple[float, ...]) -> Splits:
    """Return the splits with images normalized by these means and deviations; gray by their mean.

    >>> from socrates import data
    >>> splits = normalized_as(data.load("digits"), (0.4, 0.5, 0.6), (0.2, 0.2, 0.2))
    >>> splits.preparation
    Preparation(mean=(0.5,), std=(0.2,), shrink=True)
    """
    if splits.preparation is None:
        raise ValueError("a backbone takes images, and these data are of another kind")
    if splits.image_shape[0] == 1:
        mean = (round(sum(mean) / len(mean), 6),)
        std = (round(sum(std) / len(std), 6),)

    def split(part: Split) -> Split:
        if isinstance(part, ResidentImages):
            transform = replace(part.transform, mean=mean, std=std)
            return ResidentImages(part.images, part.labels, transform)
        if isinstance(part, StreamedImages):
            return replace(part, transform=replace(part.transform, mean=mean, std=std))
        raise ValueError(
            f"a backbone normalizes images itself, and {type(part).__name__} cannot be: use "
            "ResidentImages or StreamedImages"
        )

    preparation = Preparation(mean, std, splits.preparation.shrink)
    return replace(
        splits,
        train=split(splits.train),
        val=split(splits.val),
        test=split(splits.test),
        preparation=preparation,
        unknown=splits.unknown and split(splits.unknown),
    )
