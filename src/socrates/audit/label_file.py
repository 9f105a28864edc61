"""Labels in a file of their own: by the order of the rows, or joined by an id that both files have.

What does not fit together is refused: another number of rows, other ids, ids in another order that
cannot be joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import numpy as np

from socrates.arrays.open import Array

from .class_columns import hot_rows, is_one_hot
from .layout import ID, LABEL, UNNAMED_INDEX, first_named
from .read import FileRows, Reader, open_file, suffix_of
from .read.columns import MISSING, Column, Words
from .read.csv import CsvReader
from .read.reader import open_bytes, readable
from .true_class import (
    agree,
    arrays_of,
    find_labels,
    may_be_labels,
    one_hot_names,
    words_of,
)

SCIENTIFIC = re.compile(r"-?\d\.\d+[eE][+-]\d{1,2}")
MOST_LABEL_BYTES = 1_000_000_000


@dataclass(frozen=True, eq=False)
class LabelFile:
    """All labels of a file, and the columns that may identify their rows."""

    path: Path
    words: Words
    ids: dict[str, Words] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of the rows of a file of predictions.

    Args:
        words: one for each row, or for each id.
        id_column: the column of the predictions whose id says which label is theirs.
        ids: the ids of the labels.
        in_order: whether ids repeat, so that they have to be the same row by row.
    """

    words: Words
    id_column: str | None = None
    ids: Words | None = None
    in_order: bool = False
    place_of_id: dict[str, int] = field(default_factory=dict)

    @property
    def are_joined(self) -> bool:
        """Return whether labels are found by their ids."""
        return self.id_column is not None and not self.in_order

    def of_rows(self, batch: FileRows) -> Words:
        """Return the labels of some rows, or raise if ids do not fit."""
        if self.id_column is None or self.ids is None:
            return self.words[batch.positions]
        ids = words_of(batch.columns[self.id_column])
        if self.in_order:
            if not agree(ids, self.ids[batch.positions]):
                raise ValueError(
                    f"{self.id_column} has values that occur twice, and another order than in the "
                    "file of labels: give each row an id of its own, or sort both files"
                )
            return self.words[batch.positions]
        places = np.array([*(self.place_of_id.get(name, -1) for name in ids.names), -1])[ids.codes]
        if (places < 0).any():
            row = int((places < 0).argmax())
            name = ids.names[int(ids.codes[row])] if ids.codes[row] != MISSING else "(missing)"
            raise ValueError(
                f"{self.id_column} {name!r} is not in the file of labels: expected a label for "
                "each id, or the same rows in both files"
            )
        return self.words[places]


def pair_labels(file: LabelFile, names: Sequence[str], reader: Reader) -> Labels:
    """Return the labels for a file of predictions with these columns."""
    shared = [name for name in names if name.lower() in {other.lower() for other in file.ids}]
    column = first_named(shared, ID)
    if column is None:
        for name in shared:
            _refuse_other_order(_by_name(file, name), name, reader)
        return _of_other_names(file, names, reader)
    return _joined(file, column, _by_name(file, column))


def _of_other_names(file: LabelFile, names: Sequence[str], reader: Reader) -> Labels:
    """Return labels whose ids have another name than those of the predictions, or none."""
    here = first_named(names, ID)
    there = first_named(file.ids, ID)
    if here is None or there is None:
        return Labels(file.words)
    found = {*all_words(reader, here).names}
    common = found & {*file.ids[there].names}
    if not common:
        _refuse_alike(here, found, there, {*file.ids[there].names})
        return Labels(file.words)
    if common < found:
        raise ValueError(
            f"{here} of the predictions and {there} of the labels have {len(common)} values in "
            f"common, and {len(found) - len(common)} not: expected a label for each id"
        )
    return _joined(file, here, file.ids[there])


def _refuse_alike(here: str, found: set[str], there: str, expected: set[str]) -> None:
    """Raise if ids are the same but for folders, endings and leading zeros."""
    plain = [{PurePath(name).stem.lstrip("0") for name in names} for names in (found, expected)]
    if 2 * len(plain[0] & plain[1]) > len(plain[0]):
        raise ValueError(
            f"{here} of the predictions ({min(found)!r}, ...) and {there} of the labels "
            f"({min(expected)!r}, ...) are written in different ways: write both in one way"
        )


def _joined(file: LabelFile, column: str, ids: Words) -> Labels:
    """Return labels that are joined by ids, or that have to be in the order of ids that repeat."""
    places = {name: place for place, name in enumerate(ids.to_array().tolist())}
    in_order = len(places) < len(ids)
    return Labels(file.words, column, ids, in_order, {} if in_order else places)


def _by_name(file: LabelFile, column: str) -> Words:
    return next(ids for name, ids in file.ids.items() if name.lower() == column.lower())


def _refuse_other_order(expected: Words, column: str, reader: Reader) -> None:
    """Raise if a column of both files holds the same values in another order."""
    found = all_words(reader, column)
    if {*found.names} == {*expected.names} and not agree_in_order(found, expected):
        called = "the unnamed first column" if column.lower() in UNNAMED_INDEX else repr(column)
        raise ValueError(
            f"{called} of both files holds the same values in another order: call it id in both to "
            "join them, or drop it if the rows of both files belong together"
        )


def agree_in_order(first: Words, second: Words) -> bool:
    """Return whether two columns of any lengths hold the same words."""
    return len(first) == len(second) and agree(first, second)


def all_words(reader: Reader, name: str) -> Words:
    """Return a whole column as words."""
    batches = (batch for part in reader.parts for batch in reader.batches(part, [], [name]))
    return Words.joined([words_of(batch.columns[name]) for batch in batches])


def read_labels(path: Path, columns_beside: Sequence[str] = ()) -> LabelFile:
    """Return all labels of a file: its column of labels, or its only one.

    Text without columns is read as one label per line. Columns that the predictions have, too, may
    identify rows.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "labels.txt")
    >>> _ = path.write_text("label\\ncat\\nwild dog\\n")
    >>> read_labels(path).words.names
    ['cat', 'wild dog']
    """
    if path.is_file() and suffix_of(path) == ".txt":
        return LabelFile(path, _label_per_line(path))
    reader = open_file(path)
    if isinstance(reader, CsvReader) and len(reader.names) == 1:
        return LabelFile(path, _label_per_line(path))
    table = reader.first_rows()
    beside = {name.lower() for name in columns_beside} - {*LABEL}
    known = [
        name
        for name, column in table.items()
        if name.lower() in (*ID, *UNNAMED_INDEX)
        or (name.lower() in beside and len(table) > 1 and _may_be_ids(column))
    ]
    rest = {name: column for name, column in table.items() if name not in known}
    label, hot = _label_columns(path, rest)
    numbers = [*hot]
    words = [*known, *([] if label is None else [label])]
    columns: dict[str, list[Words]] = {name: [] for name in known}
    labels: list[Words] = []
    for batch in _whole(path, reader, numbers, words):
        for name in known:
            columns[name].append(words_of(batch.columns[name]))
        labels.append(
            words_of(batch.columns[label]) if label else one_hot_words(batch.columns, hot)
        )
    ids = {name: Words.joined(parts) for name, parts in columns.items()}
    return LabelFile(path, Words.joined(labels), ids)


def _may_be_ids(column: Column) -> bool:
    """Return whether no word or whole number of a column occurs twice."""
    if not may_be_labels(column):
        return False
    words = words_of(column)
    return len(words) > 1 and len({*words.codes.tolist()}) == len(words)


def _label_columns(path: Path, table: Mapping[str, Column]) -> tuple[str | None, tuple[str, ...]]:
    """Return the column of labels, or those of one-hot labels."""
    try:
        true = find_labels(table, None)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if true.one_hot:
        return None, true.one_hot
    if true.label is not None:
        return true.label, ()
    if len(table) == 1:
        (name,) = table
        lists = arrays_of(table, ndim=2)
        if name not in lists:
            return name, ()
        if is_one_hot(lists[name]):
            return None, (name,)
        raise ValueError(f"{path} holds several numbers per row: expected one class per row")
    numbers = arrays_of(table, ndim=1)
    if len(numbers) == len(table) > 1 and is_one_hot(np.stack([*numbers.values()], axis=1)):
        return None, tuple(numbers)
    raise ValueError(
        f"{path} has the columns {', '.join(table)}: expected one called label, or one alone"
    )


def one_hot_words(columns: Mapping[str, Column], names: tuple[str, ...]) -> Words:
    """Return one-hot rows as words; those that are not one-hot have no label."""
    arrays: list[Array] = []
    for name in names:
        column = columns[name]
        values = np.full(len(column), np.nan) if isinstance(column, Words) else column
        arrays.append(np.asarray(values, np.float64))
    rows = np.stack(arrays, axis=1) if len(arrays) > 1 else arrays[0]
    if rows.ndim == 1:
        return Words(np.full(len(rows), MISSING), [])
    codes = np.where(hot_rows(rows), rows.argmax(axis=1), MISSING)
    return Words(codes, one_hot_names(names, rows.shape[1]))


def _whole(
    path: Path, reader: Reader, numbers: Sequence[str], words: Sequence[str]
) -> Iterable[FileRows]:
    """Yield all rows, or raise at one that cannot be read."""
    for part in reader.parts:
        for batch in reader.batches(part, numbers, words):
            for line, fault in batch.unreadable.items():
                raise ValueError(
                    f"{path}: {reader.unit} {line} {fault}: expected a label for each row of the "
                    "predictions"
                )
            yield batch


def _label_per_line(path: Path) -> Words:
    with readable(path), open_bytes(path) as file:
        content = file.read(MOST_LABEL_BYTES + 1)
        if len(content) > MOST_LABEL_BYTES:
            raise ValueError(
                f"{path} holds more than {MOST_LABEL_BYTES:,} bytes: expected one label per line"
            )
        text = content.decode("utf-8-sig")
    lines = [_plain(line.strip().strip('"')) for line in text.splitlines()]
    return Words.of(lines[1:] if _has_header(lines) else lines)


def _plain(word: str) -> str:
    """Return a whole number without its exponent, as numpy writes 1.000e+00; other words as is."""
    if not SCIENTIFIC.fullmatch(word):
        return word
    number = float(word)
    return str(int(number)) if number.is_integer() else word


def _has_header(lines: list[str]) -> bool:
    """Return whether the first line names the column: alone not a number, or a name for labels."""
    if not lines:
        return False
    is_number = [word.lstrip("-").replace(".", "", 1).isdecimal() for word in lines if word]
    is_only_word = len(is_number) > 1 and not is_number[0] and all(is_number[1:])
    return lines[0].lower() in LABEL or is_only_word
