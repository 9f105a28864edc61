"""Rows whose true class is unknown: strangers, which no class can answer rightly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from socrates.arrays.open import Array
from socrates.metrics import Prediction, Top
from socrates.metrics.open_world import OPEN_WORLD, measure_open_world
from socrates.metrics.predictions import Reading
from socrates.report.tables import Cell, Table, TableRow, cell_of

from .faults import NO_CLASS
from .layout import UNKNOWN, Layout
from .read.columns import Words
from .rows import predictions

MOST_ROWS = 1_000_000  # strangers whose confidence is kept


def are_strangers(words: Words, labels: Array, layout: Layout) -> Array:
    """Return which rows have the label "unknown", where that is none of the classes.

    Rows with weights, and files of confidence alone, have none.

    >>> pets = Layout("probabilities", ("cat", "dog"), ("cat", "dog"))
    >>> are_strangers(Words.of(["dog", "Unknown", "bird"]), np.array([1, NO_CLASS, NO_CLASS]), pets)
    array([False,  True, False])
    """
    if layout.kind == "confidence" or layout.weight is not None:
        return np.zeros(len(labels), dtype=bool)
    is_unknown = [name.strip().casefold() == UNKNOWN[0] for name in words.names]
    return np.array([*is_unknown, False])[words.codes] & (labels == NO_CLASS)


@dataclass
class StrangerRows:
    """The confidence of each row whose true class is unknown, and how many there were."""

    count: int = 0
    parts: list[Array] = field(default_factory=list[Array])

    def add(self, values: Array, layout: Layout, reading: Reading | None) -> None:
        """Add the values (N, C) of some of them."""
        if not len(values):
            return
        predicted = predictions(values, layout, reading)
        is_read = isinstance(predicted, Prediction)
        confidence = predicted.confidence if is_read else np.max(predicted, axis=1)
        self.merge(StrangerRows(len(values), [np.asarray(confidence)]))

    def merge(self, other: StrangerRows) -> None:
        """Add those of another part of the file."""
        room = MOST_ROWS - sum(len(part) for part in self.parts)
        self.count += other.count
        if room > 0:
            self.parts += [part[:room] for part in other.parts]

    def numbers(self, known: Top) -> dict[str, float]:
        """Return the metrics of OPEN_WORLD by confidence; {} without strangers."""
        if not self.count or not len(known):
            return {}
        correct = np.asarray(known.correct) > 0
        return measure_open_world(known.confidence, correct, np.concatenate(self.parts))

    @property
    def note(self) -> str:
        """Say what they are for."""
        rows = "rows have" if self.count > 1 else "row has"
        return (
            f"{self.count:,} {rows} the label unknown: they count in the table of strangers and in "
            "no other number"
        )


def strangers_table(numbers: Sequence[tuple[str, int, dict[str, float]]]) -> Table:
    """Return a row for each metric of each file that has strangers: label, count and numbers."""
    rows: list[TableRow] = []
    for label, count, values in numbers:
        for name, metric in OPEN_WORLD.items():
            if name in values:
                cells = (cell_of(metric, values[name]), Cell(count, form=",.0f"), metric.meaning)
                rows.append(TableRow((label, metric.head), cells))
    heads = ("File", "Metric", "Value", "Strangers", "Meaning")
    note = "The score is the confidence; rows labeled unknown against all others."
    return Table("strangers", "Strangers", heads, tuple(rows), (note,))
