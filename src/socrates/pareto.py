"""Choosing among candidates by two errors at once: the Pareto front, and one best point on it."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

__all__ = ["best", "distances", "front", "ties"]

Item = TypeVar("Item")
Key = Callable[[Any], Any] | None
EXPECTED = "expected (error, ece) or (error, ece, cw_ece), or a mapping with these names"

# Distances that differ by less than this share are the same distance: they come from rounded metrics.
TIE = 1e-9


def front(points: Iterable[Item], key: Key = None) -> list[Item]:
    """The points that no other point dominates, by rising error.

    A point is (error, ece) or (error, ece, cw_ece), or a mapping with these names; `key` turns anything else into one.
    As with `min`, what comes back are the items that were given.
    Smaller is better on both axes. A point is dominated if another is at most equal on both and smaller on one; equal
    points do not dominate each other, so all copies stay, in their order.

    >>> front([(0.10, 0.03), (0.08, 0.05), (0.12, 0.04), (0.20, 0.01)])
    [(0.08, 0.05), (0.1, 0.03), (0.2, 0.01)]
    """
    items = list(points)
    return [items[i] for i in _front(_read(items, key))]


def distances(points: Iterable[Any], key: Key = None) -> list[float]:
    """How far each point is from the origin, once both axes are scaled so that the points span 0 to 1.

    An axis on which all are equal counts as 0. See `front` for what a point may be.

    >>> [round(distance, 9) for distance in distances([(0.1, 0.3), (0.3, 0.1), (0.2, 0.1)])]
    [1.0, 1.0, 0.5]
    """
    read = _read(list(points), key)
    errors, eces = (_scaled([point[axis] for point in read]) for axis in (0, 1))
    return list(map(math.hypot, errors, eces))


def ties(points: Iterable[Item], key: Key = None) -> list[Item]:
    """The front's points nearest to the origin, by rising error; more than one means that they tie.

    See `distances`: all candidates, dominated ones too, decide the scale. Distances are equal if they differ by less
    than 1e-9 of their size.

    >>> ties([(0.1, 0.3), (0.2, 0.2), (0.3, 0.1)])
    [(0.2, 0.2)]
    >>> ties([(0.1, 0.2), (0.2, 0.1)])
    [(0.1, 0.2), (0.2, 0.1)]
    """
    items = list(points)
    kept, distance = _front(_read(items, key)), distances(items, key)
    nearest = min(distance[i] for i in kept)
    return [items[i] for i in kept if math.isclose(distance[i], nearest, rel_tol=TIE, abs_tol=TIE)]


def best(points: Iterable[Item], key: Key = None) -> Item:
    """The best point: on the Pareto front, nearest to the origin, ties by class-wise ECE.

    See `front` for what a point may be and `ties` for the distance. Points that still tie, or have no cw_ece, go by
    the smaller error, then by the earlier position, so the answer never depends on chance.

    >>> best([(0.1, 0.2, 0.09), (0.2, 0.1, 0.05)])
    (0.2, 0.1, 0.05)
    >>> runs = {"CE": {"error": 0.08, "ece": 0.09}, "focal": {"error": 0.12, "ece": 0.02}, "ours": (0.09, 0.01)}
    >>> best(list(runs), key=lambda name: runs[name])
    'ours'
    """
    tied = ties(points, key)
    read = _read(tied, key)
    return tied[min(range(len(tied)), key=lambda i: (read[i][2:], read[i][0]))]


def _front(points: list[tuple[float, ...]]) -> list[int]:
    kept: list[int] = []
    for i in sorted(range(len(points)), key=lambda i: (*points[i][:2], i)):
        if not kept or points[i][1] < points[kept[-1]][1] or points[i][:2] == points[kept[-1]][:2]:
            kept.append(i)
    return kept


def _scaled(values: list[float]) -> list[float]:
    low, width = min(values), max(values) - min(values)
    return [(value - low) / width if width > 0 else 0.0 for value in values]


def _read(items: list[Any], key: Key) -> list[tuple[float, ...]]:
    points = [_point(i, key(item) if key else item) for i, item in enumerate(items)]
    if not points:
        raise ValueError("there are no points to choose from: pass at least one (error, ece)")
    sizes = [len(point) for point in points]
    if len(set(sizes)) > 1:
        raise ValueError(f"point {sizes.index(2)} has no cw_ece while others have: give it for all points or for none")
    return points


def _point(index: int, item: Any) -> tuple[float, ...]:
    try:
        if isinstance(item, Mapping):
            item = [item[name] for name in ("error", "ece", "cw_ece") if name != "cw_ece" or name in item]
        point = tuple(float(value) for value in item)
    except (KeyError, TypeError, ValueError) as wrong:
        raise ValueError(f"point {index} is {item!r}: {EXPECTED}") from wrong
    if len(point) not in (2, 3):
        raise ValueError(f"point {index} has {len(point)} values: {EXPECTED}")
    if not all(map(math.isfinite, point)):
        raise ValueError(f"point {index} is {point}: NaN and infinity cannot be ranked, drop that candidate")
    return point
