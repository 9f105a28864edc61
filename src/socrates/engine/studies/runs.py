"""Train the missing runs of a list, and raise one error for all that failed."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from socrates import data
from socrates.cluster import check_engine
from socrates.data.fingerprint import Fingerprint
from socrates.engine.events import Closed, Event, Failed, Finished, Planned, Tell, to_all, to_nobody
from socrates.engine.studies.local import LocalEngine
from socrates.engine.studies.ray import RayEngine
from socrates.engine.train import already_finished
from socrates.experiment import Experiment, resolve
from socrates.predictor import Weights
from socrates.records import Run, finished_run

Engine = LocalEngine | RayEngine
MOST_NAMED = 10  # runs that failed for one reason


class StudyError(ChildProcessError):
    """Some runs of a list failed, which `failures` holds; the others are finished."""

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
    """Train every experiment that is not finished yet, on all cores.

    Returns the runs in the order of the experiments; one that is listed twice is trained once. A
    run that fails leaves the others alone: `StudyError` names all failures when the rest is
    finished. The engine is a pool of processes here, or a Ray cluster at an address.
    """
    chosen = engine_of(
        engine,
        Path(out),
        address,
        data_root=data_root,
        processes=processes,
        accelerator=accelerator,
        keep_weights=keep_weights,
        per_gpu=per_gpu,
    )
    wanted = [resolve(experiment) for experiment in experiments]
    distinct = list(dict.fromkeys(wanted))
    failures: list[Failed] = []

    def note(event: Event) -> None:
        if isinstance(event, Failed):
            failures.append(event)

    try:
        num_finished = sum(finished_run(chosen.out, run) is not None for run in distinct)
        tell(Planned(len(distinct), num_finished))
        train_missing(distinct, chosen, to_all(note, tell))
    finally:
        tell(Closed())
    if failures:
        raise StudyError(failures, len(distinct))
    return [Run(Run.directory_of(chosen.out, experiment)) for experiment in wanted]


def engine_of(
    name: Literal["local", "ray"], out: Path, address: str | None = None, **options: Any
) -> Engine:
    """Return the engine of that name, with the options of `EngineOptions`.

    >>> engine_of("local", Path("runs"), address="auto")
    Traceback (most recent call last):
    ValueError: auto is the address of a Ray cluster, which the engine local does not use: ...
    """
    check_engine(name, address)
    if name == "ray":
        return RayEngine(out, address=address, **options)
    return LocalEngine(out, **options)


def train_missing(experiments: Iterable[Experiment], engine: Engine, tell: Tell) -> None:
    """Have the engine train what is not finished, and report each as Finished or as Failed."""
    missing: list[Experiment] = []
    data_now: dict[Any, Fingerprint] = {}
    for experiment in experiments:
        run = finished_run(engine.out, experiment)
        try:
            if run is None:
                data.factory(experiment.dataset.name)  # a mistyped name needs no process
                missing.append(experiment)
            else:
                tell(Finished(experiment, run, already_finished(run, engine.data_root, data_now)))
        except ValueError as error:
            tell(Failed(experiment, str(error)))
    if missing:
        engine.run(missing, tell)


def describe_failures(failures: Sequence[Failed], total: int) -> str:
    """List all failures by reason, each with the names of its first runs.

    >>> from socrates.experiment import Part
    >>> run = Experiment(Part("digits"), Part("mlp"), Part("focal", gamma=-1.0))
    >>> print(describe_failures([Failed(run, "gamma must be at least 0")], total=3))
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
        if len(names) > MOST_NAMED:
            names[MOST_NAMED:] = [f"and {len(names) - MOST_NAMED} more"]
        lines += [f"  {reason}", *(f"    {name}" for name in names)]
    return "\n".join(lines)
