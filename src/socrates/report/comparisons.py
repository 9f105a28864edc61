"""Tables that compare methods: performance, post-hoc scaling, readings of the unknown class.

Layout: up to 9 methods (or methods with a scaler) are columns and metrics are rows, as in the paper; more methods
become rows, and metrics columns. Both ways a metric is ranked over all methods of its setting.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from socrates.report.aggregate import Group, Setting, mean_std, method_title
from socrates.report.tables import Cell, Row, Table, emphasis

MAX_COLUMNS = 9
DAGGER = "†"
SPLITS = {"val": "Validation", "test": "Test"}
SCALERS = {"none": "", "temperature": " + TS", "vector": " + VS", "matrix": " + MS", "readout": " + RS"}
READINGS = {
    "answer": "unknown is an answer, and never a right one",
    "abstain": "the likeliest known class, with its probability as it is",
    "renormalize": "unknown is dropped before the softmax",
    "spread": "the probability of unknown is shared out equally among the known classes",
}


class Metric(NamedTuple):
    """How a metric is shown: its head, the factor to that unit, the format, and which end is good."""

    head: str
    factor: float
    form: str
    larger_is_better: bool = False


METRICS = {
    "accuracy": Metric("Acc (%)", 100, ".2f", True),
    "ece": Metric("ECE (%)", 100, ".2f"),
    "ada_ece": Metric("AdaECE (%)", 100, ".2f"),
    "cw_ece": Metric("CW-ECE (%)", 100, ".2f"),
    "nll": Metric("NLL", 1, ".3f"),
    "brier": Metric("Brier score", 1, ".3f"),
}

Settings = Mapping[Setting, Sequence[Group]]


class Printed(Protocol):
    """A published number in the unit of `METRICS`; its caveats are sentences, or keys of `published_notes`."""

    @property
    def mean(self) -> float: ...
    @property
    def std(self) -> float | None: ...
    @property
    def caveat(self) -> str | Sequence[str]: ...


@dataclass(frozen=True)
class _Column:
    """What stands in one column, or in one row of a transposed table."""

    label: str
    group: Group
    scaler: str
    reading: str


_Blocks = list[tuple[tuple[str, ...], list[_Column]]]  # the keys of a block of rows, and what it compares
_Cells = dict[tuple[str, str], Cell]  # by label and metric
_Lookup = Callable[[_Column, str], Printed | None]


@dataclass
class Footnotes:
    """Letters for caveats, in the order in which they are met."""

    sentences: Mapping[str, str]
    letters: dict[str, str] = field(default_factory=dict)
    asked: bool = False  # whether any published number was found

    def mark(self, caveat: str | Sequence[str]) -> str:
        self.asked = True
        found = [caveat] if isinstance(caveat, str) else list(caveat)
        return ",".join(self.letters.setdefault(key, _letter(len(self.letters))) for key in found if key)

    def notes(self) -> list[str]:
        own = ["Published rows are the paper's numbers as printed; they are not ranked."] if self.asked else []
        return own + [f"{letter}: {self.sentences.get(key, key)}" for key, letter in self.letters.items()]


def performance_table(
    settings: Settings,
    split: str = "test",
    reading: str = "answer",
    published: Callable[[Group, str], Printed | None] | None = None,
    published_notes: Mapping[str, str] | None = None,
) -> Table:
    """Every metric of every method: mean ± std over seeds, with the published numbers beneath where there are any.

    `published` is asked with a group and a key of `METRICS`.

    >>> performance_table({}).heads
    ('Setting', 'Metric')
    """
    blocks: _Blocks = [
        ((setting.title,), [_Column(label, group, "none", reading) for label, group in members])
        for setting, members in _labelled(settings)
    ]
    lookup = (lambda column, metric: published(column.group, metric)) if published else None
    notes = [*_usual_notes(settings), *_reading_notes(settings, reading), *_options_notes(settings)]
    table = Table(
        file_name(split, "performance", reading), f"{SPLITS[split]} performance", ("Setting",), (), tuple(notes)
    )
    return _filled(table, blocks, split, lookup, published_notes)


def posthoc_table(
    settings: Settings,
    split: str = "test",
    reading: str = "answer",
    published: Callable[[Group, str, str], Printed | None] | None = None,
    published_notes: Mapping[str, str] | None = None,
) -> Table:
    """Every method before and after each post-hoc scaler; `published` is asked with group, metric and scaler.

    >>> posthoc_table({}, reading="spread").name
    'test-posthoc-spread'
    """
    blocks: _Blocks = [
        ((setting.title,), [column for label, group in members for column in _scaled(label, group, reading)])
        for setting, members in _labelled(settings)
    ]
    lookup = (lambda column, metric: published(column.group, metric, column.scaler)) if published else None
    scalers = "TS temperature, VS vector, MS matrix, RS readout scaling, each fitted on the validation split."
    notes = [*_usual_notes(settings), scalers, *_reading_notes(settings, reading), *_options_notes(settings)]
    title = f"{SPLITS[split]} performance with post-hoc scaling"
    table = Table(file_name(split, "posthoc", reading), title, ("Setting",), (), tuple(notes))
    return _filled(table, blocks, split, lookup, published_notes)


def reading_table(settings: Settings, split: str = "test") -> Table:
    """Methods with an unknown class under each of its readings; a row ranks the readings.

    >>> reading_table({}).name
    'test-readings'
    """
    with_unknown = {setting: [group for group in groups if has_unknown(group)] for setting, groups in settings.items()}
    blocks: _Blocks = [
        ((setting.title, group.label), [_Column(reading, group, "none", reading) for reading in READINGS])
        for setting, groups in with_unknown.items()
        for group in groups
    ]
    meanings = [f"{reading}: {meaning}." for reading, meaning in READINGS.items()]
    title = f"{SPLITS[split]} performance by reading of the unknown class"
    notes = (*_usual_notes(with_unknown), *meanings)
    return _filled(Table(f"{split}-readings", title, ("Setting", "Method"), (), notes), blocks, split)


def file_name(split: str, kind: str, reading: str) -> str:
    """The name of a table; the usual reading is not mentioned.

    >>> file_name("test", "performance", "answer"), file_name("val", "posthoc", "spread")
    ('test-performance', 'val-posthoc-spread')
    """
    return f"{split}-{kind}" if reading == "answer" else f"{split}-{kind}-{reading}"


def has_unknown(group: Group) -> bool:
    """Whether the group's models have an unknown class.

    >>> from types import SimpleNamespace as Fake
    >>> has_unknown(Fake(runs=[Fake(unknown_class=True)]))
    True
    """
    return any(run.unknown_class for run in group.runs)


def collapse_notes(settings: Settings) -> list[str]:
    """What the dagger stands for: which runs of which groups collapsed, and how.

    >>> collapse_notes({})
    []
    """
    notes: list[str] = []
    for setting, groups in settings.items():
        for group in groups:
            reasons: dict[str, list[int]] = {}
            for run in group.runs:
                if run.collapsed:
                    reasons.setdefault(run.collapsed, []).append(run.experiment.seed)
            where = f" ({setting.title})" if len(settings) > 1 else ""
            found = "; ".join(f"{reason} (seed {', '.join(map(str, seeds))})" for reason, seeds in reasons.items())
            notes += [f"{DAGGER} {group.label}{where} collapsed and is not ranked: {found}."] if found else []
    return notes


def is_collapsed(group: Group) -> bool:
    """Whether any of the group's runs collapsed: its mean is then not one of working models.

    >>> from types import SimpleNamespace as Fake
    >>> is_collapsed(Fake(runs=[Fake(collapsed=None), Fake(collapsed="every answer is class 3")]))
    True
    """
    return any(run.collapsed for run in group.runs)


def _filled(
    table: Table,
    blocks: _Blocks,
    split: str,
    lookup: _Lookup | None = None,
    sentences: Mapping[str, str] | None = None,
) -> Table:
    """The table with its rows, laid out by the rule above, and the notes of its footnote signs."""
    labels = list(dict.fromkeys(column.label for _, columns in blocks for column in columns))
    transposed = len(labels) > MAX_COLUMNS
    footnotes = Footnotes(sentences or {})
    rows: list[Row] = []
    for keys, columns in blocks:
        ours = {(column.label, metric): cell for metric in METRICS for column, cell in _ranked(columns, metric, split)}
        theirs = _printed(columns, lookup, footnotes) if lookup else {}
        shown = [column.label for column in columns] if transposed else labels
        rows += _rows(keys, shown, transposed, ours, theirs)
    sources = ("Source",)
    if not footnotes.asked:
        sources, rows = (), [Row(row.keys[:-1], row.cells) for row in rows]
    across = [metric.head for metric in METRICS.values()] if transposed else labels
    heads = (*table.heads, "Method" if transposed else "Metric", *sources, *across)
    return dataclasses.replace(table, heads=heads, rows=tuple(rows), notes=(*table.notes, *footnotes.notes()))


def _rows(keys: tuple[str, ...], labels: list[str], transposed: bool, ours: _Cells, theirs: _Cells) -> list[Row]:
    """A block of rows; the last key tells ours from published ones."""
    if transposed:
        lines = [(label, [(label, metric) for metric in METRICS]) for label in labels]
    else:
        lines = [(METRICS[metric].head, [(label, metric) for label in labels]) for metric in METRICS]
    rows: list[Row] = []
    for head, places in lines:
        for source, cells in (("ours", ours), ("published", theirs)):
            if source == "ours" or any(place in cells for place in places):
                rows.append(Row((*keys, head, source), tuple(cells.get(place, Cell(math.nan)) for place in places)))
    return rows


def _ranked(columns: Sequence[_Column], metric: str, split: str) -> list[tuple[_Column, Cell]]:
    spec = METRICS[metric]
    cells: list[Cell] = []
    for column in columns:
        values = spec.factor * column.group.values(metric, column.scaler, split, column.reading)
        mark = DAGGER if is_collapsed(column.group) else ""
        cells.append(Cell(*mean_std(values), n=int(np.isfinite(values).sum()), mark=mark, form=spec.form))
    places = emphasis([math.nan if cell.mark else cell.mean for cell in cells], spec.larger_is_better, spec.form)
    ranked = [dataclasses.replace(cell, emphasis=place) for cell, place in zip(cells, places, strict=True)]
    return list(zip(columns, ranked, strict=True))


def _printed(columns: Sequence[_Column], lookup: _Lookup, footnotes: Footnotes) -> _Cells:
    cells: _Cells = {}
    for metric, spec in METRICS.items():
        for column in columns:
            found = lookup(column, metric)
            if found is not None:
                std = math.nan if found.std is None else found.std
                cells[column.label, metric] = Cell(found.mean, std, mark=footnotes.mark(found.caveat), form=spec.form)
    return cells


def _scaled(label: str, group: Group, reading: str) -> list[_Column]:
    scalers = [scaler for scaler in SCALERS if scaler != "readout" or has_unknown(group)]
    return [_Column(label + SCALERS[scaler], group, scaler, reading) for scaler in scalers]


def _labelled(settings: Settings) -> list[tuple[Setting, list[tuple[str, Group]]]]:
    """Groups by the name of their column: without options where a column spans settings that differ in them."""
    short = _without_options(settings)
    return [
        (setting, [(_title(group) if short else group.label, group) for group in groups])
        for setting, groups in settings.items()
    ]


def _without_options(settings: Settings) -> bool:
    titles = [[_title(group) for group in groups] for groups in settings.values()]
    return len(settings) > 1 and all(len(set(found)) == len(found) for found in titles)


def _title(group: Group) -> str:
    return method_title(group.method)


def _options_notes(settings: Settings) -> list[str]:
    if not _without_options(settings):
        return []
    full = {setting: [one.label for one in groups if one.label != _title(one)] for setting, groups in settings.items()}
    return [f"{setting.title}: {', '.join(labels)}." for setting, labels in full.items() if labels]


def _usual_notes(settings: Settings) -> list[str]:
    counts = sorted({len(group.runs) for groups in settings.values() for group in groups}) or [0]
    seeds = f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else f"{counts[0]} seed{'s' * (counts[0] != 1)}"
    ranks = "bold is best and underlined second in a metric, ranked as printed"
    return [f"Mean ± standard deviation (n - 1) over {seeds}; {ranks}.", *collapse_notes(settings)]


def _reading_notes(settings: Settings, reading: str) -> list[str]:
    unknown = any(has_unknown(group) for groups in settings.values() for group in groups)
    return [f"Reading of the unknown class: {reading}, {READINGS[reading]}."] if unknown else []


def _letter(number: int) -> str:
    """a to z, then aa, ab, and so on."""
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)
