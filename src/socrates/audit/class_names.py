"""Which class a label means: by name, by what it means (yes, true, 1), or by its place.

Names go first. Places count only where no class has a number for a name, and where the names do
not say themselves which of two classes is true.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from socrates.arrays.content import number_word, truth_of

LabelMode = Literal["name", "meaning", "place"]
MODES: tuple[LabelMode, ...] = ("name", "meaning", "place")
_MARK = re.compile(r"[_ .:(=-]")
BOOLEANS = {"false": 0, "true": 1, "no": 0, "yes": 1}


def _without_case(word: str) -> str:
    return number_word(word).casefold()


def _as_in_r(word: str) -> str:
    """Return a name as R's make.names would, whose columns start with X instead of a digit."""
    return re.sub(r"^x(?=\d)", "", re.sub(r"[^0-9a-z]+", ".", _without_case(word)))


FOLDS = (str, number_word, _without_case, _as_in_r)


@dataclass(frozen=True)
class ClassNames:
    """The names of the classes, and other names that their columns have.

    >>> pets = ClassNames(("cat", "dog"), ("prob_cat", "prob_dog"))
    >>> pets.number("Dog", "name"), pets.number("prob_cat", "name"), pets.number("1", "place")
    (1, 0, 1)
    """

    names: tuple[str, ...]
    others: tuple[str, ...] = ()

    @cached_property
    def _tables(self) -> list[dict[str, int]]:
        """Return the place of each name, as it is and with less and less of how it is written."""
        tables: list[dict[str, int]] = []
        for names in filter(None, (self.names, self.others)):
            for fold in FOLDS:
                table = {fold(name): place for place, name in enumerate(names)}
                tables.append(table if len(table) == len(names) else {})
        return tables

    @cached_property
    def _endings(self) -> dict[str, int]:
        """Return the place of each column by what follows one of the marks in its name."""
        places: dict[str, int] = {}
        for place, name in enumerate(self.others):
            for mark in _MARK.finditer(name):
                ending = _without_case(name[mark.end() :].rstrip(")]"))
                if places.setdefault(ending, place) != place:
                    places[ending] = -1
        return places

    @cached_property
    def are_numbers(self) -> bool:
        """Return whether every class has a number for a name."""
        return all(number_word(name).lstrip("-").isdecimal() for name in self.names)

    @cached_property
    def truths(self) -> dict[int, int]:
        """Return the places of no and yes, nothing where the names do not mean these."""
        meanings = {truth_of(name): place for place, name in enumerate(self.names)}
        is_truth = len(self.names) == 2 and {*meanings} == {0, 1}
        return {truth: place for truth, place in meanings.items() if is_truth and truth is not None}

    def number(self, word: str, mode: LabelMode) -> int | None:
        """Return the class of a label, None if it is none of them."""
        if mode == "name":
            for fold, table in zip(FOLDS * 2, self._tables, strict=False):
                place = table.get(fold(word))
                if place is not None:
                    return place
            ending = self._endings.get(_without_case(word), -1)
            return None if ending < 0 else ending
        if mode == "meaning":
            truth = truth_of(word)
            return None if truth is None else self.truths.get(truth)
        if self.are_numbers or self.truths:
            return None
        number = number_word(word)
        if len(self.names) == 2 and word.casefold() in BOOLEANS:
            return BOOLEANS[word.casefold()]
        is_place = number.isdecimal() and len(number) < 10 and int(number) < len(self.names)
        return int(number) if is_place else None

    def best_mode(self, words: Iterable[str]) -> LabelMode:
        """Return the first way of reading labels that makes most of these words classes."""
        seen = list(words)

        def known(mode: LabelMode) -> int:
            return sum(self.number(word, mode) is not None for word in seen)

        return max(MODES, key=known)  # the first of equals


def alphabetical(names: Sequence[str]) -> list[int]:
    """Return the class that each number means where numbers count names in alphabetical order."""
    return sorted(range(len(names)), key=lambda place: names[place])
