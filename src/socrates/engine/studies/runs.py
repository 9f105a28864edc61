"""Many runs: which are missing, how all of them ended, and one error for those that failed."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from socrates import data
from socrates.cluster import check_engine
from socrates.data.fingerprint import Fingerprint
from socrates.engine.events import Closed, Event, Failed, Finished, Planned, Tell, to_all, to_nobody
from socrates.engine.studies.local import LocalEngine
from socrates.engine.studies.ray import RayEngine
from socrates.engine.train import nothing_to_do
from socrates.experiment import Experiment, resolve
from socrates.predictor import Weights
from socrates.records import Run

Engine = LocalEngine | RayEngine


class StudyError(ChildProcessError):
    """Some runs of a list failed; the others are finished. `failures` holds every one of them."""

    def __init__(self, failures: Sequence[Failed], total: int) -> None:
        super().__init__(describe_failures(failures, total))
        self.failures = tuple(failures)


def run_all(
    experiments: Sequence[Experiment],
    out: Path | str = "runs",
    *,
    data_root: Path | None = None,
    processes: int | None = None,
    accelerator: str = "cpu",
    keep_weights: Weights = "none",
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    per_gpu: int = 1,
    tell: Tell = to_nobody,
) -> list[Run]:
    """Train every experiment that is not finished yet, on all cores; returns the runs in the order asked for.

    An experiment that is asked for twice is trained once. A run that fails leaves the others alone: `StudyError` names
    all failures when the rest is finished. The engine is a pool of processes here, or a Ray cluster at an address.
    """
    made = engine_of(engine, Path(out), data_root, processes, accelerator, keep_weights, address, per_gpu)
    wanted = [resolve(experiment) for experiment in experiments]
    distinct = list(dict.fromkeys(wanted))
    ended: dict[Experiment, Any] = {}  # each with its Finished or Failed

    def note(event: Event) -> None:
        if isinstance(event, Finished | Failed):
            ended[event.experiment] = event

    try:
        tell(Planned(len(distinct), sum(finished_run(made.out, experiment) is not None for experiment in distinct)))
        train_missing(distinct, made, to_all(note, tell))
    finally:
        tell(Closed())
    failures = [event for event in ended.values() if isinstance(event, Failed)]
    if failures:
        raise StudyError(failures, len(distinct))
    return [ended[experiment].run for experiment in wanted]


def engine_of(
    name: Literal["local", "ray"],
    out: Path,
    data_root: Path | None = None,
    processes: int | None = None,
    accelerator: str = "cpu",
    keep_weights: Weights = "none",
    address: str | None = None,
    per_gpu: int = 1,
) -> Engine:
    """The engine of that name.

    >>> engine_of("local", Path("runs"), address="auto")
    Traceback (most recent call last):
    ValueError: an address is that of a Ray cluster: choose the engine ray as well (--engine ray)
    """
    check_engine(name, address)
    if name == "ray":
        return RayEngine(out, data_root, processes, accelerator, keep_weights, per_gpu, address)
    return LocalEngine(out, data_root, processes, accelerator, keep_weights, per_gpu)


def train_missing(experiments: Iterable[Experiment], engine: Engine, tell: Tell) -> None:
    """Have the engine train what is not finished yet; each experiment is told once as Finished or as Failed."""
    missing: list[Experiment] = []
    data_now: dict[Any, Fingerprint] = {}
    for experiment in map(resolve, experiments):
        run = finished_run(engine.out, experiment)
        try:
            if run is not None:
                tell(Finished(experiment, run, nothing_to_do(run, engine.data_root, data_now)))
            else:
                data.factory(experiment.dataset.name)  # a mistyped name needs no process
                missing.append(experiment)
        except ValueError as error:
            tell(Failed(experiment, str(error)))
    if missing:
        engine.run(missing, tell)


def finished_run(out: Path, experiment: Experiment) -> Run | None:
    """The run of an experiment below a folder, if it is whole."""
    directory = Run.directory_of(out, experiment)
    return Run(directory) if (directory / "finished.json").is_file() else None


def describe_failures(failures: Sequence[Failed], total: int, most: int = 10) -> str:
    """All failures by their reason, with the names of at most so many runs each.

    >>> from socrates.experiment import Part
    >>> one = Experiment(Part("digits"), Part("mlp"), Part("focal", gamma=-1.0))
    >>> print(describe_failures([Failed(one, "gamma must be at least 0")], total=3))
    1 of 3 runs failed, the others are finished; the same command tries again:
      gamma must be at least 0
        digits-mlp-focal-gamma-1.0-seed1-...
    """
    by_reason: dict[str, list[str]] = {}
    for failure in failures:
        by_reason.setdefault(failure.reason, []).append(failure.experiment.name)
    rest = ", the others are finished" if len(failures) < total else ""
    lines = [f"{len(failures)} of {total} runs failed{rest}; the same command tries again:"]
    for reason, names in by_reason.items():
        shown = names if len(names) <= most else [*names[:most], f"and {len(names) - most} more"]
        lines += [f"  {reason}", *(f"    {name}" for name in shown)]
    return "\n".join(lines)
