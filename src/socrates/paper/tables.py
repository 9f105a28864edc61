"""The paper's nine tables from runs: our numbers, and beneath them the published ones with their caveats."""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from .. import pareto
from ..engine.studies.cost import feature_width
from ..experiment import Value
from ..records import Evaluation
from ..report.compare import Block, Compared, compare
from ..report.results import Results
from ..report.statistics import mean_std
from ..report.tables import NOTHING, Row, Table
from ..report.vocabulary import SPLITS, short, with_scaler
from ..report.vocabulary import SYMBOLS as GREEK
from .compare import METRICS, printed
from .grid import METHODS_OF_PAPER, SYMBOLS, WHICH_FINAL_MC, WHICH_MC
from .published import CAVEATS, find
from .recipe_data import RecipeData
from .refit import UNREGULARISED, with_unregularised
from .released import AsReleased
from .settings import SETTINGS

EPOCHS = (25, 50, 75, 100, 150, 200, 250, 300)  # of the sensitivity and ablation tables
SCALERS = ("none", "temperature", "matrix", "vector")  # in the paper's order

# Symbols of the table that were not searched, and our options: E_s of methods with one phase, CCL-SC's features.
FIXED = {name: {"E_s": "start_epoch"} for name in ("socrates", "focal", "flsd", "brier", "ce_dece")}
FIXED["ccl_sc"] = {"Mdim": "Mdim"}

UNREGULARISED_NOTE = (
    "MS and VS are regularised; those without regularisation, fitted to the same logits, are as the paper's were."
)

# Methods are columns, whatever their number, as in the paper.
compare_as_printed = partial(compare, metrics=tuple(METRICS), caveats=CAVEATS, across="methods")


def at_epoch(results: Results, epoch: int) -> Results:
    """The same runs as if they had been evaluated at an epoch, on validation data."""
    place = int(np.abs(results.epochs - epoch).argmin())
    found = {metric: results.curve(f"val_{metric}")[:, place].tolist() for metric in METRICS}
    tables = [{metric: own[run] for metric, own in found.items()} for run in range(len(results.seeds))]
    evaluations = [Evaluation(epoch, 0, False, {"none": {"test": {"plain": table}}}) for table in tables]
    return replace(results, evaluations=evaluations)


def performance(data: RecipeData, name: str) -> list[Table]:
    """Accuracy and calibration errors at the last epoch: of all methods but CE, or of Socrates and CE when scaled."""
    posthoc = name == "posthoc"
    titles = ("Socrates", "CE") if posthoc else [title for title in METHODS_OF_PAPER if title != "CE"]
    scalers = (*SCALERS, *UNREGULARISED) if posthoc else SCALERS[:1]
    wanted = [(title, scaler) for title in titles for scaler in scalers]
    blocks: list[Block] = []
    for setting, groups in data.groups.items():
        groups = {title: with_unregularised(group) for title, group in groups.items()} if posthoc else groups
        columns: list[Compared] = []
        for title, scaler in wanted:
            # The paper's matrix and vector scaling had no regularisation: its numbers are those of these columns.
            ours_alone = f"{scaler} unregularised" in UNREGULARISED or not data.scale.compares
            theirs = {} if ours_alone else printed(name, setting, METHODS_OF_PAPER[title], scaler.partition(" ")[0])
            columns.append(Compared(with_scaler(title, scaler), groups.get(title), scaler, printed=theirs))
        blocks.append(Block((data.scale.title(setting),), columns))
    split = "val" if name == "validation" else "test"
    title = f"{SPLITS[split]} set performance {'with post-hoc scaling' if posthoc else 'at the last epoch'}"
    notes = [UNREGULARISED_NOTE if posthoc else WHICH_FINAL_MC]
    return [compare_as_printed(name, title, ("Setting",), blocks, split=split, notes=notes)]


def over_epochs(data: RecipeData, name: str) -> list[Table]:
    """Validation accuracy and ECE of variants of Socrates at some epochs, one table a setting."""
    words = f"Sensitivity to {GREEK[name]}" if name in GREEK else "Ablation"
    of_paper = f"cifar100-{name.partition('-')[2] or 'vgg16'}"  # the setting that the paper has it for
    tables: list[Table] = []
    for setting, groups in data.groups.items():
        last = SETTINGS[setting].last_epoch
        blocks: list[Block] = []
        for epoch in EPOCHS:
            ours = data.scale.epoch(setting, round(epoch * last / EPOCHS[-1]))
            columns: list[Compared] = []
            for title, group in groups.items():
                column = title.partition(" = ")[2] or group.method.name
                as_printed = setting == of_paper and dict(group.method.options).get("clamp") is not True
                # The printed penalty was never clamped.
                theirs = printed(name, epoch, column) if as_printed and data.scale.compares else {}
                columns.append(Compared(title, at_epoch(group, ours), printed=theirs))
            blocks.append(Block((f"epoch {ours}" + (f" (for {epoch})" if ours != epoch else ""),), columns))
        title = f"{words}: {data.scale.title(setting)}, validation set"
        ends = [data.scale.epoch(setting, last // half) for half in (2, 1)]
        chosen = {epoch: best for epoch in ends if (best := _best(groups, epoch, data.rule))}
        by = f"By the Pareto rule {_rule(data)} the best at epoch"
        notes = [f"{by} {epoch} is {best}." for epoch, best in chosen.items()]
        file = name if len(data.groups) == 1 else f"{name}-{setting}"
        tables.append(compare_as_printed(file, title, ("Epoch",), blocks, metrics=("accuracy", "ece"), notes=notes))
    return tables


def hyperparameters(data: RecipeData, name: str) -> list[Table]:
    """What the Pareto rule chooses from each method's grid on validation data, and what the paper chose."""
    rows: list[Row] = []
    best = chosen(data)
    for title, method in METHODS_OF_PAPER.items():
        values = [_values(own[title], data) if title in own else {} for own in best.values()]
        for symbol, option in (SYMBOLS.get(method, {"MB": "batch_size"}) | FIXED.get(method, {})).items():
            none = "0" if symbol == "E_s" else NOTHING  # of a method with one phase
            rows.append(
                Row((title, symbol, "ours"), tuple(own.get(option, none) if own else NOTHING for own in values))
            )
            cells = [find(name, setting, method, symbol) for setting in data.groups]
            if data.scale.compares and any(cells):
                signs = [f"{cell.mean:g}" + ("*" if cell.emphasis else "") if cell else NOTHING for cell in cells]
                rows.append(Row((title, symbol, "published"), tuple(signs)))
    notes = (
        "Ours: on the Pareto front of mean validation error and ECE, the point nearest to the origin by the rule "
        f"{_rule(data)}, ties by CW-ECE; candidates with a collapsed run are not ranked.",
        WHICH_MC,
        "E_s is 0 where a method has one phase; Mdim, the width of CCL-SC's features, is that of the architecture.",
    )
    if data.scale.compares:
        notes += (
            "Published values with * were taken from the method's own publication, without a search; there ours is "
            "that point too.",
        )
    heads = ("Method", "Hyperparameter", "Source", *map(data.scale.title, data.groups))
    return [Table(name, "Final hyperparameters", heads, tuple(rows), notes)]


def chosen(data: RecipeData) -> dict[str, dict[str, Results]]:
    """By setting and method, the candidate that the Pareto rule takes; none where all have collapsed."""
    found: dict[str, dict[str, Results]] = {}
    for setting, groups in data.groups.items():
        for title in METHODS_OF_PAPER:
            own = {name: group for name, group in groups.items() if name.rpartition(" ")[0] == title}
            best = _best(own, max((len(group.epochs) for group in own.values()), default=0), data.rule)
            found.setdefault(setting, {}).update({title: replace(own[best], label=title)} if best else {})
    return found


def _rule(data: RecipeData) -> str:
    return f"{data.rule} ({pareto.rule_of(data.rule).words})"


def _best(groups: Mapping[str, Results], epoch: int, rule: str) -> str | None:
    """By the Pareto rule, among those without a collapsed run."""
    points: dict[str, tuple[float, ...]] = {}
    for title, group in groups.items():
        found = at_epoch(group, epoch)
        accuracy, ece, cw_ece = (mean_std(found.values(name))[0] for name in ("accuracy", "ece", "cw_ece"))
        if not group.collapses and all(map(math.isfinite, (accuracy, ece, cw_ece))):
            points[title] = 1 - accuracy, ece, cw_ece
    return pareto.best(points, points.__getitem__, rule) if points else None


def _values(group: Results, data: RecipeData) -> dict[str, str]:
    """The hyperparameters of a candidate, as they are printed."""
    experiment = group.experiment
    if experiment is None:
        return {}
    values: dict[str, Value] = {**dict(experiment.method.options), "batch_size": experiment.optimization.batch_size}
    if experiment.method.name == "ccl_sc":
        if isinstance(data.scale, AsReleased):
            values["weight"] = values["temperature"]  # what the released code calls w
        with contextlib.suppress(ValueError, OSError, ImportError):  # its data are not there now
            values["Mdim"] = feature_width(experiment)
    return {option: short(value) for option, value in values.items()}
