"""How a fitted novelty score is saved in a model's file: its name and its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from socrates.novelty.registry import create, name_of
from socrates.novelty.score import NoveltyScore

# The limit of sizes in a file, which a damaged one could make any.
LARGEST = 1 << 20


@dataclass(frozen=True)
class KeptNovelty:
    """Describe a fitted score, besides the values of its tensors: name in NOVELTY, and shapes."""

    name: str
    tensors: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, "tuple[int, ...]"])

    @classmethod
    def from_json(cls, plain: Any) -> KeptNovelty:
        """Return the description that `dataclasses.asdict` turned into this JSON object."""
        kept = cls(**plain)
        if not isinstance(kept.name, str) or not isinstance(kept.tensors, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError("its novelty score is not described by name and tensors")
        return cls(kept.name, {name: tuple(shape) for name, shape in kept.tensors.items()})


def describe(score: NoveltyScore) -> KeptNovelty:
    """Return the description of a fitted score; `score.state_dict()` has its tensors.

    >>> from socrates.novelty import Energy, Samples
    >>> samples = Samples.of(None, torch.arange(40.0).reshape(20, 2), torch.zeros(20))
    >>> kept = describe(Energy().fit(samples, samples))
    >>> kept.name, kept.tensors["quantiles"]
    ('energy', (20,))
    """
    if score.num_classes == 0:
        raise ValueError(f"{type(score).__name__} is not fitted, there is nothing to save")
    shapes = {name: tuple(value.shape) for name, value in score.state_dict().items()}
    return KeptNovelty(name_of(score), shapes)


def rebuild(kept: KeptNovelty, tensors: Mapping[str, Tensor]) -> NoveltyScore:
    """Return the score that was described, with its tensors; refuse what does not fit together.

    >>> from socrates.novelty import Energy, Samples
    >>> samples = Samples.of(None, torch.arange(40.0).reshape(20, 2), torch.zeros(20))
    >>> score = Energy().fit(samples, samples)
    >>> rebuild(describe(score), score.state_dict())
    Energy(classes=2, features=0, bytes=88)
    """
    shapes = {name: tuple(value.shape) for name, value in tensors.items()}
    if shapes != dict(kept.tensors):
        raise ValueError(
            f"its novelty score has the tensors {shapes}, expected {dict(kept.tensors)}"
        )
    if not all(bool(torch.isfinite(value).all()) for value in tensors.values()):
        raise ValueError("its novelty score holds numbers that are not finite")
    score = create(kept.name)
    score.load_state_dict(dict(tensors))
    sizes = (score.num_classes, score.num_features)
    if not (0 < sizes[0] <= LARGEST and 0 <= sizes[1] <= LARGEST):
        raise ValueError(f"its novelty score was fitted on {sizes[0]} classes, {sizes[1]} features")
    features = torch.zeros(1, score.num_features) if score.needs_features else None
    novelty = score(features, torch.zeros(1, score.num_classes + score.needs_unknown_class))
    if novelty.shape != (1,):
        raise ValueError("its novelty score does not fit its own sizes")
    return score
