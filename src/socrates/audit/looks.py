"""Look for predictions in the columns of a file, one way after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from socrates.arrays.content import truth_of
from socrates.arrays.open import Array
from socrates.report.words import first_of

from .candidates import MOST_NAMED, Candidates
from .class_columns import (
    are_percent,
    are_probabilities,
    families,
    known_family,
    names_of_classes,
    number_of,
)
from .layout import (
    BINARY,
    CONFIDENCE,
    CORRECT,
    LABEL,
    OF_A_CLASS,
    PREDICTED,
    UNKNOWN,
    VALUES,
    ContentKind,
    Layout,
    class_of,
    first_named,
)
from .refuse import (
    refuse_confidence,
    refuse_incomplete,
    refuse_one_class,
    refuse_other_values,
    refuse_percent,
    refuse_probabilities,
)
from .true_class import has_fractions

# `socrates predict` writes this before classes that have the names of its other columns.
CLASS_PREFIX = "class "


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
    name = first_named(candidates.lists, PREDICTED)
    if name is None or candidates.hints.kind == "confidence":
        return None
    kind = candidates.hints.kind or _kind_by_values(candidates.lists[name])
    return _of_list(candidates, kind, name)


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
    kind = candidates.hints.kind or _kind_by_values(values)
    if kind == "logits" and not (candidates.hints.kind or candidates.hints.columns):
        refuse_other_values(name)
    return _of_list(candidates, kind, name)


def _of_list(candidates: Candidates, kind: ContentKind, name: str) -> Layout:
    """Return the layout of a list per row.

    Unknown is its last entry if the user says so, or if the names of the classes leave one over.
    """
    values = candidates.lists[name]
    if kind == "logits" and candidates.hints.kind is None:
        refuse_probabilities([name], values)
    if kind == "probabilities":
        refuse_percent([name], values)
    width = values.shape[1]
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
        worded = [match[0] for match in matches if match and match[2]]
        unknown = next((name for name in worded if class_of(name).lower() in UNKNOWN), unknown)
        if columns := known_family([*candidates.numbers], kind):
            return _of_columns(candidates, kind, columns, unknown)
        worded = [name for name in worded if name != unknown]
        if len(worded) > 1 and families(worded) == [sorted(worded, key=number_of)]:
            continue  # prob_class_0, prob_class_1, ...: the numbers are the classes
        is_fit = kind == "logits" or candidates.sum_to_1(worded, unknown)
        if len(worded) > 1 and is_fit:
            return _of_columns(candidates, kind, worded, unknown)
    return None


def _family_of_any_prefix(candidates: Candidates) -> Layout | None:
    """Look for class_0, class_1, ... or X1, X2, ..., whose rows sum to 1."""
    kind = candidates.hints.kind
    if kind == "confidence":
        return None
    unknown = first_named(candidates.numbers, UNKNOWN)
    found: list[list[str]] = []
    for family in families([name for name in candidates.numbers if name != unknown]):
        fits = kind == "logits" or candidates.sum_to_1(family, unknown)
        if fits and (candidates.values(family) % 1 > 0).any():
            found.append(family)
    if not found:
        return None
    if len(found) > 1:
        both = " and ".join(f"{family[0]} to {family[-1]}" for family in found[:2])
        raise ValueError(
            f"the columns {both} may both hold predictions: name those of the classes, "
            "columns=['FIRST', 'SECOND']"
        )
    return _of_columns(candidates, kind or "probabilities", found[0], unknown)


def _called_as_classes(candidates: Candidates) -> Layout | None:
    """Look at all other columns of fractions, which must sum to 1: a file may hold anything."""
    unknown = first_named(candidates.numbers, UNKNOWN)
    names: list[str] = []
    for name, column in candidates.numbers.items():
        is_fraction = column.dtype.kind == "f" and np.isfinite(column).any()
        is_count = not has_fractions(column) and np.nanmax(column, initial=0) > 1
        if is_fraction and not is_count and name != unknown and name.lower() not in CONFIDENCE:
            names.append(name)
    kind = candidates.hints.kind
    if len(names) < 2 or kind == "confidence":
        return None
    if kind == "logits":
        return _of_columns(candidates, "logits", names, unknown)
    if candidates.sum_to_1(names, unknown):
        return _of_columns(candidates, "probabilities", _with_zeros(candidates, names), unknown)
    # Among other numbers: those that have the names of the labels.
    labels = {word.casefold() for word in candidates.label_names}
    called = [name for name in names if name.casefold() in labels]
    if len(called) == len(labels) and candidates.sum_to_1(called, unknown):
        return _of_columns(candidates, "probabilities", called, unknown)
    return None


def _with_zeros(candidates: Candidates, names: Sequence[str]) -> list[str]:
    """Return columns of classes with those that are named after a label and hold 0 alone so far.

    A column that is written as 0 in the first rows is one of whole numbers.
    """
    labels = {word.casefold() for word in candidates.label_names}
    columns: list[str] = []
    for name, column in candidates.numbers.items():
        is_zero = column.dtype.kind in "iu" and not column.any() and name.casefold() in labels
        if name in names or is_zero:
            columns.append(name)
    return columns


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
    if hints.label is not None and predicted is None:
        # What a pipeline calls its label is its answer, where the user names another column.
        predicted = first_named(candidates.table, LABEL)
    if predicted and candidates.labels is not None:
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
        if candidates.hints.kind is None and kind == "probabilities":
            refuse_confidence(name, candidates.numbers[name], answers, candidates.labels)
        return _one_score(candidates, kind, name)
    return _score_of_a_name(candidates) or _score_as_answer(candidates)


def _score_of_a_name(candidates: Candidates) -> Layout | None:
    """Look for one column such as prob_yes, the probability of one of two labels."""
    matches = map(OF_A_CLASS["probabilities"].fullmatch, candidates.numbers)
    named = [(match[0], match[2]) for match in matches if match and match[2]]
    if len(named) != 1 or candidates.hints.kind not in (None, "probabilities"):
        return None
    column, name = named[0]
    labels = [*candidates.label_names]
    same = [label for label in labels if label.casefold() == name.casefold()]
    if len(labels) == 2 and len(same) == 1:
        others = [label for label in labels if label != same[0]]
        return Layout("probabilities", (column,), (others[0], same[0]), is_score=True)
    if truth_of(name) != 0 and {*map(truth_of, labels)} <= {0, 1}:
        return _one_score(candidates, "probabilities", column)
    return None


def _score_as_answer(candidates: Candidates) -> Layout | None:
    """Look for fractions where answers would be, as Keras and xgboost return them."""
    name = first_named(candidates.numbers, PREDICTED)
    if name is None or candidates.hints.kind not in (None, "probabilities"):
        return None
    scores = candidates.numbers[name]
    if not has_fractions(scores) or not np.mean((scores >= 0) & (scores <= 1)) > 0.5:
        return None
    refuse_confidence(name, scores, None, candidates.labels)
    return _one_score(candidates, "probabilities", name)


def _one_score(candidates: Candidates, kind: ContentKind, name: str) -> Layout:
    scores = candidates.numbers[name]
    if candidates.hints.kind is None:
        refuse_one_class(name, scores)
        if kind == "logits":
            refuse_probabilities([name], scores[:, None])
    classes = _class_names(candidates, BINARY, unknown=False)
    return Layout(kind, (name,), classes, is_score=True)


def _of_columns(
    candidates: Candidates, kind: ContentKind, names: Sequence[str], unknown: str | None
) -> Layout:
    """Return the layout of one column per class.

    A column of belief in unknown belongs to them unless they sum to 1 without it.
    """
    refuse_incomplete(names, candidates.values(names))
    if kind == "logits" and candidates.hints.kind is None:
        refuse_probabilities(names, candidates.values(names))
    if kind == "probabilities":
        refuse_percent(names, candidates.values(names))
    has_unknown = bool(candidates.hints.unknown)
    columns = tuple(names)
    if unknown is not None and candidates.hints.unknown is not False:
        has_unknown = has_unknown or kind == "logits" or not candidates.sum_to_1(names)
        if has_unknown:
            columns = (*names, unknown)
    classes = _called(columns[: len(names)], candidates.label_names)
    if len(columns) > len(names):
        classes = (*classes, class_of(columns[-1]))
    return Layout(kind, columns, _class_names(candidates, classes, has_unknown), has_unknown)


def _called(names: Sequence[str], labels: Sequence[str]) -> tuple[str, ...]:
    """Return the classes that columns are named after."""
    if [sorted(names, key=number_of)] == families(names):
        return tuple(str(number_of(name)) for name in names)
    classes = tuple(class_of(name) for name in names)
    if all(name.startswith(CLASS_PREFIX) for name in names):
        return tuple(name.removeprefix(CLASS_PREFIX) for name in names)
    return names_of_classes(classes, labels)


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
    if np.mean(are_probabilities(values)) > 0.5:
        return "probabilities"
    if np.nanmin(values, initial=0) < 0:
        return "logits"
    finite = values[np.isfinite(values).all(axis=1)]
    if not len(finite):
        return "probabilities"  # whatever they are, no row is good
    total = np.median(finite.sum(axis=1))
    percent = " (are they percent? Divide them by 100)" if are_percent(values) else ""
    raise ValueError(
        f"the rows sum to {total:.4g}{percent} and none of their values is negative, expected "
        "probabilities that sum to 1, or logits: say kind='logits' if they are logits, or divide "
        "each row by its sum"
    )


def _kind_of_scores(values: Array) -> ContentKind:
    return "probabilities" if np.mean((values >= 0) & (values <= 1)) > 0.5 else "logits"


# In this order: the first that finds predictions has understood the file.
LOOKS = (
    _named_columns,
    _list_by_name,
    _column_of_each_class,
    _family_of_any_prefix,
    _called_as_classes,
    _confidence,
    _score,
    _only_list,
)
