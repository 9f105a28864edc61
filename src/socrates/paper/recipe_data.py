"""What a table or figure of the paper is made from: runs by setting and column, read where they are whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..experiment import Experiment
from ..records import Run
from ..report.aggregate import Skipped, read_runs, results_of
from ..report.results import Results
from .released import AsReleased
from .scales import Scale as TrainedScale

Scale = TrainedScale | AsReleased
Wanted = dict[str, dict[str, list[Experiment]]]  # by setting and column, one a seed


@dataclass(frozen=True)
class RecipeData:
    """The finished runs of a recipe as groups, by setting and column, and the Pareto rule that names the best."""

    scale: Scale
    groups: dict[str, dict[str, Results]]
    rule: str = "l1"


def gather(wanted: Wanted, scale: Scale, root: Path, rule: str = "l1") -> tuple[RecipeData, list[Skipped]]:
    """The runs that are there and whole, and what is missing; a column without any run is left out."""
    groups: dict[str, dict[str, Results]] = {}
    missing: list[Skipped] = []
    for setting, columns in wanted.items():
        for title, experiments in columns.items():
            runs, absent = read_runs([Run.directory_of(root, one) for one in experiments])
            missing += absent
            if runs:
                groups.setdefault(setting, {})[title] = results_of(title, runs)
    return RecipeData(scale, groups, rule), missing
