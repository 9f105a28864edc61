"""Predictions for image files, read and written as a stream, so that any number of them fits."""

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

import torch
from torch import Tensor

from socrates.data.folder import image_files
from socrates.data.image import image_tensor
from socrates.data.unreadable import (
    SUFFIXES,
    UNSUPPORTED,
    UnreadableImage,
    unsupported,
)
from socrates.experiment import check_whole
from socrates.files import check_output, clear_beside, no_formula, replacing
from socrates.predictor import BATCH, Description, Predictor

WORKERS = 8
FORMATS = (".csv", ".jsonl", ".parquet")  # of the files that predictions are written to
ROW = (
    "path",
    "predicted",
    "confidence",
    "unknown",
    "novelty",
    "answered",
    "error",
)  # before the classes
Row = dict[str, Any]
Write = Callable[[Sequence[Row]], None]


@dataclass
class FilesPredicted:
    """How many image files were predicted and answered, and why some could not be read."""

    images: int = 0
    answered: int = 0
    unreadable: dict[Path, UnreadableImage] = field(default_factory=dict)


def find_images(words: Sequence[str | Path]) -> list[Path]:
    """Return the image files that words name: files, whole folders, or patterns as `new/*.png`.

    Of a folder, images of unsupported formats are among them, so that they are reported.

    >>> find_images(["no/such/*.png"])
    Traceback (most recent call last):
    ValueError: 'no/such/*.png' names no image: pass files, folders or patterns of image
    files (.bmp, ...)
    """
    images: dict[Path, None] = {}
    for word in map(str, words):
        path = Path(word).expanduser()
        if path.is_dir():
            images_there, unread = image_files(path, path)
            files = sorted([*images_there, *unread])
        else:
            names = [path] if path.exists() else sorted(glob.glob(str(path), recursive=True))
            files = [file for file in map(Path, names) if file.is_file()]
        if not files:
            known = ", ".join(sorted(SUFFIXES))
            raise ValueError(
                f"{word!r} names no image: pass files, folders or patterns of image files ({known})"
            )
        images |= dict.fromkeys(files)
    return list(images)


def read_image(path: Path, about: Description) -> Tensor:
    """Read a file as the model was trained on images: uint8 (channels, height, width)."""
    shrink = about.preparation is None or about.preparation.shrink
    return image_tensor(path, about.image_shape, shrink)


def batches(
    files: Sequence[Path],
    about: Description,
    unreadable: dict[Path, UnreadableImage],
    size: int = BATCH,
) -> Iterator[tuple[list[Path], Tensor]]:
    """Yield files and their images, while the next batch is being decoded.

    Files that cannot be read are put into `unreadable`, each with the reason.
    """
    check_whole("batch_size", size, above=0)

    if about.preparation is None or about.image_shape[0] not in (1, 3):
        raise ValueError(
            f"{about.model} takes no gray or RGB images that files could be read into: pass it "
            "tensors"
        )

    def read(path: Path) -> Tensor | UnreadableImage:
        if path.suffix.lower() in UNSUPPORTED:
            return unsupported(path)
        try:
            return read_image(path, about)
        except UnreadableImage as error:
            return error
        except (OSError, ValueError) as error:
            return UnreadableImage(f"{path}: {error}", "not readable")

    with ThreadPoolExecutor(WORKERS) as pool:
        next_batch = pool.map(read, files[:size])
        for start in range(0, len(files), size):
            batch = next_batch
            next_batch = pool.map(read, files[start + size : start + 2 * size])
            decoded = dict(zip(files[start : start + size], batch, strict=True))
            images: dict[Path, Tensor] = {}
            for path, image in decoded.items():
                if isinstance(image, Tensor):
                    images[path] = image
                else:
                    unreadable[path] = image
            if images:
                yield list(images), torch.stack(list(images.values()))


def predict_files(
    predictor: Predictor,
    files: Sequence[Path],
    write: Write,
    batch_size: int = BATCH,
    tell: Callable[[int], None] = lambda done: None,
) -> FilesPredicted:
    """Predict every file, write the rows of a batch at a time, and report how many are done.

    A file that cannot be read has a row, too, with nothing but its path and the error.
    """
    done = FilesPredicted()
    place = {path: number for number, path in enumerate(files)}
    num_written = 0  # of the rows of unreadable files

    def new_errors() -> dict[Path, Row]:
        nonlocal num_written
        errors = list(done.unreadable.items())[num_written:]
        num_written += len(errors)
        return {path: error_row(path, error) for path, error in errors}

    for paths, images in batches(files, predictor.about, done.unreadable, batch_size):
        rows = dict(zip(paths, rows_of(predictor, paths, images), strict=True))
        done.images += len(rows)
        done.answered += sum(row["answered"] for row in rows.values())
        rows |= new_errors()
        write([rows[path] for path in sorted(rows, key=place.__getitem__)])
        tell(done.images + len(done.unreadable))
    if last := new_errors():
        write(list(last.values()))
    tell(len(files))
    return done


def error_row(path: Path, error: UnreadableImage) -> Row:
    """Return the row of a file that cannot be read."""
    return {**dict.fromkeys(ROW), "path": printable(path), "error": error.in_words}


def rows_of(predictor: Predictor, paths: Sequence[Path], images: Tensor) -> list[Row]:
    """Return one row per file: the columns of `ROW`, and each class."""
    logits, novelty = predictor.measure(images, len(images))
    prediction = predictor.prediction(logits, novelty)
    answers = [*predictor.classes, "unknown"]
    unknown: list[Any] = [None] * len(paths)
    if predictor.about.unknown_class:
        unknown = predictor.scaled(logits).softmax(dim=1)[:, -1].tolist()
    values = zip(
        map(printable, paths),
        [answers[best] for best in torch.as_tensor(prediction.predicted).tolist()],
        torch.as_tensor(prediction.confidence).tolist(),
        unknown,
        [None] * len(paths) if novelty is None else novelty.tolist(),
        torch.as_tensor(prediction.answered).tolist(),
        [None] * len(paths),
        *torch.as_tensor(prediction.probs).T.tolist(),
        strict=True,
    )
    names = columns(predictor)
    # where unknown is an answer, it has a column already: its probability is left out
    return [dict(zip(names, row, strict=False)) for row in values]


def printable(path: Path) -> str:
    """Return a path as text that every file format takes, whatever bytes its name has."""
    return os.fsencode(path).decode(errors="replace")


def columns(predictor: Predictor) -> list[str]:
    """Return the columns of a row: those of `ROW`, and one for each class."""
    is_ambiguous = bool(set(ROW) & set(predictor.classes))
    return [*ROW, *(f"class {name}" if is_ambiguous else name for name in predictor.classes)]


def check_table(path: Path) -> None:
    """Refuse a path to which predictions cannot be written, before anything is computed."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(
            f"predictions are written to {', '.join(FORMATS)} files, got {path.name!r}"
        )
    check_output(path)


@contextmanager
def writing(path: Path | None, predictor: Predictor) -> Iterator[Write]:
    """Yield a function that writes rows to a .csv, .jsonl or .parquet file, whole or not at all."""
    if path is None:
        yield lambda rows: None
        return
    check_table(path)
    writers: dict[str, Any] = {".csv": _csv, ".jsonl": _json_lines, ".parquet": _parquet}
    path.parent.mkdir(parents=True, exist_ok=True)
    clear_beside(path)
    with replacing(path) as file, writers[path.suffix.lower()](file, columns(predictor)) as write:
        yield write


@contextmanager
def _csv(file: Any, names: list[str]) -> Iterator[Write]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(map(no_formula, names))
    yield lambda rows: writer.writerows(
        [no_formula(row.get(name, "")) for name in names] for row in rows
    )
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
    kinds: dict[str, Any] = {"answered": arrow.bool_()}
    for name in ("path", "predicted", "error"):
        kinds[name] = arrow.string()
    schema = arrow.schema([(name, kinds.get(name, arrow.float64())) for name in names])
    with parquet.ParquetWriter(file, schema) as writer:
        yield lambda rows: writer.write_table(arrow.Table.from_pylist(list(rows), schema))
