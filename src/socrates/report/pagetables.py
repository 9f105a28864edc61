"""The tables of the page as plain JSON: overview, scaling, differences. A cell is [text, value, mark]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from socrates.metrics.predictions import READINGS
from socrates.report.aggregate import Group, RunData, mean_std
from socrates.report.figures.pareto import final_points
from socrates.report.figures.scaling import scaled_points
from socrates.report.statistics import LEVEL, Difference, holm, paired
from socrates.report.tables import NOTHING, Cell, emphasis

Array = NDArray[Any]
Json = dict[str, Any]

DIGITS = 5
SCALERS = {"none": "None", "temperature": "TS", "vector": "VS", "matrix": "MS", "readout": "Read-out"}


@dataclass(frozen=True)
class Column:
    """A metric of the overview: its head, what it is, and how it is printed."""

    key: str
    title: str
    hint: str
    factor: float = 100.0
    form: str = ".2f"
    larger_is_better: bool = False
    ranked: bool = True


COLUMNS = (
    Column("accuracy", "Accuracy, %", "Share of right answers; higher is better", larger_is_better=True),
    Column("ece", "ECE, %", "Expected calibration error; lower is better"),
    Column("ece_floor", "Floor, %", "The ECE a perfectly calibrated model would measure by chance", ranked=False),
    Column("ada_ece", "AdaECE, %", "ECE with bins of equal counts; lower is better"),
    Column("cw_ece", "CW-ECE, %", "Mean ECE of the classes; lower is better"),
    Column("nll", "NLL", "Negative log-likelihood; lower is better", 1.0, ".3f"),
    Column("brier", "Brier", "Brier score; lower is better", 1.0, ".3f"),
)
COMPARED = ("accuracy", "ece")  # of the differences


def worst_collapse(group: Group) -> str | None:
    """Why the collapsed run that answers "unknown" most counts as collapsed; None if no run does."""
    bad = [run for run in group.runs if run.collapsed]
    return max(bad, key=_last_unknown_share).collapsed if bad else None


def _last_unknown_share(run: RunData) -> float:
    share = run.curves.get("unknown_share", np.zeros(1))[-1]
    return float(share) if math.isfinite(share) else -1.0


def overview_rows(groups: Sequence[Group], reading: str) -> list[list[Any]]:
    """A row for each group: its cells in the order of COLUMNS, then seeds and collapse, each [text, value, mark]."""
    columns = [_column_cells(groups, column, reading) for column in COLUMNS]
    rows = [list(cells) for cells in zip(*columns, strict=True)]
    for row, group in zip(rows, groups, strict=True):
        bad, all_runs = sum(run.collapsed is not None for run in group.runs), len(group.runs)
        row.append([str(all_runs), all_runs, ""])
        row.append([f"{bad} of {all_runs}" if bad else NOTHING, bad, "bad" if bad else ""])
    return rows


def _column_cells(groups: Sequence[Group], column: Column, reading: str) -> list[list[Any]]:
    pairs = [mean_std(column.factor * group.values(column.key, reading=reading)) for group in groups]
    return _cells(pairs, column, [column.ranked and worst_collapse(group) is None for group in groups])


def _cells(pairs: Sequence[tuple[float, float]], column: Column, ranked: Sequence[bool]) -> list[list[Any]]:
    """Cells of means and deviations; those that are not ranked can be neither best nor second."""
    means = [mean if counts else math.nan for (mean, _), counts in zip(pairs, ranked, strict=True)]
    places = emphasis(means, column.larger_is_better, column.form)
    return [
        [Cell(mean, std, form=column.form).text, number(mean), place or ""]
        for (mean, std), place in zip(pairs, places, strict=True)
    ]


def scaling_data(groups: Sequence[Group], reading: str, place: dict[str, int]) -> Json:
    """ECE, then accuracy, under each scaler that some group has, and the points of the chart."""
    scalers = [name for name in SCALERS if final_points(groups, "test", reading, name)]
    rows = [_scaled_cells(group, scalers, reading) for group in groups]
    points = [
        {"method": place[point.label], "scaler": point.scaler, "error": number(point.error), "ece": number(point.ece)}
        for point in scaled_points(groups, "test", reading)
        if point.scaler in SCALERS
    ]
    return {"scalers": scalers, "rows": rows, "points": points}


def _scaled_cells(group: Group, scalers: Sequence[str], reading: str) -> list[list[Any]]:
    cells: list[list[Any]] = []
    for column in (COLUMNS[1], COLUMNS[0]):
        pairs = [mean_std(column.factor * group.values(column.key, name, reading=reading)) for name in scalers]
        cells += _cells(pairs, column, [True] * len(pairs))
    return cells


def reference(groups: Sequence[Group]) -> int:
    """The place of the group that others are compared with at first: the first plain Socrates, or the first."""
    return next((index for index, group in enumerate(groups) if group.method == "socrates"), 0)


def differences_data(groups: Sequence[Group]) -> Json:
    """By reading and metric of COMPARED: for each reference (outer) and group (inner) [text, verdict, mark, seeds]."""
    readings = READINGS if any(run.unknown_class for group in groups for run in group.runs) else ("answer",)
    found = {
        reading: [_differences(groups, column, reading) for column in COLUMNS if column.key in COMPARED]
        for reading in readings
    }
    return {reading: found.get(reading, found["answer"]) for reading in READINGS}


def _differences(groups: Sequence[Group], column: Column, reading: str) -> list[list[Any]]:
    values = [
        dict(zip(group.seeds, column.factor * group.values(column.key, reading=reading), strict=True))
        for group in groups
    ]
    found: dict[tuple[int, int], Difference] = {}
    for other, base in enumerate(values):
        for one, own in enumerate(values[: other + 1]):
            found[one, other] = paired(own, base)
            found[other, one] = _reversed(found[one, other])
    table: list[list[Any]] = []
    for base in range(len(values)):
        row = [found[own, base] for own in range(len(values))]
        corrected = holm([math.nan if own == base else entry.p for own, entry in enumerate(row)])
        table.append([difference_cell(entry, p, column) for entry, p in zip(row, corrected, strict=True)])
    return table


def _reversed(found: Difference) -> Difference:
    return Difference(-found.mean, -found.high, -found.low, found.p, found.n)


def difference_cell(found: Difference, p: float, column: Column) -> list[Any]:
    """Difference with its interval, the verdict in words, its mark, and the number of seeds.

    >>> difference_cell(Difference(-1.5, -2.0, -1.0, 0.001, 5), 0.004, COLUMNS[1])
    ['−1.50 (−2.00 to −1.00)', 'better', 'better', 5]
    """
    if not math.isfinite(found.mean):
        return [NOTHING, "no common seed", "", found.n]
    text = f"{found.mean:+.2f}"
    if not math.isfinite(p):
        return [_minus(text), "one seed: unknown", "", found.n]
    text = _minus(f"{text} ({found.low:+.2f} to {found.high:+.2f})")
    if p >= LEVEL:
        return [text, "within seed noise", "", found.n]
    verdict = "better" if (found.mean > 0) == column.larger_is_better else "worse"
    return [text, verdict, verdict, found.n]


def _minus(text: str) -> str:
    return text.replace("-", "\u2212")


def numbers(values: Array) -> list[float | None]:
    """Each value with five digits that count."""
    return [number(value) for value in values.tolist()]


def number(value: float) -> float | None:
    """A value with five digits that count, None for one that is not finite.

    >>> number(0.123456789), number(float("nan"))
    (0.12346, None)
    """
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
