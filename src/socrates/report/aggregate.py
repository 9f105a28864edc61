"""From run directories to groups: the runs of one method in one setting, which differ only in their seed."""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from socrates.experiment import Experiment, Kind, Part, resolve
from socrates.records import EpochRecord, Evaluation, Predictions, Run

Array = NDArray[Any]

TITLES = {
    "ce": "CE",
    "brier": "Brier",
    "focal": "Focal",
    "flsd": "FLSD",
    "gamblers": "Gamblers",
    "sat": "SAT",
    "mc": "MC",
    "ce_dece": "CE + DECE",
    "ccl_sc": "CCL-SC",
    "socrates": "Socrates",
}
SYMBOLS = {"gamma": "γ", "alpha": "α", "beta": "β", "start_epoch": "E_s"}


class Skipped(NamedTuple):
    """A directory that cannot be reported, and why."""

    directory: Path
    reason: str


@dataclass(frozen=True)
class RunData:
    """A finished run, read: its curves by name, (E,) each, and its evaluation; logits are read when asked for."""

    directory: Path
    experiment: Experiment
    curves: dict[str, Array]
    evaluation: Evaluation
    collapsed: str | None

    @property
    def unknown_class(self) -> bool:
        """Whether the model has an unknown class, and so several readings."""
        return self.evaluation.unknown_class

    def values(self, scaler: str = "none", split: str = "test", reading: str = "answer") -> dict[str, float] | None:
        """The metrics under a scaler and a reading; None if they were not computed.

        A model without an unknown class has the same numbers under every reading.
        """
        return self.evaluation.values(scaler, split, reading) or None

    def predictions(self, split: str = "test") -> Predictions:
        """The logits and labels that the evaluation was made from."""
        return Run(self.directory).predictions(split, self.evaluation.epoch)


@dataclass(frozen=True)
class Setting:
    """Where methods can be compared: the same data, model and length of training."""

    dataset: Part
    model: Part
    num_train: int | None
    epochs: int
    title: str = dataclasses.field(compare=False)


@dataclass(frozen=True)
class Group:
    """The runs of one method in one setting, by seed."""

    setting: Setting
    label: str
    experiment: Experiment  # of the first run
    runs: tuple[RunData, ...]

    @property
    def method(self) -> str:
        """The method's name, without its options."""
        return self.experiment.method.name

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of its runs, rising."""
        return tuple(run.experiment.seed for run in self.runs)

    @cached_property
    def epochs(self) -> Array:
        """The epochs that all runs have, (E,)."""
        return min((run.curves["epoch"] for run in self.runs), key=len)

    def curve(self, name: str) -> Array:
        """A number of each epoch for each run, (runs, E); NaN where it was not recorded."""
        length = len(self.epochs)
        missing = np.full(length, np.nan)
        return np.stack([run.curves.get(name, missing)[:length] for run in self.runs])

    def values(self, metric: str, scaler: str = "none", split: str = "test", reading: str = "answer") -> Array:
        """A metric of each run, (runs,); NaN where it was not computed."""
        found = [run.values(scaler, split, reading) or {} for run in self.runs]
        numbers = [values.get(metric) for values in found]
        return np.array([np.nan if number is None else number for number in numbers], dtype=float)


def find_runs(roots: Path | str | Iterable[Path | str]) -> list[Path]:
    """Directories that hold a run, at or below the roots, in order of their names."""
    given = [roots] if isinstance(roots, Path | str) else list(roots)
    found: set[Path] = set()
    for root in map(Path, given):
        if not root.is_dir():
            raise FileNotFoundError(f"{root} is no folder: give a run directory or a folder of them")
        found |= {path.parent for path in root.rglob("experiment.json")}
    return sorted(found)


def read_runs(directories: Iterable[Path]) -> tuple[list[RunData], list[Skipped]]:
    """The finished runs among the directories, and why each of the others is left out."""
    runs: list[RunData] = []
    skipped: list[Skipped] = []
    seen: dict[Experiment, Path] = {}
    for directory in directories:
        try:
            run = read_run(directory)
            first = seen.setdefault(run.experiment, directory)
            if first is not directory:
                raise ValueError(f"the same experiment with the same seed as {first}")
            runs.append(run)
        except (ValueError, OSError) as error:
            skipped.append(Skipped(directory, str(error) or type(error).__name__))
        except (LookupError, TypeError, AttributeError, ArithmeticError) as error:  # JSON of another shape than ours
            skipped.append(Skipped(directory, f"damaged ({type(error).__name__}: {error})"))
    return runs, skipped


def read_run(directory: Path) -> RunData:
    """A finished run; an unfinished or damaged one is an error that says so."""
    run = Run(directory)
    experiment = run.experiment
    _check_experiment(experiment)
    records = run.epochs()
    epochs = experiment.optimization.epochs
    if not run.finished:
        last = "; the command that started it evaluates and finishes it" if len(records) == epochs else ""
        raise ValueError(f"unfinished: {len(records)} of {epochs} epochs are done{last}")
    curves = _columns(records)
    if curves.get("epoch", np.empty(0)).tolist() != list(range(1, epochs + 1)):
        raise ValueError(f"damaged: epochs.jsonl has {len(records)} lines that are not those of epochs 1 to {epochs}")
    evaluation = run.evaluation()
    _check_logits(run, evaluation.epoch)
    collapsed = run.summary().get("collapsed")
    return RunData(Path(directory), experiment, curves, evaluation, None if collapsed is None else str(collapsed))


def group_runs(runs: Sequence[RunData]) -> dict[Setting, list[Group]]:
    """Runs by setting, and there by everything but the seed; of two runs with one seed the first counts.

    `read_runs` gives no such two.
    """
    gathered: dict[Experiment, dict[int, RunData]] = {}
    for run in runs:
        alike = dataclasses.replace(run.experiment, seed=0)
        gathered.setdefault(alike, {}).setdefault(run.experiment.seed, run)
    by_setting: dict[Setting, list[tuple[Experiment, dict[int, RunData]]]] = {}
    for experiment, seeds in gathered.items():
        by_setting.setdefault(setting_of(experiment), []).append((experiment, seeds))
    return {
        setting: [
            Group(setting, label, experiment, tuple(seeds[seed] for seed in sorted(seeds)))
            for label, (experiment, seeds) in zip(
                labels([experiment for experiment, _ in members]), members, strict=True
            )
        ]
        for setting, members in by_setting.items()
    }


def setting_of(experiment: Experiment) -> Setting:
    """The setting of an experiment.

    >>> setting_of(Experiment(Part("digits"), Part("cnn", width=16), Part("ce"), num_train=300)).title
    'digits, cnn (width 16), 300 training images, 300 epochs'
    """
    num_train, epochs = experiment.num_train, experiment.optimization.epochs
    words = [_described(experiment, "dataset"), _described(experiment, "model")]
    words += [f"{num_train:,} training images"] if num_train is not None else []
    title = ", ".join([*words, f"{epochs} epochs"])
    return Setting(experiment.dataset, experiment.model, num_train, epochs, title)


def labels(experiments: Sequence[Experiment]) -> list[str]:
    """A short name of each experiment among the others: its method, and more where that does not tell them apart.

    >>> parts = Part("digits"), Part("mlp")
    >>> one = Experiment(*parts, Part("focal", gamma=2.0))
    >>> labels([one, dataclasses.replace(one, num_bins=10), Experiment(*parts, Part("ce"))])
    ['Focal, num_bins 15', 'Focal, num_bins 10', 'CE']
    """
    names = [method_label(experiment, experiments) for experiment in experiments]
    plain = [_flat(experiment) for experiment in experiments]
    full: list[str] = []
    for name, own in zip(names, plain, strict=True):
        rivals = [other for rival, other in zip(names, plain, strict=True) if rival == name]
        differing = [key for key in own if any(other.get(key) != own[key] for other in rivals)]
        full.append(", ".join([name, *(f"{key} {own[key]}" for key in differing)]))
    return full


def method_label(experiment: Experiment, among: Sequence[Experiment] = ()) -> str:
    """A method for legends and table heads: its options that are not at their defaults, or not the same among others.

    >>> one = Experiment(Part("digits"), Part("mlp"), Part("socrates", gamma=1.0))
    >>> other = dataclasses.replace(one, method=Part("socrates", alpha=0.9))
    >>> method_label(one), method_label(other), method_label(one, [one, other])
    ('Socrates γ=1', 'Socrates α=0.9', 'Socrates α=0.99 γ=1')
    """
    method = resolve(experiment, trust_code=False).method
    rivals = [resolve(other, trust_code=False).method for other in among if other.method.name == method.name]
    differing = {key for rival in rivals for key, _ in set(rival.options) ^ set(method.options)}
    shown = differing | set(experiment.changed("method"))
    options = [f"{SYMBOLS.get(key, key)}={_short(value)}" for key, value in method.options if key in shown]
    return " ".join([method_title(method.name), *options])


def method_title(name: str) -> str:
    """A method without its options.

    >>> method_title("socrates:no-beta")
    'Socrates no beta'
    """
    name, _, variant = name.partition(":")
    return " ".join([TITLES.get(name, name), *([variant.replace("-", " ")] if variant else [])])


def mean_std(values: Array) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1), NaN left out; the deviation of one value is NaN.

    >>> mean_std(np.array([1.0, 3.0, np.nan]))
    (2.0, 1.4142135623730951)
    """
    known = values[np.isfinite(values)]
    mean = float(known.mean()) if len(known) else float("nan")
    return mean, float(known.std(ddof=1)) if len(known) > 1 else float("nan")


def _check_experiment(experiment: Experiment) -> None:
    """What labels and groups are made of has its type; a list among the options raises a TypeError of its own."""
    hash(experiment)
    words = (experiment.dataset.name, experiment.model.name, experiment.method.name)
    numbers = (experiment.seed, experiment.optimization.epochs, experiment.num_train or 0)
    if not all(isinstance(word, str) for word in words) or not all(isinstance(number, int) for number in numbers):
        raise ValueError(
            f"damaged: experiment.json names its parts {words} and has (seed, epochs, num_train) = {numbers}; "
            f"names must be words and numbers whole"
        )


def _check_logits(run: Run, epoch: int) -> None:
    """The logits of the evaluation are there, with the index that stands at the end of the file."""
    for split in ("val", "test"):
        path = run.predictions_path(split, epoch)
        if not zipfile.is_zipfile(path):
            raise ValueError(f"damaged: {path.parent.name}/{path.name} is missing or cut short")


def _columns(records: list[EpochRecord]) -> dict[str, Array]:
    names = dict.fromkeys(name for record in records for name in record.values)
    columns = {name: np.array([record.value(name) for record in records], dtype=float) for name in names}
    return {"epoch": np.array([record.epoch for record in records], dtype=float), **columns}


def _flat(experiment: Experiment) -> dict[str, Any]:
    """What may differ within a setting and is not the method."""
    settings = dataclasses.asdict(experiment.optimization)
    return {key: getattr(experiment, key) for key in ("num_bins", "keep_every", "precision")} | settings


def _described(experiment: Experiment, kind: Kind) -> str:
    name, options = getattr(experiment, kind).name, experiment.changed(kind).items()
    return f"{name} ({', '.join(f'{key} {_short(value)}' for key, value in options)})" if options else name


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
