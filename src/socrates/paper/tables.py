"""The paper's nine tables from runs: our numbers, and beneath them the published ones with their caveats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import pareto
from ..records import Evaluation
from ..report.compare import Block, Compared, compare
from ..report.results import Results
from ..report.statistics import mean_std
from ..report.tables import NOTHING, Row, Table
from ..report.vocabulary import with_scaler
from ..report.write import noted
from .compare import METRICS, printed
from .grid import METHODS_OF_PAPER, SYMBOLS
from .published import CAVEATS, find
from .recipe_data import ABLATIONS, BETAS, RecipeData
from .settings import SETTINGS

EPOCHS = (25, 50, 75, 100, 150, 200, 250, 300)  # of the sensitivity and ablation tables
SCALERS = ("none", "temperature", "vector", "matrix")
SENSITIVITY = {
    "gamma": ("Sensitivity to γ", "cifar100-vgg16"),  # and the setting that the paper has it for
    "alpha": ("Sensitivity to α", "cifar100-vgg16"),
    "beta": ("Sensitivity to β", "cifar100-vgg16"),
    "ablation-vgg16": ("Ablation", "cifar100-vgg16"),
    "ablation-resnet110": ("Ablation", "cifar100-resnet110"),
}


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
    wanted = [(title, scaler) for title in titles for scaler in (SCALERS if posthoc else SCALERS[:1])]
    blocks: list[Block] = []
    for setting, groups in data.groups.items():
        columns: list[Compared] = []
        for title, scaler in wanted:
            cell = printed(name, setting, METHODS_OF_PAPER[title] + ("" if scaler == "none" else f"+{scaler}"))
            columns.append(Compared(with_scaler(title, scaler), groups.get(title), scaler, printed=cell))
        blocks.append(Block((data.scale.title(setting),), columns))
    words = "Validation set" if name == "validation" else "Test set"
    title = f"{words} performance {'with post-hoc scaling' if posthoc else 'at the last epoch'}"
    return [_compared(data, name, title, "Setting", blocks, split="val" if name == "validation" else "test")]


def over_epochs(data: RecipeData, name: str) -> list[Table]:
    """Validation accuracy and ECE of variants of Socrates at some epochs, one table a setting."""
    words, of_paper = SENSITIVITY[name]
    tables: list[Table] = []
    for setting, groups in data.groups.items():
        last = SETTINGS[setting].last_epoch
        blocks: list[Block] = []
        for epoch in EPOCHS:
            ours = data.scale.epoch(setting, round(epoch * last / EPOCHS[-1]))
            columns = [
                Compared(title, at_epoch(group, ours), printed=printed(name, epoch, _column(title)))
                if setting == of_paper
                else Compared(title, at_epoch(group, ours))
                for title, group in groups.items()
            ]
            blocks.append(Block((f"epoch {ours}" + (f" (for {epoch})" if ours != epoch else ""),), columns))
        title = f"{words}: {data.scale.title(setting)}, validation set"
        ends = [data.scale.epoch(setting, last // half) for half in (2, 1)]
        chosen = {epoch: best for epoch in ends if (best := _best(groups, epoch))}
        notes = [f"By the Pareto rule the best at epoch {epoch} is {best}." for epoch, best in chosen.items()]
        file = name if len(data.groups) == 1 else f"{name}-{setting}"
        tables.append(_compared(data, file, title, "Epoch", blocks, metrics=("accuracy", "ece"), notes=notes))
    return tables


def hyperparameters(data: RecipeData, name: str) -> list[Table]:
    """What the Pareto rule chooses from each method's grid on validation data, and what the paper chose."""
    settings = list(data.groups)
    chosen = {setting: _chosen(groups) for setting, groups in data.groups.items()}
    rows: list[Row] = []
    for title, method in METHODS_OF_PAPER.items():
        for symbol, option in SYMBOLS.get(method, {"MB": "batch_size"}).items():
            ours = [_option(chosen[setting].get(title), option) for setting in settings]
            cells = [find(name, setting, method, symbol) for setting in settings]
            rows.append(Row((title, symbol, "ours"), tuple(ours)))
            if any(cells):
                signs = [f"{cell.mean:g}" + ("*" if cell.emphasis else "") if cell else NOTHING for cell in cells]
                rows.append(Row((title, symbol, "published"), tuple(signs)))
    notes = (
        "Ours: on the Pareto front of mean validation error and ECE, the point nearest to the origin after scaling "
        "both to the candidates' range, ties by CW-ECE; candidates with a collapsed run are not ranked.",
        "Published values with * were taken from the method's own publication, without a search; there ours is "
        "that point too. MC is cross-entropy + DECE, as in the published runs.",
    )
    heads = ("Method", "Hyperparameter", "Source", *(data.scale.title(setting) for setting in settings))
    return [noted(Table(name, "Final hyperparameters", heads, tuple(rows), notes), data.scale.note)]


def _compared(data: RecipeData, name: str, title: str, head: str, blocks: Sequence[Block], **more: Any) -> Table:
    """Methods are columns, whatever their number, as in the paper."""
    more = {"metrics": tuple(METRICS), "caveats": CAVEATS, "across": "methods", **more}
    return noted(compare(name, title, (head,), blocks, **more), data.scale.note)


def _column(title: str) -> str:
    """Where the paper prints a variant."""
    return (BETAS | ABLATIONS).get(title) or title.split(" = ")[1]


def _best(groups: Mapping[str, Results], epoch: int) -> str | None:
    """By the Pareto rule, among those without a collapsed run."""
    points: dict[str, tuple[float, ...]] = {}
    for title, group in groups.items():
        found = at_epoch(group, epoch)
        accuracy, ece, cw_ece = (mean_std(found.values(name))[0] for name in ("accuracy", "ece", "cw_ece"))
        if not group.collapses and all(map(math.isfinite, (accuracy, ece, cw_ece))):
            points[title] = 1 - accuracy, ece, cw_ece
    return pareto.best(points, key=lambda title: points[title]) if points else None


def _chosen(groups: Mapping[str, Results]) -> dict[str, Results]:
    """The best candidate of each method."""
    chosen: dict[str, Results] = {}
    for method in METHODS_OF_PAPER:
        own = {title: group for title, group in groups.items() if title.rpartition(" ")[0] == method}
        best = _best(own, max((len(group.epochs) for group in own.values()), default=0))
        if best:
            chosen[method] = own[best]
    return chosen


def _option(group: Results | None, option: str) -> str:
    if group is None:
        return NOTHING
    if option == "batch_size":
        return str(group.experiment.optimization.batch_size) if group.experiment else NOTHING
    return f"{dict(group.method.options)[option]:g}"
