"""Many runs at once: a pool of processes of one thread each, which beats one process of many threads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from socrates import data
from socrates.engine.events import Closed, Failed, Finished, Planned, Tell, to_nobody
from socrates.engine.pool import Pool
from socrates.experiment import Experiment, Part, resolve
from socrates.records import Run


class StudyError(ChildProcessError):
    """Some runs of a list failed; the others are finished. `failures` holds every one of them."""

    def __init__(self, failures: Sequence[Failed], total: int) -> None:
        super().__init__(describe_failures(failures, total))
        self.failures = tuple(failures)


@dataclass(frozen=True)
class Place:
    """Where runs are trained: their folder, the data, the processes, and the device of each."""

    out: Path
    data_root: Path | None = None
    processes: int | None = None
    accelerator: str = "cpu"

    def pool(self) -> Pool:
        """Its processes; none is started yet."""
        return Pool(self.out, self.data_root, self.processes or available_cores(), self.accelerator)

    def finished(self, experiment: Experiment) -> Run | None:
        """The run of an experiment, if it is whole."""
        directory = Run.directory_of(self.out, experiment)
        return Run(directory) if (directory / "finished.json").is_file() else None


def run_all(
    experiments: Sequence[Experiment],
    out: Path | str = "runs",
    *,
    data_root: Path | None = None,
    processes: int | None = None,
    accelerator: str = "cpu",
    tell: Tell = to_nobody,
) -> list[Run]:
    """Train every experiment that is not finished yet, on all cores; returns the runs in the order asked for.

    An experiment that is asked for twice is trained once. A run that fails leaves the others alone: `StudyError` names
    all failures when the rest is finished.
    """
    place = Place(Path(out), data_root, processes, accelerator)
    distinct = list(dict.fromkeys(map(resolve, experiments)))
    runs: dict[Experiment, Run] = {}
    failures: list[Failed] = []
    try:
        tell(Planned(len(distinct), sum(place.finished(experiment) is not None for experiment in distinct)))
        with place.pool() as pool:
            for experiment, outcome in outcomes(distinct, place, pool, tell):
                if isinstance(outcome, Failed):
                    failures.append(outcome)
                else:
                    runs[experiment] = outcome
    finally:
        tell(Closed())
    if failures:
        raise StudyError(failures, len(distinct))
    return [runs[resolve(experiment)] for experiment in experiments]


def outcomes(
    experiments: Iterable[Experiment], place: Place, pool: Pool, tell: Tell
) -> Iterator[tuple[Experiment, Run | Failed]]:
    """Each experiment with its finished run or its failure, as they come; the pool gets what is not finished yet."""
    missing: list[Experiment] = []
    for experiment in map(resolve, experiments):
        run = place.finished(experiment)
        if run is None:
            missing.append(experiment)
        else:
            tell(Finished(experiment, run, already="before"))
            yield experiment, run
    for experiment, reason in _attempts(missing, place, pool, tell):
        if reason is None:
            run = Run(Run.directory_of(place.out, experiment))
            tell(Finished(experiment, run))
            yield experiment, run
        else:
            failure = Failed(experiment, reason)
            tell(failure)
            yield experiment, failure


def _attempts(
    experiments: Sequence[Experiment], place: Place, pool: Pool, tell: Tell
) -> Iterator[tuple[Experiment, str | None]]:
    unreadable = unreadable_datasets({experiment.dataset for experiment in experiments}, place.data_root)
    for experiment in experiments:
        if experiment.dataset in unreadable:
            yield experiment, unreadable[experiment.dataset]
    yield from pool.run([item for item in experiments if item.dataset not in unreadable], tell)


def unreadable_datasets(datasets: Iterable[Part], root: Path | None) -> dict[Part, str]:
    """Why a data set cannot be had; tried once here, so that the processes neither all download it nor all fail."""
    reasons: dict[Part, str] = {}
    for dataset in datasets:
        try:
            options: dict[str, Any] = dict(dataset.options)
            data.load(dataset.name, root, **options)
        except Exception as error:  # whatever it is, the runs on other data sets go on
            reasons[dataset] = str(error) or type(error).__name__
    return reasons


def describe_failures(failures: Sequence[Failed], total: int, most: int = 10) -> str:
    """All failures by their reason, with the names of at most so many runs each.

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


def available_cores() -> int:
    """The cores that this process may use, which can be fewer than the machine has.

    >>> available_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
