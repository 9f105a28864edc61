"""Columns of a batch, whatever format they came from: numbers as numpy arrays, words as codes with their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from socrates.metrics.predictions import Array

MISSING = -1  # the code of a word that is not there
MISSING_WORDS = frozenset({"", "nan", "NaN", "null", "None"})


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of words: each row's position in the list of words, `MISSING` where the row has none.

    >>> Coded.of(["cat", None, "dog", "cat"]).codes
    array([ 0, -1,  1,  0])
    """

    codes: Array
    names: Sequence[str]

    @classmethod
    def of(cls, values: Sequence[Any]) -> Coded:
        """Words of any values; true and false as JSON and CSV write them.

        >>> Coded.of([True, 3, 2.0]).names
        ['true', '3', '2']
        """
        places: dict[str, int] = {}
        codes = [
            MISSING if (word := word_of(value)) is None else places.setdefault(word, len(places)) for value in values
        ]
        return cls(np.array(codes, np.intp), list(places))

    @classmethod
    def of_array(cls, values: Array) -> Coded:
        """The same of a numpy array, which is sorted rather than walked through."""
        found, codes = np.unique(values, return_inverse=True)
        names = [word_of(value) for value in found.tolist()]
        codes = np.where([name is None for name in names], MISSING, np.arange(len(names)))[codes]
        return cls(codes, [name or "" for name in names])

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Coded:
        return Coded(self.codes[rows], self.names)


Column = Array | Coded


@dataclass(frozen=True, eq=False)
class Table:
    """Some rows of a file."""

    columns: Mapping[str, Column]
    positions: Array  # the number of each row in the whole, from 0
    lines: Array  # where each row stands, as a message should say it
    broken: Mapping[int, str] = field(default_factory=dict)  # where rows stand that could not be read at all, and why


def word_of(value: Any) -> str | None:
    """A value as the word that stands for it; None where it is missing.

    >>> word_of(7), word_of("7.0"), word_of("seven "), word_of(True), word_of(float("nan"))
    ('7', '7', 'seven', 'true', None)
    """
    word = str(value).strip()
    if isinstance(value, bool):
        word = word.lower()
    if word.endswith(".0") and word[:-2].lstrip("-").isdecimal():
        word = word[:-2]  # a column of whole numbers of which one is missing is often written as fractions
    return None if word in MISSING_WORDS else word


def numbers_of(values: Sequence[Any]) -> Array:
    """Numbers of any values as float64, NaN for what is none; rows of numbers where the values are lists.

    >>> numbers_of(["0.5", None, "x"])
    array([0.5, nan, nan])
    >>> numbers_of([[0.5, 0.5], None, [0.9, 0.1], [1]])
    array([[0.5, 0.5],
           [nan, nan],
           [0.9, 0.1],
           [nan, nan]])
    """
    try:
        array = np.array(values, np.float64)
        return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    except (TypeError, ValueError, OverflowError):
        pass
    widths = [len(value) for value in values if isinstance(value, list)]
    if 2 * len(widths) <= len(values):
        return np.array([_number_of(value) for value in values])
    width = max(set(widths), key=widths.count)
    lost = [np.nan] * width
    rows = [value if isinstance(value, list) and len(value) == width else lost for value in values]
    return np.array([[_number_of(entry) for entry in row] for row in rows])


def _number_of(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def guessed(values: Sequence[Any]) -> Column:
    """A column of Python values as numbers or as words, by what they are.

    >>> guessed([1, 2]).dtype.kind, guessed([0.5, None]).dtype.kind, guessed([True, False]).dtype.kind
    ('i', 'f', 'b')
    >>> guessed(["cat", 1]).names
    ['cat', '1']
    """
    kinds = {type(value) for value in values}
    if (kinds == {bool} or kinds == {int}) and (array := np.array(values)).dtype != object:
        return array  # Python's whole numbers have no limit
    is_number = kinds <= {int, float, list, type(None)} and kinds != {type(None)}
    return numbers_of(values) if is_number else numbers_if_most(Coded.of(values))


def numbers_if_most(column: Column) -> Column:
    """Words as numbers where most of them are: a few bad rows do not make a column one of words.

    >>> numbers_if_most(Coded.of(["0.5", "0.25", "oops"]))
    array([0.5 , 0.25,  nan])
    """
    if not isinstance(column, Coded) or not column.names:
        return column
    numbers = np.append(numbers_of(column.names), np.nan)[column.codes]
    return numbers if np.isfinite(numbers).mean() > 0.5 else column


def is_readable(kind: Any) -> bool:
    """Whether a column of an Arrow type may hold predictions, labels or groups: numbers, words, lists of numbers."""
    import pyarrow as arrow

    if _is_list(kind):
        kind = kind.value_type
        return arrow.types.is_floating(kind) or arrow.types.is_integer(kind)
    return not arrow.types.is_nested(kind)


def _is_list(kind: Any) -> bool:
    import pyarrow as arrow

    return arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind)


def of_arrow(column: Any, as_words: bool) -> Column:
    """A column of an Arrow batch, without a copy where that can be."""
    import pyarrow as arrow

    kind = column.type
    if _is_list(kind):
        return _matrix(column)
    if not as_words and arrow.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if arrow.types.is_null(kind):
        return Coded(np.full(len(column), MISSING), [])
    if arrow.types.is_decimal(kind) and not as_words:
        column, kind = column.cast(arrow.float64()), arrow.float64()
    is_number = arrow.types.is_floating(kind) or arrow.types.is_integer(kind)
    if not as_words and (is_number or (arrow.types.is_boolean(kind) and not column.null_count)):
        return column.to_numpy(zero_copy_only=False)  # NaN where a number is missing
    coded = column if arrow.types.is_dictionary(kind) else column.dictionary_encode()
    codes = coded.indices.cast(arrow.int64()).fill_null(MISSING).to_numpy(zero_copy_only=False)
    names = [word_of(value) for value in coded.dictionary.to_pylist()]
    if None in names:
        codes = np.append([MISSING if name is None else place for place, name in enumerate(names)], MISSING)[codes]
    return Coded(codes, [name or "" for name in names])


def _matrix(column: Any) -> Array:
    """A column of lists as rows of numbers; NaN where a list is missing or has another length than the others."""
    flat = column.flatten()
    if column.null_count or len(column) == 0 or len(flat) % len(column):
        return numbers_of(column.to_pylist())
    width = len(flat) // len(column)
    if hasattr(column, "offsets") and (np.diff(column.offsets.to_numpy()) != width).any():
        return numbers_of(column.to_pylist())
    values = flat.to_numpy(zero_copy_only=False)
    return values if width == 1 else values.reshape(len(column), width)
