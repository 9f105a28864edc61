"""Columns within columns: dictionaries of probabilities, and lists of labels with their scores.

A column `probs` that holds {"cat": 0.9, "dog": 0.1} in each row is shown as the columns `probs.cat`
and `probs.dog`. So is what a pipeline of transformers returns, [{"label": "cat", "score": 0.9},
...], whatever its order. Spark's vectors are shown as lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

SCORES = ("score", "probability", "prob", "confidence")
MOST_INSIDE = 100_000  # columns within one column


def as_mapping(value: Any) -> dict[str, Any] | None:
    """Return what a value holds by name, None where it holds nothing by name.

    >>> as_mapping([{"label": "dog", "score": 0.6}, {"label": "cat", "score": 0.4}])
    {'dog': 0.6, 'cat': 0.4}
    """
    if isinstance(value, dict):
        return None if _vector(value) is not None else value
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(entry, tuple) and len(entry) == 2 for entry in value):  # a map of Arrow
        return {str(key): entry for key, entry in value}
    scores: dict[str, Any] = {}
    for entry in value:
        names = entry if isinstance(entry, dict) else {}
        score = next((names[name] for name in SCORES if name in names), None)
        if score is None or "label" not in names:
            return None
        scores[str(names["label"])] = score
    return scores


def _vector(value: Mapping[str, Any]) -> list[float] | None:
    """Return a vector of Spark as a list, None if this is none."""
    values = value.get("values")
    if "type" not in value or not isinstance(values, list):
        return None
    if value["type"] == 1:
        return values
    size = value.get("size")
    indices = value.get("indices")
    if not isinstance(size, int) or not isinstance(indices, list) or size > MOST_INSIDE:
        return None
    dense = [0.0] * size
    for place, number in zip(indices, values, strict=False):
        if not isinstance(place, int) or not 0 <= place < size:
            return None
        dense[place] = number
    return dense


def plain(value: Any) -> Any:
    """Return a vector of Spark as a list, and all else as it is."""
    vector = _vector(value) if isinstance(value, dict) else None
    return value if vector is None else vector


class NestedColumns:
    """Which columns are within which; the first rows decide."""

    def __init__(self) -> None:
        self.inside: dict[str, tuple[str, str]] = {}

    def first_rows(self, table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """Return all columns, with those within others in their place."""
        shown: dict[str, list[Any]] = {}
        for name, values in table.items():
            mappings = [as_mapping(value) for value in values]
            if not any(mappings):
                shown[name] = [plain(value) for value in values]
                continue
            keys = dict.fromkeys(str(key) for mapping in mappings for key in mapping or ())
            for key in [*keys][:MOST_INSIDE]:
                full = f"{name}.{key}"
                if full not in table:
                    self.inside[full] = (name, key)
                    shown[full] = [None if row is None else row.get(key) for row in mappings]
        return shown

    def outer(self, names: Iterable[str]) -> list[str]:
        """Return the columns that hold these."""
        return list(dict.fromkeys(self.inside.get(name, (name, ""))[0] for name in names))

    def columns(
        self, names: Iterable[str], values_of: Callable[[str], Sequence[Any]]
    ) -> dict[str, list[Any]]:
        """Return columns of some rows; `values_of` returns what the rows hold under a name."""
        found: dict[str, list[Any]] = {}
        mappings: dict[str, list[dict[str, Any] | None]] = {}
        for name in names:
            if name not in self.inside:
                found[name] = [plain(value) for value in values_of(name)]
                continue
            outer, key = self.inside[name]
            if outer not in mappings:
                mappings[outer] = [as_mapping(value) for value in values_of(outer)]
            found[name] = [None if row is None else row.get(key) for row in mappings[outer]]
        return found
