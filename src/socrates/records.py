"""A run's directory: the interface between those who train and those who report.

experiment.json       what was asked for
epochs.jsonl          one line an epoch
checkpoint.pt         the state after the last whole epoch, until the run is finished
predictions/*.npz     logits and labels of val and test at kept epochs
evaluation.json       every metric under every reading and scaler, at the last kept epoch
evaluation-0025.json  the same at another kept epoch, if it was asked for
lock                  only while a process trains the run
finished.json         written last: its existence means that the run is whole
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from socrates.experiment import Experiment

Array = NDArray[Any]


class Predictions(NamedTuple):
    """Logits (N, C) or, with an unknown class, (N, C + 1); labels (N,); and C, the number of known classes."""

    logits: Array
    labels: Array
    num_classes: int


class Run:
    """A run directory, read or written.

    >>> import tempfile
    >>> from socrates.experiment import Part
    >>> experiment = Experiment(Part("digits"), Part("mlp"), Part("ce"))
    >>> run = Run.create(Path(tempfile.mkdtemp()), experiment)
    >>> run.append_epoch({"epoch": 1, "train_loss": 0.5})
    >>> run.epochs()
    [{'epoch': 1, 'train_loss': 0.5}]
    >>> run.finished
    False
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        if not (self.directory / "experiment.json").is_file():
            raise FileNotFoundError(f"{self.directory} is no run: it has no experiment.json")

    @classmethod
    def create(cls, root: Path | str, experiment: Experiment) -> Run:
        """The directory of an experiment below `root`, made if it is not there yet."""
        directory = Path(root) / experiment.name
        (directory / "predictions").mkdir(parents=True, exist_ok=True)
        if not (directory / "experiment.json").is_file():
            write_json(directory / "experiment.json", experiment.to_json())
        return cls(directory)

    @property
    def experiment(self) -> Experiment:
        """What was asked for."""
        return Experiment.from_json(read_json(self.directory / "experiment.json"))

    @property
    def finished(self) -> bool:
        """Whether the run is whole."""
        return (self.directory / "finished.json").is_file()

    @property
    def checkpoint(self) -> Path:
        """Where the training state is kept between epochs."""
        return self.directory / "checkpoint.pt"

    def append_epoch(self, record: dict[str, Any]) -> None:
        """One line, flushed to the disk; NaN is written as null."""
        line = json.dumps({key: _plain(value) for key, value in record.items()}) + "\n"
        path = self.directory / "epochs.jsonl"
        with named_errors(path), open(path, "a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def epochs(self) -> list[dict[str, Any]]:
        """The records so far; a last line that was cut short is left out."""
        path = self.directory / "epochs.jsonl"
        if not path.is_file():
            return []
        records: list[dict[str, Any]] = []
        lines = path.read_text().split("\n")
        for number, line in enumerate(lines):
            if not line:
                continue
            try:
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise ValueError(f"{line!r} is no record")
            except ValueError as error:
                if number == len(lines) - 1:  # no newline after it: the writer was stopped
                    break
                raise ValueError(f"{path}, line {number + 1} is damaged: {error}") from error
            records.append(record)
        return records

    def forget_epochs_after(self, epoch: int) -> None:
        """Drop records beyond an epoch, before training continues from there."""
        kept = [record for record in self.epochs() if record.get("epoch", math.inf) <= epoch]
        self.check_epochs(kept, epoch)
        _replace(self.directory / "epochs.jsonl", "".join(json.dumps(record) + "\n" for record in kept).encode())

    def check_epochs(self, records: list[dict[str, Any]], last: int) -> None:
        """Refuse records that are not those of the epochs 1 to `last`, each once and in order."""
        if [record.get("epoch") for record in records] != list(range(1, last + 1)):
            raise ValueError(
                f"{self.directory / 'epochs.jsonl'} holds {len(records)} records that are not those of the epochs 1 to "
                f"{last}: some were lost. Restore the file, or delete {self.directory} to train the run from the start"
            )

    def predictions_path(self, split: str, epoch: int) -> Path:
        """Where the logits of a split are kept, if they are."""
        return self.directory / "predictions" / f"{split}-{epoch:04d}.npz"

    def save_predictions(self, split: str, epoch: int, logits: Array, labels: Array, num_classes: int) -> None:
        """Keep the logits of a split; every metric can be computed from them later."""
        path = self.predictions_path(split, epoch)
        arrays = {"logits": logits.astype(np.float32), "labels": labels.astype(np.int32)}
        with replacing(path) as file:
            np.savez_compressed(file, **arrays, num_classes=np.int32(num_classes))

    def kept_epochs(self) -> list[int]:
        """Epochs of which both val and test logits are there, in order."""
        found = {path.stem for path in (self.directory / "predictions").glob("*.npz")}
        return sorted(int(name[4:]) for name in found if name.startswith("val-") and f"test-{name[4:]}" in found)

    def predictions(self, split: str, epoch: int) -> Predictions:
        """Logits and labels of a split at an epoch."""
        path = self.predictions_path(split, epoch)
        try:
            with open(path, "rb") as file, np.load(file) as stored:
                return Predictions(stored["logits"], stored["labels"], int(stored["num_classes"]))
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} is not there; kept epochs: {self.kept_epochs()}") from None
        except Exception as error:  # numpy raises zipfile, zlib and pickle errors alike for a damaged file
            raise ValueError(f"{path} is damaged ({error}): delete {self.directory} and train the run again") from error

    def save_evaluation(self, evaluation: dict[str, Any]) -> Path:
        """Write evaluation.json, which reports read; of an epoch before the last kept one, a file beside it."""
        kept = self.kept_epochs()
        earlier = bool(kept) and evaluation.get("epoch", kept[-1]) != kept[-1]
        path = self.directory / (f"evaluation-{evaluation['epoch']:04d}.json" if earlier else "evaluation.json")
        write_json(path, evaluation)
        return path

    def evaluation(self) -> dict[str, Any]:
        """Read evaluation.json."""
        return read_json(self.directory / "evaluation.json")

    def finish(self, summary: dict[str, Any]) -> None:
        """Mark the run as whole; its checkpoint is no longer needed."""
        write_json(self.directory / "finished.json", summary)
        self.checkpoint.unlink(missing_ok=True)

    def summary(self) -> dict[str, Any]:
        """What `finish` wrote."""
        return read_json(self.directory / "finished.json")


def write_json(path: Path, value: Any) -> None:
    """Write a file whole or not at all."""
    _replace(path, (json.dumps(_plain(value), indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file; a damaged one is named."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there: the run has not come that far") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` once it is whole and on the disk; if that fails nothing has changed."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with named_errors(path):
            with open(temporary, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Errors of the disk with the file that could not be written, and what to do."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full: free some space" if full else error.strerror or str(error)
        raise OSError(f"{path} could not be written: {reason}") from error


def _replace(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: both become null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
