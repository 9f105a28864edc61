"""The tables of an audit: for the page, as files, and in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from socrates.metrics import METRICS, GroupGap, Metric
from socrates.metrics.registry import audit_metrics
from socrates.report.tables import NOTHING, Cell, Table, TableRow, cell_of
from socrates.report.vocabulary import scaler_of

from .compare import FileDifference
from .judge import Judgement
from .run import AuditResult
from .strangers import strangers_table

SCORES = ("accuracy", "ece", "nll", "brier")
SHOWN = 10  # worst classes and groups


def tables_of(result: AuditResult) -> dict[str, Table]:
    """Return every table that has rows, by the section of the page that shows it."""
    tables = {
        "metrics": metrics_table(result.files),
        "scaling": scaler_table(result.files),
        "decomposition": decomposition_table(result.files),
        "strangers": strangers_table(
            [
                (judged.label, judged.measured.strangers.count, dict(judged.strangers))
                for judged in result.files
            ]
        ),
        "worst": worst_table(result.files),
        "differences": difference_table(result.differences),
        "reading": reading_table(result.files),
    }
    return {name: table for name, table in tables.items() if table.rows}


def shown_tables(result: AuditResult) -> dict[str, Table]:
    """Return the tables to look at: without the column of the file if there is only one."""
    tables = tables_of(result)
    if len(result.files) > 1:
        return tables
    return {
        name: table.without_first_key() if table.num_keys > 1 else table
        for name, table in tables.items()
    }


def metrics_table(files: Sequence[Judgement]) -> Table:
    """Return a row for each metric of each file, with its interval, and the floor of the ECE."""
    rows: list[TableRow] = []
    for judged in files:
        for name, metric in audit_metrics().items():
            if name not in judged.values:
                continue
            interval = judged.intervals.get(name)
            ends = (interval.low, interval.high) if interval else (math.nan, math.nan)
            rows.append(_metric_row(judged.label, metric, judged.values[name], *ends))
            if name == "ece":
                floor = METRICS["ece_floor"]
                row = _metric_row(judged.label, floor, judged.floor, math.nan, judged.floor_95)
                rows.append(row)
    heads = ("File", "Metric", "Value", "95% from", "95% to", "Meaning")
    return Table("metrics", "Metrics", heads, tuple(rows))


def _metric_row(label: str, metric: Metric, *numbers: float) -> TableRow:
    cells = [cell_of(metric, value) for value in numbers]
    return TableRow((label, metric.head), (*cells, metric.meaning))


def scaler_table(files: Sequence[Judgement]) -> Table:
    """Return the scores on held-out rows before and after each scaler, and which one to use.

    Nothing is bold: which one is to be used is decided on other rows, not by the best number here.
    """
    specs = [METRICS[name] for name in SCORES]
    rows: list[TableRow] = []
    for judged in files:
        recalibrated = judged.recalibrated
        for name, scores in recalibrated.numbers.items():
            cells = [cell_of(metric, scores[metric.name]) for metric in specs]
            use = ("", "")
            if name == recalibrated.winner:
                use = ("to use", recalibrated.untried or recalibrated.reason)
            rows.append(TableRow((judged.label, scaler_of(name).long), (*cells, *use)))
    heads = ("File", "Scaler", *(metric.head for metric in specs), "", "Why")
    note = (
        "Fitted on one half of the rows, measured on the other; which one to use is decided on "
        "the first half."
    )
    return Table("scalers", "Post-hoc scaling on held-out rows", heads, tuple(rows), (note,))


def decomposition_table(files: Sequence[Judgement]) -> Table:
    """Return which part of each score is miscalibration, and which part refinement."""
    rows: list[TableRow] = []
    for judged in files:
        split = {
            METRICS[name].symbol: (parts.total, parts.calibration, parts.refinement)
            for name, parts in judged.recalibrated.parts.items()
        }
        numbers = {name: (*parts, math.nan, math.nan) for name, parts in split.items()}
        corp = judged.corp
        refinement = corp.unc - corp.dsc
        numbers["Brier score of being right"] = (
            corp.score,
            corp.mcb,
            refinement,
            corp.unc,
            corp.dsc,
        )
        for name, values in numbers.items():
            cells = tuple(Cell(value, form=".4f") for value in values)
            rows.append(TableRow((judged.label, name), cells))
    heads = ("File", "Score", "Total", "Calibration", "Refinement", "Uncertainty", "Discrimination")
    notes = (
        "Total = calibration + refinement. Of the first scores, on held-out rows, calibration is "
        "what the best scaler takes away; it is negative where that does harm.",
        "Of the last, on all rows that were judged, it is what the best monotone curve takes away "
        "(CORP), and refinement = uncertainty - discrimination.",
    )
    return Table("decomposition", "Decomposition", heads, tuple(rows), notes)


def worst_table(files: Sequence[Judgement]) -> Table:
    """Return the classes, and the groups of each column, whose confidence is most surely off."""
    rows: list[TableRow] = []
    for judged in files:
        for column, gaps in {"answer": judged.worst, **judged.groups}.items():
            rows += [_gap_row(judged.label, column, gap) for gap in gaps[:SHOWN]]
    heads = (
        "File",
        "By",
        "Which",
        "Rows",
        "Confidence (%)",
        "Accuracy (%)",
        "Gap (points)",
        "95% from",
        "95% to",
    )
    note = (
        "Gap: mean confidence minus accuracy, positive for overconfidence. The intervals of a "
        "column hold all at once: a gap whose interval leaves out 0 is hardly chance. Weighted "
        "rows have none."
    )
    return Table("worst", "Worst classes and groups", heads, tuple(rows), (note,))


def _gap_row(label: str, column: str, gap: GroupGap) -> TableRow:
    numbers = (gap.confidence, gap.accuracy, gap.gap, gap.low, gap.high)
    cells = [Cell(gap.count, form=".0f"), *(Cell(100 * value) for value in numbers)]
    return TableRow((label, column, str(gap.name)), tuple(cells))


def difference_table(differences: Sequence[FileDifference]) -> Table:
    """Return how every file differs from the first, row by row."""
    rows: list[TableRow] = []
    for difference in differences:
        metric = METRICS[difference.metric]
        numbers = (difference.value, difference.low, difference.high)
        cells = [cell_of(metric, value) for value in numbers]
        head = "Error less chance (%)" if metric.name == "ece" else metric.head
        head += " after scaling" if difference.after_scaling else ""
        keys = (head, difference.label, difference.reference)
        rows.append(TableRow(keys, (*cells, difference.words)))
    heads = ("Metric", "File", "Reference", "Difference", "95% from", "95% to", "Verdict")
    notes = (
        "Paired by row. The intervals of a metric hold for all pairs of files at once. The error "
        "less chance is the ECE without what chance alone adds to it; a file is better only if the "
        "other fails its own calibration test, too.",
        "After scaling: each file under its scaler to use, on the rows that no scaler was fitted "
        "on.",
    )
    return Table("differences", "Differences between files", heads, tuple(rows), notes)


def reading_table(files: Sequence[Judgement]) -> Table:
    """Return what was understood of each file, and which rows were left out."""
    rows: list[TableRow] = []
    for judged in files:
        measured = judged.measured
        counts = (measured.num_rows, measured.bad.count, len(judged.sample))
        cells = [Cell(count, form=",.0f") for count in counts]
        notes = "; ".join(measured.notes) or NOTHING
        rows.append(TableRow((judged.label,), (*cells, measured.layout.words, notes)))
    heads = ("File", "Rows", "Left out", "Judged", "Understood as", "Notes")
    return Table("reading", "How the files were read", heads, tuple(rows))
