"""Choice among candidates by two errors at once: the Pareto front, and one best point on it.

The best point of the front is the one nearest to the origin; a rule defines the distance, see
`RULES`. Nothing of ours is imported here; read `front` first, then `best`.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

__all__ = ["RULES", "Rule", "best", "distances", "front", "rule_of", "ties"]

Item = TypeVar("Item")
Key = Callable[[Any], Any] | None
Points = list[tuple[float, ...]]
EXPECTED = "expected (error, ece) or (error, ece, cw_ece), or a mapping with these names"

TIE = 1e-9  # distances that differ by less than this share come from rounded metrics


class Rule(NamedTuple):
    """A distance from the origin: a function of all points, and its name in a sentence."""

    measure: Callable[[Points], list[float]]
    words: str


def _sum(points: Points) -> list[float]:
    return [error + ece for error, ece, *_ in points]


def _scaled(points: Points) -> list[float]:
    errors = _in_range([point[0] for point in points])
    eces = _in_range([point[1] for point in points])
    return [math.hypot(error, ece) for error, ece in zip(errors, eces, strict=True)]


def _ece(points: Points) -> list[float]:
    return [point[1] for point in points]


# "l1" depends on the point alone, "scaled" also on how far the others spread, and "ece" takes the
# end of the front, whatever its error.
RULES: dict[str, Rule] = {
    "l1": Rule(_sum, "error + ECE"),
    "scaled": Rule(_scaled, "the straight distance, both axes scaled to the candidates' range"),
    "ece": Rule(_ece, "ECE alone"),
}


def rule_of(name: str) -> Rule:
    """Return the rule of that name.

    >>> rule_of("l1").words
    'error + ECE'
    >>> rule_of("l2")
    Traceback (most recent call last):
    ValueError: there is no rule 'l2': expected l1, scaled or ece
    """
    if name not in RULES:
        *others, last = RULES
        raise ValueError(f"there is no rule {name!r}: expected {', '.join(others)} or {last}")
    return RULES[name]


def front(points: Iterable[Item], key: Key = None) -> list[Item]:
    """Return the points that no other point dominates, by rising error.

    A point is (error, ece) or (error, ece, cw_ece), or a mapping with these names; `key` turns
    anything else into one. As with `min`, the items themselves are returned.
    Smaller is better on both axes. A point is dominated if another is at most equal on both and
    smaller on one; equal points do not dominate each other, so all copies stay, in their order.

    >>> front([(0.10, 0.03), (0.08, 0.05), (0.12, 0.04), (0.20, 0.01)])
    [(0.08, 0.05), (0.1, 0.03), (0.2, 0.01)]
    """
    items = list(points)
    return [items[i] for i in _front(_read(items, key))]


def distances(points: Iterable[Any], key: Key = None, rule: str = "l1") -> list[float]:
    """Return how far each point is from the origin, by a rule: "l1", "scaled" or "ece".

    "l1" is error + ECE and "ece" the ECE alone, both in the unit of the points. "scaled" is the
    straight distance once both axes are scaled so that the points span 0 to 1, where an axis on
    which all are equal counts as 0. See `front` for what a point may be.

    >>> points = [(0.1, 0.3), (0.3, 0.1), (0.2, 0.1)]
    >>> for rule in ("l1", "scaled", "ece"):
    ...     print([round(distance, 9) for distance in distances(points, rule=rule)])
    [0.4, 0.4, 0.3]
    [1.0, 1.0, 0.5]
    [0.3, 0.1, 0.1]
    """
    return rule_of(rule).measure(_read(list(points), key))


def ties(points: Iterable[Item], key: Key = None, rule: str = "l1") -> list[Item]:
    """Return the nearest points of the front, by rising error; several if they tie.

    See `distances` for the rules: with "scaled" all candidates, dominated ones too, decide the
    scale. Distances are equal if they differ by less than 1e-9 of their size.

    >>> ties([(0.1, 0.3), (0.2, 0.15), (0.3, 0.1)])
    [(0.2, 0.15)]
    >>> ties([(0.1, 0.2), (0.2, 0.1)])
    [(0.1, 0.2), (0.2, 0.1)]
    """
    items = list(points)
    places = _front(_read(items, key))
    distance = distances(items, key, rule)
    nearest = min(distance[i] for i in places)
    return [
        items[i] for i in places if math.isclose(distance[i], nearest, rel_tol=TIE, abs_tol=TIE)
    ]


def best(points: Iterable[Item], key: Key = None, rule: str = "l1") -> Item:
    """Return the best point: on the Pareto front, nearest to the origin, ties by class-wise ECE.

    See `front` for what a point may be and `distances` for the rules. Points that still tie, or
    have no cw_ece, go by the smaller error, then by the earlier position, so the answer never
    depends on chance.

    >>> best([(0.1, 0.2, 0.09), (0.2, 0.1, 0.05)])
    (0.2, 0.1, 0.05)
    >>> runs = {"CE": {"error": 0.08, "ece": 0.09}, "focal": {"error": 0.12, "ece": 0.02}}
    >>> runs["ours"] = (0.09, 0.01)
    >>> best(list(runs), key=lambda name: runs[name])
    'ours'
    >>> best([(0.1, 0.04), (0.2, 0.01)]), best([(0.1, 0.04), (0.2, 0.01)], rule="ece")
    ((0.1, 0.04), (0.2, 0.01))
    """
    tied = ties(points, key, rule)
    values = _read(tied, key)
    first = min(range(len(tied)), key=lambda i: (values[i][2:], values[i][0]))
    return tied[first]


def _front(points: Points) -> list[int]:
    """Return the places of the points that no other dominates, by rising error."""
    places: list[int] = []
    for i in sorted(range(len(points)), key=lambda i: (*points[i][:2], i)):
        last = points[places[-1]] if places else None
        if last is None or points[i][1] < last[1] or points[i][:2] == last[:2]:
            places.append(i)
    return places


def _in_range(values: list[float]) -> list[float]:
    """Return values scaled to span 0 to 1, all of them 0 if they are equal."""
    low = min(values)
    width = max(values) - low
    return [(value - low) / width if width > 0 else 0.0 for value in values]


def _read(items: list[Any], key: Key) -> Points:
    """Return the points of items as tuples of the same length."""
    points = [_point(i, key(item) if key else item) for i, item in enumerate(items)]
    if not points:
        raise ValueError("there are no points to choose from: pass at least one (error, ece)")
    sizes = [len(point) for point in points]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"point {sizes.index(2)} has no cw_ece while others have: pass it for all points or "
            "for none"
        )
    return points


def _point(index: int, item: Any) -> tuple[float, ...]:
    """Return one point as two or three finite numbers."""
    try:
        if isinstance(item, Mapping):
            names = ("error", "ece", "cw_ece") if "cw_ece" in item else ("error", "ece")
            item = [item[name] for name in names]
        point = tuple(float(value) for value in item)
    except (KeyError, TypeError, ValueError) as wrong:
        raise ValueError(f"point {index} is {item!r}: {EXPECTED}") from wrong
    if len(point) not in (2, 3):
        raise ValueError(f"point {index} has {len(point)} values: {EXPECTED}")
    if not all(map(math.isfinite, point)):
        raise ValueError(
            f"point {index} is {point}: NaN and infinity cannot be ranked, drop that candidate"
        )
    return point
