"""Tables with one row per thing: differences between methods, runs, directories left out."""

import math
from collections.abc import Sequence
from dataclasses import replace

from .aggregate import Skipped
from .compare import collapse_notes
from .comparisons import Settings
from .evidence import evidence_of
from .results import Members
from .statistics import Family, PairedDifference
from .tables import FAILED, Cell, Table, TableRow, cell_of
from .vocabulary import FEWEST, METHODS, METRICS, USUAL_READING, Metric, compared_metrics

DIFFERENCE_HEADS = (
    "Setting",
    "Metric",
    "Method",
    "Reference",
    "Difference",
    "95% from",
    "95% to",
    "p",
    "Seeds",
    "Verdict",
)
DIFFERENCE_NOTES = (
    "Difference: method minus reference over the seeds that both have; Acc and calibration errors "
    "in points, calibration errors less chance.",
    "Intervals hold at once for all comparisons of a metric in a setting (Dunnett's rule against "
    "a fixed reference, Tukey's otherwise), with the noise of the seeds, pooled over the methods, "
    "and that of the test rows; p is corrected likewise. One is called worse calibrated only if, "
    "besides, it fails its own calibration test.",
    "“2 seeds cannot tell”: they show no spread, so nothing says what chance would do.",
    "Where no Socrates was run, or several were, the reference is the one with the best mean.",
)
RUN_NOTE = (
    "Accuracy and ECE of the test split, without scaling; unknown is an answer, and never a right "
    "one."
)


def significance_table(settings: Settings, metrics: Sequence[str] | None = None) -> Table:
    """Return every method against its `reference` on test data, paired over their common seeds.

    >>> significance_table({}).heads[3:]
    ('Reference', 'Difference', '95% from', '95% to', 'p', 'Seeds', 'Verdict')
    """
    rows: list[TableRow] = []
    for heading, members in settings.items():
        if len(members) > 1:
            for metric in metrics or compared_metrics():
                rows += _difference_rows(heading, members, METRICS[metric])
    everyone = [(results, heading) for heading, members in settings.items() for results in members]
    notes = (*DIFFERENCE_NOTES, *collapse_notes(everyone))
    title = "Test differences against noise"
    return Table("test-significance", title, DIFFERENCE_HEADS, tuple(rows), notes)


def reference(members: Members, metric: str) -> int:
    """Return the place of the reference: the best Socrates if there is one, else the best of all.

    Collapsed results are taken only if there are no others.
    """

    def order(place: int) -> tuple[bool, bool, float]:
        collapsed, mean = members[place].standing(METRICS[metric])
        return collapsed, members[place].title != METHODS["socrates"], mean

    return min(range(len(members)), key=order)


def runs_table(settings: Settings, shown: Settings | None = None) -> Table:
    """Return one row per run, with the reason if it collapsed.

    Only results that are `shown` have test numbers; by default all have.

    >>> runs_table({}).heads[:4]
    ('Run', 'Setting', 'Method', 'Seed')
    """
    specs = [METRICS[metric] for metric in FEWEST]
    rows: list[TableRow] = []
    for heading, members in settings.items():
        for results in members:
            reasons = {failure.seed: failure.reason for failure in results.failures}
            has_numbers = shown is None or results in shown[heading]
            for run in (*results.runs, *results.failed_runs):
                values = run.evaluation.values("none", "test", USUAL_READING) if has_numbers else {}
                cells = (
                    heading,
                    results.label,
                    str(run.experiment.seed),
                    Cell(run.curves["epoch"][-1], form=".0f"),
                    *(cell_of(spec, values.get(spec.name, math.nan)) for spec in specs),
                    run.collapsed or reasons.get(run.experiment.seed, ""),
                    Cell(run.seconds, form=".1f"),
                )
                rows.append(TableRow((run.directory.name,), cells))
    metrics = [spec.head for spec in specs]
    heads = ("Run", "Setting", "Method", "Seed", "Epochs", *metrics, "Failed", "Seconds")
    return Table("runs", "Runs", heads, tuple(rows), (RUN_NOTE,))


def skipped_table(skipped: Sequence[Skipped]) -> Table:
    """Return the directories that are not part of the report, and why.

    >>> from pathlib import Path
    >>> skipped = Skipped(Path("runs/one"), "unfinished: 2 of 6 epochs are done")
    >>> skipped_table([skipped]).rows[0].keys
    ('runs/one',)
    """
    rows = [TableRow((directory.as_posix(),), (reason,)) for directory, reason in skipped]
    return Table("skipped", "Directories left out", ("Directory", "Reason"), tuple(rows))


def _difference_rows(heading: str, members: Members, spec: Metric) -> list[TableRow]:
    """Return the rows of one family of comparisons: a metric in a setting."""
    chosen = reference(members, spec.name)
    fixed = sum(results.title == METHODS["socrates"] for results in members) == 1
    fixed = fixed and members[chosen].title == METHODS["socrates"]
    family = Family([evidence_of(results, spec) for results in members], spec)
    differences = family.against(chosen, fixed)
    rows: list[TableRow] = []
    for results, difference in zip(members, differences, strict=True):
        if results is not members[chosen]:
            mark = FAILED if results.collapses or members[chosen].collapses else ""
            cells = (members[chosen].label, *_difference_cells(difference, spec, mark))
            rows.append(TableRow((heading, spec.head, results.label), cells))
    return rows


def _difference_cells(
    difference: PairedDifference, spec: Metric, mark: str
) -> tuple[Cell | str, ...]:
    mean, low, high = (
        Cell(value, form=f"+{spec.form}")
        for value in (difference.mean, difference.low, difference.high)
    )
    return (
        replace(mean, n=difference.n, mark=mark),
        low,
        high,
        Cell(difference.p, form=".2g"),
        Cell(difference.n, form=".0f"),
        difference.words,
    )
