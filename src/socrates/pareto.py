"""Choosing among candidates by two errors at once: the Pareto front, and one best point on it."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

__all__ = ["best", "front", "ties"]

Item = TypeVar("Item")

# Distances that differ by less than this share are the same distance: they come from rounded metrics.
TIE = 1e-9


class Point(NamedTuple):
    """One candidate: classification error, ECE, and the class-wise ECE that breaks ties (NaN if not given)."""

    error: float
    ece: float
    cw_ece: float = math.nan


def front(points: Iterable[Item], key: Callable[[Item], Any] | None = None) -> list[Item]:
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


def ties(points: Iterable[Item], key: Callable[[Item], Any] | None = None) -> list[Item]:
    """The front's points nearest to the origin, by rising error; more than one means that they tie.

    Both axes are first scaled so that all candidates, dominated ones too, span 0 to 1; an axis on which all are equal
    counts as 0. Distances are Euclidean, and equal if they differ by less than 1e-9 of their size.

    >>> ties([(0.1, 0.3), (0.2, 0.2), (0.3, 0.1)])
    [(0.2, 0.2)]
    >>> ties([(0.1, 0.2), (0.2, 0.1)])
    [(0.1, 0.2), (0.2, 0.1)]
    """
    items = list(points)
    return [items[i] for i in _ties(_read(items, key))]


def best(points: Iterable[Item], key: Callable[[Item], Any] | None = None) -> Item:
    """The best point: on the Pareto front, nearest to the origin, ties by class-wise ECE.

    See `front` for what a point may be and `ties` for the distance. Points that still tie, or have no cw_ece, go by
    the smaller error, then by the earlier position, so the answer never depends on chance.

    >>> best([(0.1, 0.2, 0.09), (0.2, 0.1, 0.05)])
    (0.2, 0.1, 0.05)
    >>> runs = {"CE": {"error": 0.08, "ece": 0.09}, "focal": {"error": 0.12, "ece": 0.02}, "ours": (0.09, 0.01)}
    >>> best(list(runs), key=lambda name: runs[name])
    'ours'
    """
    items = list(points)
    read = _read(items, key)
    last = {i: (math.inf if math.isnan(read[i].cw_ece) else read[i].cw_ece, read[i].error, i) for i in _ties(read)}
    return items[min(last, key=lambda i: last[i])]


def _front(points: list[Point]) -> list[int]:
    lowest = math.inf
    kept: list[int] = []
    for i in sorted(range(len(points)), key=lambda i: (points[i].error, points[i].ece, i)):
        if points[i].ece < lowest or (kept and points[i][:2] == points[kept[-1]][:2]):
            kept.append(i)
            lowest = points[i].ece
    return kept


def _ties(points: list[Point]) -> list[int]:
    errors = _scaled([point.error for point in points])
    eces = _scaled([point.ece for point in points])
    kept = _front(points)
    distance = {i: math.hypot(errors[i], eces[i]) for i in kept}
    nearest = min(distance.values())
    return [i for i in kept if math.isclose(distance[i], nearest, rel_tol=TIE, abs_tol=TIE)]


def _scaled(values: list[float]) -> list[float]:
    low, width = min(values), max(values) - min(values)
    return [(value - low) / width if width > 0 else 0.0 for value in values]


def _read(points: list[Any], key: Callable[[Any], Any] | None) -> list[Point]:
    read = [_point(i, key(item) if key else item) for i, item in enumerate(points)]
    if not read:
        raise ValueError("there are no points to choose from: pass at least one (error, ece)")
    given = [not math.isnan(point.cw_ece) for point in read]
    if any(given) and not all(given):
        raise ValueError(
            f"point {given.index(False)} has no cw_ece while others have: give it for all points or for none"
        )
    return read


def _point(index: int, item: Any) -> Point:
    expected = "expected (error, ece) or (error, ece, cw_ece), or a mapping with these names"
    try:
        if isinstance(item, Mapping):
            named = cast("Mapping[str, Any]", item)
            item = [named["error"], named["ece"], *([named["cw_ece"]] if "cw_ece" in named else [])]
        numbers = [float(value) for value in item]
    except (KeyError, TypeError, ValueError) as wrong:
        raise ValueError(f"point {index} is {item!r}: {expected}") from wrong
    if len(numbers) not in (2, 3):
        raise ValueError(f"point {index} has {len(numbers)} values: {expected}")
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"point {index} is {tuple(numbers)}: NaN and infinity cannot be ranked, drop that candidate")
    return Point(*numbers)
