"""Novelty that has met strangers: a logistic regression weighs the scores against each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from socrates.novelty.score import NoveltyScore, Samples
from socrates.novelty.sums import ScoreSum

FEWEST_STRANGERS = 20
# How strongly the weights are drawn to each other, over the number of strangers; and to 0, which
# keeps them finite where known samples and strangers are apart.
PULL = 1.0
RIDGE = 1e-3
STEPS = 2000


class WeightedVotes(ScoreSum):
    """The log odds of being unknown: a weighted sum of z-scores, fitted to strangers.

    Validation samples count as known, strangers as unknown, both groups with the same total
    weight. Weights are never negative, because each score is higher for stranger samples, and few
    strangers move them little from the equal weights of the plain sum. Nothing else changes:
    `novelty` is the share of known validation samples whose log odds are lower.

    >>> from socrates.novelty import Energy
    >>> generator = torch.Generator().manual_seed(1)
    >>> known = 5 + torch.randn(100, 3, generator=generator)
    >>> samples = Samples.of(None, known, torch.zeros(100))
    >>> strangers = Samples.of(None, known[:40] - 4, torch.zeros(40))
    >>> score = WeightedVotes({"energy": Energy()})
    >>> score.fit_with(samples, samples, strangers).probability(None, torch.zeros(1, 3)) > 0.9
    tensor([True])
    """

    parts: ClassVar[Mapping[str, type[NoveltyScore]]] = {}

    weights: Tensor
    bias: Tensor

    def __init__(self, votes: Mapping[str, NoveltyScore]) -> None:
        super().__init__()
        self.members = nn.ModuleDict(dict(votes))
        titles = " + ".join(vote.title for vote in self.votes())
        kept = dict.fromkeys(vote.keeps for vote in self.votes())
        of_images = [words for words in kept if not words.startswith("nothing")]
        self.title = f"{titles}, weighted by strangers"  # pyright: ignore[reportAttributeAccessIssue]
        self.keeps = ", ".join(of_images or kept)  # pyright: ignore[reportAttributeAccessIssue]
        self.needs_features = any(  # pyright: ignore[reportAttributeAccessIssue]
            vote.needs_features for vote in self.votes()
        )
        self.needs_unknown_class = any(  # pyright: ignore[reportAttributeAccessIssue]
            vote.needs_unknown_class for vote in self.votes()
        )
        self.strangers: Samples | None = None
        self._keep("weights", torch.zeros(0))
        self._keep("bias", torch.zeros(0))

    def fit_with(
        self,
        train: Samples,
        val: Samples,
        strangers: Samples,
        *,
        unknown_class: bool = False,
        max_bytes: int | None = None,
    ) -> WeightedVotes:
        """Fit the scores as `fit` does, and their weights to strangers, whose labels are not read.

        The strangers must be others than those that certify or test the model.
        """
        if len(strangers) < FEWEST_STRANGERS:
            raise ValueError(
                f"{len(strangers)} strangers are too few to weigh scores by: expected at least "
                f"{FEWEST_STRANGERS}"
            )
        self.strangers = strangers
        try:
            return self.fit(train, val, unknown_class=unknown_class, max_bytes=max_bytes)
        finally:
            self.strangers = None

    def _fit(self, train: Samples, val: Samples, max_bytes: int | None) -> Tensor:
        if self.strangers is None:
            raise ValueError("WeightedVotes are fitted to strangers: call fit_with")
        known = torch.stack(
            [
                vote.fit_checked(train, val, self.num_classes, max_bytes).double()
                for vote in self.votes()
            ],
            dim=1,
        )
        strange = self._votes_on(self.strangers)
        weights, bias = fit_logistic(known, strange)
        self._keep("weights", weights.float())
        self._keep("bias", bias.float())
        return known @ weights + bias

    def _votes_on(self, samples: Samples) -> Tensor:
        """Return the z-scores (N, votes) of samples."""
        columns = [
            vote.scores(samples.features if vote.needs_features else None, samples.logits, raw=True)
            for vote in self.votes()
        ]
        return torch.stack(columns, dim=1).double()

    def raw(self, features: Tensor | None, logits: Tensor) -> Tensor:
        """Return the log odds (N,) that a sample is unknown."""
        votes = [vote.standardized(features, logits) for vote in self.votes()]
        return torch.stack(votes, dim=1) @ self.weights + self.bias

    def probability(self, features: Tensor | None, logits: Tensor) -> Tensor:
        """Return P(unknown) (N,), if strangers and known samples are equally frequent."""
        return self.raw(features, logits).sigmoid()


def fit_logistic(known: Tensor, strange: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights (V,), none below 0, and the bias of a logistic regression.

    Rows are scores (N, V) of known samples and (M, V) of strangers. Both groups have the same
    total weight.

    >>> known = torch.tensor([[-1.0, 0.3], [0.0, -0.3], [1.0, 0.3]]).repeat(20, 1).double()
    >>> weights, bias = fit_logistic(known, known + torch.tensor([3.0, 0.0]))
    >>> bool(weights[0] > weights[1] >= 0), bool(bias < 0)
    (True, True)
    """
    rows = torch.cat([known, strange])
    ones = torch.ones(len(rows), 1, dtype=rows.dtype, device=rows.device)
    design = torch.cat([rows, ones], dim=1)
    target = torch.cat([torch.zeros(len(known)), torch.ones(len(strange))]).to(rows)
    share = torch.where(target > 0, 0.5 / len(strange), 0.5 / len(known))
    pull = PULL / len(strange)
    # Accelerated projected gradient descent: a handful of parameters, so plain and safe.
    curvature = 0.25 * torch.linalg.matrix_norm(design.T @ (share[:, None] * design), 2)
    step = 1 / (curvature + pull + RIDGE)
    parameters = torch.zeros(design.shape[1], dtype=rows.dtype, device=rows.device)
    ahead = parameters
    for number in range(STEPS):
        gradient = design.T @ (share * ((design @ ahead).sigmoid() - target))
        weights = ahead[:-1]
        gradient[:-1] += pull * (weights - weights.mean()) + RIDGE * weights
        moved = ahead - step * gradient
        moved[:-1] = moved[:-1].clamp_min(0)
        ahead = moved + number / (number + 3) * (moved - parameters)
        parameters = moved
    return parameters[:-1], parameters[-1]
