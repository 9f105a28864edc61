"""The tables of a report that compare methods: performance, post-hoc scaling, readings.

Settings are headings with the labelled results beneath them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from socrates.metrics.registry import study_metrics

from .compare import Compared, Printed, RankedBlock, compare, ranked
from .results import Members, Results, Settings
from .tables import NOTHING, Cell, Table, TableRow
from .vocabulary import (
    FEWEST,
    METRICS,
    READINGS,
    SPLITS,
    USUAL_READING,
    compared_metrics,
    scaler_of,
    study_scalers,
    with_scaler,
)

# Returns the printed number of results in a table, for a metric and a scaler.
PublishedLookup = Callable[[Results, str, str, str], Printed | None]
TABLES_OF_SPLITS = {"test": "test", "val": "validation"}  # as the paper calls them


def performance_table(
    settings: Settings,
    split: str = "test",
    published: PublishedLookup | None = None,
    caveats: Mapping[str, str] | None = None,
    scaled: bool = False,
) -> Table:
    """Return every metric of every method, with the published numbers beneath.

    If `scaled`, each post-hoc scaler has a column too. Methods have their options in their names,
    unless they span settings that differ in them.

    >>> performance_table({}).heads
    ('Setting', 'Metric')
    """
    by_title = len(settings) > 1 and all(map(_titles_differ, settings.values()))
    printed_table = "posthoc" if scaled else TABLES_OF_SPLITS[split]
    blocks: list[RankedBlock] = []
    for heading, members in settings.items():
        columns = [
            with_published(column, printed_table, published)
            for results in members
            for column in columns_of(results, results.title if by_title else results.label, scaled)
        ]
        blocks.append(RankedBlock((heading,), columns))
    notes = [*_scaler_notes(scaled), *_reading_notes(settings)]
    notes += _option_notes(settings) if by_title else []
    title = f"{SPLITS[split]} performance" + (" with post-hoc scaling" if scaled else "")
    name = f"{split}-{'posthoc' if scaled else 'performance'}"
    return compare(name, title, ("Setting",), blocks, split=split, notes=notes, caveats=caveats)


def with_published(column: Compared, table: str, published: PublishedLookup | None) -> Compared:
    """Return a column with the published number of each metric."""
    if published is None or column.results is None:
        return column
    printed = {
        metric: published(column.results, table, metric, column.scaler)
        for metric in compared_metrics()
    }
    return replace(column, printed=printed)


def reading_table(settings: Settings, split: str = "test") -> Table:
    """Return methods with an unknown class under each of its readings, ranked within a row.

    >>> reading_table({}).name
    'test-readings'
    """
    blocks: list[RankedBlock] = []
    for heading, members in settings.items():
        for results in members:
            if results.unknown_class:
                columns = [Compared(reading, results, "none", reading) for reading in READINGS]
                blocks.append(RankedBlock((heading, results.label), columns))
    title = f"{SPLITS[split]} performance by reading of the unknown class"
    meanings = [f"{reading}: {meaning}." for reading, meaning in READINGS.items()]
    return compare(
        f"{split}-readings", title, ("Setting", "Method"), blocks, split=split, notes=meanings
    )


def overview_table(members: Members, reading: str = USUAL_READING) -> Table:
    """Return a row per method: all test metrics, the number of seeds, and how many collapsed.

    >>> overview_table([]).heads[:3]
    ('Method', 'Acc (%)', 'ECE (%)')
    """
    columns = [Compared(results.label, results, "none", reading) for results in members]
    table = compare(
        "overview",
        "Overview",
        (),
        [RankedBlock((), columns)],
        metrics=tuple(study_metrics()),
        across="metrics",
    )
    rows: list[TableRow] = []
    for row, results in zip(table.rows, members, strict=True):
        seeds = Cell(len(results.seeds), form=".0f")
        rows.append(TableRow(row.keys, (*row.cells, seeds, results.collapse_count or NOTHING)))
    return replace(table, heads=(*table.heads, "Seeds", "Collapsed"), rows=tuple(rows))


def scaled_table(members: Members, reading: str = USUAL_READING) -> Table:
    """Return a ranked row per method: ECE, then accuracy, before and after each fitted scaler.

    >>> scaled_table([]).heads
    ('Method',)
    """
    metrics = FEWEST[::-1]
    fitted = [
        name
        for name in study_scalers()
        if any(np.isfinite(results.values("ece", name)).any() for results in members)
    ]
    columns = [(metric, scaler) for metric in metrics for scaler in fitted]
    rows: list[TableRow] = []
    for results in members:
        label = results.label
        cells = ranked(columns_of(results, label, True, reading), metrics)
        places = [(with_scaler(label, scaler), metric) for metric, scaler in columns]
        rows.append(TableRow((label,), tuple(cells.get(place, Cell(math.nan)) for place in places)))
    heads = [_scaled_head(metric, scaler) for metric, scaler in columns]
    return Table("scaled", "Post-hoc scaling", ("Method", *heads), tuple(rows))


def columns_of(
    results: Results, label: str, scaled: bool, reading: str = USUAL_READING
) -> list[Compared]:
    """Return the unscaled column, or one per scaler that the results can have."""
    names = ["none"]
    if scaled:
        names = [
            name
            for name, scaler in study_scalers().items()
            if results.unknown_class or not scaler.needs_unknown
        ]
    return [Compared(with_scaler(label, name), results, name, reading) for name in names]


def _titles_differ(members: Members) -> bool:
    return len({results.title for results in members}) == len(members)


def _scaled_head(metric: str, scaler: str) -> str:
    short = scaler_of(scaler).short
    return f"+ {short}" if short else METRICS[metric].head


def _scaler_notes(scaled: bool) -> list[str]:
    words = [f"{scaler.short} {scaler.long}" for scaler in study_scalers().values() if scaler.short]
    return (
        [f"{', '.join(words)}, each fitted on validation data or a run's holdout."]
        if scaled
        else []
    )


def _reading_notes(settings: Settings) -> list[str]:
    if not any(results.unknown_class for members in settings.values() for results in members):
        return []
    return [f"Reading of the unknown class: {USUAL_READING}, {READINGS[USUAL_READING]}."]


def _option_notes(settings: Settings) -> list[str]:
    """Return the options of the methods in each setting, where columns have titles alone."""
    notes: list[str] = []
    for heading, members in settings.items():
        labels = [results.label for results in members if results.label != results.title]
        notes += [f"{heading}: {', '.join(labels)}."] if labels else []
    return notes
