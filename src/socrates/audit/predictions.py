"""Predictions on disk: open a file of any format, and read its good rows in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from socrates.arrays.open import Array

from .faults import (
    FAULTS,
    NAMED,
    OTHER_LABEL,
    UNREADABLE,
    BadRows,
    class_numbers,
    describe_fault,
    faults_of,
)
from .layout import LABEL, ContentKind, Layout, first_named
from .read import FilePart, FileRows, Reader, open_file, suffix_of
from .read.columns import MISSING, Column, Words
from .read.csv import CsvReader
from .read.npz import UNNAMED
from .read.reader import open_bytes, readable
from .rows import PredictionRows
from .understand import BINARY, Hints, understand

MOST_LABEL_BYTES = 1_000_000_000
CORRECTNESS = Layout("confidence", (), BINARY)


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Some rows of a file: the good ones, the bad ones, and how many were divided by their sum."""

    rows: PredictionRows
    bad: BadRows
    num_rounded: int = 0


@dataclass(frozen=True, eq=False)
class PredictionFile:
    """A file that is understood: its layout, and its rows, which can be read several times."""

    path: Path
    layout: Layout
    reader: Reader
    labels: Words | None = None  # from a file of their own

    @property
    def num_rows(self) -> int | None:
        """Return the number of rows, bad ones included, if the format knows it beforehand."""
        return self.reader.num_rows

    @property
    def parts(self) -> Sequence[FilePart]:
        """Return the parts that several processes can read apart."""
        return self.reader.parts

    def batches(self, part: FilePart = ()) -> Iterator[RowBatch]:
        """Yield the rows of a part."""
        layout = self.layout
        numbers = [name for name in (*layout.columns, layout.weight) if name is not None]
        words = [
            name for name in (layout.label, layout.correct, *layout.carried) if name is not None
        ]
        total = 0
        for batch in self.reader.batches(part, numbers, words):
            total += len(batch.positions) + len(batch.unreadable)
            if self.labels is None or total <= len(self.labels):
                yield self._checked(batch)
        if self.labels is not None and self.num_rows is None and total != len(self.labels):
            raise ValueError(
                f"{self.path} has {total} rows, but there are {len(self.labels)} labels: "
                "expected as many"
            )

    def _checked(self, batch: FileRows) -> RowBatch:
        """Return the rows of a batch that are predictions, and what is wrong with the others."""
        layout = self.layout
        values = _values(batch, layout)
        words = self._label_words(batch)
        labels = _labels(batch, layout, words)
        weight = None if layout.weight is None else _floats(batch.columns[layout.weight])
        faults, rounded = faults_of(values, labels, weight, layout)
        bad = self._bad_rows(batch, faults, values, words)
        if len(rounded):
            values = np.array(values)  # the memory of a file cannot be written to
            values[rounded] /= values[rounded].sum(axis=1, keepdims=True)
        kept = faults < 0
        if weight is not None:
            kept &= weight != 0
        index = slice(None) if kept.all() else kept
        rows = PredictionRows(
            values=values[index],
            labels=labels[index] == 1 if layout.kind == "confidence" else labels[index],
            positions=batch.positions[index],
            groups={name: _as_words(batch.columns[name])[index] for name in layout.carried},
            weight=None if weight is None else weight[index],
        )
        return RowBatch(rows, bad, len(rounded))

    def _label_words(self, batch: FileRows) -> Words:
        """Return the label of each row, or its correctness, as words."""
        if self.labels is not None:
            return self.labels[batch.positions]
        layout = self.layout
        column = layout.correct if layout.label is None else layout.label
        return _as_words(batch.columns[column or ""])

    def _bad_rows(self, batch: FileRows, faults: Array, values: Array, labels: Words) -> BadRows:
        names = [*FAULTS]
        rows = np.flatnonzero(faults >= 0)
        reasons = Counter(names[fault] for fault in faults[rows].tolist())
        reasons.update([UNREADABLE] * len(batch.unreadable))
        first = list(batch.unreadable.items())
        for row in rows[:NAMED].tolist():
            fault = names[faults[row]]
            label = labels.names[int(labels.codes[row])] if fault == OTHER_LABEL else ""
            first.append((int(batch.lines[row]), describe_fault(fault, values[row], label)))
        return BadRows(self.reader.unit, reasons, tuple(sorted(first)[:NAMED]))


def open_predictions(
    path: str | Path,
    *,
    labels: str | Path | None = None,
    kind: ContentKind | None = None,
    label_column: str | None = None,
    columns: Sequence[str] = (),
    classes: Sequence[str] = (),
    groups: Sequence[str] = (),
    weight: str | None = None,
    unknown: bool | None = None,
) -> PredictionFile:
    """Understand a file of predictions; the names that are known are in `socrates.audit.layout`.

    Args:
        path: .parquet or a folder of such parts, .csv, .tsv or .jsonl (also .gz), .npz, .npy.
        labels: a file of labels, if they are not in the file of the predictions.
        kind: "probabilities", "logits" or "confidence", if the file does not say, or is wrong.
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
    reader = open_file(path)
    label_words = None if labels is None else read_labels(Path(labels).expanduser())
    first_rows = reader.first_rows()
    if not any(len(column) for column in first_rows.values()):
        _refuse_empty(path, reader)
    if label_words is not None and reader.num_rows not in (None, len(label_words)):
        raise ValueError(
            f"{path} has {reader.num_rows} rows, but {labels} {len(label_words)} labels: expected "
            "as many"
        )
    if not columns and suffix_of(path) == ".npy" and kind != "confidence":
        columns = (UNNAMED,)
    hints = Hints(
        kind=kind,
        label=label_column,
        columns=tuple(columns),
        classes=tuple(map(str, classes or reader.classes)),
        groups=tuple(groups),
        weight=weight,
        unknown=unknown,
        labels_apart=labels is not None,
    )
    try:
        layout = understand(first_rows, hints)
    except ValueError as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from None
    return PredictionFile(path, layout, reader, label_words)


def _refuse_empty(path: Path, reader: Reader) -> None:
    """Raise for a file without rows, with what is wrong with the first line if there is one."""
    reason = ""
    for part in reader.parts:
        for batch in reader.batches(part, [], []):
            for line, fault in batch.unreadable.items():
                reason = reason or f" ({reader.unit} {line} {fault})"
    raise ValueError(
        f"{path} holds no rows that can be read{reason}: expected at least one prediction"
    )


def read_labels(path: Path) -> Words:
    """Return all labels of a file: its column of labels, or its only one.

    Text without columns is read as one label per line.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "labels.txt")
    >>> _ = path.write_text("label\\ncat\\nwild dog\\n")
    >>> read_labels(path).names
    ['cat', 'wild dog']
    """
    if path.is_file() and suffix_of(path) == ".txt":
        return _label_per_line(path)
    reader = open_file(path)
    if isinstance(reader, CsvReader) and len(reader.names) == 1:
        return _label_per_line(path)
    names = list(reader.first_rows())
    name = names[0] if len(names) == 1 else first_named(names, LABEL)
    if name is None:
        raise ValueError(
            f"{path} has the columns {', '.join(names)}: expected one called label, or one alone"
        )
    columns: list[Words] = []
    for part in reader.parts:
        for batch in reader.batches(part, [], [name]):
            for line, fault in batch.unreadable.items():
                raise ValueError(
                    f"{path}: {reader.unit} {line} {fault}: expected a label for each row of the "
                    "predictions"
                )
            columns.append(_as_words(batch.columns[name]))
    return Words.joined(columns)


def _label_per_line(path: Path) -> Words:
    with readable(path), open_bytes(path) as file:
        content = file.read(MOST_LABEL_BYTES + 1)
        if len(content) > MOST_LABEL_BYTES:
            raise ValueError(
                f"{path} holds more than {MOST_LABEL_BYTES:,} bytes: expected one label per line"
            )
        text = content.decode("utf-8-sig")
    lines = [line.strip().strip('"') for line in text.splitlines()]
    return Words.of(lines[1:] if _has_header(lines) else lines)


def _has_header(lines: list[str]) -> bool:
    """Return whether the first line names the column: alone not a number, or a name for labels."""
    if not lines:
        return False
    is_number = [word.lstrip("-").replace(".", "", 1).isdecimal() for word in lines if word]
    is_only_word = len(is_number) > 1 and not is_number[0] and all(is_number[1:])
    return lines[0].lower() in LABEL or is_only_word


def _as_words(column: Column) -> Words:
    return column if isinstance(column, Words) else Words.of_array(column)


def _values(batch: FileRows, layout: Layout) -> Array:
    """Return the values of the classes (N, C), unknown after them; or (N,) confidence."""
    if layout.is_matrix:
        values = _floats(batch.columns[layout.columns[0]], ndim=2)
        width = len(layout.classes) + layout.unknown
        fits = values.ndim == 2 and values.shape[1] == width
        return values if fits else np.full((len(values), width), np.nan)
    columns = [_floats(batch.columns[name]) for name in layout.columns]
    if layout.kind == "confidence":
        return columns[0]
    if layout.is_score:
        score = columns[0]
        other = 1 - score if layout.kind == "probabilities" else np.zeros_like(score)
        columns = [other, score]
    values = np.empty((len(batch.positions), len(columns)), np.result_type(*columns))
    for place, column in enumerate(columns):
        values[:, place] = column
    return values


def _floats(column: Column, ndim: int = 1) -> Array:
    """Return single and half precision as float32, other numbers as float64, the rest as NaN."""
    if isinstance(column, Words) or column.ndim > ndim:
        return np.full(len(column), np.nan)
    is_single = column.dtype in (np.float16, np.float32)
    return column.astype(np.float32 if is_single else np.float64, copy=False)


def _labels(batch: FileRows, layout: Layout, words: Words) -> Array:
    """Return the class of each row; with confidence, 1 where the answer is correct."""
    if layout.kind != "confidence":
        return class_numbers(words, layout)
    if layout.correct is not None:
        return class_numbers(words, CORRECTNESS)
    both = Words.joined([words, _as_words(batch.columns[layout.predicted or ""])])
    labels, answers = both.codes[: len(words)], both.codes[len(words) :]
    is_missing = (labels == MISSING) | (answers == MISSING)
    return np.where(is_missing, MISSING, labels == answers)
