"""`socrates tune | sweep`: many experiments from options or a Python file, and their results."""

import dataclasses
import itertools
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from socrates.data.folder import listed_once
from socrates.engine.display import StudyDisplay
from socrates.engine.studies.candidates import check_parts, option_of, value_text
from socrates.engine.studies.runs import StudyError, engine_of, run_all
from socrates.engine.studies.tune import Study, Tuned, tune
from socrates.experiment import Experiment, Part, Value, resolve
from socrates.files import check_output
from socrates.names import unknown
from socrates.paper.grid import GRIDS
from socrates.prose import whole
from socrates.records import finished_run
from socrates.report.aggregate import group_runs, read_runs, results_of
from socrates.report.answer import answers_of
from socrates.report.compare import Compared, ranked
from socrates.report.terminal import cell_text
from socrates.report.tuning import against_others
from socrates.report.vocabulary import METRICS, SPLITS, compared_metrics

from .commands import Sweep, Tune
from .dry_run import list_candidates, list_runs
from .options import ManyRuns, flag, packages, parse_seeds, read
from .output import console, show, table_of
from .repeat import command_of
from .report import show_answers


@listed_once()  # for all candidates: the runs look at its files in processes of their own
def run_tune(options: Tune) -> None:
    """Carry out `socrates tune`."""
    seeds = parse_seeds(options.seeds)
    epochs = options.optimization(options.dataset, options.model, options.method).epochs
    base = dataclasses.replace(options, keep_every=options.keep_every or epochs).named_experiment(
        seeds[0]
    )
    study = Study(base, grid_of(options, base), seeds, options.trials, options.rule)
    if options.dry_run:
        return list_candidates(study, options)
    check_output(options.out, is_folder=True)
    place = options.place
    tuned = tune(study, engine_of(place.pop("engine"), options.out, **place), StudyDisplay(console))
    columns = candidate_columns(tuned, seeds)
    title = f"{base.dataset.name}, {base.model.name}, {base.method.name}"
    console.print(tune_table(tuned, columns, title))
    show_choice(tuned, columns, options.weights_hint)
    if tuned.failures:
        raise StudyError(tuned.failures, len(tuned.results) * len(seeds))


def grid_of(options: Tune, base: Experiment) -> dict[str, tuple[Value, ...]]:
    """Return the values to try: those of --grid, or the paper's without what is fixed."""
    part_options = options.part_options()
    fixed = {*part_options["method"], *part_options["model"]}
    fixed |= {
        name for name in ("batch_size", "learning_rate") if getattr(options, name) is not None
    }
    if options.grid:
        grid = parse_grid(options.grid, base)
        both = sorted(fixed & set(grid))
        if both:
            raise ValueError(
                f"{', '.join(both)} is set both by itself and in --grid: leave one out"
            )
        return grid
    if options.method not in GRIDS:
        raise ValueError(
            f"the paper has no grid for {options.method!r}, only for {', '.join(GRIDS)}: pass "
            "one, such as --grid batch_size=64,128"
        )
    epochs = base.optimization.epochs
    paper = {name: values for name, values in GRIDS[options.method].items() if name not in fixed}
    if "start_epoch" in paper:  # a second phase after the last epoch would never begin
        paper["start_epoch"] = tuple(value for value in paper["start_epoch"] if value < epochs)
        if not paper["start_epoch"]:
            raise ValueError(
                f"the paper's grid starts no second phase before epoch {epochs}: pass --epochs "
                "or --grid"
            )
    if not paper:
        raise ValueError(
            f"nothing is left of the paper's grid for {options.method}: pass --grid, or fix "
            "fewer options"
        )
    return dict(paper)


def parse_grid(words: Sequence[str], base: Experiment) -> dict[str, tuple[Value, ...]]:
    """Read `gamma=1,2 batch_size=64` as values in the types of these options.

    >>> from socrates.experiment import Experiment, Part
    >>> base = Experiment(Part("digits"), Part("mlp"), Part("focal"))
    >>> parse_grid(["gamma=1,2", "width=16"], base)
    {'gamma': (1.0, 2.0), 'width': (16,)}
    """
    grid: dict[str, tuple[Value, ...]] = {}
    for word in words:
        name, _, values = word.partition("=")
        name = name.replace("-", "_")
        if not name or not all(values.split(",")):
            raise ValueError(f"--grid takes NAME=VALUE,VALUE such as gamma=1,2,3, got {word!r}")
        if name in grid:
            raise ValueError(
                f"--grid has {name} twice: pass all its values at once, {name}=VALUE,VALUE"
            )
        default = option_of(base, name)[1]
        grid[name] = tuple(dict.fromkeys(read(name, text, default) for text in values.split(",")))
    return grid


def tune_table(tuned: Tuned, columns: Sequence[Compared], title: str) -> Table:
    """Return the candidates' results, and which are on the front, chosen or collapsed.

    `columns` are the candidates' runs, in the order of `tuned.results`.
    """
    metrics = compared_metrics()
    names = tuple(dict(tuned.results[0].candidate.options)) if tuned.results else ()
    heads = tuple(METRICS[metric].head for metric in metrics)
    table = table_of(f"{title}: validation set, last epoch, mean ± std", names, heads, ("",))
    cells = ranked(columns, metrics, "val")
    for result, column in zip(tuned.results, columns, strict=True):
        chosen = result is tuned.choice.best
        place = "front, chosen" if chosen else "front" if result in tuned.choice.front else ""
        values = [Text(value_text(value)) for _, value in result.candidate.options]
        numbers = [cell_text(cells[column.label, metric]) for metric in metrics]
        remark = Text("; ".join(result.problems) or place)
        table.add_row(*values, *numbers, remark, style="red" if result.problems else "")
    return table


def candidate_columns(tuned: Tuned, seeds: Sequence[int]) -> list[Compared]:
    """Return the runs of each candidate as results; none where no run can be read."""
    columns: list[Compared] = []
    for result in tuned.results:
        candidate = result.candidate
        found = [finished_run(tuned.directory.parent, run) for run in candidate.runs(seeds)]
        runs, _ = read_runs(run.directory for run in found if run is not None)
        results = results_of(candidate.label, runs) if runs else None
        columns.append(Compared(candidate.label, results))
    return columns


def show_choice(tuned: Tuned, columns: Sequence[Compared], weights: str) -> None:
    """Print the choice, its reason, what the seeds show of it, how to train it, and the files."""
    best = tuned.choice.best
    if best is not None:
        show(best.candidate.label, "\nchoice: ")
    show(f"why: {tuned.choice.why}")
    if best is not None:
        known = {column.label: column.results for column in columns if column.results}
        if chosen := known.get(best.candidate.label):
            show(against_others([*known.values()], chosen))
        show("train it, with logits of more epochs kept, by:")
        again = dataclasses.replace(best.candidate.experiment, keep_every=25)
        show(f"  {whole(command_of(again))}")
    show(f"study: {whole(tuned.directory / 'study.json')}")
    show(f"runs: {whole(tuned.directory.parent)}{weights}")


def run_sweep(options: Sweep) -> None:
    """Carry out `socrates sweep`."""
    with listed_once():
        experiments = sweep_experiments(options)
    if options.dry_run:
        list_runs(experiments, options)
        return
    check_output(options.out, is_folder=True)
    failed: StudyError | None = None
    try:
        run_all(experiments, options.out, **options.place, tell=StudyDisplay(console))
    except StudyError as error:
        failed = error  # the others have results all the same
    finished = [finished_run(options.out, experiment) for experiment in dict.fromkeys(experiments)]
    show_results([run.directory for run in finished if run is not None])
    show(f"runs: {whole(options.out)}{options.weights_hint}")
    if failed is not None:
        raise failed
    show(f"next: {whole(f'socrates report {options.out}')}")


def sweep_experiments(options: Sweep) -> list[Experiment]:
    """Return the experiments of the file, or the product of what the options name."""
    if not options.file:
        return product(options)
    # nothing of what is trained
    beside = {"file", "dry_run", *(item.name for item in dataclasses.fields(ManyRuns))}
    about_runs = [item for item in dataclasses.fields(options) if item.name not in beside]
    changed = [
        flag(item.name) for item in about_runs if getattr(options, item.name) != item.default
    ]
    if changed:
        raise ValueError(
            f"{options.file} says what is trained, so {', '.join(changed)} has no place beside it"
        )
    return read_file(Path(options.file))


def split_options(text: str) -> tuple[str, dict[str, str]]:
    """Split NAME:OPTION=VALUE,... into the name and its options.

    What follows the last colon is options only if it has an equals sign.

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
        raise ValueError(
            f"{text!r} is not NAME:OPTION=VALUE,OPTION=VALUE, such as socrates:gamma=1,alpha=0.99"
        )
    return name, {key.replace("-", "_"): value for key, _, value in pairs}


def part_of(kind: str, text: str) -> Part:
    """Return a data set, model or method with its options in their own types.

    >>> part_of("method", "socrates:gamma=1")
    Part('socrates', gamma=1.0)
    >>> part_of("model", "mlp:wide=3")
    Traceback (most recent call last):
    ValueError: model 'mlp' has no option 'wide', did you mean 'width'? Choose from width, depth
    """
    # the name of a folder may have an equals sign behind its last colon
    is_path = kind == "dataset" and Path(text.partition(":")[2]).expanduser().exists()
    name, texts = (text, {}) if is_path else split_options(text)
    known = packages()[kind].options(name)
    for option in texts:
        if option not in known:
            raise ValueError(f"{kind} {name!r} has no option {unknown(option, known)}")
    return Part(
        name, **{option: read(option, value, known[option]) for option, value in texts.items()}
    )


def product(options: Sweep) -> list[Experiment]:
    """Return every data set with every model, method and seed that the options name."""
    if not options.methods:
        raise ValueError(
            "nothing to train: pass a FILE.py, or --methods such as --methods ce focal:gamma=2"
        )
    datasets = [part_of("dataset", text) for text in options.datasets]
    models = [part_of("model", text) for text in options.models]
    methods = [part_of("method", text) for text in options.methods]
    parts = itertools.product(datasets, models, methods, parse_seeds(options.seeds))
    experiments = [options.experiment(*part) for part in parts]
    for experiment in experiments:
        check_parts(experiment)
    return experiments


def read_file(path: Path) -> list[Experiment]:
    """Return the `experiments` of a Python file: a list, or what a function returns."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is not there: pass a Python file that defines `experiments`"
        )
    # as `python FILE.py` does; the processes that train get it too
    sys.path.insert(0, str(path.resolve().parent))
    try:
        experiments: Any = runpy.run_path(str(path)).get("experiments")
        if callable(experiments):
            experiments = experiments()
    except Exception as error:
        raise ValueError(f"{path} could not be run: {type(error).__name__}: {error}") from error
    if experiments is None:
        raise ValueError(
            f"{path} defines no `experiments`: it must be a list of socrates.experiment.Experiment"
        )
    if not isinstance(experiments, list | tuple) or not experiments:
        raise ValueError(
            f"`experiments` of {path} must be a list of at least one Experiment, "
            f"got {experiments!r}"
        )
    for number, item in enumerate(experiments):
        if not isinstance(item, Experiment):
            raise ValueError(
                f"`experiments` of {path} holds {type(item).__name__} at {number}: expected an "
                "Experiment"
            )
    return [resolve(item) for item in experiments]


def show_results(directories: Sequence[Path]) -> None:
    """Print one table per setting: test metrics, mean ± std over the seeds of each method.

    The variants of a single method are compared on validation data, as a choice is made of them.
    """
    runs, skipped = read_runs(directories)
    settings = group_runs(runs)
    answers = answers_of(settings)
    metrics = compared_metrics()
    for setting, groups in settings.items():
        heads = ("runs", *(METRICS[name].head for name in metrics))
        split = "val" if answers[setting].case == "tune" else "test"
        title = f"{setting}: {SPLITS[split].lower()} set, mean ± std"
        table = table_of(title, ("method",), heads, ("",))
        cells = ranked([Compared(group.label, group) for group in groups], metrics, split)
        for group in groups:
            note = f"{group.collapse_count} collapsed" if group.collapses else ""
            numbers = [cell_text(cells[group.label, name]) for name in metrics]
            seeds = str(len(group.runs))
            if group.failures:
                seeds = f"{len(group.runs)} of {len(group.runs) + len(group.failures)}"
            words = (Text(group.label), Text(seeds), *numbers, Text(note))
            table.add_row(*words, style="red" if group.collapses else "")
        console.print(table)
    if settings:
        show_answers(answers)
    for directory, reason in skipped:
        show(f"{whole(directory)}: {reason}", "not shown: ", "red")
