"""What a file of predictions holds: found by the names of its columns and its first rows, unless it is told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from socrates.metrics.predictions import HALF_TOLERANCE, Array
from socrates.report.words import first_of

from .columns import CONFIDENCE, CORRECT, KINDS, LABEL, OF_A_CLASS, PREDICTED, UNKNOWN, VALUES, WEIGHT, Kind, Layout
from .table import Coded, Column

BINARY = ("0", "1")
MOST_NAMED = 12  # columns in a message
NEARLY_A_NUMBER = re.compile(r"-?\d*[.,]?\d+ ?%?")
TOLD_APART = "class "  # so `socrates predict` calls classes whose names are those of its other columns


@dataclass(frozen=True)
class Told:
    """What a user says of a file, in the words of `open_predictions`; what is None or empty has to be found."""

    kind: Kind | None = None
    label: str | None = None
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    weight: str | None = None
    unknown: bool | None = None
    labels_apart: bool = False


def detect(table: Mapping[str, Column], told: Told) -> Layout:
    """The layout of a file of which these are the first rows; what is told goes before what is found.

    >>> detect({"y": np.array([0, 1]), "p0": np.array([0.9, 0.6]), "p1": np.array([0.1, 0.4])}, Told()).words
    'probabilities of 2 classes (p0, p1), labels in y'
    """
    if told.kind not in (None, *KINDS):
        raise ValueError(f"kind={told.kind!r}, expected one of {', '.join(KINDS)}")
    for name in filter(None, (told.label, told.weight, *told.groups, *told.columns)):
        if name not in table:
            raise ValueError(f"there is no column {name!r}: the columns are {first_of(table, most=MOST_NAMED)}")
    weight = told.weight or _named(table, WEIGHT)
    single = {name: column for name, column in table.items() if isinstance(column, Coded) or column.ndim == 1}
    for name in filter(None, (told.label, weight, *told.groups)):
        if name not in single:
            raise ValueError(f"column {name!r} holds a list in each row, expected one value")
    may_be_labels = [name for name, column in single.items() if name != weight and _may_be_labels(column)]
    label = told.label or _named(may_be_labels, LABEL)
    aside = [name for name in told.groups if name.lower() not in PREDICTED]  # answers may be looked at one by one
    rest = {name: column for name, column in table.items() if name not in (*aside, weight, label)}
    sight = _Sight(rest, told, labelled=bool(label or told.labels_apart))
    looks = (_told, _list_by_name, _of_each_class, _called_as_classes, _confidence, _score, _only_list)
    found = next(filter(None, (look(sight) for look in looks)), None)
    if found is None:
        _refuse_words(rest)
        expected = "p0, p1, ... or names of classes that sum to 1, or one score p; or confidence with correct"
        todo = "name the columns of the classes, columns=['FIRST', 'SECOND'], and say kind='logits' if they hold logits"
        raise ValueError(
            f"no predictions are found in the columns {first_of(table, most=MOST_NAMED)}, expected {expected}: {todo}"
        )
    if not (found.correct or sight.labelled):
        given = f"no labels are found in the columns {first_of(table, most=MOST_NAMED)}"
        if odd := _named(table, LABEL):
            given += f" ({odd} holds lists or fractions, not one class a row)"
        todo = "name the column, label_column='NAME', or give a file of labels, labels='FILE'"
        raise ValueError(f"{given}, expected {', '.join(LABEL)}: {todo}")
    label = None if found.correct or told.labels_apart else label
    return replace(found, label=label, groups=told.groups, weight=weight)


@dataclass(frozen=True)
class _Sight:
    """The columns that may hold predictions, and what was told about them."""

    table: Mapping[str, Column]
    told: Told
    labelled: bool

    @cached_property
    def numbers(self) -> dict[str, Array]:
        return {name: col for name, col in self.table.items() if not isinstance(col, Coded) and col.ndim == 1}

    @cached_property
    def lists(self) -> dict[str, Array]:
        return {name: col for name, col in self.table.items() if not isinstance(col, Coded) and col.ndim == 2}

    def kinds(self) -> list[Kind]:
        """Of values of classes, those that are asked for."""
        return [kind for kind in VALUES if self.told.kind in (None, kind)]

    def values(self, names: Sequence[str]) -> Array:
        return np.stack([self.numbers[name] for name in names], axis=1).astype(np.float64)

    def sum_to_1(self, names: Sequence[str], aside: str | None = None) -> bool:
        """Whether most rows of these columns are probabilities, alone or with the one aside."""
        alone = len(names) > 1 and np.mean(_are_probabilities(self.values(names))) > 0.5
        return bool(alone) or (aside is not None and self.sum_to_1([*names, aside]))


def _told(sight: _Sight) -> Layout | None:
    """The columns that were told, in the order of the classes."""
    columns = sight.told.columns
    if not columns or sight.told.kind == "confidence":
        return None
    found = sight.numbers if len(columns) > 1 else {**sight.numbers, **sight.lists}
    wrong = [name for name in columns if name not in found]
    if wrong:
        raise ValueError(f"column {wrong[0]!r} holds words, lists, labels or weights, expected numbers of a class")
    if len(columns) == 1:
        name = columns[0]
        if name in sight.lists:
            only = replace(sight, table={name: sight.lists[name]})
            return _list_by_name(only) or _only_list(only)
        return _one_score(sight, sight.told.kind or _kind_of_scores(sight.numbers[name]), name)
    aside = next((name for name in columns[-1:] if _class_of(name).lower() in UNKNOWN), None)
    known = [name for name in columns if name != aside]
    return _of_columns(sight, sight.told.kind or _kind_by_values(sight.values(columns)), known, aside)


def _list_by_name(sight: _Sight) -> Layout | None:
    """A column that holds a list in each row, or an array of two dimensions."""
    for kind in sight.kinds():
        if name := _named(sight.lists, VALUES[kind]):
            return _of_rows(sight, kind, name)
    return None


def _only_list(sight: _Sight) -> Layout | None:
    """The same whatever it is called, if nothing else is found."""
    lists = {name: column for name, column in sight.lists.items() if np.isfinite(column).any()}
    if not lists or sight.told.kind == "confidence":
        return None
    if len(lists) > 1:
        names = first_of(lists, most=MOST_NAMED)
        raise ValueError(f"{names} all hold a row of values, expected one: name the column, columns=['NAME']")
    name, values = next(iter(lists.items()))
    return _of_rows(sight, sight.told.kind or _kind_by_values(values), name)


def _of_rows(sight: _Sight, kind: Kind, name: str) -> Layout:
    """Rows of values: unknown is among them if that is told, or if the names of the classes leave one column over."""
    width = sight.lists[name].shape[1]
    told = sight.told.classes
    by_name = len(told) == width - 1 or bool(told and told[-1].lower() in UNKNOWN)
    unknown = by_name if sight.told.unknown is None else sight.told.unknown
    classes = _class_names(sight, tuple(map(str, range(width))), unknown)
    return Layout(kind, (name,), classes, unknown, is_matrix=True)


def _of_each_class(sight: _Sight) -> Layout | None:
    """p0, p1, ...; prob_cat, prob_dog, ...; logit_0, logit_1, ..."""
    aside = _named(sight.numbers, UNKNOWN)
    for kind in sight.kinds():
        found = {name: match for name in sight.numbers if (match := OF_A_CLASS[kind].fullmatch(name))}
        numbered = sorted((name for name in found if found[name][1]), key=lambda name: int(found[name][1]))
        worded = [name for name in found if found[name][2]]
        aside = next((name for name in worded if _class_of(name).lower() in UNKNOWN), aside)
        if len(numbered) > 1:
            there = [int(found[name][1]) for name in numbered]
            missing = next((one + 1 for one, other in pairwise(there) if other > one + 1), None)
            if missing is not None:
                raise ValueError(f"there are columns {numbered[0]} to {numbered[-1]}, but none of class {missing}")
            return _of_columns(sight, kind, numbered, aside)
        worded = [name for name in worded if name != aside]
        if len(worded) > 1 and (kind == "logits" or sight.sum_to_1(worded, aside)):
            return _of_columns(sight, kind, worded, aside)
    return None


def _called_as_classes(sight: _Sight) -> Layout | None:
    """All other columns of fractions, which must sum to 1: who knows what else a file holds."""
    aside = _named(sight.numbers, UNKNOWN)
    fractions = [
        name for name, column in sight.numbers.items() if column.dtype.kind == "f" and np.isfinite(column).any()
    ]
    names = [name for name in fractions if name.lower() not in CONFIDENCE and name != aside]
    if sight.told.kind == "logits" and len(names) > 1:
        return _of_columns(sight, "logits", names, aside)
    if sight.told.kind in (None, "probabilities") and len(names) > 1 and sight.sum_to_1(names, aside):
        return _of_columns(sight, "probabilities", names, aside)
    return None


def _confidence(sight: _Sight) -> Layout | None:
    """Confidence in the answer, and whether that is right."""
    confidence = (sight.told.columns or (_named(sight.numbers, CONFIDENCE),))[0]
    correct, predicted = _named(sight.table, CORRECT), _named(sight.table, PREDICTED)
    if confidence is None or sight.told.kind not in (None, "confidence"):
        return None
    if correct is not None:
        return Layout("confidence", (confidence,), correct=correct)
    if predicted is not None and sight.labelled:
        return Layout("confidence", (confidence,), predicted=predicted)
    return None


def _score(sight: _Sight) -> Layout | None:
    """One value of class 1."""
    for kind in sight.kinds():
        ones = (name for name in sight.numbers if (match := OF_A_CLASS[kind].fullmatch(name)) and match[1] == "1")
        if name := _named(sight.numbers, VALUES[kind]) or next(ones, None):
            answers = _named(sight.table, PREDICTED)
            if (
                sight.told.kind is None
                and kind == "probabilities"
                and answers
                and not (sight.numbers[name] < 0.5).any()
            ):
                given = f"{name} is never below 0.5, and {answers} tells the answers"
                todo = f"kind='confidence' with columns=[{name!r}] if so, kind='probabilities' if it is that of class 1"
                raise ValueError(f"{given}: is it the confidence in them? Say {todo}")
            return _one_score(sight, kind, name)
    return None


def _one_score(sight: _Sight, kind: Kind, name: str) -> Layout:
    return Layout(kind, (name,), _class_names(sight, BINARY, unknown=False), is_score=True)


def _of_columns(sight: _Sight, kind: Kind, names: Sequence[str], aside: str | None) -> Layout:
    """A column for each class. A column for unknown belongs to them unless they sum to 1 without it."""
    part = aside is not None and sight.told.unknown is not False
    part = part and (sight.told.unknown is True or kind == "logits" or not sight.sum_to_1(names))
    columns = (*names, aside) if part and aside else tuple(names)
    unknown = part or sight.told.unknown is True
    classes = tuple(_class_of(name) for name in columns)
    if all(name.startswith(TOLD_APART) for name in names):
        classes = tuple(name.removeprefix(TOLD_APART) for name in classes)
    return Layout(kind, columns, _class_names(sight, classes, unknown), unknown)


def _class_names(sight: _Sight, columns: tuple[str, ...], unknown: bool) -> tuple[str, ...]:
    """The names of the known classes: as told, or else as the columns are called."""
    known = columns[: len(columns) - unknown]
    told = sight.told.classes[: len(known)] if len(sight.told.classes) == len(columns) else sight.told.classes
    if told and len(told) != len(known):
        raise ValueError(f"{len(told)} names of classes for {len(known)} classes in the file: expected as many")
    if len(set(told or known)) < len(known):
        raise ValueError(f"two classes have one name: {', '.join(told or known)}")
    return told or known


def _class_of(column: str) -> str:
    """The class that a column is called after: 3 for p3 and logit_3, cat for prob_cat and cat."""
    matches = filter(None, (pattern.fullmatch(column) for pattern in OF_A_CLASS.values()))
    match = next(matches, None)
    return column if match is None else str(int(match[1])) if match[1] else match[2]


def _kind_by_values(values: Array) -> Kind:
    """What rows of values are whose names do not tell."""
    if np.mean(_are_probabilities(values)) > 0.5:
        return "probabilities"
    if np.nanmin(values, initial=0) < 0:
        return "logits"
    finite = values[np.isfinite(values).all(axis=1)]
    if not len(finite):
        return "probabilities"  # whatever they are, no row is good
    total = np.median(finite.sum(axis=1))
    raise ValueError(
        f"the rows sum to {total:.4g} and none of their values is negative, expected probabilities that sum to 1, or "
        f"logits: say kind='logits' if they are logits, or divide each row by its sum"
    )


def _kind_of_scores(values: Array) -> Kind:
    return "probabilities" if np.mean((values >= 0) & (values <= 1)) > 0.5 else "logits"


def _are_probabilities(values: Array) -> Array:
    with np.errstate(all="ignore"):
        return (np.abs(values.sum(axis=1) - 1) <= HALF_TOLERANCE) & (values.min(axis=1) >= 0)


def _refuse_words(table: Mapping[str, Column]) -> None:
    """Raise where numbers are written so that they are words, such as 12.5% or 0,125."""
    for name, column in table.items():
        if isinstance(column, Coded) and column.names and NEARLY_A_NUMBER.fullmatch(column.names[0]):
            given = f"column {name!r} holds words such as {column.names[0]!r}"
            raise ValueError(f"{given}, expected numbers: with a decimal point, and shares in place of percentages")


def _may_be_labels(column: Column) -> bool:
    """Names or whole numbers, one a row."""
    if isinstance(column, Coded):
        return True
    return column.ndim == 1 and (
        column.dtype.kind != "f" or bool((np.floor(column) == column)[~np.isnan(column)].all())
    )


def _named(names: Iterable[str], words: Sequence[str]) -> str | None:
    """The column that is called by the first of these words that there is, in any case of letters."""
    lower = {name.lower(): name for name in reversed(list(names))}
    return next((lower[word] for word in words if word in lower), None)
