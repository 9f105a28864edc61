"""Every table and figure of the paper, and a claim of its text, with the runs that it needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ..experiment import Experiment, Part, resolve
from ..names import unknown
from ..report.aggregate import Skipped
from ..report.figures.compose import USUAL_WIDTH, Drawing, Width, write_drawing
from ..report.idle import with_idle
from ..report.tables import Table, write_table
from ..report.vocabulary import METHODS, SYMBOLS
from ..report.write import noted
from . import figures, tables
from .grid import (
    METHODS_OF_PAPER,
    WHICH_FINAL_MC,
    final_choice,
    final_experiment,
    tuning_experiments,
)
from .recipe_data import RecipeData, WantedRuns, gather
from .scales import PaperScale
from .settings import SEEDS, SETTINGS, find_setting
from .weight_norm import weight_norms

Columns = dict[str, Experiment]  # by the heading of the column, with any seed

VARIED = {"gamma": (0.0, 1.0, 2.0, 3.0, 4.0), "alpha": (0.8, 0.9, 0.99, 0.999, 1.0)}
OTHERS = {"gamma": (1.0, 2.0), "alpha": (0.9, 0.99)}  # beside the final values of Figure 1
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


def methods(setting: str, names: Mapping[str, str] = METHODS_OF_PAPER) -> Columns:
    """Return methods of the paper, or ablations, with the final hyperparameters in a setting.

    >>> list(methods("svhn-vgg16", {"Socrates": "socrates"}))
    ['Socrates']
    >>> methods("svhn-vgg16")["CE + DECE"].method
    Part('ce_dece', weight=0.5)
    """
    return {title: final_experiment(setting, name) for title, name in names.items()}


def penalties(setting: str) -> Columns:
    """Return the four penalties, and the second also unclamped: clamped, it equals the first.

    >>> list(penalties("cifar100-vgg16"))
    ['β', 'β known', 'β known, unclamped', 'β fixed', 'no β']
    """
    columns: Columns = {}
    for title, experiment in methods(setting, BETAS).items():
        columns[title] = experiment
        if title == "β known":
            options = dict(experiment.method.options) | {"clamp": False}
            unclamped = Part(experiment.method.name, **options)
            columns[f"{title}, unclamped"] = replace(experiment, method=unclamped)
    return columns


def varied(setting: str, options: Sequence[str] = tuple(VARIED)) -> Columns:
    """Return Socrates' final hyperparameters with one of them varied.

    >>> list(varied("cifar100-vgg16", ["gamma"]))
    ['γ = 0', 'γ = 1', 'γ = 2', 'γ = 3', 'γ = 4']
    """
    final = final_experiment(setting, "socrates")
    usual = dict(final.method.options)
    columns: Columns = {}
    for option in options:
        for value in VARIED[option]:
            method = Part("socrates", **(usual | {option: value}))
            columns[f"{SYMBOLS[option]} = {value:g}"] = replace(final, method=method)
    return columns


def four_evolutions(setting: str) -> Columns:
    """Return the panels of Figure 1: another gamma, the final choice, another alpha, alpha = 1.

    Alpha = 1 removes the unknown component. The paper's text does not name the other values: they
    are ours, the usual one or the next where that is final.

    >>> list(four_evolutions("cifar100-vgg16"))
    ['another γ: γ = 1, α = 0.999', 'final: γ = 2, α = 0.999',
     'another α: γ = 2, α = 0.9', 'no unknown: γ = 2, α = 1']
    """
    final = final_experiment(setting, "socrates")
    usual = dict(final.method.options)
    other_gamma = next(value for value in OTHERS["gamma"] if value != usual["gamma"])
    other_alpha = next(value for value in OTHERS["alpha"] if value != usual["alpha"])
    changes: dict[str, dict[str, float]] = {
        "another γ": {"gamma": other_gamma},
        "final": {},
        "another α": {"alpha": other_alpha},
        "no unknown": {"alpha": 1.0},
    }
    columns: Columns = {}
    for what, change in changes.items():
        run = replace(final, method=Part("socrates", **(usual | change)))
        columns[f"{what}: {gamma_alpha_title(run)}"] = run
    return columns


def gamma_alpha_title(run: Experiment) -> str:
    """Return the title of a run of Socrates by its gamma and alpha."""
    options = dict(run.method.options)
    return f"γ = {options['gamma']:g}, α = {options['alpha']:g}"


def gamma_by_alpha(setting: str) -> Columns:
    """Return Socrates with every gamma and alpha of the paper's grid and its final batch size."""
    batch_size = final_choice(setting, "socrates").batch_size
    return {
        gamma_alpha_title(run): run
        for run in tuning_experiments(setting, "socrates")
        if run.optimization.batch_size == batch_size
    }


def searched(setting: str) -> Columns:
    """Return every point of every method's grid, headed by the method and a number."""
    return {
        f"{title} {number}": experiment
        for title, method in METHODS_OF_PAPER.items()
        for number, experiment in enumerate(tuning_experiments(setting, method), start=1)
    }


@dataclass(frozen=True)
class Recipe:
    """A table or figure: its number in the paper, the columns to train, and how it is made.

    `make` takes the data and the name of the recipe.
    """

    number: str
    what: str
    columns: Callable[[str], Columns]
    make: Callable[[RecipeData, str], Sequence[Table | Drawing]]
    settings: tuple[str, ...] = tuple(SETTINGS)

    def wanted(
        self, settings: Sequence[str], scale: PaperScale, seeds: Sequence[int] | None = None
    ) -> WantedRuns:
        """Return the runs it needs by setting and column, one per seed.

        By default these are the paper's settings and seeds. Columns of the paper that become the
        same run at a scale appear once, under the first of their headings.
        """
        wanted: WantedRuns = {}
        for name in settings or self.settings:
            setting = find_setting(name)
            usual_seeds = scale.search_seeds(setting) if self.columns is searched else SEEDS
            columns = wanted.setdefault(setting.name, {})
            first_column: dict[Experiment, Experiment] = {}  # of the paper, by our run
            for title, of_paper in self.columns(setting.name).items():
                runs = [
                    resolve(scale.experiment(setting.name, replace(of_paper, seed=seed)))
                    for seed in seeds or usual_seeds
                ]
                if first_column.setdefault(runs[0], of_paper) == of_paper:
                    columns[title] = runs
        return wanted


VGG = ("cifar100-vgg16",)
RESNET = ("cifar100-resnet110",)
TRANSFER = ("cifar100-vit_transfer",)
SCRATCH = tuple(name for name in SETTINGS if name not in TRANSFER)
SOCRATES = partial(methods, names={"Socrates": "socrates"})
SOCRATES_CE = partial(methods, names={"Socrates": "socrates", "CE": "ce"})
SAT = partial(methods, names={"SAT": "sat"})
GAMMA, ALPHA = (partial(varied, options=[option]) for option in VARIED)
ABLATION = partial(methods, names=ABLATIONS)


RECIPES: dict[str, Recipe] = {
    "test": Recipe("Table 1", "test set performance", methods, tables.performance),
    "posthoc": Recipe(
        "Table 2", "post-hoc scaling of Socrates and CE", SOCRATES_CE, tables.performance
    ),
    "hyperparameters": Recipe(
        "Table 3", "final hyperparameters, searched", searched, tables.hyperparameters
    ),
    "gamma": Recipe("Table 4", "sensitivity to gamma", GAMMA, tables.over_epochs, VGG),
    "alpha": Recipe("Table 5", "sensitivity to alpha", ALPHA, tables.over_epochs, VGG),
    "beta": Recipe("Table 6", "sensitivity to beta", penalties, tables.over_epochs, VGG),
    "ablation-vgg16": Recipe("Table 7", "ten ablations, VGG-16", ABLATION, tables.over_epochs, VGG),
    "ablation-resnet110": Recipe(
        "Table 8", "ten ablations, ResNet-110", ABLATION, tables.over_epochs, RESNET
    ),
    "validation": Recipe("Table 9", "validation set performance", methods, tables.performance),
    "evolution": Recipe(
        "Figure 1",
        "beta and target over epochs, other gamma and alpha of our choice",
        four_evolutions,
        figures.evolutions,
        VGG,
    ),
    "losses": Recipe("Figure 2", "loss trends", methods, figures.losses),
    "pareto": Recipe("Figure 3", "error against ECE over epochs", methods, figures.paths, SCRATCH),
    "transfer": Recipe(
        "Figure 4", "transfer learning: Pareto and reliability", methods, figures.transfer, TRANSFER
    ),
    "reliability": Recipe(
        "Figure 5", "reliability diagrams", methods, figures.reliabilities, SCRATCH
    ),
    "evolution-grid": Recipe(
        "Figure 6",
        "beta and target for every gamma and alpha",
        gamma_by_alpha,
        figures.evolution_grids,
        VGG,
    ),
    "pareto-gamma-alpha": Recipe(
        "Figure 7", "Pareto for gamma and alpha", varied, figures.gamma_and_alpha, VGG
    ),
    "sat-unknown": Recipe(
        "Figure 8",
        "SAT's confidence in the unknown class against ECE",
        SAT,
        figures.sat_unknown,
        VGG + RESNET,
    ),
    "pareto-beta": Recipe("Figure 9", "Pareto for beta", penalties, figures.paths, VGG),
    "pareto-ablation": Recipe(
        "Figure 10", "Pareto for the ablations", ABLATION, figures.paths, VGG + RESNET
    ),
    "unknown": Recipe(
        "Figure 11", "the unknown class during training", SOCRATES, figures.unknown_behaviours, VGG
    ),
    "test-pareto": Recipe("Figure 12", "test error against ECE", methods, figures.points, SCRATCH),
    "posthoc-pareto": Recipe(
        "Figure 13", "test error against ECE, post-hoc", SOCRATES_CE, figures.scaled, SCRATCH
    ),
    "transfer-test-pareto": Recipe(
        "Figure 14", "transfer learning on test data", methods, figures.transfer_test, TRANSFER
    ),
    "weight-norm": Recipe("Section 3.3.1", "norms of the weights", SOCRATES_CE, weight_norms, VGG),
}


def find_recipes(names: Sequence[str]) -> dict[str, Recipe]:
    """Return recipes by name or number; `all`, `tables` and `figures` stand for many.

    >>> list(find_recipes(["table1", "beta", "Figure 11"]))
    ['test', 'beta', 'unknown']
    >>> len(find_recipes(["all"])), len(find_recipes(["tables"]))
    (24, 9)
    >>> find_recipes(["paretto"])
    Traceback (most recent call last):
    ValueError: the paper has no table or figure 'paretto', did you mean 'pareto'?
    Choose from test, posthoc, ...
    """
    if not names:
        raise ValueError(
            f"name tables or figures of the paper: {', '.join(RECIPES)}, or all, tables, figures"
        )
    numbers = {name: recipe.number.lower().replace(" ", "") for name, recipe in RECIPES.items()}
    choices = [*RECIPES, *numbers.values(), "all", "tables", "figures"]
    recipes: dict[str, Recipe] = {}
    for name in names:
        plain = name.lower().replace(" ", "").replace("_", "-")
        if plain not in choices:
            raise ValueError(f"the paper has no table or figure {unknown(plain, choices)}")
        for known, number in numbers.items():
            if plain in ("all", known, number, f"{number.rstrip('0123456789')}s"):
                recipes[known] = RECIPES[known]
    return recipes


def write_recipes(
    recipes: Mapping[str, Recipe],
    wanted: Mapping[str, WantedRuns],
    scale: PaperScale,
    runs: Path,
    out: Path,
    width: Width = USUAL_WIDTH,
    rule: str = "l1",
) -> tuple[dict[str, list[Path]], list[Skipped]]:
    """Write each recipe from its finished runs; return its files, and the runs that are missing."""
    written: dict[str, list[Path]] = {}
    missing: dict[Path, Skipped] = {}
    for name, recipe in recipes.items():
        data, absent = gather(wanted[name], scale, runs, rule)
        missing |= {skipped.directory: skipped for skipped in absent}
        if data.groups:
            written[name] = _write_recipe(name, recipe, data, out, width)
    return written, list(missing.values())


def _write_recipe(
    name: str, recipe: Recipe, data: RecipeData, out: Path, width: Width
) -> list[Path]:
    """Write the tables and drawings of a recipe, with notes on what the runs can show."""
    scale = data.scale
    groups = tables.chosen(data) if recipe.columns is searched else data.groups
    members = {scale.title(setting): list(columns.values()) for setting, columns in groups.items()}
    note = with_idle(scale.note, members)
    both_mc = {METHODS["mc"], METHODS["ce_dece"]}
    has_both = any(both_mc <= columns.keys() for columns in data.groups.values())
    footnote = " ".join(filter(None, (note, WHICH_FINAL_MC if has_both else "")))
    files: list[Path] = []
    for output in recipe.make(data, name):
        if isinstance(output, Table):
            files += write_table(noted(output, note), out / "tables")
        else:
            title = ", ".join(filter(None, (recipe.what, output.title)))
            drawing = replace(output, title=title)
            files += write_drawing(drawing, out / "figures", footnote, width)
    return files
