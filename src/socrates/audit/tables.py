"""The tables of an audit: for the page, as files, and in the terminal."""

import math
from collections.abc import Sequence

from socrates.metrics import GroupGap
from socrates.report.tables import NOTHING, Cell, Row, Table, cell_of, emphasis
from socrates.report.vocabulary import AUDITED, METRICS, Metric, scaler_of

from .judge import Judgement
from .pairs import Difference
from .run import Audit

SCORES = ("accuracy", "ece", "nll", "brier")
SHOWN = 10  # worst classes and groups


def tables_of(made: Audit) -> dict[str, Table]:
    """Every table by the section of the page that shows it, without those that have no rows."""
    files = made.files
    found = {
        "metrics": metrics_table(files),
        "scaling": scaler_table(files),
        "decomposition": decomposition_table(files),
        "worst": worst_table(files),
        "differences": difference_table(made.differences),
        "reading": reading_table(files),
    }
    return {name: table for name, table in found.items() if table.rows}


def shown_tables(made: Audit) -> dict[str, Table]:
    """The same for the eye: without the column of the file where there is only one."""
    alone = len(made.files) == 1
    return {
        name: table.without_first_key() if alone and table.num_keys > 1 else table
        for name, table in tables_of(made).items()
    }


def metrics_table(files: Sequence[Judgement]) -> Table:
    """A row for each metric of each file, with its interval, and for the ECE its floor."""
    rows: list[Row] = []
    for one in files:
        for name, spec in AUDITED.items():
            if name not in one.values:
                continue
            found = one.intervals.get(name)
            ends = (found.low, found.high) if found else (math.nan, math.nan)
            rows.append(_metric_row(one.label, spec, one.values[name], *ends))
            if name == "ece":
                rows.append(_metric_row(one.label, METRICS["ece_floor"], one.floor, math.nan, math.nan))
    return Table("metrics", "Metrics", ("File", "Metric", "Value", "95 % from", "95 % to", "Meaning"), tuple(rows))


def _metric_row(label: str, spec: Metric, *numbers: float) -> Row:
    return Row((label, spec.head), (*(cell_of(spec, value) for value in numbers), spec.meaning))


def scaler_table(files: Sequence[Judgement]) -> Table:
    """Scores on held-out rows before and after each scaler; the best of a file in bold."""
    specs = [METRICS[name] for name in SCORES]
    rows: list[Row] = []
    for one in files:
        made = one.recalibrated.numbers
        places = {
            spec.name: emphasis([spec.factor * of[spec.name] for of in made.values()], spec.larger_is_better, spec.form)
            for spec in specs
        }
        for at, (name, of) in enumerate(made.items()):
            cells = [cell_of(spec, of[spec.name], emphasis=places[spec.name][at]) for spec in specs]
            chosen = "to use" if name == one.recalibrated.winner else ""
            rows.append(Row((one.label, scaler_of(name).long), (*cells, chosen)))
    heads = ("File", "Scaler", *(spec.head for spec in specs), "")
    notes = ("Fitted on one half of the rows, measured on the other; which one to use is decided on the first half.",)
    return Table("scalers", "Post-hoc scaling on held-out rows", heads, tuple(rows), notes)


def decomposition_table(files: Sequence[Judgement]) -> Table:
    """What part of each score is miscalibration; for answers being right or not also what they can tell apart."""
    rows: list[Row] = []
    for one in files:
        split = {
            METRICS[name].short: (parts.total, parts.calibration, parts.refinement, math.nan, math.nan)
            for name, parts in one.recalibrated.parts.items()
        }
        corp = one.corp
        split["Brier score of being right"] = (corp.score, corp.mcb, corp.unc - corp.dsc, corp.unc, corp.dsc)
        rows += [
            Row((one.label, name), tuple(Cell(value, form=".4f") for value in parts)) for name, parts in split.items()
        ]
    heads = ("File", "Score", "Total", "Calibration", "Refinement", "Uncertainty", "Discrimination")
    notes = (
        "Total = calibration + refinement. Of the first scores, on held-out rows, calibration is what the best "
        "scaler takes away; it is negative where that does harm.",
        "Of the last, on all rows that were judged, it is what the best monotone curve takes away (CORP), and "
        "refinement = uncertainty - discrimination.",
    )
    return Table("decomposition", "Decomposition", heads, tuple(rows), notes)


def worst_table(files: Sequence[Judgement]) -> Table:
    """The classes, and the groups of each column, whose confidence is most surely off."""
    rows: list[Row] = []
    for one in files:
        for kind, found in {"answer": one.worst, **one.groups}.items():
            rows += [_gap_row(one.label, kind, gap) for gap in found[:SHOWN]]
    heads = ("File", "By", "Which", "Rows", "Confidence (%)", "Accuracy (%)", "Gap (points)", "95 % from", "95 % to")
    notes = (
        "Gap: mean confidence less accuracy, positive where too sure. The intervals hold all at once, for all that "
        "were looked at: a gap whose interval leaves out 0 is real. Weighted rows have none.",
    )
    return Table("worst", "Worst classes and groups", heads, tuple(rows), notes)


def _gap_row(label: str, kind: str, gap: GroupGap) -> Row:
    numbers = (gap.confidence, gap.accuracy, gap.gap, gap.low, gap.high)
    cells = [Cell(gap.count, form=".0f"), *(Cell(100 * value) for value in numbers)]
    return Row((label, kind, str(gap.name)), tuple(cells))


def difference_table(differences: Sequence[Difference]) -> Table:
    """Every file against the first, row by row."""
    rows: list[Row] = []
    for one in differences:
        spec = METRICS[one.metric]
        cells = [cell_of(spec, value) for value in (one.value, one.low, one.high)]
        rows.append(Row((spec.head, one.label, one.reference), (*cells, one.words)))
    heads = ("Metric", "File", "Reference", "Difference", "95 % from", "95 % to", "Verdict")
    notes = ("Paired by row: the ECE by resampling both files together, the others by the differences of single rows.",)
    return Table("differences", "Differences between files", heads, tuple(rows), notes)


def reading_table(files: Sequence[Judgement]) -> Table:
    """What was understood of each file, and which rows were left out."""
    rows: list[Row] = []
    for one in files:
        counts = [one.measured.num_rows, one.measured.bad.count, len(one.sample)]
        cells = [Cell(value, form=",.0f") for value in counts]
        rows.append(Row((one.label,), (*cells, one.measured.layout.words, "; ".join(one.measured.notes) or NOTHING)))
    heads = ("File", "Rows", "Left out", "Judged", "Understood as", "Notes")
    return Table("reading", "How the files were read", heads, tuple(rows))
