"""The tables of a report that compare methods: performance, post-hoc scaling, readings of the unknown class.

Settings are headings with the labelled results beneath them.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .compare import Block, Compared, Printed, compare, ranked
from .results import Results
from .tables import NOTHING, Cell, Row, Table
from .vocabulary import COMPARED, FEWEST, METRICS, READINGS, SCALERS, SPLITS, USUAL_READING, scaler_of, with_scaler

Settings = Mapping[str, Sequence[Results]]
Published = Callable[[Results, str, str, str], Printed | None]  # results, table, metric and scaler


def performance_table(
    settings: Settings,
    split: str = "test",
    published: Published | None = None,
    caveats: Mapping[str, str] | None = None,
    scaled: bool = False,
) -> Table:
    """Every metric of every method, with the published numbers beneath; if `scaled` also after each post-hoc scaler.

    Methods have their options in their names, unless they span settings that differ in them.

    >>> performance_table({}).heads
    ('Setting', 'Metric')
    """
    plain = len(settings) > 1 and all(len({one.title for one in own}) == len(own) for own in settings.values())
    kind = "posthoc" if scaled else {"test": "test", "val": "validation"}[split]
    blocks: list[Block] = []
    for heading, own in settings.items():
        columns: list[Compared] = []
        for one in own:
            for column in columns_of(one, one.title if plain else one.label, scaled):
                theirs = {name: published(one, kind, name, column.scaler) for name in COMPARED} if published else {}
                columns.append(dataclasses.replace(column, printed=theirs))
        blocks.append(Block((heading,), columns))
    words = ", ".join(f"{scaler.short} {scaler.long}" for scaler in SCALERS.values() if scaler.short)
    notes = [f"{words}, each fitted on the validation split."] if scaled else []
    if any(one.unknown_class for own in settings.values() for one in own):
        notes.append(f"Reading of the unknown class: {USUAL_READING}, {READINGS[USUAL_READING]}.")
    for heading, own in settings.items():
        labels = [one.label for one in own if plain and one.label != one.title]
        notes += [f"{heading}: {', '.join(labels)}."] if labels else []
    title = f"{SPLITS[split]} performance{' with post-hoc scaling' * scaled}"
    name = f"{split}-{'posthoc' if scaled else 'performance'}"
    return compare(name, title, ("Setting",), blocks, split=split, notes=notes, caveats=caveats)


def reading_table(settings: Settings, split: str = "test") -> Table:
    """Methods with an unknown class under each of its readings; a row ranks the readings.

    >>> reading_table({}).name
    'test-readings'
    """
    blocks = [
        Block((heading, one.label), [Compared(reading, one, "none", reading) for reading in READINGS])
        for heading, members in settings.items()
        for one in members
        if one.unknown_class
    ]
    title = f"{SPLITS[split]} performance by reading of the unknown class"
    meanings = [f"{reading}: {meaning}." for reading, meaning in READINGS.items()]
    return compare(f"{split}-readings", title, ("Setting", "Method"), blocks, split=split, notes=meanings)


def overview_table(members: Sequence[Results], reading: str = USUAL_READING) -> Table:
    """A row for each method: all metrics on test data, the number of seeds, and how many of them collapsed.

    >>> overview_table([]).heads[:3]
    ('Method', 'Acc (%)', 'ECE (%)')
    """
    block = Block((), [Compared(one.label, one, "none", reading) for one in members])
    table = compare("overview", "Overview", (), [block], metrics=tuple(METRICS), across="metrics")
    rows = [
        Row(row.keys, (*row.cells, Cell(len(one.seeds), form=".0f"), one.collapse_count or NOTHING))
        for row, one in zip(table.rows, members, strict=True)
    ]
    return dataclasses.replace(table, heads=(*table.heads, "Seeds", "Collapsed"), rows=tuple(rows))


def scaled_table(members: Sequence[Results], reading: str = USUAL_READING) -> Table:
    """A row for each method: ECE, then accuracy, before and after each scaler that was fitted; a row is ranked.

    >>> scaled_table([]).heads
    ('Method',)
    """
    metrics = FEWEST[::-1]
    scalers = [name for name in SCALERS if any(np.isfinite(one.values("ece", name)).any() for one in members)]
    rows: list[Row] = []
    for one in members:
        places = [(with_scaler(one.label, name), metric) for metric in metrics for name in scalers]
        cells = ranked(columns_of(one, one.label, True, reading), metrics)
        rows.append(Row((one.label,), tuple(cells.get(place, Cell(math.nan)) for place in places)))
    heads = [f"+ {scaler_of(n).short}" if scaler_of(n).short else METRICS[m].head for m in metrics for n in scalers]
    return Table("scaled", "Post-hoc scaling", ("Method", *heads), tuple(rows))


def columns_of(results: Results, label: str, scaled: bool, reading: str = USUAL_READING) -> list[Compared]:
    """The unscaled column, or one for each scaler that the results can have."""
    names = [name for name, scaler in SCALERS.items() if results.unknown_class or not scaler.needs_unknown]
    return [Compared(with_scaler(label, name), results, name, reading) for name in (names if scaled else ["none"])]
