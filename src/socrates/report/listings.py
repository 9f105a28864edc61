"""Tables of one line a thing: differences between methods, runs, directories left out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from socrates.report.aggregate import Group, Setting, Skipped, mean_std
from socrates.report.comparisons import DAGGER, METRICS, SPLITS, Settings, collapse_notes, file_name, is_collapsed
from socrates.report.statistics import Difference, holm, paired
from socrates.report.tables import Cell, Row, Table


def significance_table(settings: Settings, split: str = "test", reading: str = "answer") -> Table:
    """Every method against a reference, paired over their common seeds: is the difference larger than seed noise?

    The reference is Socrates if it was run, else the method with the best mean; collapsed ones only if there is no
    other.

    >>> significance_table({}).heads[3:]
    ('Reference', 'Difference', '95 % from', '95 % to', 'p (Holm)', 'Seeds', 'Verdict')
    """
    rows: list[Row] = []
    for setting, groups in settings.items():
        for metric in METRICS if len(groups) > 1 else ():
            rows += _differences(setting, groups, metric, split, reading)
    heads = ("Setting", "Metric", "Method", "Reference", "Difference", "95 % from", "95 % to", "p (Holm)", "Seeds")
    notes = (
        "Difference: method minus reference, mean over the seeds that both have; Acc and calibration errors in points.",
        "The interval is that of one comparison, by the paired t distribution. p is corrected by Holm's rule for all "
        "comparisons of a metric in a setting; the verdict follows p at 0.05.",
        "Where no Socrates was run, or several were, the reference is the one with the best mean; as the same numbers "
        "chose it, differences to it look larger than they are.",
        *collapse_notes(settings),
    )
    title = f"{SPLITS[split]} differences against seed noise"
    return Table(file_name(split, "significance", reading), title, (*heads, "Verdict"), tuple(rows), notes)


def runs_table(settings: Settings) -> Table:
    """One line a run, collapsed ones with the reason.

    >>> runs_table({}).heads[:4]
    ('Run', 'Setting', 'Method', 'Seed')
    """
    rows: list[Row] = []
    for setting, groups in settings.items():
        for group in groups:
            for run in group.runs:
                values = run.values() or {}
                numbers = [_number(values.get(metric), metric) for metric in ("accuracy", "ece")]
                epochs = Cell(float(run.curves["epoch"][-1]), form=".0f")
                seconds = Cell(float(sum(run.curves.get("seconds", [math.nan]))), form=".1f")
                words = (setting.title, group.label, str(run.experiment.seed))
                cells = (*words, epochs, *numbers, run.collapsed or "", seconds)
                rows.append(Row((run.directory.name,), cells))
    heads = ("Run", "Setting", "Method", "Seed", "Epochs", "Acc (%)", "ECE (%)", "Collapsed", "Seconds")
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


def _differences(setting: Setting, groups: Sequence[Group], metric: str, split: str, reading: str) -> list[Row]:
    """The rows of one family of comparisons: a metric in a setting."""
    spec = METRICS[metric]
    by_seed = [
        dict(zip(group.seeds, spec.factor * group.values(metric, "none", split, reading), strict=True))
        for group in groups
    ]
    chosen = _reference(groups, metric, split, reading)
    others = [index for index in range(len(groups)) if index != chosen]
    found = [paired(by_seed[index], by_seed[chosen]) for index in others]
    rows: list[Row] = []
    for index, difference, p in zip(others, found, holm([one.p for one in found]), strict=True):
        mark = DAGGER if is_collapsed(groups[index]) or is_collapsed(groups[chosen]) else ""
        keys = (setting.title, spec.head, groups[index].label)
        cells = _difference_cells(dataclasses.replace(difference, p=p), spec.form, mark)
        rows.append(Row(keys, (groups[chosen].label, *cells)))
    return rows


def _difference_cells(found: Difference, form: str, mark: str) -> tuple[Cell | str, ...]:
    verdict = "larger than seed noise" if found.beyond_noise else "within seed noise"
    return (
        Cell(found.mean, n=found.n, mark=mark, form=f"+{form}"),
        Cell(found.low, form=f"+{form}"),
        Cell(found.high, form=f"+{form}"),
        Cell(found.p, form=".2g"),
        Cell(found.n, form=".0f"),
        verdict if found.n > 1 else "too few seeds",
    )


def _reference(groups: Sequence[Group], metric: str, split: str, reading: str) -> int:
    """Which group the others are held against."""
    sign = -1 if METRICS[metric].larger_is_better else 1

    def order(index: int) -> tuple[bool, bool, float]:
        group = groups[index]
        mean = sign * mean_std(group.values(metric, "none", split, reading))[0]
        return is_collapsed(group), group.method != "socrates", math.inf if math.isnan(mean) else mean

    return min(range(len(groups)), key=order)


def _number(value: float | None, metric: str) -> Cell:
    spec = METRICS[metric]
    return Cell(math.nan if value is None else spec.factor * value, form=spec.form)
