"""The free energy of the logits (Liu et al. 2020): low evidence for every class is strange."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from socrates.novelty.score import NoveltyScore, Samples


class Energy(NoveltyScore):
    """Minus the log of the summed exponentials of the known classes' logits.

    >>> import torch
    >>> samples = Samples.of(None, torch.arange(40.0).reshape(20, 2), torch.zeros(20))
    >>> Energy().fit(samples, samples).raw(None, torch.zeros(1, 2))
    tensor([-0.6931])
    """

    title = "energy"
    short = "E"
    keeps = "nothing of the training images"
    needs_features: ClassVar[bool] = False

    def _fit(self, train: Samples, val: Samples, max_bytes: int | None) -> Tensor:
        return self.raw(None, val.logits)

    def raw(self, features: Tensor | None, logits: Tensor) -> Tensor:
        return -self.known(logits).logsumexp(dim=1)
