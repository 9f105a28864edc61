"""Which rows of a batch are no predictions, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from socrates.metrics.arrays import row_sums
from socrates.metrics.predictions import HALF_TOLERANCE, ROW_SUM_TOLERANCE, Array
from socrates.metrics.samples import of_half_precision

from .columns import NO_CLASS, Layout
from .table import MISSING

NAMED = 5  # bad rows of which the line is kept
_LOGITS = "if they are logits, say kind='logits'"
# What is wrong with a row, and what to do where it is wrong with most of them.
FAULTS = {
    "cannot be read": "look at these lines: is the delimiter right, is each line whole?",
    "holds NaN, infinity or no number": "look for the cause in the model, or in what wrote the file",
    "holds a negative probability": _LOGITS,
    "does not sum to 1": f"{_LOGITS}; else divide each row by its sum",
    "holds a number outside 0 to 1": "expected a probability: divide percentages by 100",
    "believes in unknown alone": "there is nothing to judge: say unknown=False if that column is none",
    "has no label": "drop what has no label, or name the column that has it, label_column='NAME'",
    "has a label that is none of the classes": "expected names of classes or numbers from 0: tell the names "
    "in the order of the columns, classes=['FIRST', 'SECOND']",
    "has no weight of at least 0": "name another column of weights, or none",
}
UNREADABLE, NOT_FINITE, NEGATIVE, SUM, RANGE, UNKNOWN_ALONE, NO_LABEL, OTHER_LABEL, WEIGHT = FAULTS


@dataclass(frozen=True)
class BadRows:
    """Rows that were left out: how many for which reason, and where the first of them stand.

    >>> bad = BadRows("line", Counter({"has no label": 2}), ((7, "has no label"), (9, "has no label")))
    >>> bad.words, (bad + bad).count
    ('2 bad rows were left out: line 7 has no label, line 9 has no label', 4)
    """

    unit: str  # "line" from 1 with the header, or "row" from 0
    reasons: Counter[str] = field(default_factory=Counter)
    first: tuple[tuple[int, str], ...] = ()

    @property
    def count(self) -> int:
        return sum(self.reasons.values())

    @property
    def words(self) -> str:
        """How many, and the first of them."""
        if not self.count:
            return "all rows were read"
        named = ", ".join(f"{self.unit} {line} {why}" for line, why in self.first)
        more = ", ..." if self.count > len(self.first) else ""
        return f"{self.count} bad row{'s were' if self.count > 1 else ' was'} left out: {named}{more}"

    def __add__(self, other: BadRows) -> BadRows:
        return BadRows(self.unit, self.reasons + other.reasons, (*self.first, *other.first)[:NAMED])


def described(fault: str, values: Array, label: str) -> str:
    """A fault in the words of its row.

    >>> described("does not sum to 1", np.array([0.5, 0.4]), "0")
    'sums to 0.9, expected 1'
    """
    if fault == SUM:
        return f"sums to {values.sum(dtype=np.float64):.4g}, expected 1"
    return f"has the label {label!r}, which is none of the classes" if fault == OTHER_LABEL else fault


def faults_of(values: Array, labels: Array, weight: Array | None, layout: Layout) -> tuple[Array, Array]:
    """What is wrong with each row, as its place in `FAULTS`, -1 for nothing; and the rows to be divided by their sum.

    Args:
        values: (N, C) probabilities or logits, or (N,) confidence.
        labels: (N,) as `Layout.class_numbers` gives them.
        weight: (N,) or None.
        layout: what the values are.

    >>> layout = Layout("probabilities", ("p0", "p1"), ("0", "1"))
    >>> faults, _ = faults_of(np.array([[0.5, 0.5], [0.5, 0.4], [0.5, 0.5]]), np.array([0, 1, MISSING]), None, layout)
    >>> [[*FAULTS][fault] for fault in faults[1:]]
    ['does not sum to 1', 'has no label']
    """
    found: dict[str, Array] = {NO_LABEL: labels == MISSING, OTHER_LABEL: labels == NO_CLASS}
    if weight is not None:
        found[WEIGHT] = ~((weight >= 0) & (weight < np.inf))
    rounded = np.zeros(0, np.intp)
    with np.errstate(all="ignore"):
        if layout.kind == "confidence":
            found |= {NOT_FINITE: np.isnan(values), RANGE: (values < 0) | (values > 1)}
        elif layout.kind == "logits":
            found |= _faults_of_logits(values, len(layout.classes))
        else:
            more, rounded = _faults_of_probabilities(values, layout)
            found |= more
    faults = np.full(len(values), -1, np.int8)
    for place, name in reversed([*enumerate(FAULTS)]):
        if name in found:
            faults[found[name]] = place
    return faults, rounded[faults[rounded] < 0]


def _faults_of_logits(values: Array, num_known: int) -> dict[str, Array]:
    """A softmax needs a finite maximum; -infinity masks a class."""
    off = np.flatnonzero(~np.isfinite(row_sums(values)))
    bad = np.zeros(len(values), np.bool_)
    bad[off] = ~(np.isfinite(values[off].max(axis=1)) & np.isfinite(values[off, :num_known].max(axis=1)))
    return {NOT_FINITE: bad}


def _faults_of_probabilities(values: Array, layout: Layout) -> tuple[dict[str, Array], Array]:
    """Rows at fault, and rows that sum to 1 but for the digits they are written with."""
    sums = row_sums(values)
    found: dict[str, Array] = {NOT_FINITE: np.logical_not(np.isfinite(sums))}
    if not values.min(initial=0) >= 0:  # a NaN is no less
        found[RANGE if layout.is_score else NEGATIVE] = np.asarray((values < 0).any(axis=1))
    off = np.flatnonzero(~(np.abs(sums - 1) <= 0.999 * ROW_SUM_TOLERANCE))  # well within what metrics take
    rounded = off[_written_with_few_digits(values[off].astype(np.float64), sums[off], values.dtype)]
    found[SUM] = np.zeros(len(values), np.bool_)
    found[SUM][off] = ~(np.isin(off, rounded) | of_half_precision(values[off], sums[off], 0.999 * HALF_TOLERANCE))
    if layout.unknown:
        found[UNKNOWN_ALONE] = np.asarray((values[:, :-1] <= 0).all(axis=1))
    return found, rounded


def _written_with_few_digits(rows: Array, sums: Array, dtype: Any) -> Array:
    """Whether rows of d decimals sum to 1 within half a unit of the last of them for each class."""
    fits = np.zeros(len(rows), np.bool_)
    for digits in range(2, 6):
        scaled = rows * 10**digits
        whole = np.abs(scaled - np.rint(scaled)).max(axis=1, initial=0) < 10**digits * 2 * np.finfo(dtype).eps
        fits |= whole & (np.abs(sums - 1) <= 1.001 * min(HALF_TOLERANCE, 0.5 * rows.shape[1] / 10**digits))
    return fits
