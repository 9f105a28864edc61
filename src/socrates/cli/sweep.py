"""`socrates sweep`: from words, or a Python file, to a list of experiments and their results."""

from __future__ import annotations

import dataclasses
import itertools
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from rich.text import Text

from socrates.engine.studies.candidates import check
from socrates.engine.studies.display import StudyDisplay
from socrates.engine.studies.runs import StudyError, finished_run, run_all
from socrates.experiment import Experiment, Part, resolve
from socrates.names import unknown
from socrates.records import Run
from socrates.report.aggregate import group_runs, read_runs
from socrates.report.compare import Compared, ranked
from socrates.report.vocabulary import METRICS

from .commands import Sweep
from .options import ManyRuns, flag, packages, parse_seeds, read
from .output import console, show, table_of

RESULTS = ("accuracy", "ece", "cw_ece", "nll")


def run_sweep(options: Sweep) -> None:
    """`socrates sweep`."""
    experiments = sweep_experiments(options)
    if options.dry_run:
        list_runs(experiments, options.out)
        return
    failed: StudyError | None = None
    try:
        run_all(experiments, options.out, **options.place, tell=StudyDisplay(console))
    except StudyError as error:
        failed = error  # the others have results all the same
    finished = [finished_run(options.out, experiment) for experiment in dict.fromkeys(experiments)]
    show_results([run.directory for run in finished if run is not None])
    show(f"runs: {options.out}")
    if failed is not None:
        raise failed
    show(f"next: socrates report {options.out}")


def sweep_experiments(options: Sweep) -> list[Experiment]:
    """Those of the file, or the product of what the options name."""
    if not options.file:
        return product(options)
    beside = {"file", "dry_run", *(item.name for item in dataclasses.fields(ManyRuns))}  # nothing of what is trained
    about_runs = [item for item in dataclasses.fields(options) if item.name not in beside]
    changed = [flag(item.name) for item in about_runs if getattr(options, item.name) != item.default]
    if changed:
        raise ValueError(f"{options.file} says what is trained, so {', '.join(changed)} has no place beside it")
    return read_file(Path(options.file))


def split_options(text: str) -> tuple[str, dict[str, str]]:
    """NAME:OPTION=VALUE,... in two; what follows the last colon is options only if it has an equals sign.

    >>> split_options("focal:gamma=2"), split_options("socrates:no-beta")
    (('focal', {'gamma': '2'}), ('socrates:no-beta', {}))
    >>> split_options("socrates:no-beta:gamma=2,alpha=0.9")
    ('socrates:no-beta', {'gamma': '2', 'alpha': '0.9'})
    """
    name, colon, tail = text.rpartition(":")
    if not colon or "=" not in tail:
        return text, {}
    pairs = [word.partition("=") for word in tail.split(",")]
    if not name or not all(key and value for key, _, value in pairs):
        raise ValueError(f"{text!r} is not NAME:OPTION=VALUE,OPTION=VALUE, such as socrates:gamma=1,alpha=0.99")
    return name, {key.replace("-", "_"): value for key, _, value in pairs}


def part_of(kind: str, text: str) -> Part:
    """A model or method with its options in their own types.

    >>> part_of("method", "socrates:gamma=1")
    Part('socrates', gamma=1.0)
    >>> part_of("model", "mlp:wide=3")
    Traceback (most recent call last):
    ValueError: model 'mlp' has no option 'wide', did you mean 'width'? Choose from width, depth
    """
    name, given = split_options(text)
    known = packages()[kind].options(name)
    for option in given:
        if option not in known:
            raise ValueError(f"{kind} {name!r} has no option {unknown(option, known)}")
    return Part(name, **{option: read(option, value, known[option]) for option, value in given.items()})


def product(options: Sweep) -> list[Experiment]:
    """Every data set with every model, method and seed that the options name."""
    if not options.methods:
        raise ValueError("nothing to train: give a FILE.py, or --methods such as --methods ce focal:gamma=2")
    datasets = [Part(name) for name in options.datasets]
    models = [part_of("model", text) for text in options.models]
    methods = [part_of("method", text) for text in options.methods]
    parts = itertools.product(datasets, models, methods, parse_seeds(options.seeds))
    experiments = [options.experiment(*part) for part in parts]
    for experiment in experiments:
        check(experiment)
    return experiments


def read_file(path: Path) -> list[Experiment]:
    """The `experiments` of a Python file: a list of them, or a function that returns one."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: give a Python file that defines `experiments`")
    sys.path.insert(0, str(path.resolve().parent))  # as `python FILE.py` does; the processes that train get it too
    try:
        found = runpy.run_path(str(path)).get("experiments")
        if callable(found):
            found = found()
    except Exception as error:
        raise ValueError(f"{path} could not be run: {type(error).__name__}: {error}") from error
    if found is None:
        raise ValueError(f"{path} defines no `experiments`: it must be a list of socrates.experiment.Experiment")
    if not isinstance(found, list | tuple) or not found:
        raise ValueError(f"`experiments` of {path} must be a list of at least one Experiment, got {found!r}")
    items = cast("list[Any]", list(found))
    for number, item in enumerate(items):
        if not isinstance(item, Experiment):
            raise ValueError(f"`experiments` of {path} holds {type(item).__name__} at {number}: expected an Experiment")
    return [resolve(item) for item in items]


def list_runs(experiments: Sequence[Experiment], out: Path) -> None:
    """Each run, and how far it is."""
    distinct = list(dict.fromkeys(experiments))
    finished = 0
    for experiment in distinct:
        directory = Run.directory_of(out, experiment)
        run = Run(directory) if (directory / "experiment.json").is_file() else None
        whole = run is not None and run.finished
        epochs = f"{len(run.epochs()) if run else 0} of {experiment.optimization.epochs} epochs"
        show(f"{experiment.name}: {'finished' if whole else epochs}")
        finished += whole
    show(f"{len(distinct)} runs, {finished} finished, {len(distinct) - finished} to train")


def show_results(directories: Sequence[Path]) -> None:
    """A table for each setting: test metrics, mean ± std over the seeds of each method."""
    runs, skipped = read_runs(directories)
    for setting, groups in group_runs(runs).items():
        heads = ("runs", *(METRICS[name].head for name in RESULTS), "")
        table = table_of(f"{setting.title}: test set, mean ± std", ("method",), heads)
        cells = ranked([Compared(group.label, group) for group in groups], RESULTS)
        for group in groups:
            note = f"{group.collapse_count} collapsed" if group.collapses else ""
            numbers = [cells[group.label, name].text for name in RESULTS]
            words = (group.label, str(len(group.runs)), *numbers, note)
            table.add_row(*map(Text, words), style="red" if group.collapses else "")
        console.print(table)
    for directory, reason in skipped:
        show(f"{directory}: {reason}", "not shown: ", "red")
