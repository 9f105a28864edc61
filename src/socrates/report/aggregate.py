"""From run directories to results: the runs of one method in one setting, one per seed."""

import dataclasses
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from socrates.arrays.entries import open_top
from socrates.experiment import Experiment
from socrates.metrics import BinStats, predict
from socrates.metrics.binning import bin_stats
from socrates.metrics.predictions import Reading
from socrates.records import EpochRecord, Evaluation, Predictions, Run
from socrates.records.predictions import Array

from .failures import failures_of
from .labels import labels, setting_of, shared_in_words
from .results import Failure, Results
from .vocabulary import READINGS, USUAL_READING


class Skipped(NamedTuple):
    """A directory that cannot be reported, and why."""

    directory: Path
    reason: str


@dataclass(frozen=True)
class RunData:
    """A finished run: its resolved experiment, its curves by name, (E,) each, and its evaluation.

    Logits are read when they are asked for.
    """

    directory: Path
    experiment: Experiment
    curves: dict[str, Array]
    evaluation: Evaluation
    collapsed: str | None
    read_bins: dict[str, dict[str, BinStats]] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def seconds(self) -> float:
        """Return how long the run was trained."""
        return float(np.nansum(self.curves.get("seconds", np.zeros(1))))

    def predictions(self, split: str = "test") -> Predictions:
        """Return the logits and labels that were evaluated."""
        return Run(self.directory).predictions(split, self.evaluation.epoch)

    def bins(self, split: str) -> dict[str, BinStats]:
        """Return the confidence bins by reading, read once; empty if logits are not finite.

        A damaged file is an error.
        """
        if split not in self.read_bins:
            stored = self.predictions(split)
            readings = READINGS if self.evaluation.unknown_class else (USUAL_READING,)
            if not np.isfinite(stored.logits).all():
                readings = ()
            self.read_bins[split] = {reading: self._binned(stored, reading) for reading in readings}
        return self.read_bins[split]

    def _binned(self, stored: Predictions, reading: str) -> BinStats:
        unknown = cast("Reading", reading) if self.evaluation.unknown_class else None
        prediction = predict(stored.logits, unknown=unknown)
        return bin_stats(open_top(prediction, stored.labels), self.evaluation.num_bins)


def results_of(label: str, runs: Sequence[RunData], failures: Sequence[Failure] = ()) -> Results:
    """Return runs that differ in their seeds alone as results with a label.

    Those that failed are left out, unless none or fewer than failed would be left.
    """
    failed = {failure.seed for failure in failures}
    sound = [run for run in runs if run.experiment.seed not in failed]
    if len(sound) >= max(1, len(failed)):
        runs = sound
    else:
        failures = ()
    first = runs[0].experiment
    epochs = runs[0].curves["epoch"]
    names = dict.fromkeys(name for run in runs for name in run.curves)
    missing = np.full(len(epochs), np.nan)

    def bins(split: str, reading: str) -> list[BinStats]:
        by_reading = [run.bins(split) for run in runs]
        return [bins.get(reading) or bins[USUAL_READING] for bins in by_reading if bins]

    return Results(
        label,
        first.method,
        evaluations=[run.evaluation for run in runs],
        seeds=[run.experiment.seed for run in runs],
        collapses={run.experiment.seed: run.collapsed for run in runs if run.collapsed},
        epochs=epochs,
        curves={name: np.stack([run.curves.get(name, missing) for run in runs]) for name in names},
        bins=bins,
        experiment=first,
        runs=runs,
        failures=tuple(failures),
    )


def find_runs(roots: Path | str | Iterable[Path | str]) -> list[Path]:
    """Return the directories that hold a run, at or below the roots, in the order of their names.

    A directory that is reached twice is returned once, by the path that was met first.
    """
    folders: dict[Path, Path] = {}
    for root in map(Path, [roots] if isinstance(roots, Path | str) else roots):
        if not root.is_dir():
            raise FileNotFoundError(
                f"{root} is not a folder: pass a run directory or a folder of run directories"
            )
        for folder in _folders(root):
            if (folder / "experiment.json").is_file():
                folders.setdefault(folder.resolve(), folder)
    return sorted(folders.values())


def _folders(root: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Yield a folder and all below it, linked ones as well.

    A link that leads back up is not followed.
    """
    real = root.resolve()
    if real not in above:
        yield root
        for child in root.iterdir():
            if child.is_dir():
                yield from _folders(child, above | {real})


def read_runs(
    directories: Iterable[Path], logits: bool = False
) -> tuple[list[RunData], list[Skipped]]:
    """Return the finished runs of the directories, and why each of the others is left out.

    With `logits`, those of the test split are read whole, so that a damaged file is found now.
    """
    runs: dict[Experiment, RunData] = {}
    skipped: list[Skipped] = []
    for directory in directories:
        try:
            run = read_run(directory)
            if logits:
                run.bins("test")
            first = runs.setdefault(run.experiment, run)
            if first is not run:
                raise ValueError(f"the same experiment with the same seed as {first.directory}")
        except (ValueError, OSError) as error:
            skipped.append(Skipped(directory, str(error) or type(error).__name__))
        except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
            # JSON of another shape than ours
            skipped.append(Skipped(directory, f"damaged ({type(error).__name__}: {error})"))
    return list(runs.values()), skipped


def read_run(directory: Path) -> RunData:
    """Return a finished run; an unfinished or damaged run is an error that says so."""
    run = Run(directory)
    experiment = run.experiment
    records = run.epochs()
    epochs = experiment.optimization.epochs
    if not run.finished:
        done = len(records)
        last_step = "the command that started it evaluates and finishes it"
        rest = f"; {last_step}" if done == epochs else ""
        raise ValueError(f"unfinished: {done} of {epochs} epochs are done{rest}")
    curves = _curves(records, epochs)
    evaluation = run.evaluation()
    for split in ("val", "test"):
        path = run.predictions_path(split, evaluation.epoch)
        if not zipfile.is_zipfile(path):
            raise ValueError(f"damaged: {path.parent.name}/{path.name} is missing or cut short")
    reason = run.summary().get("collapsed")
    collapsed = None if reason is None else str(reason)
    return RunData(Path(directory), experiment, curves, evaluation, collapsed)


def _curves(records: Sequence[EpochRecord], epochs: int) -> dict[str, Array]:
    """Return what the epochs recorded by name, (E,) each; every epoch must be there once."""
    curves = {"epoch": np.array([record.epoch for record in records], dtype=float)}
    for name in dict.fromkeys(name for record in records for name in record.values):
        curves[name] = np.array([record.value(name) for record in records], dtype=float)
    if curves["epoch"].tolist() != list(range(1, epochs + 1)):
        raise ValueError(
            f"damaged: epochs.jsonl has {len(records)} lines that are not those of epochs 1 to "
            f"{epochs}"
        )
    return curves


def group_runs(runs: Sequence[RunData], count_failed: bool = False) -> dict[str, list[Results]]:
    """Return the runs by setting, and within it by everything but the seed, in order of the seeds.

    Failed runs are left out and named by the results, unless they are to be counted.

    The title of a setting also says the options that many methods share, which are left out of
    their labels. No two runs may be equal; `read_runs` returns no such two.
    """
    settings: dict[str, dict[Experiment, list[RunData]]] = {}
    for run in runs:
        setting = settings.setdefault(setting_of(run.experiment), {})
        setting.setdefault(dataclasses.replace(run.experiment, seed=0), []).append(run)
    groups: dict[str, list[Results]] = {}
    for setting, variants in settings.items():
        experiments = [*variants]
        title = ", ".join([setting, *shared_in_words(experiments)])
        by_label = {
            label: sorted(variant, key=lambda run: run.experiment.seed)
            for label, variant in zip(labels(experiments), variants.values(), strict=True)
        }
        failed = {} if count_failed else failures_of(by_label)
        groups[title] = [
            results_of(label, variant, failed.get(label, ())) for label, variant in by_label.items()
        ]
    return groups
