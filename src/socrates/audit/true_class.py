"""Find the true class of each row: one column, several that agree, or one-hot rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from socrates.arrays.content import number_word, truth_of
from socrates.arrays.open import Array

from .class_columns import is_one_hot, one_hot_columns
from .class_names import LabelMode
from .layout import LABEL, class_of
from .read.columns import MISSING, Column, Words

FEW = 10  # rows below this say nothing about a whole file
FAR_BETTER = 0.2  # of the accuracy


@dataclass(frozen=True)
class TrueClass:
    """Where the true class is.

    Args:
        label: its column.
        one_hot: its columns where each class has one, or one column of lists.
        others: further columns that may be labels.
        must_agree: whether these have to hold the same; else one has names, one numbers.
        words: the labels of the first rows.
    """

    label: str | None = None
    one_hot: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    must_agree: bool = True
    words: Words | None = None


def find_labels(table: Mapping[str, Column], named: str | None) -> TrueClass:
    """Return the columns of the true class; raise if two may be it and differ."""
    lists = arrays_of(table, ndim=2)
    if named is not None:
        if named not in lists:
            return TrueClass(named, words=words_of(table[named]))
        if not is_one_hot(lists[named]):
            raise ValueError(f"column {named!r} holds a list in each row, expected one value")
        return _of_rows(named, lists[named])
    by_word = {name.lower(): name for name in reversed([*table])}
    known = [by_word[word] for word in LABEL if word in by_word]
    found = [name for name in known if name not in lists and may_be_labels(table[name])]
    if not found:
        for name in known:
            if name in lists and is_one_hot(lists[name]):
                return _of_rows(name, lists[name])
        columns = one_hot_columns(arrays_of(table, ndim=1))
        if columns:
            names = _last_parts(columns)
            return TrueClass(one_hot=columns, words=Words(np.arange(len(names)), names))
        return TrueClass()
    first, *others = found
    words = words_of(table[first])
    for other in others:
        second = words_of(table[other])
        if agree(words, second):
            continue
        if len(others) == 1 and _number_and_name(words, second):
            by_name, by_number = (first, other) if _are_numbers(second) else (other, first)
            return TrueClass(
                by_number, others=(by_name,), must_agree=False, words=words_of(table[by_number])
            )
        refuse_differing(first, other)
    return TrueClass(first, others=tuple(others), words=words)


def refuse_differing(first: str, other: str) -> None:
    """Raise for two columns of labels that differ."""
    raise ValueError(
        f"{first} and {other} may both be labels, and differ: is one of them the answer of the "
        f"model? Say which is the true class, label_column={first!r} or label_column={other!r}"
    )


def _of_rows(name: str, rows: Array) -> TrueClass:
    places = [str(place) for place in range(rows.shape[1])]
    return TrueClass(name, one_hot=(name,), words=Words(np.arange(len(places)), places))


def _last_parts(columns: tuple[str, ...]) -> list[str]:
    """Return the classes of one-hot columns such as label_0 and true_cat."""
    from .class_columns import without_prefix

    parts = without_prefix(columns)
    if parts == columns:
        parts = tuple(name[len(name.rstrip("0123456789")) :] for name in columns)
    return [class_of(part) if part else name for part, name in zip(parts, columns, strict=True)]


def one_hot_names(columns: tuple[str, ...], width: int) -> list[str]:
    """Return the classes of one-hot rows: their places, or what their columns are named after."""
    return [*map(str, range(width))] if len(columns) == 1 else _last_parts(columns)


def agree(first: Words, second: Words) -> bool:
    """Return whether two columns hold the same words, in upper or lower case."""
    left = np.array([*map(fold, first.names), ""], object)[first.codes]
    right = np.array([*map(fold, second.names), ""], object)[second.codes]
    return bool((left == right).all())


def fold(word: str) -> str:
    """Return a label without its case, and whole numbers as such."""
    return number_word(word).casefold()


def _are_numbers(words: Words) -> bool:
    return all(number_word(name).lstrip("-").isdecimal() for name in words.names)


def _number_and_name(first: Words, second: Words) -> bool:
    """Return whether one column numbers what the other one names."""
    if _are_numbers(first) == _are_numbers(second) or len(first.names) < 2:
        return False
    pairs = {*zip(first.codes.tolist(), second.codes.tolist(), strict=True)}
    return len(pairs) == len({pair[0] for pair in pairs}) == len({pair[1] for pair in pairs})


def answer_mode(true: TrueClass, answers: Words, name: str) -> LabelMode:
    """Return how answers are compared with labels, or raise if they have nothing in common.

    "name" is without case, "meaning" also takes yes and true for 1, "place" compares exactly.
    """
    labels = true.words
    assert labels is not None
    folded = [{fold(word) for word in column.names} for column in (labels, answers)]
    if any(
        len(names) < len(column.names)
        for names, column in zip(folded, (labels, answers), strict=True)
    ):
        return "place"  # case tells classes apart
    is_truth = all(truth_of(word) is not None for word in (*labels.names, *answers.names))
    if not folded[0] & folded[1]:
        if is_truth:
            return "meaning"
        numbers = _are_numbers(labels)
        if numbers != _are_numbers(answers) or len(labels) >= FEW:
            raise ValueError(
                f"no label occurs in {name}: labels are such as {labels.names[0]!r}, answers such "
                f"as {answers.names[0]!r}. Write both as names, or both as numbers"
            )
    if len(labels) == len(answers) and _are_numbers(labels) and _are_numbers(answers):
        _refuse_shift(labels, answers, name)
    return "meaning" if is_truth and folded[0] != folded[1] else "name"


def _refuse_shift(labels: Words, answers: Words, name: str) -> None:
    numbers = [
        np.array([*map(float, column.names), np.nan])[column.codes] for column in (labels, answers)
    ]
    right = float(np.mean(numbers[0] == numbers[1]))
    for shift in (1, -1):
        shifted = float(np.mean(numbers[0] == numbers[1] + shift))
        if len(labels) >= FEW and shifted > right + FAR_BETTER:
            raise ValueError(
                f"labels are right in {right:.1%} of the rows as they are, and in {shifted:.1%} if "
                f"{name} is {'increased' if shift > 0 else 'decreased'} by 1: count both from 0"
            )


def arrays_of(table: Mapping[str, Column], ndim: int) -> dict[str, Array]:
    """Return the columns of numbers that have this many dimensions."""
    return {
        name: column
        for name, column in table.items()
        if not isinstance(column, Words) and column.ndim == ndim
    }


def words_of(column: Column) -> Words:
    """Return a column as words."""
    if isinstance(column, Words):
        return column
    return Words.of_array(column) if column.ndim == 1 else Words(np.full(len(column), MISSING), [])


def may_be_labels(column: Column) -> bool:
    """Return whether a column holds names or whole numbers, one per row."""
    return isinstance(column, Words) or not has_fractions(column)


def has_fractions(column: Array) -> bool:
    """Return whether a column holds numbers that are not whole."""
    if column.dtype.kind != "f":
        return False
    numbers = column[~np.isnan(column)]
    return bool((np.floor(numbers) != numbers).any())
