"""The columns that may hold predictions, and what a user says about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from socrates.arrays.open import Array
from socrates.report.words import first_of

from .class_columns import are_probabilities
from .layout import KINDS, VALUES, ContentKind
from .read.columns import Column, Words
from .true_class import arrays_of

MOST_NAMED = 12  # columns in a message


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
    labels_apart: Words | None = None  # where the labels have a file of their own

    def check(self, table: Mapping[str, Column]) -> None:
        """Raise unless the file has the columns that are named."""
        if self.kind not in (None, *KINDS):
            raise ValueError(f"kind={self.kind!r}, expected one of {', '.join(KINDS)}")
        for name in filter(None, (self.label, self.weight, *self.groups, *self.columns)):
            if name not in table:
                columns = first_of(table, most=MOST_NAMED)
                raise ValueError(f"there is no column {name!r}: the columns are {columns}")


@dataclass(frozen=True)
class Candidates:
    """The columns that may hold predictions, what the user says about them, and the labels."""

    table: Mapping[str, Column]
    hints: Hints
    labels: Words | None

    @cached_property
    def numbers(self) -> dict[str, Array]:
        """Return the columns of one number per row."""
        return arrays_of(self.table, ndim=1)

    @cached_property
    def lists(self) -> dict[str, Array]:
        """Return the columns of several numbers per row."""
        return arrays_of(self.table, ndim=2)

    @property
    def label_names(self) -> Sequence[str]:
        """Return the labels that were seen."""
        return () if self.labels is None else self.labels.names

    def kinds(self) -> list[ContentKind]:
        """Return the kinds of values of classes that are possible."""
        return [kind for kind in VALUES if self.hints.kind in (None, kind)]

    def values(self, names: Sequence[str]) -> Array:
        """Return some columns of numbers as (N, C)."""
        return np.stack([self.numbers[name] for name in names], axis=1).astype(np.float64)

    def sum_to_1(self, names: Sequence[str], unknown: str | None = None) -> bool:
        """Return whether most rows of these columns are probabilities, alone or with unknown."""
        if len(names) > 1 and np.mean(are_probabilities(self.values(names))) > 0.5:
            return True
        return unknown is not None and self.sum_to_1([*names, unknown])
