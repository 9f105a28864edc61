"""Every table and figure of the paper by name: the runs it needs, and what makes it of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ..names import unknown
from ..report.figures.compose import Drawing
from ..report.tables import Table
from . import figures, recipe_data, tables
from .recipe_data import Columns, RecipeData
from .scales import Scale
from .settings import SEEDS, SETTINGS, find_setting

Made = Sequence[Table] | Sequence[Drawing]


@dataclass(frozen=True)
class Recipe:
    """A table or figure: its number in the paper, its settings there, the columns to train, and how it is made."""

    number: str
    what: str
    columns: Callable[[str], Columns]
    make: Callable[[RecipeData], Made]
    settings: tuple[str, ...] = tuple(SETTINGS)
    searches: bool = False  # trains with the seeds of the search

    def wanted(self, settings: Sequence[str], scale: Scale, seeds: Sequence[int] | None = None) -> recipe_data.Wanted:
        """The runs it needs, by setting and column; for the paper's own settings if none are given."""
        chosen = [find_setting(name).name for name in settings] or list(self.settings)
        return recipe_data.wanted_runs(self.columns, chosen, scale, lambda name: seeds or self.seeds(name))

    def seeds(self, setting: str) -> tuple[int, ...]:
        """The paper's."""
        return SETTINGS[setting].tuning_seeds if self.searches else SEEDS


VGG = ("cifar100-vgg16",)
RESNET = ("cifar100-resnet110",)
TRANSFER = ("cifar100-vit_transfer",)
SCRATCH = tuple(name for name in SETTINGS if name not in TRANSFER)
SOCRATES = partial(recipe_data.methods, titles=("Socrates",))
SOCRATES_CE = partial(recipe_data.methods, titles=("Socrates", "CE"))
GAMMA = partial(recipe_data.varied, option="gamma", values=recipe_data.GAMMAS, symbol="γ")
ALPHA = partial(recipe_data.varied, option="alpha", values=recipe_data.ALPHAS, symbol="α")
BETA = partial(recipe_data.variants, names=recipe_data.BETAS)
ABLATION = partial(recipe_data.variants, names=recipe_data.ABLATIONS)


def _gamma_and_alpha(found: RecipeData) -> list[Drawing]:
    """Both sensitivities were trained together; each has its own figure."""
    return [
        drawing
        for symbol, name in (("γ", "pareto-gamma"), ("α", "pareto-alpha"))
        for part in [{s: {t: g for t, g in groups.items() if t[0] == symbol} for s, groups in found.groups.items()}]
        for drawing in figures.pareto_over_epochs(RecipeData(found.scale, part), name)
    ]


RECIPES: dict[str, Recipe] = {
    "test": Recipe("Table 1", "test set performance", recipe_data.methods, partial(tables.performance, split="test")),
    "posthoc": Recipe("Table 2", "post-hoc scaling of Socrates and CE", SOCRATES_CE, tables.posthoc),
    "hyperparameters": Recipe(
        "Table 3", "final hyperparameters, searched", recipe_data.searched, tables.hyperparameters, searches=True
    ),
    "gamma": Recipe("Table 4", "sensitivity to gamma", GAMMA, partial(tables.over_epochs, name="gamma"), VGG),
    "alpha": Recipe("Table 5", "sensitivity to alpha", ALPHA, partial(tables.over_epochs, name="alpha"), VGG),
    "beta": Recipe("Table 6", "sensitivity to beta", BETA, partial(tables.over_epochs, name="beta"), VGG),
    "ablation-vgg16": Recipe(
        "Table 7", "ten ablations, VGG-16", ABLATION, partial(tables.over_epochs, name="ablation-vgg16"), VGG
    ),
    "ablation-resnet110": Recipe(
        "Table 8", "ten ablations, ResNet-110", ABLATION, partial(tables.over_epochs, name="ablation-resnet110"), RESNET
    ),
    "validation": Recipe(
        "Table 9", "validation set performance", recipe_data.methods, partial(tables.performance, split="val")
    ),
    "evolution": Recipe("Figure 1", "beta and target over epochs", SOCRATES, figures.evolutions, VGG),
    "losses": Recipe("Figure 2", "loss trends", recipe_data.methods, figures.loss_trends),
    "pareto": Recipe(
        "Figure 3",
        "error against ECE over epochs",
        recipe_data.methods,
        partial(figures.pareto_over_epochs, name="pareto"),
        SCRATCH,
    ),
    "transfer": Recipe(
        "Figure 4", "transfer learning: Pareto and reliability", recipe_data.methods, figures.transfer, TRANSFER
    ),
    "reliability": Recipe("Figure 5", "reliability diagrams", recipe_data.methods, figures.reliability_lines, SCRATCH),
    "evolution-grid": Recipe(
        "Figure 6",
        "beta and target for every gamma and alpha",
        recipe_data.gamma_alpha_grid,
        figures.evolution_of_grid,
        VGG,
    ),
    "pareto-gamma-alpha": Recipe(
        "Figure 7", "Pareto for gamma and alpha", lambda setting: GAMMA(setting) | ALPHA(setting), _gamma_and_alpha, VGG
    ),
    "sat-unknown": Recipe(
        "Figure 8",
        "SAT's confidence in the unknown class against ECE",
        partial(recipe_data.methods, titles=("SAT",)),
        figures.sat_unknown,
        VGG + RESNET,
    ),
    "pareto-beta": Recipe(
        "Figure 9", "Pareto for beta", BETA, partial(figures.pareto_over_epochs, name="pareto-beta"), VGG
    ),
    "pareto-ablation": Recipe(
        "Figure 10",
        "Pareto for the ablations",
        ABLATION,
        partial(figures.pareto_over_epochs, name="pareto-ablation"),
        VGG + RESNET,
    ),
    "unknown": Recipe("Figure 11", "the unknown class during training", SOCRATES, figures.unknown_behaviours, VGG),
    "test-pareto": Recipe(
        "Figure 12",
        "test error against ECE",
        recipe_data.methods,
        partial(figures.final_pareto, name="test-pareto"),
        SCRATCH,
    ),
    "posthoc-pareto": Recipe(
        "Figure 13", "test error against ECE, post-hoc", SOCRATES_CE, figures.posthoc_pareto, SCRATCH
    ),
    "transfer-test-pareto": Recipe(
        "Figure 14", "transfer learning on test data", recipe_data.methods, figures.transfer_test, TRANSFER
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
    for name in names:
        plain = name.lower().replace(" ", "").replace("_", "-")
        matching = {
            known: recipe
            for known, recipe in RECIPES.items()
            if plain in ("all", known, recipe.number.lower().replace(" ", ""), f"{recipe.number.split()[0].lower()}s")
        }
        if not matching:
            known = [*RECIPES, *(recipe.number.lower().replace(" ", "") for recipe in RECIPES.values()), *MANY]
            raise ValueError(f"the paper has no table or figure {unknown(plain, known)}")
        found |= matching
    return found
