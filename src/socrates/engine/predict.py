"""Predictions for image files: found, decoded and written as a stream, so that any number of them fits."""

from __future__ import annotations

import csv
import glob
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL.Image import Resampling
from torch import Tensor

from socrates.data.folder import SUFFIXES, class_names, is_image, list_images
from socrates.data.streamed import as_rgb, centre_crop, opened
from socrates.experiment import check_whole
from socrates.files import no_formula, replacing
from socrates.predictor import BATCH, NOT_NEW, Description, Predictor

WORKERS = 8
Row = dict[str, Any]
Write = Callable[[Sequence[Row]], None]


@dataclass
class Found:
    """How a prediction of files went."""

    images: int = 0
    answered: int = 0
    unreadable: dict[Path, str] = field(default_factory=dict)


def find_images(words: Sequence[str | Path]) -> list[Path]:
    """The image files that words name: files, folders with all below them, or patterns such as `new/*.png`.

    >>> find_images(["no/such/*.png"])
    Traceback (most recent call last):
    ValueError: 'no/such/*.png' names no image: give files, folders or patterns of image files (.bmp, ...)
    """
    found: dict[Path, None] = {}
    for word in map(str, words):
        path = Path(word).expanduser()
        if path.is_dir():
            here = [file for file in sorted(path.rglob("*")) if is_image(file, path)]
        else:
            names = [path] if path.exists() else sorted(glob.glob(str(path), recursive=True))
            here = [file for file in map(Path, names) if file.is_file()]
        if not here:
            known = ", ".join(sorted(SUFFIXES))
            raise ValueError(f"{word!r} names no image: give files, folders or patterns of image files ({known})")
        found |= dict.fromkeys(here)
    return list(found)


def read_image(path: Path, about: Description) -> Tensor:
    """A file as the model was shown its images: uint8 (channels, height, width), the middle of it in a square."""
    channels, height, width = about.image_shape
    if about.preparation is None or channels not in (1, 3):
        raise ValueError(f"{about.model} takes no grey or RGB images that files could be made into: give it tensors")
    with opened(path) as file:
        image = as_rgb(file)
    if height == width:
        image = centre_crop(image, height, about.preparation.shrink)
    else:
        image = image.resize((width, height), Resampling.BILINEAR)
    pixels = torch.from_numpy(np.array(image if channels == 3 else image.convert("L")))
    return pixels.permute(2, 0, 1) if channels == 3 else pixels[None]


def batches(
    files: Sequence[Path], about: Description, unreadable: dict[Path, str], size: int = BATCH
) -> Iterator[tuple[list[Path], Tensor]]:
    """Files and their images, the next batch being decoded meanwhile; those that cannot be read are put aside."""
    check_whole("batch_size", size, above=0)

    def read(path: Path) -> Tensor | str:
        try:
            return read_image(path, about)
        except (OSError, ValueError) as error:
            return str(error)
        except Exception as error:  # Pillow raises many kinds for a damaged file
            return f"{path}: not a readable image ({error!r})"

    with ThreadPoolExecutor(WORKERS) as pool:
        coming = pool.map(read, files[:size])
        for start in range(0, len(files), size):
            here, coming = coming, pool.map(read, files[start + size : start + 2 * size])
            both = dict(zip(files[start : start + size], here, strict=True))
            unreadable |= {path: image for path, image in both.items() if isinstance(image, str)}
            images = {path: image for path, image in both.items() if isinstance(image, Tensor)}
            if images:
                yield list(images), torch.stack(list(images.values()))


def predict_files(
    predictor: Predictor,
    files: Sequence[Path],
    write: Write,
    batch_size: int = BATCH,
    tell: Callable[[int], None] = lambda done: None,
) -> Found:
    """Predict every file and hand the rows on, a batch at a time; `tell` hears how many files are done."""
    found = Found()
    for paths, images in batches(files, predictor.about, found.unreadable, batch_size):
        rows = rows_of(predictor, paths, images)
        write(rows)
        found.images += len(rows)
        found.answered += sum(row["answered"] for row in rows)
        tell(found.images + len(found.unreadable))
    tell(len(files))
    return found


def rows_of(predictor: Predictor, paths: Sequence[Path], images: Tensor) -> list[Row]:
    """One row a file: path, predicted name, confidence, belief in unknown, whether it is answered, and each class."""
    logits = predictor.logits(images, len(images))
    found, names, called = predictor.prediction(logits), columns(predictor), [*predictor.classes, "unknown"]
    unknown = predictor.scaled(logits).softmax(dim=1)[:, -1].tolist() if predictor.about.unknown_class else None
    parts = (found.predicted, found.confidence, found.answered, found.probs)
    rows = zip(paths, unknown or [None] * len(paths), *(torch.as_tensor(part).tolist() for part in parts), strict=True)
    return [  # unknown as an answer has its column already
        dict(zip(names, (printable(path), called[best], confidence, belief, answered, *probs), strict=False))
        for path, belief, best, confidence, answered, probs in rows
    ]


def printable(path: Path) -> str:
    """A path as text that every file format takes, whatever bytes its name has."""
    return os.fsencode(path).decode(errors="replace")


def columns(predictor: Predictor) -> list[str]:
    """The columns of a row; the classes have their names, told apart from the others.

    >>> ROW
    ('path', 'predicted', 'confidence', 'unknown', 'answered')
    """
    alike = set(ROW) & set(predictor.classes)
    return [*ROW, *(f"class {name}" if alike else name for name in predictor.classes)]


ROW = ("path", "predicted", "confidence", "unknown", "answered")


@contextmanager
def writing(path: Path | None, predictor: Predictor) -> Iterator[Write]:
    """A function that writes rows to a .csv, .jsonl or .parquet file, which is there once it is whole."""
    if path is None:
        yield lambda rows: None
        return
    writers = {".csv": _csv, ".jsonl": _json_lines, ".parquet": _parquet}
    if path.suffix.lower() not in writers:
        raise ValueError(f"predictions are written to {', '.join(writers)} files, got {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file, writers[path.suffix.lower()](file, columns(predictor)) as write:
        yield write


@contextmanager
def _csv(file: Any, names: list[str]) -> Iterator[Write]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(map(no_formula, names))
    yield lambda rows: writer.writerows([no_formula(row.get(name, "")) for name in names] for row in rows)
    text.detach()


@contextmanager
def _json_lines(file: Any, _: list[str]) -> Iterator[Write]:
    yield lambda rows: file.write("".join(json.dumps(row) + "\n" for row in rows).encode())


@contextmanager
def _parquet(file: Any, names: list[str]) -> Iterator[Write]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            "a .parquet file needs pyarrow: pip install 'socrates-loss[parquet]', or write .csv"
        ) from error
    kinds = {"path": arrow.string(), "predicted": arrow.string(), "answered": arrow.bool_()}
    schema = arrow.schema([(name, kinds.get(name, arrow.float64())) for name in names])
    with parquet.ParquetWriter(file, schema) as writer:
        yield lambda rows: writer.write_table(arrow.Table.from_pylist(list(rows), schema))


def labelled_logits(predictor: Predictor, folder: Path) -> tuple[Tensor, Tensor]:
    """Logits and labels of a folder with a sub-folder for each class, whose images must be new to the model."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder: expected labelled images, a sub-folder for each class")
    here = class_names(folder)
    if not here or set(here) - set(predictor.classes):
        raise ValueError(
            f"{folder} has the sub-folders {here}, expected some of the model's classes {predictor.classes}"
        )
    refuse_training_folder(folder, str(predictor.about.facts.get("dataset", "")))
    files, positions = list_images(folder, here)
    label_of = dict(zip(files, (predictor.classes.index(here[position]) for position in positions), strict=True))
    unreadable: dict[Path, str] = {}
    found: list[Tensor] = []
    labels: list[int] = []
    for paths, images in batches(files.tolist(), predictor.about, unreadable):
        if known := predictor.seen_rows(images):
            raise ValueError(f"{folder}: {paths[known[0]]} and {len(known) - 1} more {NOT_NEW}")
        found.append(predictor.logits(images, len(images)))
        labels += [label_of[path] for path in paths]
    if unreadable:
        why = next(iter(unreadable.values()))
        raise ValueError(f"{folder}: {len(unreadable)} images cannot be read; the first: {why}")
    return torch.cat(found), torch.tensor(labels)


def refuse_training_folder(folder: Path, dataset: str) -> None:
    """Refuse a folder that trained the model, chose its epoch or fitted its scaler; its test folder did none of it."""
    kind, _, path = dataset.partition(":")
    if kind != "folder":
        return
    place, trained = folder.resolve(), Path(path).expanduser().resolve()
    tests = (trained / "train").is_dir() and place.is_relative_to(trained / "test")
    if place.is_relative_to(trained) and not tests:
        raise ValueError(f"{folder} belongs to the images that {NOT_NEW}")
