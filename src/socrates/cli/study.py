"""`socrates tune` and `socrates sweep`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.markup import escape
from rich.table import Table

from socrates.experiment import Experiment, Value

from .shared import Dataset, MethodName, Model, command_of, console, experiment_of, optimization_of, typed
from .sweeps import parse_seeds, product, read_file

if TYPE_CHECKING:
    from socrates.engine.studies.choice import Result
    from socrates.engine.studies.tune import Tuned
    from socrates.report.results import Results


@dataclass
class Tune:
    """Search hyperparameters: train candidates with several seeds, and choose one on validation data.

    Without --grid and --trials the candidates are the paper's grid for that method. The choice is the point of the
    Pareto front of error and ECE that is nearest to the origin, both scaled to the candidates' range; ties go by
    class-wise ECE. Options given by their names (--gamma 2 --width 16 --batch-size 64) are fixed, not searched.
    The same command again continues a stopped study; finished runs are never repeated.
    """

    dataset: Dataset
    """A data set: see `socrates list`, or folder:PATH, or npz:PATH."""
    model: Model
    """An architecture, or module:attribute."""
    method: MethodName
    """How to train, or module:attribute."""
    grid: tuple[str, ...] = ()
    """Values to try, such as gamma=1,2,3 alpha=0.9,0.99 batch_size=64,128: options of the method or the model, or
    batch_size, learning_rate, epochs."""
    trials: int | None = None
    """Let optuna propose so many candidates within the grid's range, instead of trying every combination."""
    seeds: str = "1-5"
    """Such as 1-5, or 1,3,7, or 4."""
    epochs: int | None = None
    """Instead of the data set's usual number."""
    batch_size: int | None = None
    """Instead of searching it, or of the usual size."""
    learning_rate: float | None = None
    """Instead of the usual rate."""
    num_train: int | None = None
    """Take a stratified subset of the training data."""
    num_bins: int = 15
    """Bins of the calibration metrics; the paper's recipes use 10."""
    keep_every: int | None = None
    """Keep logits at these epochs too; only those of the last epoch if not given."""
    precision: str = "32-true"
    """A Lightning Fabric precision, such as bf16-mixed."""
    device: str = "cpu"
    """A Lightning Fabric accelerator for every process: cpu, auto, cuda, mps."""
    processes: int | None = None
    """Runs at once; as many as there are cores if not given."""
    out: Path = Path("runs")
    """Where run directories and the study's folder go."""
    data: Path | None = None
    """The data folder; SOCRATES_DATA, or a cache folder, if not given."""

    @property
    def seed(self) -> int:
        """The first one, as an Experiment needs one."""
        return parse_seeds(self.seeds)[0]


@dataclass
class Sweep:
    """Train any list of experiments on all cores, and show their results.

    Either FILE.py, which defines `experiments`, a list of socrates.experiment.Experiment or a function that returns
    one; or every combination of --datasets, --models, --methods and --seeds. A method or model may carry options
    after a colon, NAME:OPTION=VALUE,OPTION=VALUE, for example: --methods ce focal:gamma=2 socrates:gamma=1,alpha=0.99
    socrates:no-beta socrates:no-beta:gamma=2 --models mlp:width=64. The same command again continues.
    """

    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.py")] = ""
    """A Python file that defines `experiments`."""
    datasets: tuple[str, ...] = ("digits",)
    """Names of data sets, or folder:PATH, or npz:PATH."""
    models: tuple[str, ...] = ("mlp",)
    """Architectures, with options after a colon."""
    methods: tuple[str, ...] = ()
    """Methods, with options after a colon."""
    seeds: str = "1-5"
    """Such as 1-5, or 1,3,7, or 4."""
    epochs: int | None = None
    """Instead of the data set's usual number."""
    batch_size: int | None = None
    """Instead of the usual size."""
    learning_rate: float | None = None
    """Instead of the usual rate."""
    num_train: int | None = None
    """Take a stratified subset of the training data."""
    num_bins: int = 15
    """Bins of the calibration metrics; the paper's recipes use 10."""
    keep_every: int = 25
    """Logits of val and test are kept at these epochs, and at the last."""
    precision: str = "32-true"
    """A Lightning Fabric precision, such as bf16-mixed."""
    device: str = "cpu"
    """A Lightning Fabric accelerator for every process: cpu, auto, cuda, mps."""
    processes: int | None = None
    """Runs at once; as many as there are cores if not given."""
    out: Path = Path("runs")
    """Where run directories go."""
    data: Path | None = None
    """The data folder; SOCRATES_DATA, or a cache folder, if not given."""
    dry_run: bool = False
    """Only list the runs, and which of them are finished."""


# Of Sweep: what does not describe the experiments, and so goes with a file too.
RESULTS = ("accuracy", "ece", "cw_ece", "nll")  # the metrics of the table at the end
WITH_FILE = ("file", "device", "processes", "out", "data", "dry_run")


def run_tune(options: Tune, extra: dict[str, str]) -> None:
    """`socrates tune`."""
    from socrates.engine.studies.display import StudyDisplay
    from socrates.engine.studies.local import LocalEngine
    from socrates.engine.studies.runs import StudyError
    from socrates.engine.studies.tune import Study, tune

    keep_every = options.keep_every or optimization_of(options).epochs
    base = experiment_of(replace(options, keep_every=keep_every), extra)
    study = Study(base, grid_of(options, extra, base), parse_seeds(options.seeds), options.trials)
    engine = LocalEngine(options.out, options.data, options.processes, options.device)
    tuned = tune(study, engine, StudyDisplay(console))
    console.print(tune_table(tuned, base, len(study.seeds)))
    show_choice(tuned)
    if tuned.failures:
        raise StudyError(tuned.failures, len(tuned.results) * len(study.seeds))


def grid_of(options: Tune, extra: dict[str, str], base: Experiment) -> dict[str, tuple[Value, ...]]:
    """The values to try: those of --grid, or the paper's without what is fixed on the command line."""
    fixed = {*extra, *(name for name in ("batch_size", "learning_rate") if getattr(options, name) is not None)}
    if options.grid:
        grid = parse_grid(options.grid, base)
        both = sorted(fixed & set(grid))
        if both:
            raise ValueError(f"{', '.join(both)} is given both by itself and in --grid: leave one out")
        return grid
    from socrates.paper.grid import GRIDS

    if options.method not in GRIDS:
        raise ValueError(
            f"the paper has no grid for {options.method!r}, only for {', '.join(GRIDS)}: give one, such as "
            f"--grid batch_size=64,128"
        )
    epochs = base.optimization.epochs
    paper = {name: values for name, values in GRIDS[options.method].items() if name not in fixed}
    if "start_epoch" in paper:  # a second phase after the last epoch would never begin
        paper["start_epoch"] = tuple(value for value in paper["start_epoch"] if value < epochs)
        if not paper["start_epoch"]:
            raise ValueError(f"the paper's grid starts no second phase before epoch {epochs}: give --epochs or --grid")
    if not paper:
        raise ValueError(f"nothing is left of the paper's grid for {options.method}: give --grid, or fix fewer options")
    return dict(paper)


def parse_grid(words: Sequence[str], base: Experiment) -> dict[str, tuple[Value, ...]]:
    """`gamma=1,2 batch_size=64` as values of the options' own types.

    >>> from socrates.experiment import Part
    >>> base = Experiment(Part("digits"), Part("mlp"), Part("focal"))
    >>> parse_grid(["gamma=1,2", "width=16"], base)
    {'gamma': (1.0, 2.0), 'width': (16,)}
    """
    from socrates.engine.studies.candidates import options_of, owner_of

    grid: dict[str, tuple[Value, ...]] = {}
    for word in words:
        name, _, values = word.partition("=")
        name = name.replace("-", "_")
        if not name or not all(values.split(",")):
            raise ValueError(f"--grid takes NAME=VALUE,VALUE such as gamma=1,2,3, got {word!r}")
        if name in grid:
            raise ValueError(f"--grid has {name} twice: give all its values at once, {name}=VALUE,VALUE")
        default = options_of(base)[owner_of(base, name)][name]
        grid[name] = tuple(dict.fromkeys(typed(text, default, f"grid {name}") for text in values.split(",")))
    return grid


def tune_table(tuned: Tuned, base: Experiment, num_seeds: int) -> Table:
    """The candidates: what they measured, which are on the front, which is chosen, which collapsed."""
    seeds = "1 seed" if num_seeds == 1 else f"mean ± std over {num_seeds} seeds"
    title = f"{base.dataset.name}, {base.model.name}, {base.method.name}: validation set, last epoch, {seeds}"
    table = Table(title=title, box=None, padding=(0, 2, 0, 0))
    names = list(dict(tuned.results[0].candidate.options)) if tuned.results else []
    for column in (*names, "accuracy, %", "ECE, %", "CW-ECE, %"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    for result in tuned.results:
        text, style = verdict(result, tuned)
        values = [_short(value) for _, value in result.candidate.options]
        table.add_row(*values, *cells(result), escape(text), style=style)
    return table


def verdict(result: Result, tuned: Tuned) -> tuple[str, str]:
    """What the last column says, and how the row looks."""
    if result.problems:
        return "; ".join(result.problems), "red"
    if result is tuned.choice.best:
        return "front, chosen", "bold"
    return ("front" if result in tuned.choice.front else ""), ""


def cells(result: Result) -> list[str]:
    """Accuracy, ECE and class-wise ECE in percent; a dash where no run has a score."""
    if not result.scores:
        return ["-"] * 3
    mean, std = result.mean, result.std
    shown = mean._replace(error=1 - mean.error)
    return [plus_minus(100 * value, 100 * spread) for value, spread in zip(shown, std, strict=True)]


def plus_minus(mean: float, std: float) -> str:
    """A table cell; without the deviation if one run has none.

    >>> plus_minus(97.123, 0.5), plus_minus(97.123, math.nan), plus_minus(math.nan, math.nan)
    ('97.12 ± 0.50', '97.12', '-')
    """
    if math.isnan(mean):
        return "-"
    return f"{mean:.2f}" if math.isnan(std) else f"{mean:.2f} ± {std:.2f}"


def show_choice(tuned: Tuned) -> None:
    """The choice, why, how to train it, and where everything is."""
    best = tuned.choice.best
    if best is not None:
        console.print(f"\n[bold]choice:[/] {escape(best.candidate.label)}", highlight=False)
    console.print(f"why: {escape(tuned.choice.why)}", highlight=False)
    if best is not None:
        command = command_of(replace(best.candidate.experiment, keep_every=25))
        console.print("train it, with logits of more epochs kept, by:", highlight=False)
        console.print(f"  {escape(command)}", highlight=False, soft_wrap=True)
    console.print(f"study: {tuned.directory / 'study.json'}", highlight=False, soft_wrap=True)
    console.print(f"runs: {tuned.directory.parent}", highlight=False, soft_wrap=True)


def run_sweep(options: Sweep, _: dict[str, str]) -> None:
    """`socrates sweep`."""
    from socrates.engine.studies.display import StudyDisplay
    from socrates.engine.studies.runs import StudyError, finished_run, run_all

    experiments = sweep_experiments(options)
    if options.dry_run:
        list_runs(experiments, options.out)
        return
    failed: StudyError | None = None
    try:
        where = {"data_root": options.data, "processes": options.processes, "accelerator": options.device}
        run_all(experiments, options.out, **where, tell=StudyDisplay(console))
    except StudyError as error:
        failed = error  # the others have results all the same
    finished = [finished_run(options.out, experiment) for experiment in dict.fromkeys(experiments)]
    show_results([run.directory for run in finished if run is not None])
    console.print(f"runs: {options.out}", highlight=False, soft_wrap=True)
    if failed is not None:
        raise failed
    console.print(f"next: socrates report {options.out}", highlight=False, soft_wrap=True)


def sweep_experiments(options: Sweep) -> list[Experiment]:
    """Those of the file, or the product of what the options name."""
    if not options.file:
        return product(options)
    changed = [
        f"--{item.name.replace('_', '-')}"
        for item in dataclasses.fields(options)
        if item.name not in WITH_FILE and getattr(options, item.name) != item.default
    ]
    if changed:
        raise ValueError(f"{options.file} says what is trained, so {', '.join(changed)} has no place beside it")
    return read_file(Path(options.file))


def list_runs(experiments: Sequence[Experiment], out: Path) -> None:
    """Each run, and how far it is."""
    from socrates.records import Run

    distinct = list(dict.fromkeys(experiments))
    finished = 0
    for experiment in distinct:
        directory = Run.directory_of(out, experiment)
        run = Run(directory) if (directory / "experiment.json").is_file() else None
        finished += run is not None and run.finished
        epochs = f"{len(run.epochs()) if run else 0} of {experiment.optimization.epochs} epochs"
        state = "finished" if run is not None and run.finished else epochs
        console.print(f"{escape(experiment.name)}: {state}", highlight=False, soft_wrap=True)
    console.print(f"{len(distinct)} runs, {finished} finished, {len(distinct) - finished} to train", highlight=False)


def show_results(directories: Sequence[Path]) -> None:
    """A table for each setting: test metrics, mean ± std over the seeds of each method."""
    from socrates.report.aggregate import group_runs, read_runs
    from socrates.report.vocabulary import METRICS

    runs, skipped = read_runs(directories)
    for setting, groups in group_runs(runs).items():
        table = Table(title=f"{escape(setting.title)}: test set, mean ± std", box=None, padding=(0, 2, 0, 0))
        table.add_column("method")
        for column in ("runs", *(METRICS[name].head for name in RESULTS)):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("")
        for group in groups:
            table.add_row(*result_cells(group), style="red" if group.collapses else "")
        console.print(table)
    for directory, reason in skipped:
        console.print(f"[red]not shown:[/] {directory}: {escape(reason)}", highlight=False, soft_wrap=True)


def result_cells(group: Results) -> list[str]:
    """A row of the results: a method's test metrics, an unknown class read as an answer."""
    from socrates.report.statistics import mean_std
    from socrates.report.vocabulary import METRICS

    values = [plus_minus(*mean_std(METRICS[name].factor * group.values(name))) for name in RESULTS]
    note = f"{group.collapse_count} collapsed" if group.collapses else ""
    return [escape(group.label), str(len(group.runs)), *values, note]


def _short(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
