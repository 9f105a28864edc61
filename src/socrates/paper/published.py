"""Every number printed in the paper's nine tables, with the emphasis it is printed in and what to know about it."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
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
    return csv.DictReader((resources.files("socrates.paper") / f"{name}.csv").read_text(encoding="utf-8").splitlines())


# What to know about a cell. One that is not comparable does not measure what its heading says; the others do, of a
# training that differs from the paper's text.
CAVEATS = {line["caveat"]: line["sentence"] for line in _lines("caveats")}
NOT_COMPARABLE = frozenset(line["caveat"] for line in _lines("caveats") if line["comparable"] == "no")


class CellKey(NamedTuple):
    """Where a number stands: a setting or epoch, a method or value, and a metric (a symbol for hyperparameters)."""

    row: str
    column: str
    metric: str


@dataclass(frozen=True)
class Published(Printed):
    """A printed number: metrics in percent; `caveat` holds keys of `CAVEATS`."""

    @property
    def comparable(self) -> bool:
        """Whether a correct implementation may be held against it.

        >>> Published(1.31, caveat=("cw_ece",)).comparable
        False
        """
        return NOT_COMPARABLE.isdisjoint(self.caveat)


@cache
def table(name: str) -> Mapping[CellKey, Published]:
    """All cells of a table, row by row in the paper's order of columns.

    Metrics are acc, ece, ada_ece and cw_ece. Columns are our methods (`ce_dece` is the paper's MC), for the post-hoc
    table with a scaler (`ce+temperature`), for the gamma and alpha tables the value.

    >>> len(table("test")), table("gamma")["300", "2", "ece"].emphasis
    (196, 'bold italic')
    """
    if name not in TABLES:
        raise ValueError(f"the paper has no table {unknown(name, TABLES)}")
    cells: dict[CellKey, Published] = {}
    for line in _lines(f"published/{name}"):
        numbers = float(line["mean"]), float(line["std"]) if line["std"] else None
        caveat = tuple(line["caveat"].split())
        cells[CellKey(line["row"], line["column"], line["metric"])] = Published(*numbers, line["emphasis"], caveat)
    return MappingProxyType(cells)


def find(name: str, row: str | int, column: str | float, metric: str) -> Published | None:
    """The number in a cell of a table, or None if the paper prints none there.

    >>> find("test", "cifar100-vgg16", "socrates", "ece")
    Published(mean=3.45, std=0.25, emphasis='bold', caveat=('target_over',))
    >>> find("alpha", 300, 0.999, "acc").mean
    71.74
    """
    row, column = (place if isinstance(place, str) else f"{place:g}" for place in (row, column))
    return table(name).get(CellKey(row, column, metric))
