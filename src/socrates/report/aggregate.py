"""From run directories to groups: the runs of one method in one setting, which differ only in their seed."""

import dataclasses
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from socrates.experiment import Experiment, Kind, Value, resolve
from socrates.metrics import BinStats, predict
from socrates.metrics.binning import bin_stats
from socrates.metrics.inputs import open_top
from socrates.metrics.predictions import Reading
from socrates.records import Evaluation, Predictions, Run

from .results import Array, Results
from .vocabulary import READINGS, SYMBOLS, USUAL_READING, method_title, short

MOST_SPELLED_OUT = 8  # methods of a setting whose labels have all options that are not at their defaults
# What of an Experiment no label has to tell: the setting does, the method's name, or all of them have it.
TOLD_ELSEWHERE = ("dataset", "model", "method", "seed", "num_train", "optimization")


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
    read_bins: dict[str, dict[str, BinStats]] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def seconds(self) -> float:
        """How long it was trained."""
        return float(np.nansum(self.curves.get("seconds", np.zeros(1))))

    def predictions(self, split: str = "test") -> Predictions:
        """The logits and labels that the evaluation was made from."""
        return Run(self.directory).predictions(split, self.evaluation.epoch)

    def bins(self, split: str) -> dict[str, BinStats]:
        """Confidence bins by reading, read once; empty if the logits are not finite. Damaged ones are an error."""
        if split not in self.read_bins:
            stored = self.predictions(split)
            finite = bool(np.isfinite(stored.logits).all())
            readings = (READINGS if self.evaluation.unknown_class else (USUAL_READING,)) if finite else ()
            self.read_bins[split] = {reading: self._binned(stored, reading) for reading in readings}
        return self.read_bins[split]

    def _binned(self, stored: Predictions, reading: str) -> BinStats:
        prediction = predict(stored.logits, unknown=cast("Reading", reading) if self.evaluation.unknown_class else None)
        return bin_stats(open_top(prediction, stored.labels), self.evaluation.num_bins)


def results_of(label: str, runs: Sequence[RunData]) -> Results:
    """Runs that differ in their seeds alone, under a label."""
    first, epochs = runs[0].experiment, runs[0].curves["epoch"]
    evaluations, seeds = [run.evaluation for run in runs], [run.experiment.seed for run in runs]
    collapses = {run.experiment.seed: run.collapsed for run in runs if run.collapsed}
    names = dict.fromkeys(name for run in runs for name in run.curves)
    missing = np.full(len(epochs), np.nan)
    curves = {name: np.stack([run.curves.get(name, missing) for run in runs]) for name in names}

    def bins(split: str, reading: str) -> list[BinStats]:
        found = [run.bins(split) for run in runs]
        return [own.get(reading) or own[USUAL_READING] for own in found if own]

    return Results(label, first.method, evaluations, seeds, collapses, epochs, curves, bins, first, runs)


def find_runs(roots: Path | str | Iterable[Path | str]) -> list[Path]:
    """Directories that hold a run, at or below the roots, in order of their names."""
    given = [Path(root) for root in ([roots] if isinstance(roots, Path | str) else roots)]
    for root in given:
        if not root.is_dir():
            raise FileNotFoundError(f"{root} is no folder: give a run directory or a folder of them")
    found = [folder for root in given for folder in _folders(root) if (folder / "experiment.json").is_file()]
    return sorted({folder.resolve(): folder for folder in reversed(found)}.values())


def _folders(root: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """A folder and all below it, those that are linked as well; a link that leads back up is not followed."""
    real = root.resolve()
    if real not in above:
        yield root
        for child in root.iterdir():
            if child.is_dir():
                yield from _folders(child, above | {real})


def read_runs(directories: Iterable[Path], logits: bool = False) -> tuple[list[RunData], list[Skipped]]:
    """The finished runs among the directories, and why each of the others is left out.

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
        except (LookupError, TypeError, AttributeError, ArithmeticError) as error:  # JSON of another shape than ours
            skipped.append(Skipped(directory, f"damaged ({type(error).__name__}: {error})"))
    return list(runs.values()), skipped


def read_run(directory: Path) -> RunData:
    """A finished run; an unfinished or damaged one is an error that says so."""
    run = Run(directory)
    experiment = run.experiment
    records = run.epochs()
    epochs = experiment.optimization.epochs
    if not run.finished:
        last = "; the command that started it evaluates and finishes it" if len(records) == epochs else ""
        raise ValueError(f"unfinished: {len(records)} of {epochs} epochs are done{last}")
    names = dict.fromkeys(name for record in records for name in record.values)
    curves = {"epoch": np.array([record.epoch for record in records], dtype=float)}
    curves |= {name: np.array([record.value(name) for record in records], dtype=float) for name in names}
    if curves["epoch"].tolist() != list(range(1, epochs + 1)):
        raise ValueError(f"damaged: epochs.jsonl has {len(records)} lines that are not those of epochs 1 to {epochs}")
    evaluation = run.evaluation()
    for path in (run.predictions_path(split, evaluation.epoch) for split in ("val", "test")):
        if not zipfile.is_zipfile(path):
            raise ValueError(f"damaged: {path.parent.name}/{path.name} is missing or cut short")
    collapsed = run.summary().get("collapsed")
    return RunData(Path(directory), experiment, curves, evaluation, None if collapsed is None else str(collapsed))


def group_runs(runs: Sequence[RunData]) -> dict[str, list[Results]]:
    """Runs by setting, and there by everything but the seed, in the order of the seeds.

    The title of a setting also tells the options that many methods share, which are left out of their labels. No two
    runs may be equal; `read_runs` gives no such two.
    """
    alike: dict[Experiment, list[RunData]] = {}
    for run in runs:
        alike.setdefault(dataclasses.replace(run.experiment, seed=0), []).append(run)
    found: dict[str, dict[Experiment, list[RunData]]] = {}
    for experiment, own in alike.items():
        found.setdefault(setting_of(experiment), {})[experiment] = sorted(own, key=lambda run: run.experiment.seed)
    return {
        ", ".join([setting, *shared_in_words([*own])]): [*map(results_of, labels([*own]), own.values())]
        for setting, own in found.items()
    }


def setting_of(experiment: Experiment) -> str:
    """Where methods can be compared: the same data, model and length of training.

    >>> from socrates.experiment import Part
    >>> setting_of(Experiment(Part("digits"), Part("cnn", width=16), Part("ce"), num_train=300))
    'digits, cnn (width 16), 300 training images, 300 epochs'
    """
    words = [_described(experiment, "dataset"), _described(experiment, "model")]
    words += [f"{experiment.num_train:,} training images"] if experiment.num_train is not None else []
    return ", ".join([*words, f"{experiment.optimization.epochs} epochs"])


def labels(experiments: Sequence[Experiment]) -> list[str]:
    """A short name of each experiment among the others: its method, and more where that does not tell them apart.

    >>> from socrates.experiment import Part
    >>> parts = Part("digits"), Part("mlp")
    >>> one = Experiment(*parts, Part("focal", gamma=2.0))
    >>> labels([one, dataclasses.replace(one, num_bins=10), Experiment(*parts, Part("ce"))])
    ['Focal, num_bins 15', 'Focal, num_bins 10', 'CE']
    """
    shared = shared_options(experiments)
    names = [
        method_label(one, experiments, without=shared.get(one.method.name.partition(":")[0], {})) for one in experiments
    ]
    plain = [_besides_method(one) for one in experiments]
    full: list[str] = []
    for name, own in zip(names, plain, strict=True):
        rivals = [other for rival, other in zip(names, plain, strict=True) if rival == name]
        differing = [key for key in own if any(other[key] != own[key] for other in rivals)]
        full.append(", ".join([name, *(f"{key} {own[key]}" for key in differing)]))
    return full


def _besides_method(experiment: Experiment) -> dict[str, object]:
    """What may differ within a setting and is not the method; weights to start from by the first letters of a hash."""
    further = [item.name for item in dataclasses.fields(experiment) if item.name not in TOLD_ELSEWHERE]
    found = {name: getattr(experiment, name) for name in further} | vars(experiment.optimization)
    return {**found, "start": experiment.start[:8] or "from scratch"}


def shared_options(experiments: Sequence[Experiment]) -> dict[str, dict[str, Value]]:
    """Options that all variants of a method share, by its name: many labels are shorter without them.

    >>> from socrates.experiment import Part
    >>> parts = Part("digits"), Part("mlp")
    >>> many = [Experiment(*parts, Part("focal", gamma=3.0)), Experiment(*parts, Part("ce"))]
    >>> many += [Experiment(*parts, Part("socrates", gamma=gamma, alpha=0.9)) for gamma in range(8)]
    >>> shared_options(many), shared_options(many[:5])
    ({'socrates': {'alpha': 0.9}}, {})
    """
    variants: dict[str, list[Experiment]] = {}
    for one in experiments if len(experiments) > MOST_SPELLED_OUT else ():
        variants.setdefault(one.method.name.partition(":")[0], []).append(one)
    found: dict[str, dict[str, Value]] = {}
    for name, own in variants.items():
        methods = [resolve(one, trust_code=False).method for one in own]
        changed = {key for one in own for key in one.changed("method")}
        values = {key: {dict(method.options).get(key) for method in methods} for key in sorted(changed)}
        same: dict[str, Value] = {
            key: value for key, (value, *others) in values.items() if not others and value is not None
        }
        if len(own) > 1 and same:
            found[name] = same
    return found


def shared_in_words(experiments: Sequence[Experiment]) -> list[str]:
    """What `shared_options` finds, a phrase for each method.

    >>> shared_in_words([])
    []
    """
    return [
        f"all {method_title(name)}: {_options_in_words(shared)}" for name, shared in shared_options(experiments).items()
    ]


def method_label(experiment: Experiment, among: Sequence[Experiment] = (), without: Collection[str] = ()) -> str:
    """A method for legends and table heads: its options that are not at their defaults, or not the same among others.

    Those that are said elsewhere it is `without`.

    >>> from socrates.experiment import Part
    >>> one = Experiment(Part("digits"), Part("mlp"), Part("socrates", gamma=1.0))
    >>> other = dataclasses.replace(one, method=Part("socrates", alpha=0.9))
    >>> method_label(one), method_label(other), method_label(one, [one, other])
    ('Socrates γ=1', 'Socrates α=0.9', 'Socrates α=0.99 γ=1')
    """
    method = resolve(experiment, trust_code=False).method
    rivals = [resolve(other, trust_code=False).method for other in among if other.method.name == method.name]
    differing = {key for rival in rivals for key, _ in set(rival.options) ^ set(method.options)}
    shown = (differing | set(experiment.changed("method"))) - set(without)
    options = {key: value for key, value in method.options if key in shown}
    return f"{method_title(method.name)} {_options_in_words(options)}".strip()


def _options_in_words(options: Mapping[str, Value]) -> str:
    return " ".join(f"{SYMBOLS.get(key, key)}={short(value)}" for key, value in options.items())


def _described(experiment: Experiment, kind: Kind) -> str:
    name, options = getattr(experiment, kind).name, experiment.changed(kind).items()
    return f"{name} ({', '.join(f'{key} {short(value)}' for key, value in options)})" if options else name
