"""Print the runs of a study, about how long they take here, and their disk: `--dry-run`."""

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from socrates.engine.studies.candidates import grid_candidates
from socrates.engine.studies.forecast import Forecast, forecast
from socrates.engine.studies.local import LocalEngine
from socrates.engine.studies.runs import finished_run
from socrates.engine.studies.tune import Study
from socrates.experiment import Experiment
from socrates.paper.reproduce import Plan
from socrates.prose import whole
from socrates.records import Run
from socrates.report.labels import method_label, setting_of

from .commands import Reproduce, Sweep, Tune
from .options import ManyRuns
from .output import console, show, table_of

UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def list_runs(experiments: Sequence[Experiment], options: Sweep) -> None:
    """Print each run of a sweep and how far it is, then what the missing ones take."""
    missing: list[Experiment] = []
    distinct = list(dict.fromkeys(experiments))
    for experiment in distinct:
        state = "finished"
        if finished_run(options.out, experiment) is None:
            missing.append(experiment)
            directory = Run.directory_of(options.out, experiment)
            started = (directory / "experiment.json").is_file()
            done = len(Run(directory).epochs()) if started else 0
            state = f"{done} of {experiment.optimization.epochs} epochs"
        show(f"{experiment.name}: {state}")
    show_counts(len(distinct), len(missing))
    show_total(missing, measured(missing, options), options)


def list_candidates(study: Study, options: Tune) -> None:
    """Print the candidates of a study, or their number if optuna chooses them, and the time."""
    candidates = grid_candidates(study.base, study.grid)
    runs = [run for candidate in candidates for run in candidate.runs(study.seeds)]
    missing = [run for run in runs if finished_run(options.out, run) is None]
    estimate = measured(missing, options)
    if study.trials is None:
        for candidate in candidates:
            show(candidate.label)
        show_counts(len(runs), len(missing))
        show_total(missing, estimate, options)
        return
    seconds = estimate.together(missing, at_once(options)) * study.trials / len(candidates)
    show(f"{study.trials} candidates that optuna chooses, {study.trials * len(study.seeds)} runs")
    show(
        f"{time_text(seconds)} with {processes_text(options)}, if they are like the grid's and "
        "none is finished"
    )


def show_plan(plan: Plan, options: Reproduce) -> None:
    """Print a line for each of several tables and figures, or for each method of one, then all."""
    missing = [run for run in plan.runs if finished_run(plan.folder / "runs", run) is None]
    estimate = measured(missing, options)
    several = len(plan.recipes) > 1
    rows: dict[tuple[str, ...], list[Experiment]] = {}
    if several:
        for name, recipe in plan.recipes.items():
            rows[recipe.number, name] = plan.runs_of(name)
    else:
        for run in plan.runs:
            rows.setdefault((setting_of(run), method_label(run)), []).append(run)
    rows["all", ""] = plan.runs
    heads = ("what", "name") if several else ("setting", "method")
    show_rows(heads, rows, missing, estimate, options)
    samples = sum(work.samples for work in estimate.workloads.values())
    in_all = f": {samples:,} samples seen in training" if samples else ""
    show(f"{len(missing)} of {len(plan.runs)} runs are missing{in_all}")
    show_total(missing, estimate, options)
    if several:
        show(
            "tables and figures share runs, and all counts each run once; for one of them: "
            + whole(f"socrates reproduce {next(iter(plan.recipes))} --dry-run")
        )


def show_rows(
    heads: tuple[str, ...],
    rows: Mapping[tuple[str, ...], Sequence[Experiment]],
    missing: Iterable[Experiment],
    estimate: Forecast,
    options: ManyRuns,
) -> None:
    """Print a table of the runs of each row: how many are missing, and what those take."""
    all_missing = set(missing)
    table = table_of("", heads, ("runs", "missing", "time", "disk"))
    for names, runs in rows.items():
        missing_here = [run for run in runs if run in all_missing]
        timed = [run for run in missing_here if run in estimate.seconds]
        time = time_text(estimate.together(timed, at_once(options))) if timed else ""
        disk = size_text(kept_bytes(timed, estimate, options)) if timed else ""
        table.add_row(*map(Text, names), str(len(runs)), str(len(missing_here)), time, disk)
    console.print(table)


def measured(runs: Sequence[Experiment], options: ManyRuns) -> Forecast:
    """Estimate how long each run takes, by a few seconds of measuring."""
    with console.status("measuring how fast this machine is, for a few seconds"):
        return forecast(runs, accelerator=options.device, data_root=options.data)


def show_counts(num_runs: int, num_missing: int) -> None:
    """Print how many runs there are, and how many are finished."""
    show(f"{num_runs} runs, {num_runs - num_missing} finished, {num_missing} to train")


def show_total(runs: Sequence[Experiment], estimate: Forecast, options: ManyRuns) -> None:
    """Print how long runs take, what they write, and which of it was not measured."""
    timed = [run for run in runs if run in estimate.seconds]
    if timed:
        checkpoints = max(estimate.workloads[run].checkpoint_bytes for run in timed)
        show(
            f"{time_text(estimate.together(timed, at_once(options)))} with "
            f"{processes_text(options)}; up to "
            f"{size_text(kept_bytes(timed, estimate, options))} on the disk, and "
            f"{size_text(num_processes(options) * checkpoints)} more while they train"
        )
    for note in estimate.notes:
        show(note, "note: ", "yellow")


def kept_bytes(runs: Sequence[Experiment], estimate: Forecast, options: ManyRuns) -> int:
    """Return the bytes that runs keep on the disk, at most."""
    return sum(estimate.workloads[run].kept_bytes(options.keep_weights) for run in runs)


def num_processes(options: ManyRuns) -> int:
    """Return how many runs are trained at the same time."""
    return LocalEngine(options.out, processes=options.processes).at_once


def at_once(options: ManyRuns) -> int:
    """Return how many runs progress at full speed; on one accelerator they share its speed."""
    return num_processes(options) if options.device == "cpu" else 1


def processes_text(options: ManyRuns) -> str:
    """Describe the processes that train, and the device they share."""
    count = num_processes(options)
    shared = "" if options.device == "cpu" else f" that share one device ({options.device})"
    return f"{count} process{'es' * (count > 1)}{shared}"


def time_text(seconds: float) -> str:
    """Return a time as a person says it.

    >>> time_text(20), time_text(100), time_text(7_800), time_text(187_000)
    ('less than a minute', 'about 2 minutes', 'about 2 h 10 min', 'about 2 days 4 h')
    >>> time_text(1e6), time_text(1e9)
    ('about 11 days', 'about 31 years')
    """
    minutes = round(seconds / 60)
    hours = round(seconds / 3600)
    if seconds < 60:
        return "less than a minute"
    if minutes < 60:
        return f"about {minutes} minute{'s' * (minutes > 1)}"
    if minutes < 24 * 60:
        return f"about {minutes // 60} h {minutes % 60} min"
    if hours < 10 * 24:
        return f"about {hours // 24} day{'s' * (hours >= 48)} {hours % 24} h"
    if hours < 2 * 8766:
        return f"about {hours // 24} days"
    return f"about {hours // 8766:,} years"


def size_text(num_bytes: float) -> str:
    """Return a size as a person says it.

    >>> size_text(100), size_text(65_868), size_text(2.5e9)
    ('100 bytes', '66 kB', '2.5 GB')
    """
    power = 0
    while num_bytes >= 999.5 and power < len(UNITS) - 1:
        num_bytes /= 1000
        power += 1
    digits = 1 if power and num_bytes < 9.95 else 0
    return f"{num_bytes:.{digits}f} {UNITS[power]}"
