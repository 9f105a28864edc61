"""Means over an epoch that stay on the device until they are read."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class EpochMeans(nn.Module):
    """Sums of named per-sample values and how many there were; not part of a checkpoint, each epoch starts anew.

    >>> means = EpochMeans("beta")
    >>> means.add(torch.tensor([0.0, 1.0]))
    >>> means.add(torch.tensor([1.0, 1.0]))
    >>> means.read()
    {'beta': tensor(0.7500)}
    """

    sums: Tensor

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names
        self.count = 0
        self.register_buffer("sums", torch.zeros(len(names)), persistent=False)

    @torch.no_grad()
    def add(self, *values: Tensor) -> None:
        """One tensor (B,) for each name, in their order."""
        self.sums += torch.stack([value.sum() for value in values])
        self.count += len(values[0])

    def reset(self) -> None:
        """Forget everything."""
        self.sums = torch.zeros_like(self.sums)
        self.count = 0

    def read(self) -> dict[str, Tensor]:
        """The mean of each name, as tensors on the device; nothing before the first sample."""
        if not self.count:
            return {}
        return dict(zip(self.names, (self.sums / self.count).unbind(), strict=True))
