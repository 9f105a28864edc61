"""Say why a file is not understood, and what would settle it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from socrates.arrays.open import Array
from socrates.report.words import first_of

from .class_columns import are_percent, are_probabilities, families
from .layout import LABEL, PREDICTED, first_named
from .read.columns import FEW_ODD, FEW_PERCENT, Column, Words, numbers_of
from .true_class import arrays_of, has_fractions

MOST_NAMED = 12  # columns in a message
FEW = 10  # rows below this say nothing
OF_A_MODEL = re.compile(r"logit|log_?prob|log_?soft|output|pred|score", re.IGNORECASE)
NEARLY_A_NUMBER = re.compile(r"-?[\d.,]*\d ?%?")


def refuse_percent(names: Sequence[str], values: Array) -> None:
    """Raise if rows of probabilities sum to 100."""
    if are_percent(values):
        raise ValueError(
            f"the rows of {first_of(names, most=3)} sum to 100, expected probabilities that sum to "
            "1: divide percent by 100"
        )


def refuse_incomplete(names: Sequence[str], values: Array) -> None:
    """Raise if more than a few rows have values of some of the classes alone."""
    is_missing = np.isnan(values)
    partial = int((is_missing.any(axis=1) & ~is_missing.all(axis=1)).sum())
    if partial > max(FEW_ODD, FEW_PERCENT * len(values)):
        raise ValueError(
            f"{partial} of the first {len(values)} rows of {first_of(names, most=3)} hold some of "
            "the classes alone, such as the top ones: write the probabilities of all classes "
            "(top_k=None)"
        )


def refuse_probabilities(names: Sequence[str], values: Array) -> None:
    """Raise if what is called logits are probabilities."""
    finite = values[np.isfinite(values).all(axis=1)]
    if len(finite) < 2 or not (finite % 1 != 0).any():
        return
    if values.shape[1] == 1:
        are_shares = len(finite) >= FEW and finite.min() >= 0 and finite.max() <= 1
    else:
        are_shares = are_probabilities(finite).mean() > 0.99
    if are_shares:
        raise ValueError(
            f"{first_of(names, most=3)} are called logits, but hold probabilities: say "
            "kind='probabilities' if so, kind='logits' if they are logits"
        )


def refuse_other_values(name: str) -> None:
    """Raise unless the name of rows of any numbers says that a model returned them."""
    if not OF_A_MODEL.search(name):
        raise ValueError(
            f"{name} holds rows of numbers, some below 0: logits, or margins, features, "
            "embeddings? Say kind='logits' if a softmax of them gives the probabilities"
        )


def refuse_confidence(name: str, scores: Array, answers: str | None, labels: Words | None) -> None:
    """Raise if scores look like the confidence in answers, which are beside them or left out."""
    if (scores < 0.5).any():
        return
    both = labels is not None and len(labels.names) > 1 and len(scores) >= 2 * FEW
    if answers is None and (not both or (scores == scores[0]).all()):
        return
    beside = f", and {answers} holds answers" if answers else ", though labels differ"
    raise ValueError(
        f"{name} is never below 0.5{beside}: is it the confidence in an answer? Say "
        f"kind='confidence' with columns=[{name!r}] if so, kind='probabilities' if it is that of "
        "class 1"
    )


def refuse_one_class(name: str, scores: Array) -> None:
    """Raise if every score is 1, as a softmax of one output has it."""
    if len(scores) > 1 and (scores == 1).all():
        raise ValueError(
            f"{name} is 1 in every row: is it the softmax of one output? Write the probability of "
            "each class, or of class 1; say kind='probabilities' if that is what it is"
        )


def refuse_no_predictions(table: Mapping[str, Column], others: Mapping[str, Column]) -> None:
    """Raise for a file in which no predictions are found, with the cause where it is known."""
    _refuse_words(others)
    numbers = arrays_of(others, ndim=1)
    fractions = {
        name: column
        for name, column in numbers.items()
        if column.dtype.kind == "f" and np.isfinite(column).any()
    }
    for family in (*families([*numbers]), [*numbers], [*fractions]):
        if len(family) > 1:
            refuse_percent(family, np.stack([numbers[name] for name in family], axis=1))
    if len(fractions) > 1:
        values = np.stack([*fractions.values()], axis=1)
        if 0 < np.nansum(values, axis=1).max() <= 1.02:
            refuse_incomplete([*fractions], values)
    answers = first_named(others, PREDICTED)
    if answers and not has_fractions(numbers.get(answers, np.zeros(0))):
        raise ValueError(
            f"{answers} holds answers, and no column their probabilities: write the probability of "
            "each class, or the confidence in each answer, in a column called confidence"
        )
    raise ValueError(
        f"no predictions are found in the columns {first_of(table, most=MOST_NAMED)}, expected "
        "p0, p1, ... or names of classes that sum to 1, or one score p; or confidence with "
        "correct: name the columns of the classes, columns=['FIRST', 'SECOND'], and say "
        "kind='logits' if they hold logits"
    )


def _refuse_words(table: Mapping[str, Column]) -> None:
    """Raise if numbers are written in a way that makes them words, such as 12.5% or 0,125."""
    for name, column in table.items():
        example = column.names[0] if isinstance(column, Words) and column.names else ""
        if isinstance(column, Words) and (odd := _odd_among_numbers(column)):
            raise ValueError(
                f"column {name!r} holds words such as {odd!r} among its numbers: write each of its "
                "values as a number"
            )
        if NEARLY_A_NUMBER.fullmatch(example):
            raise ValueError(
                f"column {name!r} holds words such as {example!r}, expected numbers: with a "
                "decimal point, and shares instead of percentages"
            )
        if example[:1] in ("[", "{", "("):
            raise ValueError(
                f"column {name!r} holds lists that are written as text, such as {example[:40]!r}: "
                "write one column per class, or save it as Parquet or JSON lines"
            )


def _odd_among_numbers(column: Words) -> str | None:
    """Return the first word of a column that holds numbers for the most part, if it does."""
    numbers = numbers_of(column.names)
    if np.isfinite(np.append(numbers, np.nan)[column.codes]).mean() <= 0.5:
        return None
    return column.names[int(np.isnan(numbers).argmax())]


def refuse_without_labels(table: Mapping[str, Column]) -> None:
    """Raise for a file without labels."""
    columns = first_of(table, most=MOST_NAMED)
    odd = first_named(table, LABEL)
    but = f" ({odd} holds lists or fractions, not one class per row)" if odd else ""
    raise ValueError(
        f"no labels are found in the columns {columns}{but}, expected {', '.join(LABEL)}: name the "
        "column, label_column='NAME', or pass a file of labels, labels='FILE'"
    )
