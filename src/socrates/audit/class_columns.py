"""Find the columns of the classes: by one prefix and numbers, or by the names of the classes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from socrates.arrays.content import ROUNDED_TOLERANCE, were_written_with_few_decimals
from socrates.arrays.open import Array

from .class_names import ClassNames
from .faults import MOST_ROUNDED
from .layout import LABEL, OF_A_CLASS, ContentKind

_NUMBERED = re.compile(r"(.*?)(\d+)(?:\.0+)?(\D*)")
_SEPARATORS = "_ .:(=-"
PERCENT = 100


def are_probabilities(values: Array) -> Array:
    """Return which rows are >= 0 and sum to 1, but for what rounding explains."""
    with np.errstate(all="ignore"):
        sums = values.sum(axis=1)
        near = np.abs(sums - 1) <= ROUNDED_TOLERANCE
        if not near.all():
            near |= were_written_with_few_decimals(values, sums, MOST_ROUNDED)
        return near & (values.min(axis=1) >= 0)


def are_percent(values: Array) -> bool:
    """Return whether most rows are >= 0 and sum to 100."""
    with np.errstate(all="ignore"):
        near = np.abs(values.sum(axis=1) - PERCENT) <= PERCENT * ROUNDED_TOLERANCE
        return values.shape[1] > 1 and bool(np.mean(near & (values.min(axis=1) >= 0)) > 0.5)


def number_of(column: str) -> int:
    """Return the number in the name of a column of a family.

    >>> number_of("class_10"), number_of("X3"), number_of("2.0")
    (10, 3, 2)
    """
    match = _NUMBERED.fullmatch(column)
    return int(match[2]) if match else -1


def families(names: Sequence[str]) -> list[list[str]]:
    """Return columns that have one name but for a number, in the order of these numbers.

    >>> families(["id", "class_1", "class_10", "class_2", "age"])
    [['class_1', 'class_2', 'class_10']]
    """
    members: dict[tuple[str, str], dict[int, str]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match and len(match[2]) < 10:
            key = (match[1].lower(), match[3].lower())
            members.setdefault(key, {}).setdefault(int(match[2]), name)
    return [
        [family[number] for number in sorted(family)]
        for family in members.values()
        if len(family) > 1
    ]


def known_family(names: Sequence[str], kind: ContentKind) -> list[str]:
    """Return columns such as p0, p1, ... whose prefix says what they hold, by number."""
    matches = [OF_A_CLASS[kind].fullmatch(name) for name in names]
    numbered = {match[0]: int(match[1]) for match in matches if match and match[1]}
    columns = sorted(numbered, key=numbered.__getitem__)
    for number, following in pairwise(sorted(numbered.values())):
        if following > number + 1:
            raise ValueError(
                f"there are columns {columns[0]} to {columns[-1]}, but none of class {number + 1}"
            )
    return columns if len(columns) > 1 else []


def without_prefix(names: Sequence[str]) -> tuple[str, ...]:
    """Return names without what all of them begin with, up to a mark, and end with, from a mark.

    >>> without_prefix(["score_cat", "score_dog"]), without_prefix(["P(cat)", "P(dog)"])
    (('cat', 'dog'), ('cat', 'dog'))
    >>> without_prefix(["cat_prob", "dog_prob"])
    ('cat', 'dog')
    """
    prefix = _shared(names)
    cut = max((prefix.rfind(mark) for mark in _SEPARATORS), default=-1) + 1
    suffix = _shared([name[::-1] for name in names])[::-1]
    marks = [suffix.find(mark) for mark in (*_SEPARATORS, ")", "]") if mark in suffix]
    ends = len(suffix) - min(marks) if marks else 0
    stripped = tuple(name[cut : len(name) - ends] for name in names)
    return stripped if len(names) > 1 and all(stripped) else tuple(names)


def _shared(names: Sequence[str]) -> str:
    """Return what all names begin with: what the first and the last in the alphabet share."""
    shared = [left == right for left, right in zip(min(names), max(names), strict=False)]
    return names[0][: [*shared, False].index(False)]


def names_of_classes(names: Sequence[str], labels: Sequence[str]) -> tuple[str, ...]:
    """Return what columns that are named after the classes call them, as the labels do."""
    whole = tuple(names)
    stripped = without_prefix(names)

    def known(classes: tuple[str, ...]) -> int:
        return sum(ClassNames(classes).number(word, "name") is not None for word in labels)

    return stripped if known(stripped) > known(whole) else whole


def one_hot_columns(numbers: Mapping[str, Array]) -> tuple[str, ...]:
    """Return columns such as label_0, label_1, ... of which one is 1 in each row, others 0."""
    by_prefix: dict[str, list[str]] = {}
    for name in numbers:
        for word in LABEL:
            rest = name.lower().removeprefix(word)
            if rest != name.lower() and (rest[:1] in (*_SEPARATORS,) or rest.isdecimal()) and rest:
                by_prefix.setdefault(word, []).append(name)
    for found in by_prefix.values():
        if len(found) > 1 and is_one_hot(np.stack([numbers[name] for name in found], axis=1)):
            return tuple(found)
    return ()


def is_one_hot(rows: Array) -> bool:
    """Return whether each row, but for a few, is 1 in one place and 0 in the others."""
    return rows.ndim == 2 and rows.shape[1] > 1 and bool(np.mean(hot_rows(rows)) > 0.97)


def hot_rows(rows: Array) -> Array:
    """Return which rows are 1 in one place and 0 in the others."""
    return ((rows == 0) | (rows == 1)).all(axis=1) & ((rows == 1).sum(axis=1) == 1)
