"""Understand what a file of predictions holds, by the names of its columns and its first rows.

What a user says goes first. What cannot be understood beyond doubt is refused, with the words that
would settle it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .agreement import refuse_other_predictions
from .candidates import Candidates, Hints
from .layout import PREDICTED, WEIGHT, Layout, first_named
from .looks import LOOKS
from .read.columns import Column
from .refuse import refuse_no_predictions, refuse_without_labels
from .true_class import TrueClass, answer_mode, arrays_of, find_labels, words_of


def understand(table: Mapping[str, Column], hints: Hints) -> Layout:
    """Return the layout of a file with these first rows.

    >>> import numpy as np
    >>> rows = {"y": np.array([0, 1]), "p0": np.array([0.9, 0.6]), "p1": np.array([0.1, 0.4])}
    >>> understand(rows, Hints()).words
    'probabilities of 2 classes (p0, p1), labels in y'
    """
    hints.check(table)
    weight = hints.weight or first_named(table, WEIGHT)
    lists = arrays_of(table, ndim=2)
    for name in filter(None, (weight, *hints.groups)):
        if name in lists:
            raise ValueError(f"column {name!r} holds a list in each row, expected one value")
    true = TrueClass(words=hints.labels_apart)
    if hints.labels_apart is None:
        without = {name: column for name, column in table.items() if name != weight}
        true = find_labels(without, hints.label)
    # A column of answers may be a group, too.
    groups = [name for name in hints.groups if name.lower() not in PREDICTED]
    apart = (*groups, weight, true.label, *true.one_hot, *true.others)
    others = {name: table[name] for name in table if name not in apart}
    candidates = Candidates(others, hints, true.words)
    layout = next(filter(None, (look(candidates) for look in LOOKS)), None)
    if layout is None:
        refuse_no_predictions(table, others)
        raise AssertionError
    refuse_other_predictions(candidates, layout)
    if layout.correct:
        return replace(layout, groups=hints.groups, weight=weight)
    if true.words is None:
        refuse_without_labels(table)
        raise AssertionError
    if true.others and not true.must_agree:
        named = words_of(table[true.others[0]])
        if all(layout.names.number(word, "name") is not None for word in named.names):
            true = TrueClass(true.others[0], words=named)
    assert true.words is not None
    mode = layout.names.best_mode(true.words.names)
    if layout.predicted:
        mode = answer_mode(true, words_of(table[layout.predicted]), layout.predicted)
    return replace(
        layout,
        label=true.label,
        one_hot=true.one_hot,
        other_labels=true.others if true.must_agree else (),
        groups=hints.groups,
        weight=weight,
        mode=mode,
        has_named_classes=bool(hints.classes),
    )
