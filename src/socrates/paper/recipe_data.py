"""The finished runs that a table or figure of the paper is made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..experiment import Experiment
from ..records import Run
from ..report.aggregate import Skipped, read_runs, results_of
from ..report.results import Results
from .scales import PaperScale

WantedRuns = dict[str, dict[str, list[Experiment]]]  # by setting and column, one run per seed


@dataclass(frozen=True)
class RecipeData:
    """The finished runs of a recipe, and the Pareto rule that chooses the best of them."""

    scale: PaperScale
    groups: dict[str, dict[str, Results]]  # by setting and column
    rule: str = "l1"


def gather(
    wanted: WantedRuns, scale: PaperScale, root: Path, rule: str = "l1"
) -> tuple[RecipeData, list[Skipped]]:
    """Return the finished runs, and those that are missing or incomplete.

    A column without any run is left out.
    """
    groups: dict[str, dict[str, Results]] = {}
    missing: list[Skipped] = []
    for setting, columns in wanted.items():
        for title, experiments in columns.items():
            directories = [Run.directory_of(root, experiment) for experiment in experiments]
            runs, skipped = read_runs(directories)
            missing += skipped
            if runs:
                groups.setdefault(setting, {})[title] = results_of(title, runs)
    return RecipeData(scale, groups, rule), missing
