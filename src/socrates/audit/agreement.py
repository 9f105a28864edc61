"""Compare predictions with others beside them: a file that holds both must mean one thing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from socrates.arrays.open import Array

from .candidates import Candidates
from .class_columns import are_probabilities, known_family
from .layout import OF_A_CLASS, VALUES, Layout, class_of, first_named
from .true_class import has_fractions

MOST_DIFFERENCE = 0.02  # of a probability, in the middle one of the rows


def refuse_other_predictions(candidates: Candidates, layout: Layout) -> None:
    """Raise if the file also holds other probabilities, or logits with another softmax."""
    hints = candidates.hints
    if layout.kind != "probabilities" or hints.kind or hints.columns:
        return
    probs = _values(candidates, layout)
    for name, others in _others(candidates, layout):
        if others.shape != probs.shape:
            continue
        finite = np.isfinite(others).all(axis=1) & np.isfinite(probs).all(axis=1)
        differences = np.abs(others[finite] - probs[finite]).max(axis=1)
        if len(differences) and np.median(differences) > MOST_DIFFERENCE:
            first = layout.columns[0]
            raise ValueError(
                f"{first} and {name} may both be predictions, and differ by "
                f"{np.median(differences):.2g}: say which to judge, by its columns, "
                f"columns=[{first!r}], or by kind='probabilities' or kind='logits'"
            )


def _values(candidates: Candidates, layout: Layout) -> Array:
    """Return the probabilities of a layout, one column per class or that of class 1 alone."""
    if layout.is_matrix:
        return candidates.lists[layout.columns[0]]
    return candidates.values(layout.columns)


def _others(candidates: Candidates, layout: Layout) -> Iterator[tuple[str, Array]]:
    """Yield the names of other predictions, and what they say as probabilities."""
    # One letter may name anything: p a p-value, z a place.
    words = {kind: [word for word in VALUES[kind] if len(word) > 1] for kind in VALUES}
    for name, values in (candidates.lists if layout.is_matrix else {}).items():
        is_other = name.lower() in words["probabilities"] and name not in layout.columns
        if is_other and np.mean(are_probabilities(values)) > 0.5:
            yield name, values
    if layout.is_score:
        for name, scores in candidates.numbers.items():
            is_other = name.lower() in words["probabilities"] and name not in layout.columns
            if is_other and has_fractions(scores) and not ((scores < 0) | (scores > 1)).any():
                yield name, scores[:, None].astype(np.float64)
        if name := first_named(candidates.numbers, words["logits"]):
            with np.errstate(over="ignore"):
                yield name, 1 / (1 + np.exp(-candidates.values([name])))
        return
    name, logits = _logits(candidates, layout, words["logits"])
    if logits is not None:
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        yield name, odds / odds.sum(axis=1, keepdims=True)


def _logits(candidates: Candidates, layout: Layout, words: list[str]) -> tuple[str, Array | None]:
    """Return logits in the order of the classes of some probabilities, and their first name."""
    if name := first_named(candidates.lists, words):
        return name, candidates.lists[name]
    columns = [name for name in candidates.numbers if name[:1] not in "zZ"]
    known = known_family(columns, "logits")
    if not known:
        matches = map(OF_A_CLASS["logits"].fullmatch, columns)
        known = [match[0] for match in matches if match and match[2]]
    of_class = {class_of(name).casefold(): name for name in known}
    classes = [class_of(name).casefold() for name in layout.columns]
    if layout.is_matrix:
        classes = [name.casefold() for name in layout.classes]
    if not classes or any(name not in of_class for name in classes):
        return "", None
    return of_class[classes[0]], candidates.values([of_class[name] for name in classes])
