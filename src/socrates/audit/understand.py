"""Understand what a file of predictions holds, by the names of its columns and its first rows.

What a user says goes first. What cannot be understood beyond doubt is refused, with the words that
would settle it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from socrates.arrays.content import ROUNDED_TOLERANCE
from socrates.arrays.open import Array
from socrates.report.words import first_of

from .layout import (
    CONFIDENCE,
    CORRECT,
    KINDS,
    LABEL,
    OF_A_CLASS,
    PREDICTED,
    UNKNOWN,
    VALUES,
    WEIGHT,
    ContentKind,
    Layout,
    class_of,
    first_named,
)
from .read.columns import Column, Words

BINARY = ("0", "1")
MOST_NAMED = 12  # columns in a message
NEARLY_A_NUMBER = re.compile(r"-?\d*[.,]?\d+ ?%?")
# `socrates predict` writes this before classes that have the names of its other columns.
CLASS_PREFIX = "class "


@dataclass(frozen=True)
class Hints:
    """What a user says about a file, in the words of `open_predictions`."""

    kind: ContentKind | None = None
    label: str | None = None
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    weight: str | None = None
    unknown: bool | None = None
    labels_apart: bool = False

    def check(self, table: Mapping[str, Column]) -> None:
        """Raise unless the file has the columns that are named."""
        if self.kind not in (None, *KINDS):
            raise ValueError(f"kind={self.kind!r}, expected one of {', '.join(KINDS)}")
        for name in filter(None, (self.label, self.weight, *self.groups, *self.columns)):
            if name not in table:
                columns = first_of(table, most=MOST_NAMED)
                raise ValueError(f"there is no column {name!r}: the columns are {columns}")


def understand(table: Mapping[str, Column], hints: Hints) -> Layout:
    """Return the layout of a file with these first rows.

    >>> rows = {"y": np.array([0, 1]), "p0": np.array([0.9, 0.6]), "p1": np.array([0.1, 0.4])}
    >>> understand(rows, Hints()).words
    'probabilities of 2 classes (p0, p1), labels in y'
    """
    hints.check(table)
    weight = hints.weight or first_named(table, WEIGHT)
    lists = _arrays_of(table, ndim=2)
    for name in filter(None, (hints.label, weight, *hints.groups)):
        if name in lists:
            raise ValueError(f"column {name!r} holds a list in each row, expected one value")
    may_be_labels = [
        name for name in table if name not in (*lists, weight) and _may_be_labels(table[name])
    ]
    label = hints.label or first_named(may_be_labels, LABEL)
    # A column of answers may be a group, too.
    groups = [name for name in hints.groups if name.lower() not in PREDICTED]
    others = {name: table[name] for name in table if name not in (*groups, weight, label)}
    candidates = Candidates(others, hints, labelled=bool(label or hints.labels_apart))
    layout = next(filter(None, (look(candidates) for look in LOOKS)), None)
    if layout is None:
        _refuse_words(others)
        raise ValueError(
            f"no predictions are found in the columns {first_of(table, most=MOST_NAMED)}, expected "
            "p0, p1, ... or names of classes that sum to 1, or one score p; or confidence with "
            "correct: name the columns of the classes, columns=['FIRST', 'SECOND'], and say "
            "kind='logits' if they hold logits"
        )
    if not layout.correct and not candidates.labelled:
        _refuse_without_labels(table)
    if layout.correct or hints.labels_apart:
        label = None
    return replace(layout, label=label, groups=hints.groups, weight=weight)


@dataclass(frozen=True)
class Candidates:
    """The columns that may hold predictions, and what the user says about them."""

    table: Mapping[str, Column]
    hints: Hints
    labelled: bool

    @cached_property
    def numbers(self) -> dict[str, Array]:
        """Return the columns of one number per row."""
        return _arrays_of(self.table, ndim=1)

    @cached_property
    def lists(self) -> dict[str, Array]:
        """Return the columns of several numbers per row."""
        return _arrays_of(self.table, ndim=2)

    def kinds(self) -> list[ContentKind]:
        """Return the kinds of values of classes that are possible."""
        return [kind for kind in VALUES if self.hints.kind in (None, kind)]

    def values(self, names: Sequence[str]) -> Array:
        """Return some columns of numbers as (N, C)."""
        return np.stack([self.numbers[name] for name in names], axis=1).astype(np.float64)

    def sum_to_1(self, names: Sequence[str], unknown: str | None = None) -> bool:
        """Return whether most rows of these columns are probabilities, alone or with unknown."""
        if len(names) > 1 and np.mean(_are_probabilities(self.values(names))) > 0.5:
            return True
        return unknown is not None and self.sum_to_1([*names, unknown])


def _named_columns(candidates: Candidates) -> Layout | None:
    """Look at the columns that the user names, in the order of the classes."""
    columns = candidates.hints.columns
    kind = candidates.hints.kind
    if not columns or kind == "confidence":
        return None
    usable = {*candidates.numbers}
    if len(columns) == 1:
        usable |= {*candidates.lists}
    for name in columns:
        if name not in usable:
            raise ValueError(
                f"column {name!r} holds words, lists, labels or weights, expected numbers of a "
                "class"
            )
    last = columns[-1]
    if len(columns) > 1:
        unknown = last if class_of(last).lower() in UNKNOWN else None
        known = [name for name in columns if name != unknown]
        kind = kind or _kind_by_values(candidates.values(columns))
        return _of_columns(candidates, kind, known, unknown)
    if last in candidates.lists:
        alone = replace(candidates, table={last: candidates.lists[last]})
        return _list_by_name(alone) or _only_list(alone)
    return _one_score(candidates, kind or _kind_of_scores(candidates.numbers[last]), last)


def _list_by_name(candidates: Candidates) -> Layout | None:
    """Look for a column that holds a list in each row, or an array of two dimensions."""
    for kind in candidates.kinds():
        if name := first_named(candidates.lists, VALUES[kind]):
            return _of_list(candidates, kind, name)
    return None


def _only_list(candidates: Candidates) -> Layout | None:
    """Look for one list of any name."""
    lists = {name: values for name, values in candidates.lists.items() if np.isfinite(values).any()}
    if not lists or candidates.hints.kind == "confidence":
        return None
    if len(lists) > 1:
        raise ValueError(
            f"{first_of(lists, most=MOST_NAMED)} all hold a row of values, expected one: name the "
            "column, columns=['NAME']"
        )
    name, values = next(iter(lists.items()))
    return _of_list(candidates, candidates.hints.kind or _kind_by_values(values), name)


def _of_list(candidates: Candidates, kind: ContentKind, name: str) -> Layout:
    """Return the layout of a list per row.

    Unknown is its last entry if the user says so, or if the names of the classes leave one over.
    """
    width = candidates.lists[name].shape[1]
    names = candidates.hints.classes
    unknown = candidates.hints.unknown
    if unknown is None:
        unknown = len(names) == width - 1 or bool(names and names[-1].lower() in UNKNOWN)
    classes = _class_names(candidates, tuple(map(str, range(width))), unknown)
    return Layout(kind, (name,), classes, unknown, is_matrix=True)


def _column_of_each_class(candidates: Candidates) -> Layout | None:
    """Look for p0, p1, ...; prob_cat, prob_dog, ...; logit_0, logit_1, ..."""
    unknown = first_named(candidates.numbers, UNKNOWN)
    for kind in candidates.kinds():
        matches = [OF_A_CLASS[kind].fullmatch(name) for name in candidates.numbers]
        numbered = {match[0]: int(match[1]) for match in matches if match and match[1]}
        worded = [match[0] for match in matches if match and match[2]]
        unknown = next((name for name in worded if class_of(name).lower() in UNKNOWN), unknown)
        if len(numbered) > 1:
            columns = sorted(numbered, key=numbered.__getitem__)
            for number, following in pairwise(sorted(numbered.values())):
                if following > number + 1:
                    raise ValueError(
                        f"there are columns {columns[0]} to {columns[-1]}, but none of class "
                        f"{number + 1}"
                    )
            return _of_columns(candidates, kind, columns, unknown)
        worded = [name for name in worded if name != unknown]
        is_fit = kind == "logits" or candidates.sum_to_1(worded, unknown)
        if len(worded) > 1 and is_fit:
            return _of_columns(candidates, kind, worded, unknown)
    return None


def _called_as_classes(candidates: Candidates) -> Layout | None:
    """Look at all other columns of fractions, which must sum to 1: a file may hold anything."""
    unknown = first_named(candidates.numbers, UNKNOWN)
    names: list[str] = []
    for name, column in candidates.numbers.items():
        is_fraction = column.dtype.kind == "f" and np.isfinite(column).any()
        if is_fraction and name != unknown and name.lower() not in CONFIDENCE:
            names.append(name)
    kind = candidates.hints.kind
    if len(names) < 2 or kind == "confidence":
        return None
    if kind == "logits":
        return _of_columns(candidates, "logits", names, unknown)
    if candidates.sum_to_1(names, unknown):
        return _of_columns(candidates, "probabilities", names, unknown)
    return None


def _confidence(candidates: Candidates) -> Layout | None:
    """Look for confidence in an answer, and whether that is correct."""
    hints = candidates.hints
    confidence = first_named(candidates.numbers, CONFIDENCE)
    if hints.columns:
        confidence = hints.columns[0]
    if confidence is None or hints.kind not in (None, "confidence"):
        return None
    if correct := first_named(candidates.table, CORRECT):
        return Layout("confidence", (confidence,), correct=correct)
    predicted = first_named(candidates.table, PREDICTED)
    if predicted and candidates.labelled:
        return Layout("confidence", (confidence,), predicted=predicted)
    return None


def _score(candidates: Candidates) -> Layout | None:
    """Look for one value per row, of class 1."""
    for kind in candidates.kinds():
        name = first_named(candidates.numbers, VALUES[kind])
        for column in candidates.numbers:
            match = OF_A_CLASS[kind].fullmatch(column)
            if name is None and match and match[1] == "1":
                name = column
        if name is None:
            continue
        answers = first_named(candidates.table, PREDICTED)
        if candidates.hints.kind is None and kind == "probabilities" and answers:
            _refuse_confidence(name, candidates.numbers[name], answers)
        return _one_score(candidates, kind, name)
    return None


def _refuse_confidence(name: str, scores: Array, answers: str) -> None:
    """Raise if scores beside answers look like the confidence in them."""
    if not (scores < 0.5).any():
        raise ValueError(
            f"{name} is never below 0.5, and {answers} holds answers: is it the confidence in "
            f"them? Say kind='confidence' with columns=[{name!r}] if so, kind='probabilities' if "
            "it is that of class 1"
        )


def _one_score(candidates: Candidates, kind: ContentKind, name: str) -> Layout:
    classes = _class_names(candidates, BINARY, unknown=False)
    return Layout(kind, (name,), classes, is_score=True)


def _of_columns(
    candidates: Candidates, kind: ContentKind, names: Sequence[str], unknown: str | None
) -> Layout:
    """Return the layout of one column per class.

    A column of belief in unknown belongs to them unless they sum to 1 without it.
    """
    has_unknown = bool(candidates.hints.unknown)
    columns = tuple(names)
    if unknown is not None and candidates.hints.unknown is not False:
        has_unknown = has_unknown or kind == "logits" or not candidates.sum_to_1(names)
        if has_unknown:
            columns = (*names, unknown)
    classes = tuple(class_of(name) for name in columns)
    if all(name.startswith(CLASS_PREFIX) for name in names):
        classes = tuple(name.removeprefix(CLASS_PREFIX) for name in classes)
    return Layout(kind, columns, _class_names(candidates, classes, has_unknown), has_unknown)


def _class_names(
    candidates: Candidates, columns: tuple[str, ...], unknown: bool
) -> tuple[str, ...]:
    """Return the names of the known classes, as the user passes them or as columns are called."""
    known = columns[: len(columns) - unknown]
    names = candidates.hints.classes or known
    if len(names) == len(columns):
        names = names[: len(known)]
    if len(names) != len(known):
        raise ValueError(
            f"{len(names)} names of classes for {len(known)} classes in the file: expected as many"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"two classes have one name: {', '.join(names)}")
    return names


def _kind_by_values(values: Array) -> ContentKind:
    """Return what rows of values are if their names do not say."""
    if np.mean(_are_probabilities(values)) > 0.5:
        return "probabilities"
    if np.nanmin(values, initial=0) < 0:
        return "logits"
    finite = values[np.isfinite(values).all(axis=1)]
    if not len(finite):
        return "probabilities"  # whatever they are, no row is good
    total = np.median(finite.sum(axis=1))
    raise ValueError(
        f"the rows sum to {total:.4g} and none of their values is negative, expected "
        "probabilities that sum to 1, or logits: say kind='logits' if they are logits, or divide "
        "each row by its sum"
    )


def _kind_of_scores(values: Array) -> ContentKind:
    return "probabilities" if np.mean((values >= 0) & (values <= 1)) > 0.5 else "logits"


def _are_probabilities(values: Array) -> Array:
    with np.errstate(all="ignore"):
        return (np.abs(values.sum(axis=1) - 1) <= ROUNDED_TOLERANCE) & (values.min(axis=1) >= 0)


def _refuse_words(table: Mapping[str, Column]) -> None:
    """Raise if numbers are written in a way that makes them words, such as 12.5% or 0,125."""
    for name, column in table.items():
        example = column.names[0] if isinstance(column, Words) and column.names else ""
        if NEARLY_A_NUMBER.fullmatch(example):
            raise ValueError(
                f"column {name!r} holds words such as {example!r}, expected numbers: with a "
                "decimal point, and shares instead of percentages"
            )


def _refuse_without_labels(table: Mapping[str, Column]) -> None:
    columns = first_of(table, most=MOST_NAMED)
    odd = first_named(table, LABEL)
    but = f" ({odd} holds lists or fractions, not one class per row)" if odd else ""
    raise ValueError(
        f"no labels are found in the columns {columns}{but}, expected {', '.join(LABEL)}: name the "
        "column, label_column='NAME', or pass a file of labels, labels='FILE'"
    )


def _arrays_of(table: Mapping[str, Column], ndim: int) -> dict[str, Array]:
    """Return the columns of numbers that have this many dimensions."""
    return {
        name: column
        for name, column in table.items()
        if not isinstance(column, Words) and column.ndim == ndim
    }


def _may_be_labels(column: Column) -> bool:
    """Return whether a column holds names or whole numbers, one per row."""
    if isinstance(column, Words) or column.dtype.kind != "f":
        return True
    numbers = column[~np.isnan(column)]
    return bool((np.floor(numbers) == numbers).all())


# In this order: the first that finds predictions has understood the file.
LOOKS = (
    _named_columns,
    _list_by_name,
    _column_of_each_class,
    _called_as_classes,
    _confidence,
    _score,
    _only_list,
)
