"""The paper's nine tables from runs: our numbers, and beneath them the published ones with their caveats."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .. import pareto
from ..report.aggregate import Group, mean_std
from ..report.comparisons import DAGGER, METRICS, Footnotes, is_collapsed
from ..report.tables import Cell, Row, Table, emphasis
from .compare import METRICS as PAPER_METRICS
from .grid import METHODS_OF_PAPER, SYMBOLS
from .material import ABLATIONS, BETAS, Material
from .published import CAVEATS, find
from .settings import SETTINGS

EPOCHS = (25, 50, 75, 100, 150, 200, 250, 300)  # of the sensitivity and ablation tables
SCALERS = {"": "none", " + TS": "temperature", " + VS": "vector", " + MS": "matrix"}
SENSITIVITY = {
    "gamma": "Sensitivity to γ",
    "alpha": "Sensitivity to α",
    "beta": "Sensitivity to β",
    "ablation-vgg16": "Ablation",
    "ablation-resnet110": "Ablation",
}
RANKS = "Mean ± standard deviation (n - 1) over the seeds; bold is best and underlined second, ranked as printed."


@dataclass(frozen=True)
class Column:
    """A column of a block of rows: its group, how a metric is read from it, and where its published number stands."""

    title: str
    group: Group | None
    values: Callable[[Group, str], NDArray[np.float64]]
    printed: tuple[str, str | int, str] | None  # table, row and column


def performance(material: Material, split: str) -> list[Table]:
    """Accuracy and calibration errors at the last epoch, of test or validation data; CE has its place in `posthoc`."""
    name = {"test": "test", "val": "validation"}[split]
    titles = [title for title in METHODS_OF_PAPER if title != "CE"]
    notes, rows = Footnotes(CAVEATS), []
    for setting, groups in material.groups.items():
        values = partial(_last_values, split=split, scaler="none")
        columns = [
            Column(title, groups.get(title), values, (name, setting, METHODS_OF_PAPER[title])) for title in titles
        ]
        rows += block(material.scale.title(setting), columns, tuple(PAPER_METRICS), notes)
    title = f"{name.capitalize()} set performance at the last epoch"
    return [finished(name, title, ("Setting", *titles), rows, material, notes)]


def posthoc(material: Material) -> list[Table]:
    """Socrates and CE before and after temperature, vector and matrix scaling, of test data."""
    wanted = [(method, sign, scaler) for method in ("Socrates", "CE") for sign, scaler in SCALERS.items()]
    notes, rows = Footnotes(CAVEATS), []
    for setting, groups in material.groups.items():
        columns = [
            Column(
                method + sign,
                groups.get(method),
                partial(_last_values, split="test", scaler=scaler),
                ("posthoc", setting, METHODS_OF_PAPER[method] + (f"+{scaler}" if sign else "")),
            )
            for method, sign, scaler in wanted
        ]
        rows += block(material.scale.title(setting), columns, tuple(PAPER_METRICS), notes)
    heads = ("Setting", *(method + sign for method, sign, _ in wanted))
    return [finished("posthoc", "Test set performance with post-hoc scaling", heads, rows, material, notes)]


def over_epochs(material: Material, name: str) -> list[Table]:
    """Validation accuracy and ECE of variants of Socrates at some epochs, one table a setting."""
    tables: list[Table] = []
    for setting, groups in material.groups.items():
        notes, rows = Footnotes(CAVEATS), []
        for epoch in EPOCHS:
            ours = material.scale.epoch(setting, round(epoch * SETTINGS[setting].last_epoch / EPOCHS[-1]))
            columns = [
                Column(title, group, partial(_epoch_values, epoch=ours), _printed_cell(name, setting, epoch, title))
                for title, group in groups.items()
            ]
            heading = f"epoch {ours}" + (f" (for {epoch})" if ours != epoch else "")
            rows += block(heading, columns, ("accuracy", "ece"), notes)
        title = f"{SENSITIVITY[name]}: {material.scale.title(setting)}, validation set"
        chosen = [
            _choice(groups, material.scale.epoch(setting, SETTINGS[setting].last_epoch // half)) for half in (2, 1)
        ]
        file = name if len(material.groups) == 1 else f"{name}-{setting}"
        tables.append(finished(file, title, ("Epoch", *groups), rows, material, notes, chosen))
    return tables


def hyperparameters(material: Material) -> list[Table]:
    """What the Pareto rule chooses from each method's grid on validation data, and what the paper chose."""
    settings = list(material.groups)
    chosen = {setting: _chosen(groups) for setting, groups in material.groups.items()}
    rows: list[Row] = []
    for title, method in METHODS_OF_PAPER.items():
        symbols = SYMBOLS.get(method, {"MB": "batch_size"})
        for symbol, option in symbols.items():
            ours = [_option(chosen[setting].get(title), option) for setting in settings]
            printed = [find("hyperparameters", setting, method, symbol) for setting in settings]
            rows.append(Row((title, symbol, "ours"), tuple(ours)))
            if any(printed):
                signs = [f"{cell.mean:g}" + ("*" if cell.emphasis else "") if cell else "–" for cell in printed]
                rows.append(Row((title, symbol, "published"), tuple(signs)))
    notes = (
        *([material.scale.note] if material.scale.note else []),
        "Ours: on the Pareto front of mean validation error and ECE, the point nearest to the origin after scaling "
        "both to the candidates' range, ties by CW-ECE; candidates with a collapsed run are not ranked.",
        "Published values with * were taken from the method's own publication, without a search; there ours is "
        "that point too. MC is cross-entropy + DECE, as in the published runs.",
    )
    heads = ("Method", "Hyperparameter", "Source", *(material.scale.title(setting) for setting in settings))
    return [Table("hyperparameters", "Final hyperparameters", heads, tuple(rows), notes, material.scale.note)]


def block(heading: str, columns: Sequence[Column], metrics: Sequence[str], notes: Footnotes) -> list[Row]:
    """Rows of our numbers, ranked, each with the published ones beneath if there are any."""
    rows: list[Row] = []
    for metric in metrics:
        spec = METRICS[metric]
        cells = [_cell(column, metric) for column in columns]
        means = [math.nan if cell.mark else cell.mean for cell in cells]
        places = emphasis(means, spec.larger_is_better, spec.form)
        ranked = [Cell(c.mean, c.std, c.n, place, c.mark, c.form) for c, place in zip(cells, places, strict=True)]
        rows.append(Row((heading, spec.head, "ours"), tuple(ranked)))
        found = [find(*column.printed, PAPER_METRICS[metric]) if column.printed else None for column in columns]
        if any(found):
            printed = [
                Cell(p.mean, math.nan if p.std is None else p.std, mark=notes.mark(p.caveat)) if p else Cell(math.nan)
                for p in found
            ]
            rows.append(Row((heading, spec.head, "published"), tuple(printed)))
    return rows


def finished(
    name: str,
    title: str,
    heads: tuple[str, ...],
    rows: Sequence[Row],
    material: Material,
    footnotes: Footnotes,
    sentences: Sequence[str] = (),
) -> Table:
    """The table with everything that must be said beneath it."""
    collapsed = [
        f"{DAGGER} {material.scale.title(setting)}, {title}: a run collapsed ({run.collapsed}); not ranked."
        for setting, groups in material.groups.items()
        for title, group in groups.items()
        for run in [next((run for run in group.runs if run.collapsed), None)]
        if run is not None
    ]
    scale = [material.scale.note] if material.scale.note else []
    notes = (*scale, RANKS, *filter(None, sentences), *collapsed, *footnotes.notes())
    heads = (heads[0], "Metric", "Source", *heads[1:])
    return Table(name, title, heads, tuple(rows), notes, material.scale.note)


def _cell(column: Column, metric: str) -> Cell:
    if column.group is None:
        return Cell(math.nan)
    spec = METRICS[metric]
    values = spec.factor * column.values(column.group, metric)
    mark = DAGGER if is_collapsed(column.group) else ""
    return Cell(*mean_std(values), n=int(np.isfinite(values).sum()), mark=mark, form=spec.form)


def _last_values(group: Group, metric: str, split: str, scaler: str) -> NDArray[np.float64]:
    return group.values(metric, scaler, split)


def _epoch_values(group: Group, metric: str, epoch: int) -> NDArray[np.float64]:
    at = int(np.abs(group.epochs - epoch).argmin())
    return group.curve(f"val_{metric}")[:, at]


def _printed_cell(name: str, setting: str, epoch: int, title: str) -> tuple[str, str | int, str] | None:
    """Where the paper prints a variant: it has these tables for one setting each."""
    if setting != ("cifar100-resnet110" if name == "ablation-resnet110" else "cifar100-vgg16"):
        return None
    columns = BETAS if name == "beta" else ABLATIONS
    return name, epoch, columns[title] if name in ("beta", *_ABLATIONS) else title.split(" = ")[1]


_ABLATIONS = ("ablation-vgg16", "ablation-resnet110")


def _choice(groups: Mapping[str, Group], epoch: int) -> str:
    """Which variant the Pareto rule prefers at an epoch."""
    points = {title: _point(group, epoch) for title, group in groups.items() if not is_collapsed(group)}
    sound = {title: point for title, point in points.items() if all(map(math.isfinite, point))}
    if not sound:
        return ""
    return f"By the Pareto rule the best at epoch {epoch} is {pareto.best(sound, key=lambda title: sound[title])}."


def _point(group: Group, epoch: int) -> tuple[float, float, float]:
    error, ece, cw_ece = (mean_std(_epoch_values(group, name, epoch))[0] for name in ("accuracy", "ece", "cw_ece"))
    return 1 - error, ece, cw_ece


def _chosen(groups: Mapping[str, Group]) -> dict[str, Group]:
    """The best candidate of each method by the Pareto rule."""
    chosen: dict[str, Group] = {}
    for method in METHODS_OF_PAPER:
        points = {
            title: _point(group, group.setting.epochs)
            for title, group in groups.items()
            if title.rpartition(" ")[0] == method and not is_collapsed(group)
        }
        sound = {title: point for title, point in points.items() if all(map(math.isfinite, point))}
        if sound:
            chosen[method] = groups[pareto.best(sound, key=lambda title: sound[title])]
    return chosen


def _option(group: Group | None, option: str) -> str:
    if group is None:
        return "–"
    if option == "batch_size":
        return str(group.experiment.optimization.batch_size)
    return f"{dict(group.experiment.method.options)[option]:g}"
