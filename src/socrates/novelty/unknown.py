"""The raw unknown column of a model that has one, before any scaler reads it out."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from socrates.novelty.score import NoveltyScore, Samples


class UnknownColumn(NoveltyScore):
    """The log odds of the unknown class, which rank samples as its probability does.

    >>> import torch
    >>> logits = torch.arange(60.0).reshape(20, 3) ** 1.1
    >>> samples = Samples.of(None, logits, torch.zeros(20))
    >>> score = UnknownColumn().fit(samples, samples, unknown_class=True)
    >>> score.raw(None, torch.tensor([[0.0, 0.0, 2.0]])).round(decimals=2)
    tensor([1.3100])
    """

    title = "unknown column"
    short = "U"
    keeps = "nothing of the training images"
    needs_features: ClassVar[bool] = False
    needs_unknown_class: ClassVar[bool] = True

    def _fit(self, train: Samples, val: Samples, max_bytes: int | None) -> Tensor:
        return self.raw(None, val.logits)

    def raw(self, features: Tensor | None, logits: Tensor) -> Tensor:
        return logits[:, -1].float() - self.known(logits).logsumexp(dim=1)
