"""Sums of standardized scores: each vote counts in standard deviations of known samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from socrates.novelty.energy import Energy
from socrates.novelty.mahalanobis import Mahalanobis
from socrates.novelty.neighbors import NearestNeighbors
from socrates.novelty.score import NoveltyScore, Samples


class ScoreSum(NoveltyScore):
    """The sum of the z-scores of its parts."""

    parts: ClassVar[Mapping[str, type[NoveltyScore]]]

    def __init__(self, **options: Any) -> None:
        super().__init__()
        made = {name: kind(**options.get(name, {})) for name, kind in self.parts.items()}
        self.members = nn.ModuleDict(made)

    def votes(self) -> list[NoveltyScore]:
        """Return the scores that are added."""
        return [vote for vote in self.members.values() if isinstance(vote, NoveltyScore)]

    def _fit(self, train: Samples, val: Samples, max_bytes: int | None) -> Tensor:
        total = torch.zeros(len(val), dtype=torch.float64, device=val.logits.device)
        for vote in self.votes():
            total += vote.fit_checked(train, val, self.num_classes, max_bytes)
        return total

    def raw(self, features: Tensor | None, logits: Tensor) -> Tensor:
        return torch.stack([vote.standardized(features, logits) for vote in self.votes()]).sum(
            dim=0
        )

    @property
    def bank_bytes(self) -> int:
        """Return the bytes of the banks of its parts."""
        return sum(vote.bank_bytes for vote in self.votes())


class NeighborsAndEnergy(ScoreSum):
    """z(nearest neighbors) + z(energy): in no pair of the review worse than confidence."""

    title = "nearest neighbors + energy"
    short = "KNN+E"
    keeps = NearestNeighbors.keeps
    parts: ClassVar[Mapping[str, type[NoveltyScore]]] = {"knn": NearestNeighbors, "energy": Energy}


class MahalanobisAndEnergy(ScoreSum):
    """z(Mahalanobis) + z(energy): no features of single images."""

    title = "Mahalanobis distance + energy"
    short = "M+E"
    keeps = Mahalanobis.keeps
    parts: ClassVar[Mapping[str, type[NoveltyScore]]] = {
        "mahalanobis": Mahalanobis,
        "energy": Energy,
    }


class ThreeVotes(ScoreSum):
    """z(Mahalanobis) + z(nearest neighbors) + z(energy): each alone fails somewhere."""

    title = "Mahalanobis distance + nearest neighbors + energy"
    short = "M+KNN+E"
    keeps = f"{NearestNeighbors.keeps}, {Mahalanobis.keeps}"
    parts: ClassVar[Mapping[str, type[NoveltyScore]]] = {
        "mahalanobis": Mahalanobis,
        "knn": NearestNeighbors,
        "energy": Energy,
    }
