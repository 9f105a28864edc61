"""Predictions in a file of any format as batches of rows; what is wrong with the others is counted and named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from socrates.metrics.predictions import Array

from .arrays import UNNAMED, ArrayReader
from .columns import Kind, Layout
from .detect import BINARY, Told, detect
from .labels import read_labels
from .parquet import ParquetReader
from .reader import Part, Reader, is_packed, suffix_of
from .table import MISSING, Coded, Table
from .text import CsvReader, JsonReader
from .validity import FAULTS, NAMED, OTHER_LABEL, UNREADABLE, BadRows, described, faults_of

READERS: dict[str, Callable[[Path], Reader]] = {
    ".parquet": ParquetReader,
    ".csv": CsvReader,
    ".tsv": CsvReader,
    ".jsonl": JsonReader,
    ".npz": ArrayReader,
    ".npy": ArrayReader,
}
PACKED = (".csv", ".tsv", ".jsonl")  # these may end in .gz
CORRECTNESS = Layout("confidence", (), BINARY)


@dataclass(frozen=True, eq=False)
class Rows:
    """Some good rows of a file, and the bad ones among them.

    Args:
        values: (N, C) probabilities or logits, unknown behind the classes if there is one; or (N,) confidence.
        labels: (N,) class numbers; with confidence, (N,) whether the answer is right.
        groups: the words of each column that is carried along.
        weight: (N,) or None; rows of weight 0 are left out.
        positions: (N,) the number of each row in the whole file, from 0; bad rows are counted, blank lines are not.
        bad: the rows that were left out.
        rounded: how many rows were divided by their sum, which missed 1 by the rounding of few digits.
    """

    values: Array
    labels: Array
    groups: Mapping[str, Coded]
    weight: Array | None
    positions: Array
    bad: BadRows
    rounded: int = 0


@dataclass(frozen=True, eq=False)
class Source:
    """Predictions on disk: what they are, and their rows in batches, as often as they are asked for."""

    path: Path
    layout: Layout
    reader: Reader
    labels: Coded | None = None  # from a file of their own

    @property
    def num_rows(self) -> int | None:
        """How many rows there are, bad ones included, where the format tells before they are read."""
        return self.reader.num_rows

    @property
    def parts(self) -> Sequence[Part]:
        """What can be read apart; the same whoever reads."""
        return self.reader.parts

    def batches(self, part: Part = ()) -> Iterator[Rows]:
        """The rows of a part."""
        layout, total = self.layout, 0
        numbers = [name for name in (*layout.columns, layout.weight) if name is not None]
        words = [name for name in (layout.label, layout.correct, *layout.carried) if name is not None]
        for table in self.reader.tables(part, numbers, words):
            total += len(table.positions) + len(table.broken)
            if self.labels is None or total <= len(self.labels):
                yield self._rows(table)
        if self.labels is not None and self.num_rows is None and total != len(self.labels):
            raise ValueError(f"{self.path} has {total} rows, but there are {len(self.labels)} labels: expected as many")

    def _rows(self, table: Table) -> Rows:
        layout = self.layout
        told = layout.correct if layout.label is None else layout.label
        words = _words(table, told) if self.labels is None else self.labels[table.positions]
        values, labels = _values(table, layout), _class_numbers(table, layout, words)
        weight = None if layout.weight is None else _floats(table.columns[layout.weight], is_matrix=False)
        faults, rounded = faults_of(values, labels, weight, layout)
        kept = faults < 0
        bad = self._bad(table, faults, values, words)
        if len(rounded):
            values = np.array(values)  # the file's own memory cannot be written to
            values[rounded] /= values[rounded].sum(axis=1, keepdims=True)
        if weight is not None:
            kept &= weight != 0
        rows = slice(None) if kept.all() else kept
        groups = {name: _words(table, name)[rows] for name in layout.carried}
        labels = labels[rows] == 1 if layout.kind == "confidence" else labels[rows]
        weight = None if weight is None else weight[rows]
        return Rows(values[rows], labels, groups, weight, table.positions[rows], bad, len(rounded))

    def _bad(self, table: Table, faults: Array, values: Array, words: Coded) -> BadRows:
        names, rows = [*FAULTS], np.flatnonzero(faults >= 0)
        reasons = Counter(names[fault] for fault in faults[rows].tolist())
        reasons.update([UNREADABLE] * len(table.broken))
        first = list(table.broken.items())
        for row in rows[:NAMED].tolist():
            fault = names[faults[row]]
            label = words.names[int(words.codes[row])] if fault == OTHER_LABEL else ""
            first.append((int(table.lines[row]), described(fault, values[row], label)))
        return BadRows(self.reader.unit, reasons, tuple(sorted(first)[:NAMED]))


def open_predictions(
    path: str | Path,
    *,
    labels: str | Path | None = None,
    kind: Kind | None = None,
    label_column: str | None = None,
    columns: Sequence[str] = (),
    classes: Sequence[str] = (),
    groups: Sequence[str] = (),
    weight: str | None = None,
    unknown: bool | None = None,
) -> Source:
    """Understand a file of predictions; the table of names is in `socrates.audit.columns`.

    Args:
        path: .parquet or a folder of such parts, .csv, .tsv or .jsonl (also .gz), .npz, .npy.
        labels: a file of labels, where they do not stand beside the predictions.
        kind: "probabilities", "logits" or "confidence", where the file does not tell, or another than it tells.
        label_column: the column of the true class.
        columns: the columns of the values, in the order of the classes.
        classes: the names of the classes, in the order of the columns.
        groups: columns to carry along, as words.
        weight: the column of the weights of the rows.
        unknown: whether the last column is belief in "unknown".

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "model.npz")
    >>> np.savez(path, probs=[[0.9, 0.1], [0.6, 0.4]], labels=[0, 1])
    >>> open_predictions(path).layout.words
    'probabilities of 2 classes (probs), labels in labels'
    """
    path = Path(path).expanduser()
    reader = _reader(path)
    apart = None if labels is None else _labels_of(Path(labels).expanduser())
    first = reader.first_rows()
    if not first or not any(len(column) for column in first.values()):
        tables = (table for part in reader.parts for table in reader.tables(part, [], []))
        broken = [f" ({reader.unit} {line} {why})" for table in tables for line, why in table.broken.items()]
        raise ValueError(
            f"{path} holds no rows that can be read{''.join(broken[:1])}: expected at least one prediction"
        )
    if apart is not None and reader.num_rows not in (None, len(apart)):
        raise ValueError(f"{path} has {reader.num_rows} rows, but {labels} {len(apart)} labels: expected as many")
    if not columns and suffix_of(path) == ".npy" and kind != "confidence":
        columns = (UNNAMED,)
    try:
        names = (tuple(columns), tuple(map(str, classes or reader.classes)), tuple(groups))
        layout = detect(first, Told(kind, label_column, *names, weight, unknown, labels_apart=apart is not None))
    except ValueError as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from None
    return Source(path, layout, reader, apart)


def _reader(path: Path) -> Reader:
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: give a file of predictions, or a folder of Parquet parts")
    if path.is_dir():
        return ParquetReader(path)
    suffix = suffix_of(path)
    if suffix not in (PACKED if is_packed(path) else READERS):
        known = ", ".join([*READERS, *(f"{name}.gz" for name in PACKED)])
        raise ValueError(f"{path.name} is of no format that is known: expected one of {known}")
    return READERS[suffix](path)


def _labels_of(path: Path) -> Coded:
    is_text = path.is_file() and suffix_of(path) == ".txt"
    return read_labels(path, None if is_text else _reader(path))


def _words(table: Table, name: str | None) -> Coded:
    column = table.columns[name or ""]
    return column if isinstance(column, Coded) else Coded.of_array(column)


def _values(table: Table, layout: Layout) -> Array:
    """The values of the classes (N, C), unknown behind them; or (N,) confidence."""
    columns = [_floats(table.columns[name], layout.is_matrix) for name in layout.columns]
    if layout.kind == "confidence":
        return columns[0]
    if layout.is_score:
        score = columns[0]
        columns = [1 - score if layout.kind == "probabilities" else np.zeros_like(score), score]
    elif layout.is_matrix:
        width = len(layout.classes) + layout.unknown
        fits = columns[0].ndim == 2 and columns[0].shape[1] == width
        return columns[0] if fits else np.full((len(columns[0]), width), np.nan)
    values = np.empty((len(table.positions), len(columns)), np.result_type(*columns))
    for place, column in enumerate(columns):
        values[:, place] = column
    return values


def _floats(column: Any, is_matrix: bool) -> Array:
    """float32 of float32 and half precision, float64 of all others; NaN of what are no numbers."""
    if isinstance(column, Coded):
        return np.full(len(column), np.nan)
    if column.ndim == 2 and not is_matrix:
        return np.full(len(column), np.nan)
    return column.astype(np.float32 if column.dtype in (np.float16, np.float32) else np.float64, copy=False)


def _class_numbers(table: Table, layout: Layout, words: Coded) -> Array:
    """The class of each row; of confidence, 1 where the answer is right."""
    if layout.kind != "confidence":
        return layout.class_numbers(words)
    if layout.correct is not None:
        return CORRECTNESS.class_numbers(words)
    answers = _words(table, layout.predicted)
    places = {name: place for place, name in enumerate(words.names)}
    answer = np.array([*(places.get(name, len(places)) for name in answers.names), MISSING])[answers.codes]
    missing = (words.codes == MISSING) | (answer == MISSING)
    return np.where(missing, MISSING, answer == words.codes)
