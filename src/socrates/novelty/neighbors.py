"""The distance to the k-th nearest training sample (Sun et al. 2022), in a bank of features."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from socrates.novelty.score import NO_AXES, NoveltyScore, Samples, spread_rows

NEIGHBORS = 10
MOST_ROWS = 5000
# Features are projected where a bank of whole ones would have fewer rows than this per class.
ROWS_PER_CLASS = 50
WIDTHS = (512, 256, 128, 64, 32, 16, 8)
FEWEST_ROWS = 8


class NearestNeighbors(NoveltyScore):
    """The distance between normalized features and the k-th nearest of a bank of training samples.

    The bank has at most 5,000 samples, spread over the classes, in half precision. With
    `max_bytes` it has fewer, and where that leaves too few the normalized features are projected
    onto their principal axes; what the projection leaves out of a sample is added to its distances.

    >>> angles = torch.linspace(0, 1, 100)
    >>> features = torch.stack([angles.cos(), angles.sin()], dim=1)
    >>> samples = Samples.of(features, torch.zeros(100, 2), torch.arange(100) % 2)
    >>> score = NearestNeighbors().fit(samples, samples)
    >>> score(torch.tensor([[3.0, 2.0], [-1.0, 0.0]]), torch.zeros(2, 2)) > 0.95
    tensor([False,  True])
    """

    title = "nearest neighbors"
    short = "KNN"
    keeps = "features of training images"

    options = ("neighbors",)

    bank: Tensor
    rest: Tensor
    axes: Tensor

    def __init__(self, neighbors: int = NEIGHBORS) -> None:
        super().__init__()
        if neighbors < 1:
            raise ValueError(f"neighbors must be at least 1, got {neighbors}")
        self.neighbors = int(neighbors)
        for name in ("bank", "rest", "axes"):
            self._keep(name, torch.zeros(0))

    def _fit(self, train: Samples, val: Samples, max_bytes: int | None) -> Tensor:
        assert train.features is not None  # fit has checked
        assert val.features is not None
        plan = planned(len(train), self.num_features, self.num_classes, max_bytes)
        rows = spread_rows(train.labels, plan.rows).to(train.features.device)
        directions = F.normalize(train.features[rows], dim=1)
        axes = NO_AXES
        if plan.width < self.num_features:
            axes = principal_axes(directions, plan.width)
        self._keep("axes", axes.half())
        projected, rest = self._project(directions)
        self._keep("bank", projected.half())
        self._keep("rest", rest.half())
        chunks = [self.raw(part, part) for part in val.features.split(1024)]
        return torch.cat(chunks)

    def raw(self, features: Tensor | None, logits: Tensor) -> Tensor:
        assert features is not None
        projected, rest = self._project(F.normalize(features.float(), dim=1))
        bank = self.bank.float()
        # Only these products cost time; the nearest rows are then measured exactly.
        near = bank.square().sum(dim=1) + self.rest.float() - 2 * projected @ bank.T
        # Of a small bank, half of the rows: the farthest ones say little.
        count = min(self.neighbors, max(1, bank.shape[0] // 2))
        nearest = near.topk(count, dim=1, largest=False).indices
        differences = projected[:, None, :] - bank[nearest]  # (N, k, width)
        squared = differences.square().sum(dim=2) + rest[:, None] + self.rest.float()[nearest]
        return squared.amax(dim=1).sqrt()

    def _project(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Return normalized features on the axes, and the squared length of what is left, (N,)."""
        if self.axes.ndim != 2:
            return directions, torch.zeros_like(directions[:, 0])
        projected = directions @ self.axes.float()
        left = directions.square().sum(dim=1) - projected.square().sum(dim=1)
        return projected, left.clamp_min(0)

    @property
    def bank_bytes(self) -> int:
        """Return the bytes of the bank, with the axes that its rows are projected onto."""
        parts = (self.bank, self.rest, self.axes)
        return sum(part.numel() * part.element_size() for part in parts)


class Plan(NamedTuple):
    """How many training samples a bank holds, and how many numbers of each."""

    rows: int
    width: int


def planned(num_train: int, dimensions: int, num_classes: int, max_bytes: int | None) -> Plan:
    """Return the bank that fits: whole features if enough rows do, else projected ones.

    >>> planned(60_000, 512, 10, None), planned(60_000, 512, 10, 400_000)
    (Plan(rows=5000, width=512), Plan(rows=1042, width=128))
    """
    wanted = min(num_train, MOST_ROWS)
    if max_bytes is None:
        return Plan(wanted, dimensions)
    enough = min(wanted, ROWS_PER_CLASS * num_classes)
    plan = Plan(0, dimensions)
    for width in (dimensions, *(width for width in WIDTHS if width < dimensions)):
        axes = 2 * dimensions * width if width < dimensions else 0
        rows = max(0, (max_bytes - axes) // (2 * width + 2))
        if rows > plan.rows:
            plan = Plan(min(rows, wanted), width)
        if plan.rows >= enough:
            break
    if plan.rows < min(FEWEST_ROWS, wanted):
        raise ValueError(
            f"a bank of {max_bytes:,} bytes holds {plan.rows} training samples of {dimensions} "
            f"features, expected at least {FEWEST_ROWS}: use energy, which needs no bank"
        )
    return plan


def principal_axes(directions: Tensor, width: int) -> Tensor:
    """Return the first principal axes (D, width) of rows around zero, always alike."""
    width = min(width, *directions.shape)
    devices = [] if directions.device.type == "cpu" else [directions.device]
    with torch.random.fork_rng(devices):
        torch.manual_seed(0)
        return torch.svd_lowrank(directions, q=width, niter=4)[2]
