"""A run: its directory, read and written."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from socrates.data.fingerprint import Fingerprint
from socrates.experiment import NAMED_WITHOUT, Experiment, Part, Value, resolve
from socrates.files import (
    named_errors,
    reason_of,
    replace_text,
    to_json,
    with_checksum,
    without_checksum,
    write_json,
)
from socrates.records.epochs import EpochRecord, best_epoch
from socrates.records.evaluation import Evaluation
from socrates.records.predictions import Array, Predictions

Read = TypeVar("Read")
LEFT_BY_TRAINING = (
    "finished.json",
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
        if not (self.directory / "experiment.json").is_file():
            raise FileNotFoundError(f"{self.directory} is not a run: it has no experiment.json")

    @classmethod
    def create(cls, root: Path | str, experiment: Experiment) -> Run:
        """Return the run of an experiment below `root`; make its directory if it is missing."""
        directory = cls.directory_of(root, experiment)
        (directory / "predictions").mkdir(parents=True, exist_ok=True)
        if not (directory / "experiment.json").is_file():
            write_json(directory / "experiment.json", with_checksum(experiment.to_json()))
        return cls(directory)

    @staticmethod
    def directory_of(root: Path | str, experiment: Experiment) -> Path:
        """Return where an experiment is or will be, also if an earlier version named it."""
        named = Path(root) / experiment.name
        if not named.exists():
            for run, other in Run.of_these_parts(root, experiment):
                if other == experiment:
                    return run.directory
        return named

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
        return self._read("experiment.json", read_experiment)

    @property
    def data(self) -> Fingerprint | None:
        """Return what the data were when the run began; None if an earlier version began it."""
        with contextlib.suppress(FileNotFoundError):
            return self._read(
                "data.json", Fingerprint.from_json, "; delete it if the data are still the same"
            )

    def save_data(self, data: Fingerprint) -> None:
        """Write the fingerprint of the data to data.json."""
        write_json(self.directory / "data.json", asdict(data))

    @property
    def finished(self) -> bool:
        """Return whether the run is whole."""
        return (self.directory / "finished.json").is_file()

    @property
    def checkpoint(self) -> Path:
        """Return where the training state is kept until the run is finished."""
        return self.directory / "checkpoint.pt"

    def append_epoch(self, record: EpochRecord) -> None:
        """Append one line and flush it to the disk; NaN is written as null."""
        path = self.directory / "epochs.jsonl"
        with named_errors(path), open(path, "a", encoding="utf-8") as file:
            file.write(to_json(with_checksum(record.to_json())))
            file.flush()
            os.fsync(file.fileno())

    def epochs(self) -> list[EpochRecord]:
        """Return the records so far; a last line that was cut short is left out."""
        path = self.directory / "epochs.jsonl"
        records: list[EpochRecord] = []
        lines = path.read_bytes().split(b"\n") if path.is_file() else []
        for number, line in enumerate(lines, start=1):
            try:
                records += [EpochRecord.from_json(json.loads(line))] if line else []
            except (ValueError, RecursionError) as error:
                # the last one has no newline after it: the writer was stopped
                if number < len(lines):
                    raise ValueError(
                        f"{path}, line {number} is damaged: {reason_of(error)}"
                    ) from error
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
        lines = [to_json(with_checksum(record.to_json())) for record in self.epochs_until(epoch)]
        replace_text(self.directory / "epochs.jsonl", "".join(lines))

    def predictions_path(self, split: str, epoch: int) -> Path:
        """Return where the logits of a split are kept, if they are."""
        return self.directory / "predictions" / f"{split}-{epoch:04d}.npz"

    def save_predictions(
        self, split: str, epoch: int, logits: Array, labels: Array, num_classes: int
    ) -> None:
        """Keep the logits of a split; every metric can be computed from them later."""
        Predictions(logits, labels, num_classes).write(self.predictions_path(split, epoch))

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
            return Predictions.read(path)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{path} is not there; kept epochs: {self.kept_epochs()}"
            ) from None
        except Exception as error:
            # numpy raises zipfile, zlib and pickle errors alike for a damaged file
            raise ValueError(
                f"{path} is damaged ({error}): delete {self.directory} and train the run again"
            ) from error

    def chosen_epoch(self) -> int:
        """Return the epoch whose model is kept and evaluated.

        Until training has ended, that is the last one whose logits are kept.
        """
        last = self.experiment.optimization.epochs
        if self.finished:
            return self.summary().get("epoch", last)  # earlier versions had no choice
        last_kept = max(self.kept_epochs(), default=0)
        records = self.epochs()
        has_ended = last_kept == last and bool(records) and records[-1].epoch == last
        return best_epoch(records, self.experiment.choose) if has_ended else last_kept

    def save_evaluation(self, evaluation: Evaluation) -> Path:
        """Write evaluation.json, which reports read; for an epoch not chosen, a file beside it."""
        chosen = evaluation.epoch == self.chosen_epoch()
        name = "evaluation.json" if chosen else f"evaluation-{evaluation.epoch:04d}.json"
        write_json(self.directory / name, with_checksum(evaluation.to_json()))
        return self.directory / name

    def evaluation(self) -> Evaluation:
        """Read the evaluation of the chosen epoch from evaluation.json."""
        return self._read(
            "evaluation.json", Evaluation.from_json, "; socrates evaluate writes it again"
        )

    def finish(self, summary: dict[str, Any]) -> None:
        """Mark the run as whole, and remove its checkpoints."""
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        write_json(self.directory / "finished.json", with_checksum({**summary, "finished": now}))
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

        def checked(plain: Any) -> dict[str, Any]:
            if not isinstance(plain, dict):
                raise ValueError(f"{plain!r} is not a summary of a run")
            return plain

        return self._read("finished.json", checked)

    @property
    def finished_on(self) -> str:
        """Return when the run became whole; for earlier versions, the time of the file."""
        written = datetime.fromtimestamp((self.directory / "finished.json").stat().st_mtime)
        return str(self.summary().get("finished", written))[:16].replace("T", " ")

    def _read(self, name: str, make: Callable[[Any], Read], advice: str = "") -> Read:
        """Return what `make` makes of a JSON file; name a damaged one, and what to do."""
        path = self.directory / name
        try:
            if path.exists() and not path.is_file():  # a pipe would be waited for
                raise ValueError("it is not a file")
            plain = json.loads(path.read_text(encoding="utf-8"))
            values = plain
            if isinstance(plain, dict):
                values = {key: plain[key] for key in plain if key != "checksum"}
            content = make(values)
            without_checksum(plain)  # not before: an error in the content says more
            return content
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} is not there: the run has not come that far") from None
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise ValueError(f"{path} is damaged ({reason_of(error)}){advice}") from error


def finished_run(root: Path | str, experiment: Experiment) -> Run | None:
    """Return the run of an experiment below `root` if it is finished."""
    directory = Run.directory_of(root, experiment)
    return Run(directory) if (directory / "finished.json").is_file() else None


# What methods of version 0.1.0 did that they no longer do by default, as options. CCL-SC's can only
# be read: it distinguishes its runs, and no method takes it.
THEN: dict[str, dict[str, Value]] = {
    "mc": {"virtual_rate": 0.1},
    "ccl_sc": {"queues_by": "model"},
    **NAMED_WITHOUT,
}


def read_experiment(plain: dict[str, Any]) -> Experiment:
    """Return the resolved experiment of a file, whichever version wrote it."""
    experiment = Experiment.from_json(plain)
    method = experiment.method
    if "choose" not in plain:  # 0.1.0 had no choice
        options = {**THEN.get(method.name, {}), **dict(method.options)}
        experiment = replace(experiment, method=Part(method.name, **options))
    return resolve(experiment, trust_code=False)
