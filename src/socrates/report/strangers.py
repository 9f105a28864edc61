"""The table of strangers in a report: how well the runs that met some tell them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from socrates.metrics.open_world import OPEN_WORLD

from .results import Results
from .statistics import mean_std
from .tables import Cell, Table, TableRow, cell_of

SCORES = ("confidence", "novelty")


def strangers_table(settings: Mapping[str, Sequence[Results]]) -> Table:
    """Return a row per setting, method and score: the metrics of OPEN_WORLD, means over seeds.

    Only the runs that kept strangers count. The last column is the share that is answered without
    a certificate.

    >>> strangers_table({"digits": []}).rows
    ()
    """
    rows: list[TableRow] = []
    for heading, members in settings.items():
        for results in members:
            met = [evaluation.strangers for evaluation in results.evaluations]
            met = [strangers for strangers in met if strangers]
            for score in SCORES:
                if any(score in strangers for strangers in met):
                    keys = (heading, results.label, score)
                    rows.append(TableRow(keys, _cells(met, score)))
    metrics = [metric.head for metric in OPEN_WORLD.values()]
    heads = ("Setting", "Method", "Score", *metrics, "Answered (%)", "Strangers")
    note = (
        "Strangers are images of none of the classes, or of a class that was left out of the "
        "training. Answered: without a certificate, by the limit of novelty."
    )
    return Table("strangers", "Strangers", heads, tuple(rows), (note,))


def _cells(met: Sequence[Mapping[str, Mapping[str, float]]], score: str) -> tuple[Cell, ...]:
    """Return the cells of one row, from the strangers of each run."""
    cells: list[Cell] = []
    for name, metric in OPEN_WORLD.items():
        mean, std, n = _mean_std([strangers.get(score, {}).get(name) for strangers in met])
        cells.append(cell_of(metric, mean, std=metric.factor * std, n=n))
    counts = [strangers["counts"] for strangers in met]
    answered = [row.get("strangers_answered") if score == "novelty" else None for row in counts]
    mean, std, n = _mean_std(answered)
    cells.append(Cell(100 * mean, 100 * std, n))
    cells.append(Cell(_mean_std([row["strangers"] for row in counts])[0], form=",.0f"))
    return tuple(cells)


def _mean_std(values: Sequence[float | None]) -> tuple[float, float, int]:
    """Return mean, standard deviation and number of the values that there are."""
    known = [value for value in values if value is not None]
    if not known:
        return math.nan, math.nan, 0
    mean, std = mean_std(np.array(known))[:2]
    return mean, std, len(known)
