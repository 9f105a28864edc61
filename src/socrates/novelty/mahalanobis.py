"""The Mahalanobis distance to the nearest class (Lee et al. 2018), with a tied covariance."""

from __future__ import annotations

import torch
from torch import Tensor

from socrates.novelty.score import NO_AXES, NoveltyScore, Samples

SHRINKAGE = 0.05
# Longer features are first projected at random onto this many axes.
MOST_DIMENSIONS = 1024


class Mahalanobis(NoveltyScore):
    """The squared Mahalanobis distance of the features to the nearest class mean.

    The means are those of the training samples. The covariance, tied over the classes, is that of
    the validation samples around these means: features of training samples are drawn together by
    the training, so that theirs says too little of how far new samples are spread. Where there are
    few validation samples for the number of features, it is mixed with the covariance of the
    training samples, made as large; and it is shrunk towards a multiple of the identity. A class
    without training samples has no mean; its validation samples count as known but not for the
    covariance.

    Each validation sample is scored with a covariance that was made without it, in closed form;
    otherwise samples in many dimensions would look strange only because they are new.

    >>> features = torch.randn(200, 3, generator=torch.Generator().manual_seed(1))
    >>> samples = Samples.of(features, torch.zeros(200, 2), torch.arange(200) % 2)
    >>> score = Mahalanobis().fit(samples, samples)
    >>> score(torch.tensor([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0]]), torch.zeros(2, 2)) > 0.95
    tensor([False,  True])
    """

    title = "Mahalanobis distance"
    short = "M"
    keeps = "the mean features of each class and a covariance"

    options = ("shrinkage",)

    projection: Tensor
    center: Tensor
    whitening: Tensor
    means: Tensor

    def __init__(self, shrinkage: float = SHRINKAGE) -> None:
        super().__init__()
        if not 0 < shrinkage <= 1:
            raise ValueError(f"shrinkage must be above 0 and at most 1, got {shrinkage}")
        self.shrinkage = float(shrinkage)
        for name in ("projection", "center", "whitening", "means"):
            self._keep(name, torch.zeros(0))

    def _fit(self, train: Samples, val: Samples, max_bytes: int | None) -> Tensor:
        assert train.features is not None  # fit has checked
        assert val.features is not None
        axes = random_axes(self.num_features, MOST_DIMENSIONS).to(train.features.device)
        self._keep("projection", axes)
        rows = self._project(train.features).double()
        new = self._project(val.features).double()
        center = rows.mean(dim=0)
        classes = train.labels.unique()
        means = torch.stack([rows[train.labels == number].mean(dim=0) for number in classes])
        has_mean = torch.isin(val.labels, classes)
        own = torch.searchsorted(classes, val.labels).clamp_max(len(classes) - 1)
        residuals = torch.where(has_mean[:, None], new - means[own], torch.zeros_like(new))
        count = int(has_mean.sum())
        if count < 2:
            raise ValueError(
                f"Mahalanobis needs 2 validation samples of classes with training samples, got "
                f"{count}: use energy"
            )
        drawn_together = rows - means[torch.searchsorted(classes, train.labels)]
        share = count / (count + rows.shape[1])  # of the validation samples
        mixed = mixture(residuals.T @ residuals / count, drawn_together, share)
        covariance = shrunk(mixed, self.shrinkage)
        values, vectors = torch.linalg.eigh(covariance)
        whitening = vectors / values.sqrt()  # its columns have unit variance
        self._keep("center", center.float())
        self._keep("whitening", whitening.float())
        self._keep("means", ((means - center) @ whitening).float())
        weight = (1 - self.shrinkage) * share / count
        return left_out(
            (new - center) @ whitening, (means - center) @ whitening, residuals @ whitening, weight
        )

    def raw(self, features: Tensor | None, logits: Tensor) -> Tensor:
        assert features is not None
        white = (self._project(features.float()) - self.center) @ self.whitening
        return squared_distances(white, self.means).amin(dim=1)

    def _project(self, features: Tensor) -> Tensor:
        return features @ self.projection if self.projection.ndim == 2 else features


def mixture(covariance: Tensor, residuals: Tensor, share: float) -> Tensor:
    """Return a share of a covariance, and for the rest that of residuals (N, D), as large.

    >>> mixture(torch.eye(2), torch.tensor([[0.0, 3.0], [0.0, -3.0]]), 0.5)
    tensor([[0.5000, 0.0000],
            [0.0000, 1.5000]])
    """
    other = residuals.T @ residuals / len(residuals)
    size = other.trace()
    # Residuals that are all zero have no shape to mix in.
    same_size = other * (covariance.trace() / size) if float(size) > 0 else covariance
    return share * covariance + (1 - share) * same_size


def shrunk(covariance: Tensor, shrinkage: float) -> Tensor:
    """Return a covariance, shrunk towards a multiple of the identity."""
    size = float(covariance.diagonal().mean())
    # Features that never vary have no covariance: every distance is then the Euclidean one.
    target = size if size > 0 else 1.0
    identity = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    return (1 - shrinkage) * covariance + shrinkage * target * identity


def left_out(white: Tensor, means: Tensor, residuals: Tensor, weight: float) -> Tensor:
    """Return the squared distances (N,) to the nearest mean by a covariance without the sample.

    All are whitened by the covariance of all samples, in which each one's residual r counts as
    weight r r'. Without it, d'd becomes d'd + weight (r'd)^2 / (1 - weight r'r): Sherman-Morrison.

    >>> white, means = torch.tensor([[2.0, 0.0]]), torch.zeros(1, 2)
    >>> left_out(white, means, white, weight=0.1)
    tensor([6.6667])
    """
    squared = squared_distances(white, means)
    along = (residuals * white).sum(dim=1, keepdim=True) - residuals @ means.T  # r'd, (N, K)
    remaining = (1 - weight * residuals.square().sum(dim=1, keepdim=True)).clamp_min(1e-6)
    return (squared + weight * along.square() / remaining).amin(dim=1)


def squared_distances(rows: Tensor, means: Tensor) -> Tensor:
    """Return the squared distances (N, K) between rows and means."""
    products = rows @ means.T
    squared = rows.square().sum(dim=1, keepdim=True) - 2 * products + means.square().sum(dim=1)
    return squared.clamp_min(0)


def random_axes(dimensions: int, most: int) -> Tensor:
    """Return orthonormal axes (D, most), drawn at random but always alike; (1,) if D is small.

    >>> random_axes(3, 4).shape, random_axes(6, 4).shape
    (torch.Size([1]), torch.Size([6, 4]))
    """
    if dimensions <= most:
        return NO_AXES
    generator = torch.Generator().manual_seed(0)
    return torch.linalg.qr(torch.randn(dimensions, most, generator=generator)).Q
