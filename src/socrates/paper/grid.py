"""The appendix's hyperparameters: the grid of each method, and the choice in each setting."""

import itertools
from dataclasses import dataclass, replace

from ..experiment import Experiment, Part, resolve, usual_optimization
from ..names import unknown
from ..report.vocabulary import METHODS
from . import published
from .settings import NUM_BINS, SETTINGS, PaperSetting, find_setting

# The columns of the paper's tables, under our names. Its "MC" is `ce_dece`; beside it stands what
# it should have been.
METHODS_OF_PAPER: dict[str, str] = {
    METHODS[name]: name
    for name in ("socrates", "sat", "ccl_sc", "focal", "flsd", "brier", "ce_dece", "mc", "ce")
}
WHICH_MC = (  # for every output with both
    f"The paper's MC is {METHODS['ce_dece']}: cross-entropy + DECE / 2 on training batches, "
    "without meta-learning. "
    f"{METHODS['mc']} is the method of that name's publication; the paper has no numbers for it."
)
# where nothing is searched
WHICH_FINAL_MC = f"{WHICH_MC} It is trained with the batch size of {METHODS['ce_dece']}."

# From the paper's symbols to our options; MB is the batch size of the optimization. Left out: E_s
# where it is 0 for every setting, and Mdim, the width of the features, which the architecture
# decides. CCL-SC's w is the weight of the contrastive term, as the text says; the printed runs used
# it as the temperature.
SYMBOLS: dict[str, dict[str, str]] = {
    "socrates": {"gamma": "gamma", "alpha": "alpha", "MB": "batch_size"},
    "sat": {"m": "alpha", "E_s": "start_epoch", "MB": "batch_size"},
    "ccl_sc": {
        "q": "momentum",
        "w": "weight",
        "s": "queue_size",
        "E_s": "start_epoch",
        "MB": "batch_size",
    },
    "focal": {"gamma": "gamma", "MB": "batch_size"},
    "flsd": {"gamma": "gamma", "MB": "batch_size"},
    "brier": {"MB": "batch_size"},
    "ce_dece": {"MB": "batch_size"},
}

BATCH_SIZES: dict[str, tuple[int | float, ...]] = {"batch_size": (64, 128)}
GRIDS: dict[str, dict[str, tuple[int | float, ...]]] = {
    "socrates": {"gamma": (1.0, 2.0, 3.0, 4.0), "alpha": (0.8, 0.9, 0.99, 0.999), **BATCH_SIZES},
    "sat": {"alpha": (0.9, 0.99, 0.999), "start_epoch": (0, 25, 50, 100, 150, 200), **BATCH_SIZES},
    "ccl_sc": {
        "momentum": (0.9, 0.99, 0.999),
        "weight": (0.1, 0.5, 1.0),
        "queue_size": (300, 3000, 10000),
        "start_epoch": (25, 50, 100, 150, 200),
        **BATCH_SIZES,
    },
    "focal": {"gamma": (1.0, 2.0, 3.0), **BATCH_SIZES},
    "flsd": {"gamma": (1.0, 2.0, 3.0), **BATCH_SIZES},
    **dict.fromkeys(
        ("brier", "mc", "ce_dece", "ce"), BATCH_SIZES
    ),  # for CE the paper gives none: as those beside it
}


@dataclass(frozen=True)
class Hyperparameters:
    """One point of a grid: a method with its options, and a batch size."""

    method: Part
    batch_size: int
    original: bool = False  # taken over from the method's own publication, not searched

    def experiment(self, setting: PaperSetting, seed: int = 1) -> Experiment:
        """Return the run with these hyperparameters.

        >>> experiment = Hyperparameters(Part("brier"), 64).experiment(SETTINGS["svhn-vgg16"])
        >>> experiment.optimization.batch_size
        64
        """
        names = setting.dataset.name, setting.model.name, self.method.name
        optimization = replace(usual_optimization(*names), batch_size=self.batch_size)
        experiment = Experiment(
            setting.dataset,
            setting.model,
            self.method,
            seed,
            num_bins=NUM_BINS,
            optimization=optimization,
        )
        return resolve(experiment)


def _final(setting: str, method: str) -> Hyperparameters:
    """Return the table of final hyperparameters in our options."""
    options: dict[str, int | float] = {}
    underlined: list[bool] = []
    for symbol, option in SYMBOLS[method].items():
        cell = published.find("hyperparameters", setting, method, symbol)
        if cell is None:
            raise LookupError(
                f"hyperparameters.csv has no {symbol} of {method} in {setting}: restore that line"
            )
        options[option] = cell.mean
        underlined.append(cell.emphasis == "underline")
    return _choice(method, options, all(underlined))


def _choice(method: str, point: dict[str, int | float], original: bool = False) -> Hyperparameters:
    options = {option: value for option, value in point.items() if option != "batch_size"}
    return Hyperparameters(Part(method, **options), int(point["batch_size"]), original)


def _finals(setting: str) -> dict[str, Hyperparameters]:
    chosen = {method: _final(setting, method) for method in SYMBOLS}
    # not in the paper's table
    chosen["mc"] = Hyperparameters(Part("mc"), chosen["ce_dece"].batch_size)
    chosen["ce"] = Hyperparameters(Part("ce"), 128)  # nor is this: as all methods but CCL-SC
    return chosen


# What the paper chose, by setting and method.
FINAL: dict[str, dict[str, Hyperparameters]] = {setting: _finals(setting) for setting in SETTINGS}


def final_choice(setting: str, method: str) -> Hyperparameters:
    """Return what the paper chose; an ablation such as `socrates:no-beta` keeps its values.

    >>> final_choice("cifar10-vgg16", "sat")
    Hyperparameters(method=Part('sat', alpha=0.9, start_epoch=0.0), batch_size=128, original=True)
    >>> final_choice("cifar100-vgg16", "socrates:no-beta").method
    Part('socrates:no-beta', alpha=0.999, gamma=2.0)
    """
    base, _, ablation = method.partition(":")
    choice = FINAL[find_setting(setting).name][_known(base)]
    return (
        replace(choice, method=Part(method, **dict(choice.method.options))) if ablation else choice
    )


def final_experiment(setting: str, method: str, seed: int = 1) -> Experiment:
    """Return the run behind the paper's tables: the final hyperparameters in that setting.

    >>> experiment = final_experiment("food101-resnet34", "ccl_sc", seed=2)
    >>> experiment.method, experiment.optimization.batch_size
    (Part('ccl_sc', contrast_on='features', momentum=0.9, queue_size=3000, start_epoch=150,
     temperature=0.1, weight=0.1), 64)
    """
    return final_choice(setting, method).experiment(find_setting(setting), seed)


def candidates(method: str) -> list[Hyperparameters]:
    """Return every point of the method's grid.

    >>> len(candidates("socrates")), candidates("brier")[0]
    (32, Hyperparameters(method=Part('brier'), batch_size=64, original=False))
    """
    grid = GRIDS[_known(method)]
    return [
        _choice(method, dict(zip(grid, point, strict=True)))
        for point in itertools.product(*grid.values())
    ]


def tuning_experiments(setting: str, method: str) -> list[Experiment]:
    """Return one run for each point of the method's grid, with seed 1.

    `PaperSetting.tuning_seeds` are the paper's. Where the paper took all values from the method's
    own publication there was no search, and that point is the only one. Points whose second phase
    would start after the last epoch are left out.

    >>> [len(tuning_experiments("cifar100-vgg16", method)) for method in ("focal", "sat")]
    [6, 1]
    """
    paper_setting = find_setting(setting)
    final = FINAL[paper_setting.name][_known(method)]
    points = [final] if final.original else candidates(method)
    runs: list[Experiment] = []
    for point in points:
        run = point.experiment(paper_setting)
        start_epoch = dict(run.method.options).get("start_epoch")
        if int(start_epoch or 0) < paper_setting.last_epoch:
            runs.append(run)
    return runs


def _known(method: str) -> str:
    """Return the method's name, or refuse a method that the paper did not tune."""
    if method in GRIDS:
        return method
    raise ValueError(f"the paper has no hyperparameters for {unknown(method, GRIDS)}")
