"""Columns of a batch, whatever the format of the file: numbers as numpy arrays, words as codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from socrates.arrays.open import Array

MISSING = -1  # the code of a word that is missing
# What stands for no label or group, unless a class has this name.
MISSING_WORDS = frozenset(
    {"", "nan", "NaN", "NAN", "null", "NULL", "None", "NA", "<NA>", "N/A", "n/a", "#N/A", "NaT"}
)
MISSING_NUMBERS = MISSING_WORDS | {".", "-", "?"}  # as SAS, spreadsheets and Weka write them
MISSING_GROUP = "(missing)"
FEW_ODD = 5  # words among the numbers of a column
FEW_PERCENT = 0.03  # of its rows


@dataclass(frozen=True, eq=False)
class Words:
    """A column of words: the place of each row's word in `names`, `MISSING` if it has none.

    >>> Words.of(["cat", None, "dog", "cat"]).codes
    array([ 0, -1,  1,  0])
    """

    codes: Array
    names: Sequence[str]

    @classmethod
    def of(cls, values: Sequence[Any]) -> Words:
        """Return any values as words; true and false are spelled as in JSON and CSV.

        >>> Words.of([True, 3, 2.0]).names
        ['true', '3', '2']
        """
        places: dict[str, int] = {}
        codes = np.empty(len(values), np.intp)
        for row, value in enumerate(values):
            word = word_of(value)
            codes[row] = MISSING if word is None else places.setdefault(word, len(places))
        return cls(codes, list(places))

    @classmethod
    def of_array(cls, values: Array) -> Words:
        """Return a numpy array as words; it is sorted, which is faster than a walk through it."""
        different, places = np.unique(values, return_inverse=True)
        names = [word_of(value) for value in different.tolist()]
        return cls(*_without_missing(places, names))

    @classmethod
    def joined(cls, columns: Sequence[Words]) -> Words:
        """Return the words of several columns as one column.

        >>> Words.joined([Words.of(["a", "b"]), Words.of(["b", None])]).codes
        array([ 0,  1,  1, -1])
        """
        places: dict[str, int] = {}
        codes = [np.zeros(0, np.intp)]
        for column in columns:
            renumbered = [places.setdefault(name, len(places)) for name in column.names]
            codes.append(np.array([*renumbered, MISSING])[column.codes])
        return cls(np.concatenate(codes), list(places))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Words:
        return Words(self.codes[rows], self.names)

    def take(self, rows: Any) -> Words:
        """Return the words of some rows, without the names that none of these rows has.

        >>> Words.of(["a", "b", "c"]).take([2]).names
        ['c']
        """
        used, codes = np.unique(self.codes[rows], return_inverse=True)
        names = [self.names[int(code)] for code in used if code != MISSING]
        # MISSING is the smallest code: where there is one, it comes first.
        return Words(codes + len(names) - len(used), names)

    def without_missing_words(self) -> Words:
        """Return the words with those that stand for nothing, such as nan, as missing.

        >>> Words.of(["a", "nan"]).without_missing_words().codes
        array([ 0, -1])
        """
        if MISSING_WORDS.isdisjoint(self.names):
            return self
        names = [None if name in MISSING_WORDS else name for name in self.names]
        return Words(*_without_missing(self.codes, names))

    def to_array(self) -> Array:
        """Return the word of each row as an array of objects.

        >>> Words.of(["north", None]).to_array().tolist()
        ['north', '(missing)']
        """
        return np.array([*self.names, MISSING_GROUP], object)[self.codes]


Column = Array | Words


def word_of(value: Any) -> str | None:
    """Return the word that stands for a value, None if the value is missing.

    >>> word_of(7), word_of("7.0"), word_of("seven "), word_of(True), word_of(float("nan"))
    ('7', '7', 'seven', 'true', None)
    """
    if value is None or value != value:
        return None
    word = str(value).strip()
    if isinstance(value, bool):
        word = word.lower()
    if word.endswith(".0") and word[:-2].lstrip("-").isdecimal():
        # Whole numbers of which one is missing are often written as fractions.
        word = word[:-2]
    return word or None


def _without_missing(places: Array, names: Sequence[str | None]) -> tuple[Array, list[str]]:
    """Return places in a list of names as codes, `MISSING` for each name that is None."""
    code_of_place = [MISSING if name is None else place for place, name in enumerate(names)]
    codes = np.array([*code_of_place, MISSING])[places]
    return codes, [name or "" for name in names]


def numbers_of(values: Sequence[Any]) -> Array:
    """Return any values as float64, rows of them where the values are lists; NaN for the others.

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
    array = np.full((len(values), width), np.nan)
    for row, value in enumerate(values):
        if isinstance(value, list) and len(value) == width:
            array[row] = [_number_of(entry) for entry in value]
    return array


def _number_of(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def guess_column(values: Sequence[Any]) -> Column:
    """Return Python values as numbers or as words, by their types.

    >>> [guess_column(values).dtype.kind for values in ([1, 2], [0.5, None], [True, False])]
    ['i', 'f', 'b']
    >>> guess_column(["cat", 1]).names
    ['cat', '1']
    """
    kinds = {type(value) for value in values}
    if kinds in ({bool}, {int}):
        array = np.array(values)
        if array.dtype != object:  # Python's whole numbers have no limit
            return array
    if kinds <= {int, float, list, type(None)} and kinds != {type(None)}:
        return numbers_of(values)
    return numbers_if_most(Words.of(values))


def numbers_if_most(column: Column) -> Column:
    """Return words as numbers if most of them are: a few bad rows do not matter.

    More than a few rows do: `<0.01` among the numbers of a column is not an accident.

    >>> numbers_if_most(Words.of(["0.5", "0.25", "oops"]))
    array([0.5 , 0.25,  nan])
    """
    if not isinstance(column, Words) or not column.names:
        return column
    numbers_of_names = numbers_of(column.names)
    is_odd = np.isnan(numbers_of_names) & [name not in MISSING_NUMBERS for name in column.names]
    num_odd = int(np.append(is_odd, False)[column.codes].sum())
    numbers = np.append(numbers_of_names, np.nan)[column.codes]
    is_most = np.isfinite(numbers).mean() > 0.5
    return numbers if is_most and num_odd <= max(FEW_ODD, FEW_PERCENT * len(column)) else column


def is_readable(kind: Any) -> bool:
    """Return whether an Arrow type may hold predictions, labels or groups."""
    from pyarrow import types

    if _is_list(kind):
        return types.is_floating(kind.value_type) or types.is_integer(kind.value_type)
    return not types.is_nested(kind)


def is_nested(kind: Any) -> bool:
    """Return whether an Arrow type may hold columns within a column."""
    from pyarrow import types

    inner = kind.value_type if _is_list(kind) else kind
    return types.is_struct(inner) or types.is_map(kind)


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def from_arrow(column: Any, as_words: bool) -> Column:
    """Return a column of an Arrow batch, without a copy where that is possible."""
    import pyarrow as arrow
    from pyarrow import types

    if _is_list(column.type):
        return _matrix(column)
    if as_words:
        return _words(column)
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_decimal(column.type):
        column = column.cast(arrow.float64())
    is_number = types.is_floating(column.type) or types.is_integer(column.type)
    if is_number or (types.is_boolean(column.type) and not column.null_count):
        return column.to_numpy(zero_copy_only=False)  # NaN where a number is missing
    return _words(column)


def _words(column: Any) -> Words:
    """Return an Arrow column as words."""
    import pyarrow as arrow

    if arrow.types.is_null(column.type):
        return Words(np.full(len(column), MISSING), [])
    if column.type in (arrow.string_view(), arrow.binary_view()):
        column = column.cast(arrow.string())
    is_coded = arrow.types.is_dictionary(column.type)
    coded = column if is_coded else column.dictionary_encode()
    codes = coded.indices.cast(arrow.int64()).fill_null(MISSING).to_numpy(zero_copy_only=False)
    names = [word_of(value) for value in coded.dictionary.to_pylist()]
    return Words(*_without_missing(codes, names))


def _matrix(column: Any) -> Array:
    """Return an Arrow column of lists as rows of numbers.

    A row is NaN if its list is missing or has another length than the others.
    """
    flat = column.flatten()
    if column.null_count or len(column) == 0 or len(flat) % len(column):
        return numbers_of(column.to_pylist())
    width = len(flat) // len(column)
    if hasattr(column, "offsets") and (np.diff(column.offsets.to_numpy()) != width).any():
        return numbers_of(column.to_pylist())
    values = flat.to_numpy(zero_copy_only=False)
    return values if width == 1 else values.reshape(len(column), width)
