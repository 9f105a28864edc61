"""`--dry-run` of `socrates sweep | tune | reproduce`: the runs, about how long they take here, and their disk."""

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from socrates.engine.studies.candidates import grid_candidates
from socrates.engine.studies.cost import cost, disk, sizes_of
from socrates.engine.studies.forecast import Forecast, forecast
from socrates.engine.studies.local import LocalEngine
from socrates.engine.studies.runs import finished_run
from socrates.engine.studies.tune import Study
from socrates.experiment import Experiment
from socrates.paper.reproduce import Plan
from socrates.records import Run
from socrates.report.aggregate import method_label, setting_of

from .commands import Reproduce, Sweep, Tune
from .options import ManyRuns
from .output import console, show, table_of

UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def list_runs(experiments: Sequence[Experiment], options: Sweep) -> None:
    """Each run, and how far it is."""
    directories = {experiment: Run.directory_of(options.out, experiment) for experiment in experiments}
    finished = {experiment for experiment, directory in directories.items() if (directory / "finished.json").is_file()}
    for experiment, directory in directories.items():
        done = len(Run(directory).epochs()) if (directory / "experiment.json").is_file() else 0
        epochs = f"{done} of {experiment.optimization.epochs} epochs"
        show(f"{experiment.name}: {'finished' if experiment in finished else epochs}")
    show(f"{len(directories)} runs, {len(finished)} finished, {len(directories) - len(finished)} to train")
    missing = [experiment for experiment in directories if experiment not in finished]
    show_total(missing, measured(missing, options), options)


def list_candidates(study: Study, options: Tune) -> None:
    """The candidates of a study; how many there are if they are searched for, and what as many of the grid take."""
    points = grid_candidates(study.base, study.grid)
    runs = [run for point in points for run in point.runs(study.seeds)]
    missing = [run for run in runs if finished_run(options.out, run) is None]
    found = measured(missing, options)
    if study.trials is None:
        for point in points:
            show(point.label)
        show(f"{len(runs)} runs, {len(runs) - len(missing)} finished, {len(missing)} to train")
        show_total(missing, found, options)
        return
    share = study.trials / len(points)
    seconds = share * found.together(missing, at_once(options))
    show(f"{study.trials} candidates that optuna chooses, {study.trials * len(study.seeds)} runs")
    show(f"{spoken(seconds)} with {told_of_processes(options)}, if they are like the grid's and none is finished")


def show_plan(plan: Plan, options: Reproduce) -> None:
    """A line for each of several tables and figures, which share runs, or for each kind of run of one; then all."""
    missing = [run for run in plan.runs if finished_run(plan.folder / "runs", run) is None]
    found = measured(missing, options)
    rows: dict[tuple[str, ...], list[Experiment]] = {}
    if len(plan.recipes) > 1:
        heads = ("what", "name")
        rows |= {(recipe.number, name): plan.runs_of(name) for name, recipe in plan.recipes.items()}
    else:
        heads = ("setting", "method")
        for run in plan.runs:
            rows.setdefault((setting_of(run), method_label(run)), []).append(run)
    show_rows(heads, rows | {("all", ""): plan.runs}, missing, found, options)
    parts = [cost(run, sizes_of(run, options.data)) for run in missing if run in found.seconds]
    samples, updates = sum(one.samples for one in parts), sum(one.parameters * one.steps for one in parts)
    work = f"{samples:,} samples seen in training, {updates:.3g} parameter-updates (parameters times steps)"
    show(f"{len(missing)} of {len(plan.runs)} runs are missing" + (f": {work}" if parts else ""))
    show_total(missing, found, options)
    if len(plan.recipes) > 1:
        name = next(iter(plan.recipes))
        show(f"tables and figures share runs, all counts each once; of one alone: socrates reproduce {name} --dry-run")


def show_rows(
    heads: tuple[str, ...],
    rows: Mapping[tuple[str, ...], Sequence[Experiment]],
    missing: Iterable[Experiment],
    found: Forecast,
    options: ManyRuns,
) -> None:
    """A table: what is missing of the runs of each row, and what that takes."""
    absent = set(missing)
    known = {run: disk(run, options.keep_weights, sizes_of(run, options.data)).kept for run in found.seconds}
    table = table_of("", heads, ("runs", "missing", "time", "disk"))
    for words, runs in rows.items():
        own = [run for run in runs if run in absent]
        timed = [run for run in own if run in known]
        time = spoken(found.together(timed, at_once(options))) if timed else ""
        kept = size_of(sum(known[run] for run in timed)) if timed else ""
        table.add_row(*map(Text, words), str(len(runs)), str(len(own)), time, kept)
    console.print(table)


def measured(runs: Sequence[Experiment], options: ManyRuns) -> Forecast:
    """How long each run takes, by a few seconds of trying."""
    with console.status("trying how fast this machine is, for a few seconds"):
        return forecast(runs, accelerator=options.device, data_root=options.data)


def show_total(runs: Sequence[Experiment], found: Forecast, options: ManyRuns) -> None:
    """How long these runs take, what they write, and what of it is not measured."""
    known = [run for run in runs if run in found.seconds]
    if known:
        sizes = [disk(run, options.keep_weights, sizes_of(run, options.data)) for run in known]
        meanwhile = at_once(options, of_one_device=False) * max(one.meanwhile for one in sizes)
        show(
            f"{spoken(found.together(known, at_once(options)))} with {told_of_processes(options)}; up to "
            f"{size_of(sum(one.kept for one in sizes))} on the disk, and {size_of(meanwhile)} more while they train"
        )
    for note in found.notes:
        show(note, "note: ", "yellow")


def at_once(options: ManyRuns, of_one_device: bool = True) -> int:
    """How many runs go on together; on one accelerator they share what it can do."""
    shared = of_one_device and options.device != "cpu"
    return 1 if shared else LocalEngine(options.out, processes=options.processes).at_once


def told_of_processes(options: ManyRuns) -> str:
    """In words."""
    count = at_once(options, of_one_device=False)
    shared = "" if options.device == "cpu" else f" that share one device ({options.device})"
    return f"{count} process{'es' * (count > 1)}{shared}"


def spoken(seconds: float) -> str:
    """A time as one says it.

    >>> spoken(20), spoken(100), spoken(7_800), spoken(187_000)
    ('less than a minute', 'about 2 minutes', 'about 2 h 10 min', 'about 2 days 4 h')
    >>> spoken(1e6), spoken(1e9)
    ('about 11 days', 'about 31 years')
    """
    minutes = round(seconds / 60)
    if seconds < 60:
        return "less than a minute"
    if minutes < 60:
        return f"about {minutes} minute{'s' * (minutes > 1)}"
    if minutes < 24 * 60:
        return f"about {minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    if hours < 10 * 24:
        return f"about {hours // 24} day{'s' * (hours >= 48)} {hours % 24} h"
    return f"about {hours // 24} days" if hours < 2 * 8766 else f"about {hours // 8766:,} years"


def size_of(num_bytes: float) -> str:
    """A size as one says it.

    >>> size_of(100), size_of(65_868), size_of(2.5e9)
    ('100 bytes', '66 kB', '2.5 GB')
    """
    power = 0
    while num_bytes >= 999.5 and power < len(UNITS) - 1:
        num_bytes, power = num_bytes / 1000, power + 1
    return f"{num_bytes:.{1 if power and num_bytes < 9.95 else 0}f} {UNITS[power]}"
