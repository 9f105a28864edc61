"""What a plan of many runs needs, looked at before its first run: data, packages, weights, disk.

A missing checkpoint of the last setting would otherwise show after weeks.
"""

import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from socrates import data, models
from socrates.engine.studies.forecast import workload_of
from socrates.experiment import Experiment

KeepWeights = Literal["full", "half", "none"]
PRETRAINED = ("vit_transfer",)  # models that need a package and its weights


class PlanCheck(NamedTuple):
    """One thing that a plan needs, and what is wrong with it; nothing if it is empty."""

    what: str
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.problem or 'there'}"


def check_plan(
    runs: Sequence[Experiment],
    folder: Path,
    data_root: Path | None = None,
    keep_weights: KeepWeights = "none",
) -> list[PlanCheck]:
    """Look at every data set, pretrained model and the disk that runs need.

    What can be downloaded is downloaded now, once, instead of by each of the first runs.
    """
    datasets = list(dict.fromkeys(run.dataset.name for run in runs))
    checks = [
        PlanCheck(f"data set {name}", _problem(lambda name=name: data.load(name, data_root)))
        for name in datasets
    ]
    pretrained = dict.fromkeys(run.model for run in runs if run.model.name in PRETRAINED)
    for model in pretrained:
        size = models.factory(model.name).pretrained_size  # pyright: ignore[reportFunctionMemberAccess]
        shape = (3, size, size)
        build = lambda model=model, shape=shape: models.build(  # noqa: E731
            model.name, 2, shape, **dict(model.options)
        )
        checks.append(PlanCheck(f"weights of {model.name}", _problem(build)))
    if runs:
        checks.append(disk_check(runs, folder, keep_weights))
    return checks


def _problem(look: Callable[[], object]) -> str:
    """Return what an attempt says went wrong, in one line, or nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the runs themselves warn
            look()
    except (OSError, ValueError, ImportError) as error:
        return " ".join(str(error).split())
    return ""


def disk_check(
    runs: Sequence[Experiment], folder: Path, keep_weights: KeepWeights = "none"
) -> PlanCheck:
    """Compare the free space with what the runs keep, and with the largest checkpoint."""
    workloads = [workload_of(run) for run in runs]
    needed = sum(work.kept_bytes(keep_weights) for work in workloads)
    needed += max(work.checkpoint_bytes for work in workloads)
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    what = f"disk of {place}, {needed / 1e9:.1f} GB needed at most"
    return PlanCheck(what, "" if free >= needed else f"only {free / 1e9:.1f} GB are free")


def refuse_problems(checks: Sequence[PlanCheck]) -> None:
    """Raise one error for everything that is missing, before anything is trained."""
    problems = [str(check) for check in checks if check.problem]
    if problems:
        raise ValueError(
            f"the plan cannot be carried out, and nothing was trained. {'; '.join(problems)}. "
            "Provide what is missing, or choose settings that do not need it"
        )
