"""Fingerprints of data, of names and contents alone: a copy on another machine has the same."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from socrates.contracts import Split, Splits

from .download import file_digest
from .features import FeatureSplit, with_images
from .folder import FolderListing, FolderSplits, files_by_name, list_folder
from .image import fitted
from .memory import remembered
from .resident import ResidentImages
from .streamed import StreamedImages
from .thumbnail import thumbnails

SPLITS = ("train", "val", "test")
ROWS = 1024  # images of an array that are hashed at once


@dataclass(frozen=True)
class Fingerprint:
    """The classes, sample counts and size of a data set, and a digest of names and contents.

    >>> before = Fingerprint(("cat", "dog"), {"train": 8, "test": 2}, 700, "5f")
    >>> before.difference(Fingerprint(("cat", "dog"), {"train": 9, "test": 2}, 800, "c0"))
    'train has 9 samples, not 8'
    >>> before.difference(Fingerprint(("cat", "cow"), {"train": 8, "test": 2}, 700, "a1"))
    'the class cow is new, the class dog is gone'
    """

    classes: tuple[str, ...]
    samples: Mapping[str, int]
    num_bytes: int
    content: str

    def difference(self, now: Fingerprint) -> str | None:
        """Return in a few words what is different now, or None if nothing is."""
        new = sorted(set(now.classes) - set(self.classes))
        gone = sorted(set(self.classes) - set(now.classes))
        changes = [f"the class {name} is new" for name in new[:3]]
        changes += [f"the class {name} is gone" for name in gone[:3]]
        if not changes:
            for part in SPLITS:
                before = self.samples.get(part, 0)
                after = now.samples.get(part, 0)
                if before != after:
                    changes.append(f"{part} has {after:,} samples, not {before:,}")
        if not changes and self != now:
            sizes = ""
            if self.num_bytes != now.num_bytes:
                sizes = f" ({now.num_bytes:,} bytes, not {self.num_bytes:,})"
            changes = [f"names or contents of the samples differ{sizes}"]
        return ", ".join(changes) or None

    @classmethod
    def from_json(cls, plain: Any) -> Fingerprint:
        """Return the fingerprint that a run's data.json holds."""
        return cls(
            tuple(plain["classes"]),
            dict(plain["samples"]),
            int(plain["num_bytes"]),
            str(plain["content"]),
        )


def fingerprint(name: str, load: Callable[[], Splits], root: Path | None = None) -> Fingerprint:
    """Return the fingerprint of the data set of that name.

    `load` is called only where the files alone are not enough. Files are hashed once: `hashes` in
    the data folder remembers those whose size and time stay.

    >>> from socrates import data
    >>> digits = fingerprint("digits", lambda: data.load("digits"))
    >>> digits.samples, digits.num_bytes
    ({'train': 300, 'val': 300, 'test': 1197}, 115008)
    """
    kind, _, path = name.partition(":")
    if kind == "folder" and path:
        return _of_listing(list_folder(Path(path).expanduser()), root)
    return _of_splits(load(), root)


def fingerprint_loaded(name: str, splits: Splits, root: Path | None = None) -> Fingerprint:
    """Return the same fingerprint of data that are loaded; a folder is not listed again."""
    is_folder = name.startswith("folder:")
    if is_folder and isinstance(splits, FolderSplits) and splits.listing is not None:
        return _of_listing(splits.listing, root)
    return fingerprint(name, lambda: splits, root)


def _of_listing(listing: FolderListing, root: Path | None) -> Fingerprint:
    """Return the fingerprint of a folder of images, from its files."""
    digest, num_bytes = _digest_of_files(files_by_name(listing), listing.path, root)
    return Fingerprint(tuple(listing.classes), listing.counts, num_bytes, digest)


def _of_splits(splits: Splits, root: Path | None) -> Fingerprint:
    """Return the fingerprint of loaded data: of their labels, and of their images.

    Images of other kinds of split than those of this package are left out.
    """
    splits = with_images(splits)
    digest = hashlib.sha256()
    num_bytes = 0
    streamed: list[Path] = []
    parts = {name: getattr(splits, name) for name in SPLITS}
    if splits.unknown is not None:
        parts["unknown"] = splits.unknown
    for name, split in parts.items():
        digest.update(f"{name} {len(split)}".encode() + split.labels.cpu().numpy().tobytes())
        if isinstance(split, ResidentImages):
            num_bytes += split.images.numel()
            for rows in split.images.split(ROWS):
                digest.update(rows.cpu().contiguous().numpy().data)
        elif isinstance(split, StreamedImages):
            streamed += split.paths
    if streamed:
        folder = Path(os.path.commonpath([path.absolute().parent for path in streamed]))
        names = [path.absolute().relative_to(folder).as_posix() for path in streamed]
        files = dict(zip(names, streamed, strict=True))
        contents, num_bytes = _digest_of_files(files, folder, root)
        digest.update(os.fsencode("\n".join([contents, *names])))
    counts = {name: len(split) for name, split in parts.items()}
    return Fingerprint(splits.class_names, counts, num_bytes, digest.hexdigest())


def seen_images(splits: Splits) -> Tensor:
    """Return thumbnails of all images in memory that train or validate.

    These are the images that train a model, choose its epoch or fit its scaler.
    """
    seen = (splits.train, splits.val, splits.holdout)
    return torch.cat([thumbnails_of(part) for part in seen if part is not None])


def thumbnails_of(part: Split) -> Tensor:
    """Return thumbnails of the images of a split, none if they are not in memory."""
    images = part.images if isinstance(part, FeatureSplit) else part
    if not isinstance(images, ResidentImages):
        return thumbnails(torch.zeros(0, 1, 1, 1))
    return thumbnails(_seen_part(images))


def _seen_part(part: ResidentImages) -> Tensor:
    """Return the part of images that the model sees: the middle, where they become squares."""
    shorter = min(part.images.shape[2:])
    if part.transform.size is None or part.images.shape[2] == part.images.shape[3]:
        return part.images
    return fitted(part.images, (shorter, shorter))


def _digest_of_files(files: Mapping[str, Path], folder: Path, root: Path | None) -> tuple[str, int]:
    """Return a digest of the names and contents of a folder's files, and their size in bytes."""
    hashes, num_bytes = remembered(files, folder, file_digest, root)
    lines = "".join(f"{name}\0{hashes[name]}\n" for name in sorted(files))
    return hashlib.sha256(os.fsencode(lines)).hexdigest(), num_bytes
