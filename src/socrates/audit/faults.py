"""Which rows of a file are not predictions, and what is wrong with them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from socrates.arrays.content import (
    ROUNDED_TOLERANCE,
    ROW_SUM_TOLERANCE,
    were_half_precision,
    were_written_with_few_decimals,
)
from socrates.arrays.open import Array, row_sums

from .layout import Layout
from .read.columns import MISSING, MISSING_WORDS, Words

NAMED = 5  # bad rows whose line is kept
MOST_ROUNDED = 0.5  # of the sum of a row that its digits may explain
NO_CLASS = -2  # the number of a label that is none of the classes
_LOGITS = "if they are logits, say kind='logits'"
# What is wrong with a row, and what to do if it is wrong with most of them.
FAULTS = {
    "cannot be read": "look at these lines: is the delimiter right, is each line whole?",
    "holds NaN, infinity or no number": (
        "look for the cause in the model, or in what wrote the file"
    ),
    "holds a negative probability": _LOGITS,
    "does not sum to 1": f"{_LOGITS}; else divide each row by its sum",
    "holds a number outside 0 to 1": "expected a probability: divide percent by 100",
    "believes in unknown alone": (
        "there is nothing to judge: say unknown=False if that column is something else"
    ),
    "has no label": "drop what has no label, or name the column that has it, label_column='NAME'",
    "has a label that is none of the classes": (
        "expected names of classes or numbers from 0: pass the names in the order of the columns, "
        "classes=['FIRST', 'SECOND']"
    ),
    "has no weight of at least 0": "name another column of weights, or none",
}
UNREADABLE, NOT_FINITE, NEGATIVE, SUM, RANGE, UNKNOWN_ALONE, NO_LABEL, OTHER_LABEL, WEIGHT = FAULTS


@dataclass(frozen=True)
class BadRows:
    """Rows that were left out: how many for which reason, and where the first of them are.

    >>> counts = Counter({"has no label": 2})
    >>> bad = BadRows("line", counts, ((7, "has no label"), (9, "has no label")))
    >>> bad.words, (bad + bad).count
    ('2 bad rows were left out: line 7 has no label, line 9 has no label', 4)
    """

    unit: str  # "line" from 1 with the header, or "row" from 0
    reasons: Counter[str] = field(default_factory=Counter)
    first: tuple[tuple[int, str], ...] = ()

    @property
    def count(self) -> int:
        """Return how many rows were left out."""
        return sum(self.reasons.values())

    @property
    def words(self) -> str:
        """Say how many rows were left out, and which were the first."""
        if not self.count:
            return "all rows were read"
        named = ", ".join(f"{self.unit} {line} {reason}" for line, reason in self.first)
        more = ", ..." if self.count > len(self.first) else ""
        rows = "rows were" if self.count > 1 else "row was"
        return f"{self.count} bad {rows} left out: {named}{more}"

    def __add__(self, other: BadRows) -> BadRows:
        first = (*self.first, *other.first)[:NAMED]
        return BadRows(self.unit, self.reasons + other.reasons, first)


def describe_fault(fault: str, values: Array, label: str) -> str:
    """Return a fault in the words of its row.

    >>> describe_fault("does not sum to 1", np.array([0.5, 0.4]), "0")
    'sums to 0.9, expected 1'
    """
    if fault == SUM:
        return f"sums to {values.sum(dtype=np.float64):.4g}, expected 1"
    if fault == OTHER_LABEL:
        return f"has the label {label!r}, which is none of the classes"
    return fault


def class_numbers(labels: Words, layout: Layout) -> Array:
    """Return the class of each label, `MISSING` without a label, `NO_CLASS` if it is none of them.

    >>> pets = Layout("probabilities", ("cat", "dog"), ("cat", "dog"))
    >>> class_numbers(Words.of(["dog", "Cat", None, "bird", "nan"]), pets)
    array([ 1,  0, -1, -2, -1])
    """
    numbers: list[int] = []
    for name in labels.names:
        number = layout.number(name)
        if number is None:
            number = MISSING if name in MISSING_WORDS else NO_CLASS
        numbers.append(number)
    return np.array([*numbers, MISSING])[labels.codes]


def faults_of(
    values: Array, labels: Array, weight: Array | None, layout: Layout
) -> tuple[Array, Array]:
    """Return what is wrong with each row, and which rows to divide by their sum.

    Args:
        values: (N, C) probabilities or logits, or (N,) confidence.
        labels: (N,) as `class_numbers` returns them.
        weight: (N,) or None.
        layout: what the values are.

    Returns:
        (N,) the place of a fault in `FAULTS`, -1 without one; and the places of the good rows that
        miss 1 by the rounding of few digits.

    >>> layout = Layout("probabilities", ("p0", "p1"), ("0", "1"))
    >>> probs = np.array([[0.5, 0.5], [0.5, 0.4], [0.5, 0.5]])
    >>> faults, _ = faults_of(probs, np.array([0, 1, MISSING]), None, layout)
    >>> [[*FAULTS][fault] for fault in faults[1:]]
    ['does not sum to 1', 'has no label']
    """
    at_fault: dict[str, Array] = {NO_LABEL: labels == MISSING, OTHER_LABEL: labels == NO_CLASS}
    if weight is not None:
        at_fault[WEIGHT] = ~((weight >= 0) & (weight < np.inf))
    rounded = np.zeros(0, np.intp)
    with np.errstate(all="ignore"):
        if layout.kind == "confidence":
            at_fault[NOT_FINITE] = np.isnan(values)
            at_fault[RANGE] = (values < 0) | (values > 1 + ROW_SUM_TOLERANCE)
        elif layout.kind == "logits":
            at_fault[NOT_FINITE] = _logits_at_fault(values, len(layout.classes))
        else:
            faults_of_values, rounded = _probabilities_at_fault(values, layout)
            at_fault |= faults_of_values
    faults = np.full(len(values), -1, np.int8)
    for place, name in reversed([*enumerate(FAULTS)]):  # the first fault of a row is named
        if name in at_fault:
            faults[at_fault[name]] = place
    return faults, rounded[faults[rounded] < 0]


def _logits_at_fault(values: Array, num_known: int) -> Array:
    """Return which rows have no softmax: it needs a finite maximum; -infinity masks a class."""
    suspects = np.flatnonzero(~np.isfinite(row_sums(values)))
    rows = values[suspects]
    has_maximum = np.isfinite(rows.max(axis=1))
    has_answer = np.isfinite(rows[:, :num_known].max(axis=1))
    at_fault = np.zeros(len(values), np.bool_)
    at_fault[suspects] = ~(has_maximum & has_answer)
    return at_fault


def _probabilities_at_fault(values: Array, layout: Layout) -> tuple[dict[str, Array], Array]:
    """Return rows at fault, and rows that sum to 1 but for the digits they are written with."""
    sums = row_sums(values)
    at_fault: dict[str, Array] = {NOT_FINITE: ~np.isfinite(sums)}
    if not values.min(initial=0) >= 0:  # also if there is a NaN
        at_fault[RANGE if layout.is_score else NEGATIVE] = np.asarray((values < 0).any(axis=1))
    # well within what metrics accept
    off = np.flatnonzero(~(np.abs(sums - 1) <= 0.999 * ROW_SUM_TOLERANCE))
    rows = values[off]
    few_digits = were_written_with_few_decimals(rows, sums[off], MOST_ROUNDED)
    half_precision = were_half_precision(rows, sums[off], 0.999 * ROUNDED_TOLERANCE)
    at_fault[SUM] = np.zeros(len(values), np.bool_)
    at_fault[SUM][off] = ~(few_digits | half_precision)
    if layout.unknown:
        at_fault[UNKNOWN_ALONE] = np.asarray((values[:, :-1] <= 0).all(axis=1))
    return at_fault, off[few_digits]
