"""Tables of one line a thing: differences between methods, runs, directories left out."""

import math
from collections.abc import Sequence
from dataclasses import replace

from .aggregate import Skipped
from .compare import collapse_notes
from .comparisons import Settings
from .results import Results
from .statistics import compared
from .tables import DAGGER, Cell, Row, Table, cell_of
from .vocabulary import COMPARED, FEWEST, METHODS, METRICS, USUAL_READING, Metric


def significance_table(settings: Settings, metrics: Sequence[str] = COMPARED) -> Table:
    """Every method against its `reference` on test data, paired over their common seeds: is it more than seed noise?

    >>> significance_table({}).heads[3:]
    ('Reference', 'Difference', '95 % from', '95 % to', 'p', 'Seeds', 'Verdict')
    """
    rows: list[Row] = []
    for heading, members in settings.items():
        for metric in metrics if len(members) > 1 else ():
            rows += _differences(heading, members, reference(members, metric), METRICS[metric])
    heads = ("Setting", "Metric", "Method", "Reference", "Difference", "95 % from", "95 % to", "p", "Seeds")
    notes = (
        "Difference: method minus reference, mean over the seeds that both have; Acc and calibration errors in points.",
        "Interval and p are those of the paired t distribution, both corrected by Bonferroni's rule for all "
        "comparisons of a metric in a setting: all intervals hold at once, and one leaves out 0 exactly where p is "
        "below 0.05.",
        "“2 seeds cannot tell”: not even a perfect model would have been told from the worse of both.",
        "Where no Socrates was run, or several were, the reference is the one with the best mean; as the same numbers "
        "chose it, differences to it look larger than they are.",
        *collapse_notes([(one, heading) for heading, own in settings.items() for one in own]),
    )
    return Table("test-significance", "Test differences against seed noise", (*heads, "Verdict"), tuple(rows), notes)


def reference(members: Sequence[Results], metric: str) -> int:
    """The place of those that others are held against: the best Socrates if it was run, else the best of all.

    Collapsed ones are taken only if there is no other.
    """

    def order(place: int) -> tuple[bool, bool, float]:
        collapsed, mean = members[place].standing(METRICS[metric])
        return collapsed, members[place].title != METHODS["socrates"], mean

    return min(range(len(members)), key=order)


def runs_table(settings: Settings) -> Table:
    """One line a run, collapsed ones with the reason.

    >>> runs_table({}).heads[:4]
    ('Run', 'Setting', 'Method', 'Seed')
    """
    specs = [METRICS[metric] for metric in FEWEST]
    rows: list[Row] = []
    found = [(heading, one, run) for heading, own in settings.items() for one in own for run in one.runs]
    for heading, group, run in found:
        values = run.evaluation.values("none", "test", USUAL_READING)
        numbers = [cell_of(spec, values.get(spec.name, math.nan)) for spec in specs]
        epochs, seconds = Cell(run.curves["epoch"][-1], form=".0f"), Cell(run.seconds, form=".1f")
        words = (heading, group.label, str(run.experiment.seed))
        rows.append(Row((run.directory.name,), (*words, epochs, *numbers, run.collapsed or "", seconds)))
    heads = ("Run", "Setting", "Method", "Seed", "Epochs", *(spec.head for spec in specs), "Collapsed", "Seconds")
    notes = ("Accuracy and ECE of the test split, without scaling; unknown is an answer, and never a right one.",)
    return Table("runs", "Runs", heads, tuple(rows), notes)


def skipped_table(skipped: Sequence[Skipped]) -> Table:
    """Directories that are not part of the report, and why.

    >>> from pathlib import Path
    >>> skipped_table([Skipped(Path("runs/one"), "unfinished: 2 of 6 epochs are done")]).rows[0].keys
    ('runs/one',)
    """
    rows = tuple(Row((one.directory.as_posix(),), (one.reason,)) for one in skipped)
    return Table("skipped", "Directories left out", ("Directory", "Reason"), rows)


def _differences(heading: str, members: Sequence[Results], chosen: int, spec: Metric) -> list[Row]:
    """The rows of one family of comparisons: a metric in a setting."""
    values = [one.by_seed(spec) for one in members]
    rows: list[Row] = []
    for place, one in enumerate(compared(values, chosen, spec)):
        mark = DAGGER if members[place].collapses or members[chosen].collapses else ""
        mean, low, high = (Cell(value, form=f"+{spec.form}") for value in (one.mean, one.low, one.high))
        numbers = (replace(mean, n=one.n, mark=mark), low, high, Cell(one.p, form=".2g"), Cell(one.n, form=".0f"))
        if place != chosen:
            rows.append(Row((heading, spec.head, members[place].label), (members[chosen].label, *numbers, one.words)))
    return rows
