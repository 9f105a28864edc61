"""Every table and figure of the paper by name: the runs it needs, and what makes it of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ..experiment import resolve
from ..names import unknown
from ..report.aggregate import Skipped
from ..report.figures.compose import Drawing, write_drawing
from ..report.tables import Table, write_table
from . import figures, tables
from .grid import METHODS_OF_PAPER
from .recipe_data import (
    ABLATIONS,
    ALPHAS,
    BETAS,
    GAMMAS,
    Columns,
    RecipeData,
    Wanted,
    gamma_alpha_grid,
    gather,
    methods,
    searched,
    varied,
)
from .scales import Scale
from .settings import SEEDS, SETTINGS, find_setting


@dataclass(frozen=True)
class Recipe:
    """A table or figure: its number in the paper, its settings there, the columns to train, and how it is made.

    `make` takes the data and the name that stands for the recipe.
    """

    number: str
    what: str
    columns: Callable[[str], Columns]
    make: Callable[[RecipeData, str], Sequence[Table] | Sequence[Drawing]]
    settings: tuple[str, ...] = tuple(SETTINGS)
    searches: bool = False  # trains with the seeds of the search

    def wanted(self, settings: Sequence[str], scale: Scale, seeds: Sequence[int] | None = None) -> Wanted:
        """The runs it needs, by setting and column, one a seed; the paper's settings and seeds if none are given."""
        found: Wanted = {}
        for setting in [find_setting(name) for name in settings or self.settings]:
            own = seeds or (setting.tuning_seeds if self.searches else SEEDS)
            found[setting.name] = {
                title: [resolve(scale.experiment(setting.name, replace(experiment, seed=seed))) for seed in own]
                for title, experiment in self.columns(setting.name).items()
            }
        return found


VGG = ("cifar100-vgg16",)
RESNET = ("cifar100-resnet110",)
TRANSFER = ("cifar100-vit_transfer",)
SCRATCH = tuple(name for name in SETTINGS if name not in TRANSFER)
SOCRATES, SOCRATES_CE, SAT = (
    partial(methods, names={title: METHODS_OF_PAPER[title] for title in titles})
    for titles in (("Socrates",), ("Socrates", "CE"), ("SAT",))
)
GAMMA = partial(varied, option="gamma", values=GAMMAS, symbol="γ")
ALPHA = partial(varied, option="alpha", values=ALPHAS, symbol="α")
BETA = partial(methods, names=BETAS)
ABLATION = partial(methods, names=ABLATIONS)


def _gamma_and_alpha(setting: str) -> Columns:
    return GAMMA(setting) | ALPHA(setting)


RECIPES: dict[str, Recipe] = {
    "test": Recipe("Table 1", "test set performance", methods, tables.performance),
    "posthoc": Recipe("Table 2", "post-hoc scaling of Socrates and CE", SOCRATES_CE, tables.performance),
    "hyperparameters": Recipe(
        "Table 3", "final hyperparameters, searched", searched, tables.hyperparameters, searches=True
    ),
    "gamma": Recipe("Table 4", "sensitivity to gamma", GAMMA, tables.over_epochs, VGG),
    "alpha": Recipe("Table 5", "sensitivity to alpha", ALPHA, tables.over_epochs, VGG),
    "beta": Recipe("Table 6", "sensitivity to beta", BETA, tables.over_epochs, VGG),
    "ablation-vgg16": Recipe("Table 7", "ten ablations, VGG-16", ABLATION, tables.over_epochs, VGG),
    "ablation-resnet110": Recipe("Table 8", "ten ablations, ResNet-110", ABLATION, tables.over_epochs, RESNET),
    "validation": Recipe("Table 9", "validation set performance", methods, tables.performance),
    "evolution": Recipe("Figure 1", "beta and target over epochs", SOCRATES, figures.evolutions, VGG),
    "losses": Recipe("Figure 2", "loss trends", methods, figures.losses),
    "pareto": Recipe("Figure 3", "error against ECE over epochs", methods, figures.paths, SCRATCH),
    "transfer": Recipe("Figure 4", "transfer learning: Pareto and reliability", methods, figures.transfer, TRANSFER),
    "reliability": Recipe("Figure 5", "reliability diagrams", methods, figures.reliabilities, SCRATCH),
    "evolution-grid": Recipe(
        "Figure 6", "beta and target for every gamma and alpha", gamma_alpha_grid, figures.evolution_grids, VGG
    ),
    "pareto-gamma-alpha": Recipe(
        "Figure 7", "Pareto for gamma and alpha", _gamma_and_alpha, figures.gamma_and_alpha, VGG
    ),
    "sat-unknown": Recipe(
        "Figure 8", "SAT's confidence in the unknown class against ECE", SAT, figures.sat_unknown, VGG + RESNET
    ),
    "pareto-beta": Recipe("Figure 9", "Pareto for beta", BETA, figures.paths, VGG),
    "pareto-ablation": Recipe("Figure 10", "Pareto for the ablations", ABLATION, figures.paths, VGG + RESNET),
    "unknown": Recipe("Figure 11", "the unknown class during training", SOCRATES, figures.unknown_behaviours, VGG),
    "test-pareto": Recipe("Figure 12", "test error against ECE", methods, figures.points, SCRATCH),
    "posthoc-pareto": Recipe("Figure 13", "test error against ECE, post-hoc", SOCRATES_CE, figures.scaled, SCRATCH),
    "transfer-test-pareto": Recipe(
        "Figure 14", "transfer learning on test data", methods, figures.transfer_test, TRANSFER
    ),
}


MANY = ("all", "tables", "figures")


def find_recipes(names: Sequence[str]) -> dict[str, Recipe]:
    """Recipes by name or number; `all`, `tables` and `figures` stand for many.

    >>> list(find_recipes(["table1", "beta", "Figure 11"]))
    ['test', 'beta', 'unknown']
    >>> len(find_recipes(["all"])), len(find_recipes(["tables"]))
    (23, 9)
    >>> find_recipes(["paretto"])
    Traceback (most recent call last):
    ValueError: the paper has no table or figure 'paretto', did you mean 'pareto'? Choose from test, posthoc, ...
    """
    if not names:
        raise ValueError(f"name tables or figures of the paper: {', '.join(RECIPES)}, or all, tables, figures")
    found: dict[str, Recipe] = {}
    numbers = {name: recipe.number.lower().replace(" ", "") for name, recipe in RECIPES.items()}
    for name in names:
        plain = name.lower().replace(" ", "").replace("_", "-")
        matching = {
            known: RECIPES[known]
            for known, number in numbers.items()
            if plain in ("all", known, number, f"{number.rstrip('0123456789')}s")
        }
        if not matching:
            known = [*RECIPES, *numbers.values(), *MANY]
            raise ValueError(f"the paper has no table or figure {unknown(plain, known)}")
        found |= matching
    return found


def write_recipes(
    recipes: Mapping[str, Recipe], wanted: Mapping[str, Wanted], scale: Scale, runs: Path, out: Path
) -> tuple[dict[str, list[Path]], list[Skipped]]:
    """Write each recipe from its finished runs; returns the files by recipe, and the runs that were not there."""
    written: dict[str, list[Path]] = {}
    missing: dict[Path, Skipped] = {}
    for name, recipe in recipes.items():
        data, absent = gather(wanted[name], scale, runs)
        missing |= {skipped.directory: skipped for skipped in absent}
        if data.groups:
            written[name] = []
            for made in recipe.make(data, name):
                if isinstance(made, Table):
                    written[name] += write_table(made, out / "tables")
                else:
                    written[name] += write_drawing(made, out / "figures", scale.note)
    return written, list(missing.values())
