"""What a run's data are, told by names and contents alone: a copied folder, or another machine, agrees."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from socrates.contracts import Splits, image_hash

from . import data_root
from .download import THREADS, hashed
from .folder import list_parts
from .resident import ResidentImages
from .streamed import StreamedImages

SPLITS = ("train", "val", "test")
ROWS = 1024  # of an array that are hashed at once
SETTLED = 2 * 10**9  # nanoseconds after which a change must show in a file's time


@dataclass(frozen=True)
class Fingerprint:
    """The classes of a data set, the samples of each part, the bytes of all, and a digest of names and contents.

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
        """What is not as it was, in a few words; None if all is."""
        new, gone = (sorted(set(a) - set(b)) for a, b in ((now.classes, self.classes), (self.classes, now.classes)))
        words = [f"the class {name} is {how}" for how, names in (("new", new), ("gone", gone)) for name in names[:3]]
        if not words:
            counts = [(part, self.samples.get(part, 0), now.samples.get(part, 0)) for part in SPLITS]
            words = [f"{part} has {after:,} samples, not {old:,}" for part, old, after in counts if old != after]
        if not words and self != now:
            sizes = f" ({now.num_bytes:,} bytes, not {self.num_bytes:,})" if self.num_bytes != now.num_bytes else ""
            words = [f"names or contents of the samples differ{sizes}"]
        return ", ".join(words) or None

    @classmethod
    def from_json(cls, plain: Any) -> Fingerprint:
        """What stands in data.json."""
        return cls(tuple(plain["classes"]), dict(plain["samples"]), int(plain["num_bytes"]), str(plain["content"]))


def fingerprint(name: str, splits: Callable[[], Splits], root: Path | None = None) -> Fingerprint:
    """The fingerprint of the data set of that name; `splits` is called only where its files alone do not tell.

    Files are hashed once: `hashes` in the data folder remembers those whose size and time stay.

    >>> from socrates import data
    >>> found = fingerprint("digits", lambda: data.load("digits"))
    >>> found.samples, found.num_bytes
    ({'train': 300, 'val': 300, 'test': 1197}, 115008)
    """
    kind, _, path = name.partition(":")
    if kind == "folder" and path:
        folder = Path(path).expanduser()
        listings, classes = list_parts(folder)
        files = {file.relative_to(folder).as_posix(): file for listed, _ in listings.values() for file in listed}
        digest, num_bytes = _of_files(files, folder, root)
        return Fingerprint(tuple(classes), {part: len(pair[0]) for part, pair in listings.items()}, num_bytes, digest)
    return of_splits(splits(), root)


def of_splits(splits: Splits, root: Path | None = None) -> Fingerprint:
    """The fingerprint of loaded data: of their labels, and of images that are resident or streamed from files."""
    digest, num_bytes, streamed = hashlib.sha256(), 0, list[Path]()
    parts = {name: getattr(splits, name) for name in SPLITS}
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
        contents, num_bytes = _of_files(dict(zip(names, streamed, strict=True)), folder, root)
        digest.update(os.fsencode("\n".join([contents, *names])))
    counts = {name: len(split) for name, split in parts.items()}
    return Fingerprint(splits.class_names, counts, num_bytes, digest.hexdigest())


def seen_images(splits: Splits) -> Tensor:
    """The hashes of all images that train a model, choose its epoch or fit its scaler, where they are resident."""
    parts = [part for part in (splits.train, splits.val) if isinstance(part, ResidentImages)]
    return torch.tensor([image_hash(image) for part in parts for image in part.images.cpu()], dtype=torch.int64)


def _of_files(files: Mapping[str, Path], folder: Path, root: Path | None) -> tuple[str, int]:
    """A digest of the names and contents of a folder's files, and their size; hashed are those that are not known."""
    memory = data_root(root) / "hashes" / f"{hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:32]}.json"
    known = _recall(memory)
    looks = {name: os.stat(path) for name, path in files.items()}
    keys = {name: [look.st_size, look.st_mtime_ns] for name, look in looks.items()}
    missing = [name for name in files if known.get(name, [])[:2] != keys[name]]
    with ThreadPoolExecutor(THREADS) as pool:
        fresh = dict(zip(missing, pool.map(hashed, (files[name] for name in missing)), strict=True))
    hashes = {name: fresh.get(name) or known[name][2] for name in files}
    if missing:
        settled = time.time_ns() - SETTLED
        _remember(memory, {name: [*keys[name], hashes[name]] for name in files if keys[name][1] < settled})
    lines = "".join(f"{name}\0{hashes[name]}\n" for name in sorted(files))
    return hashlib.sha256(os.fsencode(lines)).hexdigest(), sum(size for size, _ in keys.values())


def _recall(path: Path) -> dict[str, Any]:
    """What was remembered; nothing if it is damaged, which its first line tells."""
    with contextlib.suppress(OSError, ValueError):
        check, _, text = path.read_text().partition("\n")
        if check == hashlib.sha256(text.encode()).hexdigest():
            return json.loads(text)
    return {}


def _remember(path: Path, values: dict[str, Any]) -> None:
    """For the next time, if the folder can be written."""
    text = json.dumps(values)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
        os.replace(temporary, path)
