"""Every novelty score by name, which the rest of the package iterates."""

from __future__ import annotations

from typing import Any

from socrates.novelty.energy import Energy
from socrates.novelty.fitted import WeightedVotes
from socrates.novelty.mahalanobis import Mahalanobis
from socrates.novelty.neighbors import NearestNeighbors
from socrates.novelty.score import NoveltyScore
from socrates.novelty.sums import MahalanobisAndEnergy, NeighborsAndEnergy, ThreeVotes
from socrates.novelty.unknown import UnknownColumn

# In the order of tables. Its class holds what any part of the package needs: the printed names,
# what it needs, what it keeps of the training data, and how it is fitted, saved and loaded.
NOVELTY: dict[str, type[NoveltyScore]] = {
    "energy": Energy,
    "unknown": UnknownColumn,
    "knn": NearestNeighbors,
    "mahalanobis": Mahalanobis,
    "knn+energy": NeighborsAndEnergy,
    "mahalanobis+energy": MahalanobisAndEnergy,
    "mahalanobis+knn+energy": ThreeVotes,
}
DEFAULT = "mahalanobis+knn+energy"
# How the name of a score begins that was fitted to strangers; the names of its votes follow.
FITTED = "strangers:"


def create(name: str, **options: Any) -> NoveltyScore:
    """Return a new score of that name in NOVELTY.

    >>> create("knn", neighbors=5)
    NearestNeighbors(not fitted)
    """
    if name.startswith(FITTED):
        return weighted(name.removeprefix(FITTED))
    if name not in NOVELTY:
        raise ValueError(f"novelty must be one of {', '.join(NOVELTY)}, got {name!r}")
    return NOVELTY[name](**options)


def weighted(name: str, unknown_class: bool = False) -> WeightedVotes:
    """Return a score that strangers weigh: of the votes in a name, and of the unknown column.

    >>> name_of(weighted("knn+energy", unknown_class=True))
    'strangers:knn+energy+unknown'
    """
    names = name.split("+")
    if unknown_class and "unknown" not in names:
        names.append("unknown")
    return WeightedVotes({part: create(part) for part in names})


def name_of(score: NoveltyScore) -> str:
    """Return the name of a score in NOVELTY.

    >>> name_of(create("energy"))
    'energy'
    """
    if isinstance(score, WeightedVotes):
        return FITTED + "+".join(score.members)
    for name, kind in NOVELTY.items():
        if type(score) is kind:
            return name
    raise ValueError(
        f"{type(score).__name__} is not in socrates.novelty.NOVELTY: add its class to it"
    )
