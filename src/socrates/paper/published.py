"""Every number printed in the paper's nine tables, with its emphasis and its caveats."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import NamedTuple

from ..names import unknown
from ..report.compare import Printed

TABLES = (
    "hyperparameters",
    "test",
    "posthoc",
    "gamma",
    "alpha",
    "beta",
    "ablation-vgg16",
    "ablation-resnet110",
    "validation",
)


def _lines(name: str) -> csv.DictReader[str]:
    file = resources.files("socrates.paper") / f"{name}.csv"
    return csv.DictReader(file.read_text(encoding="utf-8").splitlines())


# What to know about a cell, by the key that its `caveat` holds.
CAVEATS = {line["caveat"]: line["sentence"] for line in _lines("caveats")}


class CellKey(NamedTuple):
    """The place of a number: a setting or epoch, a method or value, and a metric.

    In the table of hyperparameters the metric is a symbol.
    """

    row: str
    column: str
    metric: str


@cache
def table(name: str) -> Mapping[CellKey, Printed]:
    """Return all cells of a table, row by row in the paper's order of columns.

    Metrics are acc, ece, ada_ece and cw_ece, in percent. Columns are our methods (`ce_dece` is the
    paper's MC), for the post-hoc table with a scaler (`ce+temperature`), for the gamma and alpha
    tables the value.

    >>> len(table("test")), table("gamma")["300", "2", "ece"].emphasis
    (196, 'bold italic')
    """
    if name not in TABLES:
        raise ValueError(f"the paper has no table {unknown(name, TABLES)}")
    cells: dict[CellKey, Printed] = {}
    for line in _lines(f"published/{name}"):
        key = CellKey(line["row"], line["column"], line["metric"])
        cells[key] = Printed(
            mean=float(line["mean"]),
            std=float(line["std"]) if line["std"] else None,
            emphasis=line["emphasis"],
            caveat=tuple(line["caveat"].split()),
        )
    return MappingProxyType(cells)


def find(name: str, row: str | int, column: str | float, metric: str) -> Printed | None:
    """Return the number in a cell of a table, or None if the paper prints none there.

    >>> find("test", "cifar100-vgg16", "socrates", "ece")
    Printed(mean=3.45, std=0.25, emphasis='bold', caveat=('target_over',))
    >>> find("alpha", 300, 0.999, "acc").mean
    71.74
    """
    row_name = row if isinstance(row, str) else f"{row:g}"
    column_name = column if isinstance(column, str) else f"{column:g}"
    return table(name).get(CellKey(row_name, column_name, metric))
