"""A run: its directory, read and written."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from socrates.data.fingerprint import Fingerprint
from socrates.experiment import Experiment, resolve
from socrates.files import named_errors, reason_of, replace_text, to_json, write_json
from socrates.identity import (
    EXPERIMENT_FILE,
    FINISHED_FILE,
    RESTORE,
    ForeignFile,
    Identity,
    read_signed,
    signed,
    unsigned,
)
from socrates.records.epochs import EpochRecord, best_epoch
from socrates.records.evaluation import Evaluation
from socrates.records.predictions import Array, Predictions

Read = TypeVar("Read")
EVALUATE_AGAIN = "socrates evaluate writes it again"
LEFT_BY_TRAINING = (
    FINISHED_FILE,
    "*.safetensors",
    "data.json",
    "evaluation*.json",
    "epochs.jsonl",
    "checkpoint*",
    "predictions/*",
)


class Run:
    """A run directory, read or written.

    >>> import tempfile
    >>> from socrates.experiment import Part
    >>> experiment = Experiment(Part("digits"), Part("mlp"), Part("ce"))
    >>> run = Run.create(Path(tempfile.mkdtemp()), experiment)
    >>> run.append_epoch(EpochRecord(1, {"train_loss": 0.5}))
    >>> run.epochs()
    [EpochRecord(epoch=1, values={'train_loss': 0.5}, collapsed=None)]
    >>> run.finished
    False
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        if not (self.directory / EXPERIMENT_FILE).is_file():
            raise FileNotFoundError(f"{self.directory} is not a run: it has no experiment.json")

    @classmethod
    def create(cls, root: Path | str, experiment: Experiment) -> Run:
        """Return the run of an experiment below `root`; make its directory if it is missing."""
        directory = cls.directory_of(root, experiment)
        (directory / "predictions").mkdir(parents=True, exist_ok=True)
        if not (directory / EXPERIMENT_FILE).is_file():
            content = signed(experiment.name, experiment.to_json())
            write_json(directory / EXPERIMENT_FILE, content)
        return cls(directory)

    @staticmethod
    def directory_of(root: Path | str, experiment: Experiment) -> Path:
        """Return where an experiment is or will be."""
        return Path(root) / experiment.name

    @staticmethod
    def of_these_parts(
        root: Path | str, experiment: Experiment
    ) -> Iterator[tuple[Run, Experiment]]:
        """Yield the runs of the same data set, model, method and seed, and their experiments.

        Damaged ones are left out.
        """
        pattern = (
            f"{glob.escape(experiment.readable_name())}*"
            f"-seed{experiment.seed}-????????/experiment.json"
        )
        for path in sorted(Path(root).glob(pattern)):
            # a damaged run is reported by who reads that run
            with contextlib.suppress(ValueError, LookupError, TypeError, OSError):
                run = Run(path.parent)
                experiment_of_run = run.experiment
                yield run, experiment_of_run

    @cached_property
    def experiment(self) -> Experiment:
        """Return the resolved experiment that the run was started with; the file is read once."""
        return read_signed(self.directory / EXPERIMENT_FILE, read_experiment)[1]

    @cached_property
    def identity(self) -> Identity:
        """Return the name that all files of the run carry; its folder may have another name."""
        return Identity(read_signed(self.directory / EXPERIMENT_FILE, dict)[0])

    @property
    def data(self) -> Fingerprint | None:
        """Return what the data were when the run began; None if that is not known."""
        with contextlib.suppress(FileNotFoundError):
            advice = "delete it if the data are still the same"
            return self._read("data.json", Fingerprint.from_json, advice)

    def save_data(self, data: Fingerprint) -> None:
        """Write the fingerprint of the data to data.json."""
        self._write("data.json", asdict(data))

    @property
    def finished(self) -> bool:
        """Return whether the run is whole."""
        return (self.directory / FINISHED_FILE).is_file()

    @property
    def checkpoint(self) -> Path:
        """Return where the training state is kept until the run is finished."""
        return self.directory / "checkpoint.pt"

    def append_epoch(self, record: EpochRecord) -> None:
        """Append one line and flush it to the disk; NaN is written as null."""
        path = self.directory / "epochs.jsonl"
        with named_errors(path), open(path, "a", encoding="utf-8") as file:
            file.write(self._line(record))
            file.flush()
            os.fsync(file.fileno())

    def _line(self, record: EpochRecord) -> str:
        return to_json(signed(self.identity.run, record.to_json()))

    def epochs(self) -> list[EpochRecord]:
        """Return the records so far; a last line that was cut short is left out."""
        path = self.directory / "epochs.jsonl"
        records: list[EpochRecord] = []
        lines = path.read_bytes().split(b"\n") if path.is_file() else []
        for number, line in enumerate(lines, start=1):
            if not line:
                continue
            try:
                run, record = unsigned(json.loads(line), EpochRecord.from_json)
            except ForeignFile as error:
                raise ForeignFile(f"{path}, line {number} cannot be read: {error}") from error
            except (ValueError, LookupError, RecursionError) as error:
                if number == len(lines):
                    break  # it has no newline after it: the writer was stopped
                reason = reason_of(error)
                raise ValueError(f"{path}, line {number} is damaged: {reason}") from error
            self.identity.check(path, Identity(run), self.directory)
            records.append(record)
        return records

    def epochs_until(self, last: int) -> list[EpochRecord]:
        """Return the records of the epochs 1 to `last`; refuse gaps, repetitions and disorder."""
        records = [record for record in self.epochs() if record.epoch <= last]
        if [record.epoch for record in records] != list(range(1, last + 1)):
            raise ValueError(
                f"{self.directory / 'epochs.jsonl'} holds {len(records)} records that are not "
                f"those of the epochs 1 to {last}: some were lost. Restore the file, or delete "
                f"{self.directory} to train the run from the start"
            )
        return records

    def forget_epochs_after(self, epoch: int) -> None:
        """Drop records beyond an epoch, before training continues from there."""
        lines = [self._line(record) for record in self.epochs_until(epoch)]
        replace_text(self.directory / "epochs.jsonl", "".join(lines))

    def predictions_path(self, split: str, epoch: int) -> Path:
        """Return where the logits of a split are kept, if they are."""
        return self.directory / "predictions" / f"{split}-{epoch:04d}.npz"

    def save_predictions(
        self,
        split: str,
        epoch: int,
        logits: Array,
        labels: Array,
        num_classes: int,
        novelty: Array | None = None,
    ) -> None:
        """Keep the logits of a split, with their novelty: every metric can be computed later."""
        identity = self.identity._replace(epoch=epoch, split=split)
        path = self.predictions_path(split, epoch)
        Predictions(logits, labels, num_classes, novelty).write(path, identity)

    def kept_epochs(self) -> list[int]:
        """Return the epochs of which both val and test logits are there, in order."""
        names = {path.stem for path in (self.directory / "predictions").glob("*.npz")}
        # a file manager may have left other names, such as "val-0006 (1)"
        epochs = [match[1] for name in names if (match := re.fullmatch(r"val-(\d{4,})", name))]
        return sorted(int(epoch) for epoch in epochs if f"test-{epoch}" in names)

    def predictions(self, split: str, epoch: int) -> Predictions:
        """Return logits and labels of a split at an epoch."""
        path = self.predictions_path(split, epoch)
        try:
            identity, predictions = Predictions.read(path)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{path} is not there; kept epochs: {self.kept_epochs()}"
            ) from None
        except ForeignFile as error:
            raise ForeignFile(f"{path} cannot be read: {error}") from error
        except Exception as error:
            # numpy raises zipfile, zlib and pickle errors alike for a damaged file
            raise ValueError(
                f"{path} is damaged ({error}): delete {self.directory} and train the run again"
            ) from error
        self.identity._replace(epoch=epoch, split=split).check(path, identity, self.directory)
        return predictions

    def chosen_epoch(self) -> int:
        """Return the epoch whose model is kept and evaluated.

        Until training has ended, that is the last one whose logits are kept.
        """
        last = self.experiment.optimization.epochs
        if self.finished:
            return self.summary()["epoch"]
        last_kept = max(self.kept_epochs(), default=0)
        records = self.epochs()
        has_ended = last_kept == last and bool(records) and records[-1].epoch == last
        return best_epoch(records, self.experiment.choose) if has_ended else last_kept

    def save_evaluation(self, evaluation: Evaluation) -> Path:
        """Write evaluation.json, which reports read; for an epoch not chosen, a file beside it."""
        chosen = evaluation.epoch == self.chosen_epoch()
        name = "evaluation.json" if chosen else f"evaluation-{evaluation.epoch:04d}.json"
        self._write(name, evaluation.to_json())
        return self.directory / name

    def evaluation(self) -> Evaluation:
        """Read the evaluation of the chosen epoch from evaluation.json.

        Until training has ended, it is that of the epoch that was chosen when it was written.
        """
        evaluation = self._read("evaluation.json", Evaluation.from_json, EVALUATE_AGAIN)
        if self.finished:
            expected = self.identity._replace(epoch=self.chosen_epoch())
            found = self.identity._replace(epoch=evaluation.epoch)
            path = self.directory / "evaluation.json"
            expected.check(path, found, self.directory, EVALUATE_AGAIN)
        return evaluation

    def finish(self, summary: dict[str, Any]) -> None:
        """Mark the run as whole, and remove its checkpoints."""
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        self._write(FINISHED_FILE, {**summary, "finished": now})
        self.forget_checkpoints()

    def forget_checkpoints(self) -> None:
        """Remove the checkpoints: a whole run needs none."""
        for path in self.directory.glob("checkpoint*"):
            path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove all that training left, so that it can start again.

        The mark of a whole run goes first.
        """
        for pattern in LEFT_BY_TRAINING:
            for path in self.directory.glob(pattern):
                path.unlink()
        shutil.rmtree(self.directory / "tensorboard", ignore_errors=True)

    def summary(self) -> dict[str, Any]:
        """Return what `finish` wrote."""

        def checked(plain: dict[str, Any]) -> dict[str, Any]:
            wrong = [name for name in ("epochs", "epoch") if type(plain.get(name)) is not int]
            if wrong:
                raise ValueError(f"{' and '.join(wrong)} must be whole numbers")
            return plain

        return self._read(FINISHED_FILE, checked)

    @property
    def finished_on(self) -> str:
        """Return when the run became whole."""
        return str(self.summary().get("finished", ""))[:16].replace("T", " ")

    def _write(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON file of this run, whole or not at all."""
        write_json(self.directory / name, signed(self.identity.run, content))

    def _read(self, name: str, make: Callable[[Any], Read], advice: str = RESTORE) -> Read:
        """Return what `make` makes of a JSON file of this run; refuse that of another one."""
        path = self.directory / name
        run, content = read_signed(path, make, f": {advice}")
        self.identity.check(path, Identity(run), self.directory, advice)
        return content


def finished_run(root: Path | str, experiment: Experiment) -> Run | None:
    """Return the run of an experiment below `root` if it is finished."""
    directory = Run.directory_of(root, experiment)
    return Run(directory) if (directory / FINISHED_FILE).is_file() else None


def read_experiment(plain: dict[str, Any]) -> Experiment:
    """Return the resolved experiment of a file; no code from outside is imported for it."""
    return resolve(Experiment.from_json(plain), trust_code=False)
