"""What a table or figure of the paper is made from: runs by setting and column, asked for first, read later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..experiment import Experiment, Part
from ..records import Run
from ..report.aggregate import Skipped, read_runs, results_of
from ..report.results import Results
from .grid import METHODS_OF_PAPER, final_choice, final_experiment, tuning_experiments
from .scales import Scale

Columns = dict[str, Experiment]  # by the heading of the column, with any seed
Wanted = dict[str, dict[str, list[Experiment]]]  # by setting and column, one a seed

GAMMAS = (0.0, 1.0, 2.0, 3.0, 4.0)
ALPHAS = (0.8, 0.9, 0.99, 0.999, 1.0)
BETAS = {
    "β": "socrates",
    "β known": "socrates:beta-known",
    "β fixed": "socrates:beta-fixed",
    "no β": "socrates:no-beta",
}
ABLATIONS = {
    "Socrates": "socrates",
    "no β": "socrates:no-beta",
    "no focal": "socrates:no-focal",
    "no focal (unknown)": "socrates:no-focal-unknown",
    "no focal (true)": "socrates:no-focal-true",
    "no focal, β": "socrates:no-focal-no-beta",
    "no focal (unknown), β": "socrates:no-focal-unknown-no-beta",
    "no focal (true), β": "socrates:no-focal-true-no-beta",
    "no target": "socrates:no-target",
    "no target, focal": "socrates:no-target-no-focal",
}


@dataclass(frozen=True)
class RecipeData:
    """The finished runs of a recipe as groups, by setting and column."""

    scale: Scale
    groups: dict[str, dict[str, Results]]

    def only(self, wanted: Callable[[str], bool]) -> RecipeData:
        """Those columns."""
        kept = {
            setting: {title: group for title, group in groups.items() if wanted(title)}
            for setting, groups in self.groups.items()
        }
        return replace(self, groups=kept)


def methods(setting: str, names: Mapping[str, str] = METHODS_OF_PAPER) -> Columns:
    """Methods of the paper, or ablations, with the final hyperparameters in that setting.

    >>> list(methods("svhn-vgg16", {"Socrates": "socrates"})), methods("svhn-vgg16")["MC"].method
    (['Socrates'], Part('ce_dece', weight=0.5))
    """
    return {title: final_experiment(setting, name) for title, name in names.items()}


def varied(setting: str, option: str, values: Sequence[float], symbol: str) -> Columns:
    """Socrates' final hyperparameters with one of them varied.

    >>> list(varied("cifar100-vgg16", "gamma", (0.0, 1.0), "γ"))
    ['γ = 0', 'γ = 1']
    """
    final = final_experiment(setting, "socrates")
    options = dict(final.method.options)
    return {
        f"{symbol} = {value:g}": replace(final, method=Part("socrates", **{**options, option: value}))
        for value in values
    }


def gamma_alpha_grid(setting: str) -> Columns:
    """Socrates with every gamma and alpha of the paper's grid, and its final batch size."""
    batch_size = final_choice(setting, "socrates").batch_size
    grid = [run for run in tuning_experiments(setting, "socrates") if run.optimization.batch_size == batch_size]
    return {f"γ = {o['gamma']:g}, α = {o['alpha']:g}": run for run in grid for o in [dict(run.method.options)]}


def searched(setting: str) -> Columns:
    """Every point of every method's grid; the heading is the method and a number."""
    return {
        f"{title} {number}": experiment
        for title, method in METHODS_OF_PAPER.items()
        for number, experiment in enumerate(tuning_experiments(setting, method), start=1)
    }


def gather(wanted: Wanted, scale: Scale, root: Path) -> tuple[RecipeData, list[Skipped]]:
    """The runs that are there and whole, and what is missing; a column without any run is left out."""
    groups: dict[str, dict[str, Results]] = {}
    missing: list[Skipped] = []
    for setting, columns in wanted.items():
        for title, experiments in columns.items():
            runs, absent = read_runs([Run.directory_of(root, one) for one in experiments])
            missing += absent
            if runs:
                groups.setdefault(setting, {})[title] = results_of(title, runs)
    return RecipeData(scale, groups), missing
