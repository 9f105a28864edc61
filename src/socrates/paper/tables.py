"""The paper's nine tables from runs: our numbers, and below them the published ones."""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .. import pareto
from ..engine.studies.forecast import model_without_weights, sizes_of
from ..experiment import Experiment, Value
from ..records import Evaluation
from ..report.compare import Compared, Printed, RankedBlock, compare
from ..report.results import Results
from ..report.statistics import mean_std
from ..report.tables import NOTHING, Table, TableRow
from ..report.vocabulary import SPLITS, printed_option, with_scaler
from ..report.vocabulary import SYMBOLS as GREEK
from .compare import METRICS, printed
from .grid import METHODS_OF_PAPER, SYMBOLS, WHICH_FINAL_MC, WHICH_MC
from .published import CAVEATS, find
from .recipe_data import RecipeData
from .refit import UNREGULARISED, with_unregularised
from .settings import SETTINGS

EPOCHS = (25, 50, 75, 100, 150, 200, 250, 300)  # of the sensitivity and ablation tables
SCALERS = ("none", "temperature", "matrix", "vector")  # in the paper's order

# Symbols of the table that were not searched, and our options: E_s of methods with one phase,
# CCL-SC's features.
FIXED = {name: {"E_s": "start_epoch"} for name in ("socrates", "focal", "flsd", "brier", "ce_dece")}
FIXED["ccl_sc"] = {"Mdim": "Mdim"}

UNREGULARISED_NOTE = (
    "MS and VS are regularised; those without regularisation, fitted to the "
    "same logits, are as the paper's were."
)

SAME_PENALTY = (
    "β and β known are the same function once both are clamped to [0, 1], as the paper's text "
    "asks: their columns are equal, and the published difference is that of β known, unclamped."
)

# Methods are columns, whatever their number, as in the paper.
compare_as_printed = partial(compare, metrics=tuple(METRICS), caveats=CAVEATS, across="methods")


def at_epoch(results: Results, epoch: int) -> Results:
    """Return the runs as if they had been evaluated at an epoch, on validation data."""
    place = int(np.abs(results.epochs - epoch).argmin())
    curves = {metric: results.curve(f"val_{metric}") for metric in METRICS}
    evaluations: list[Evaluation] = []
    for run in range(len(results.seeds)):
        values = {metric: float(curve[run, place]) for metric, curve in curves.items()}
        evaluations.append(Evaluation(epoch, 0, False, {"none": {"test": {"plain": values}}}))
    return replace(results, evaluations=evaluations)


def performance(data: RecipeData, name: str) -> list[Table]:
    """Make Table 1, 2 or 9: accuracy and calibration errors at the last epoch."""
    posthoc = name == "posthoc"
    titles = [title for title in METHODS_OF_PAPER if title != "CE"]
    scalers = ["none"]
    if posthoc:
        titles = ["Socrates", "CE"]
        scalers = [*SCALERS, *UNREGULARISED]
    blocks: list[RankedBlock] = []
    for setting, groups in data.groups.items():
        columns: list[Compared] = []
        for title in titles:
            group = groups.get(title)
            if group and posthoc:
                group = with_unregularised(group)
            for scaler in scalers:
                theirs = _printed_method(data, name, setting, title, scaler)
                columns.append(Compared(with_scaler(title, scaler), group, scaler, printed=theirs))
        blocks.append(RankedBlock((data.scale.title(setting),), columns))
    split = "val" if name == "validation" else "test"
    when = "with post-hoc scaling" if posthoc else "at the last epoch"
    title = f"{SPLITS[split]} set performance {when}"
    notes = [UNREGULARISED_NOTE if posthoc else WHICH_FINAL_MC]
    return [compare_as_printed(name, title, ("Setting",), blocks, split=split, notes=notes)]


def _printed_method(
    data: RecipeData, name: str, setting: str, title: str, scaler: str
) -> dict[str, Printed | None]:
    """Return what Tables 1, 2 and 9 print for a method and a scaler, if they do.

    The paper's matrix and vector scaling had no regularization, so that its numbers belong to our
    columns without it.
    """
    if f"{scaler} unregularised" in UNREGULARISED or not data.scale.compares:
        return {}
    return printed(name, setting, METHODS_OF_PAPER[title], scaler.partition(" ")[0])


def over_epochs(data: RecipeData, name: str) -> list[Table]:
    """Make Tables 4 to 8: variants of Socrates on validation data, one table per setting."""
    what = f"Sensitivity to {GREEK[name]}" if name in GREEK else "Ablation"
    tables: list[Table] = []
    for setting, groups in data.groups.items():
        last = SETTINGS[setting].last_epoch
        blocks: list[RankedBlock] = []
        for epoch in EPOCHS:
            ours = data.scale.epoch(setting, round(epoch * last / EPOCHS[-1]))
            label = f"epoch {ours}" if ours == epoch else f"epoch {ours} (for {epoch})"
            columns = [
                Compared(
                    title,
                    at_epoch(group, ours),
                    printed=_printed_variant(data, name, setting, epoch, title, group),
                )
                for title, group in groups.items()
            ]
            blocks.append(RankedBlock((label,), columns))
        notes = [SAME_PENALTY] if {"β", "β known"} <= groups.keys() else []
        for end in (last // 2, last):
            epoch = data.scale.epoch(setting, end)
            if best := _best(groups, epoch, data.rule):
                rule = f"By the Pareto rule {_rule(data)}"
                notes.append(f"{rule} the best at epoch {epoch} is {best}.")
        file = name if len(data.groups) == 1 else f"{name}-{setting}"
        title = f"{what}: {data.scale.title(setting)}, validation set"
        table = compare_as_printed(
            file, title, ("Epoch",), blocks, metrics=("accuracy", "ece"), notes=notes
        )
        tables.append(table)
    return tables


def _printed_variant(
    data: RecipeData, name: str, setting: str, epoch: int, title: str, group: Results
) -> dict[str, Printed | None]:
    """Return what Tables 4 to 8 print for a variant of Socrates at an epoch, if they do."""
    setting_of_table = f"cifar100-{name.partition('-')[2] or 'vgg16'}"
    clamped = dict(group.method.options).get("clamp") is True  # the printed penalty never was
    if clamped or setting != setting_of_table or not data.scale.compares:
        return {}
    column = title.partition(" = ")[2] or group.method.name
    return printed(name, epoch, column)


def hyperparameters(data: RecipeData, name: str) -> list[Table]:
    """Make Table 3: what the Pareto rule chooses from each grid, and what the paper chose."""
    rows: list[TableRow] = []
    best = chosen(data)
    for title, method in METHODS_OF_PAPER.items():
        values = [
            _values(groups[title], data) if title in groups else {} for groups in best.values()
        ]
        options = SYMBOLS.get(method, {"MB": "batch_size"}) | FIXED.get(method, {})
        for symbol, option in options.items():
            default = "0" if symbol == "E_s" else NOTHING  # E_s of a method with one phase
            ours = [point.get(option, default) if point else NOTHING for point in values]
            rows.append(TableRow((title, symbol, "ours"), tuple(ours)))
            theirs = [find(name, setting, method, symbol) for setting in data.groups]
            if data.scale.compares and any(theirs):
                rows.append(TableRow((title, symbol, "published"), tuple(map(_starred, theirs))))
    notes = [
        "Ours: on the Pareto front of mean validation error and ECE, the point nearest to the "
        f"origin by the rule {_rule(data)}, ties by CW-ECE; candidates with a collapsed run are "
        "not ranked.",
        WHICH_MC,
        "E_s is 0 where a method has one phase; Mdim, the width of CCL-SC's features, is that of "
        "the architecture.",
    ]
    if data.scale.compares:
        notes.append(
            "Published values with * were taken from the method's own publication, without a "
            "search; there ours is that point too."
        )
    heads = ("Method", "Hyperparameter", "Source", *map(data.scale.title, data.groups))
    return [Table(name, "Final hyperparameters", heads, tuple(rows), tuple(notes))]


def _starred(cell: Printed | None) -> str:
    """Return a printed hyperparameter, with a star if the paper did not search it."""
    if cell is None:
        return NOTHING
    return f"{cell.mean:g}*" if cell.emphasis else f"{cell.mean:g}"


def chosen(data: RecipeData) -> dict[str, dict[str, Results]]:
    """Return the candidate that the Pareto rule takes, by setting and method.

    A method whose candidates have all collapsed is left out.
    """
    choices: dict[str, dict[str, Results]] = {}
    for setting, groups in data.groups.items():
        choices[setting] = {}
        for title in METHODS_OF_PAPER:
            candidates = {
                name: group for name, group in groups.items() if name.rpartition(" ")[0] == title
            }
            last_epoch = max((len(group.epochs) for group in candidates.values()), default=0)
            if best := _best(candidates, last_epoch, data.rule):
                choices[setting][title] = replace(candidates[best], label=title)
    return choices


def _rule(data: RecipeData) -> str:
    return f"{data.rule} ({pareto.rule_of(data.rule).words})"


def _best(groups: Mapping[str, Results], epoch: int, rule: str) -> str | None:
    """Return the best group by the Pareto rule, among those without a collapsed run."""
    points: dict[str, tuple[float, ...]] = {}
    for title, group in groups.items():
        results = at_epoch(group, epoch)
        accuracy, _ = mean_std(results.values("accuracy"))
        ece, _ = mean_std(results.values("ece"))
        cw_ece, _ = mean_std(results.values("cw_ece"))
        point = (1 - accuracy, ece, cw_ece)
        if not group.collapses and all(map(math.isfinite, point)):
            points[title] = point
    return pareto.best(points, points.__getitem__, rule) if points else None


def _values(group: Results, data: RecipeData) -> dict[str, str]:
    """Return the hyperparameters of a candidate, as they are printed."""
    experiment = group.experiment
    if experiment is None:
        return {}
    values: dict[str, Value] = {
        **dict(experiment.method.options),
        "batch_size": experiment.optimization.batch_size,
    }
    if experiment.method.name == "ccl_sc":
        if data.scale.released:
            values["weight"] = values["temperature"]  # what the released code calls w
        with contextlib.suppress(ValueError, OSError, ImportError):  # its data are not there now
            values["Mdim"] = feature_width(experiment)
    return {option: printed_option(value) for option, value in values.items()}


def feature_width(experiment: Experiment) -> int:
    """Return the width of the features that the last layer reads: the appendix's Mdim.

    >>> from ..experiment import Part
    >>> feature_width(Experiment(Part("digits"), Part("mlp", width=32), Part("ccl_sc")))
    32
    """
    sizes = sizes_of(experiment)
    model: Any = model_without_weights(experiment.model, sizes.image_shape, sizes.num_classes)
    return model.head.in_features
