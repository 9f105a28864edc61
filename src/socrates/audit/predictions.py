"""Predictions on disk: open a file of any format, and read its good rows in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from socrates.arrays.content import ROW_SUM_TOLERANCE, truth_of
from socrates.arrays.open import Array

from .candidates import Hints
from .faults import (
    FAULTS,
    NAMED,
    NO_CLASS,
    OTHER_LABEL,
    UNREADABLE,
    BadRows,
    class_numbers,
    describe_fault,
    faults_of,
)
from .label_file import Labels, one_hot_words, pair_labels, read_labels
from .layout import BINARY, ContentKind, Layout
from .read import FilePart, FileRows, Reader, open_file, suffix_of
from .read.columns import MISSING, Column, Words
from .read.reader import UNNAMED
from .rows import PredictionRows
from .strangers import are_strangers
from .true_class import agree, fold, refuse_differing, words_of
from .understand import understand

CORRECTNESS = Layout("confidence", (), BINARY, mode="meaning")


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Some rows of a file: the good ones, the bad ones, and how many were divided by their sum."""

    rows: PredictionRows
    bad: BadRows
    num_rounded: int = 0
    num_percent: int = 0  # rows whose one number lies between 1 and 100
    others: Counter[str] = field(default_factory=Counter)  # labels that are none of the classes
    strangers: Array = field(default_factory=lambda: np.zeros((0, 0)))  # values of rows of unknown


@dataclass(frozen=True, eq=False)
class PredictionFile:
    """A file that is understood: its layout, and its rows, which can be read several times."""

    path: Path
    layout: Layout
    reader: Reader
    labels: Labels | None = None  # from a file of their own

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
        labels = self.labels
        numbers = [*layout.columns, layout.weight, *layout.one_hot]
        label = None if layout.one_hot else layout.label
        id_column = None if labels is None else labels.id_column
        words = [label, layout.correct, *layout.carried, *layout.other_labels, id_column]
        total = 0
        needed = None if labels is None or labels.are_joined else len(labels.words)
        wanted = [[name for name in names if name is not None] for names in (numbers, words)]
        for batch in self.reader.batches(part, *wanted):
            total += len(batch.positions) + len(batch.unreadable)
            if needed is None or total <= needed:
                yield self._checked(batch)
        if needed is not None and self.num_rows is None and total != needed:
            raise ValueError(
                f"{self.path} has {total} rows, but there are {needed} labels: expected as many"
            )

    def _checked(self, batch: FileRows) -> RowBatch:
        """Return the rows of a batch that are predictions, and what is wrong with the others."""
        layout = self.layout
        values = _values(batch, layout)
        words = self._label_words(batch)
        labels = _labels(batch, layout, words)
        weight = None if layout.weight is None else _floats(batch.columns[layout.weight])
        is_strange = are_strangers(words, labels, layout)
        if is_strange.any():
            labels = np.where(is_strange, 0, labels)  # no fault of theirs
        faults, rounded = faults_of(values, labels, weight, layout)
        bad = self._bad_rows(batch, faults, values, words)
        if len(rounded):
            values = np.array(values)  # the memory of a file cannot be written to
            values[rounded] /= values[rounded].sum(axis=1, keepdims=True)
        strangers = values[(faults < 0) & is_strange]
        kept = (faults < 0) & ~is_strange
        if weight is not None:
            kept &= weight != 0
        index = slice(None) if kept.all() else kept
        rows = PredictionRows(
            values=values[index],
            labels=labels[index] == 1 if layout.kind == "confidence" else labels[index],
            positions=batch.positions[index],
            groups={
                name: words_of(batch.columns[name]).without_missing_words()[index]
                for name in layout.carried
            },
            weight=None if weight is None else weight[index],
        )
        percent = 0
        if layout.is_score or layout.kind == "confidence":
            shares = values if values.ndim == 1 else values[:, 1]
            if layout.kind != "logits":
                percent = int(((shares > 1 + ROW_SUM_TOLERANCE) & (shares <= 100)).sum())
        others = _other_labels(words, labels)
        return RowBatch(rows, bad, len(rounded), percent, others, strangers)

    def _label_words(self, batch: FileRows) -> Words:
        """Return the label of each row, or its correctness, as words."""
        if self.labels is not None:
            return self.labels.of_rows(batch)
        layout = self.layout
        if layout.one_hot:
            return one_hot_words(batch.columns, layout.one_hot)
        for other in layout.other_labels:
            if not agree(
                words_of(batch.columns[layout.label or ""]), words_of(batch.columns[other])
            ):
                refuse_differing(layout.label or "", other)
        column = layout.correct if layout.label is None else layout.label
        return words_of(batch.columns[column or ""])

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
        path: .parquet, .csv, .tsv, .jsonl or .json (also .gz), .feather, .npz, .npy, .xlsx, or a
            folder of parts.
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
    if labels is None and not reader.has_names:
        raise ValueError(
            f"the first line of {path} holds numbers: expected the names of the columns, or a file "
            "of labels beside columns of numbers alone, labels='FILE'"
        )
    first_rows = reader.first_rows()
    label_file = None if labels is None else read_labels(Path(labels).expanduser(), [*first_rows])
    if not any(len(column) for column in first_rows.values()):
        _refuse_empty(path, reader)
    paired = None if label_file is None else pair_labels(label_file, [*first_rows], reader)
    if paired is not None and not paired.are_joined:
        count = len(paired.words)
        if reader.num_rows not in (None, count):
            raise ValueError(
                f"{path} has {reader.num_rows} rows, but {labels} {count} labels: expected as many"
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
        labels_apart=None if paired is None else paired.words,
    )
    try:
        layout = understand(first_rows, hints)
    except ValueError as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from None
    return PredictionFile(path, layout, reader, paired)


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


def _values(batch: FileRows, layout: Layout) -> Array:
    """Return the values of the classes (N, C), unknown after them; or (N,) confidence."""
    if layout.is_matrix:
        values = _floats(batch.columns[layout.columns[0]], ndim=2)
        width = len(layout.classes) + layout.unknown
        fits = values.ndim == 2 and values.shape[1] == width
        return values if fits else np.full((len(values), width), np.nan)
    columns = [_floats(batch.columns[name]) for name in layout.columns]
    if layout.kind == "confidence":
        return _at_most_1(columns[0])
    if layout.is_score:
        score = _at_most_1(columns[0]) if layout.kind == "probabilities" else columns[0]
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


def _at_most_1(shares: Array) -> Array:
    """Return shares, with 1 where rounding took them above."""
    above = (shares > 1) & (shares <= 1 + ROW_SUM_TOLERANCE)
    return np.where(above, shares.dtype.type(1), shares) if above.any() else shares


def _other_labels(words: Words, labels: Array) -> Counter[str]:
    """Return how often each label occurs that is none of the classes."""
    rows = np.flatnonzero(labels == NO_CLASS)
    codes, counts = np.unique(words.codes[rows], return_counts=True)
    return Counter(
        {words.names[int(code)]: int(count) for code, count in zip(codes, counts, strict=True)}
    )


def _labels(batch: FileRows, layout: Layout, words: Words) -> Array:
    """Return the class of each row; with confidence, 1 where the answer is correct."""
    if layout.kind != "confidence":
        places = len(layout.one_hot) == 1
        return words.codes if places else class_numbers(words, layout)
    if layout.correct is not None:
        return class_numbers(words, CORRECTNESS)
    answers = words_of(batch.columns[layout.predicted or ""])
    both = Words.joined([_compared(words, layout), _compared(answers, layout)])
    labels, predicted = both.codes[: len(words)], both.codes[len(words) :]
    is_missing = (labels == MISSING) | (predicted == MISSING)
    return np.where(is_missing, MISSING, labels == predicted)


def _compared(words: Words, layout: Layout) -> Words:
    """Return labels or answers as they are compared: see `answer_mode`."""
    words = words.without_missing_words()
    if layout.mode == "place":
        return words
    names = [fold(name) for name in words.names]
    if layout.mode == "meaning":
        names = [str(truth_of(name)) for name in names]
    # Names may have become equal, which Words.joined puts together.
    return Words(words.codes, names)
