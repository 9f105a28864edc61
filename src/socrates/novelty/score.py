"""The base of the novelty scores: fit, raw score, z-score, and the calibrated novelty."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from socrates.arrays.open import ArrayLike, as_tensor

# Validation scores that are kept: quantiles where there are more.
MOST_QUANTILES = 200
# From this many validation samples on, a novelty above 0.95 is possible.
ENOUGH = 20
# Samples whose scores are computed at a time, so that memory stays bounded.
CHUNK = 1024
# Stands for a projection that is not needed: files of weights take no empty tensors.
NO_AXES = torch.zeros(1)

AnyScore = TypeVar("AnyScore", bound="NoveltyScore")


@dataclass(frozen=True, eq=False)
class Samples:
    """Features (N, D), logits and labels (N,) of samples of known classes, as tensors.

    Logits are (N, C), or (N, C + 1) with an unknown last column. Features may be None for the
    scores that need logits alone. `Samples.of` opens arrays and checks them.
    """

    features: Tensor | None
    logits: Tensor
    labels: Tensor

    @classmethod
    def of(
        cls, features: ArrayLike | None, logits: ArrayLike, labels: ArrayLike, name: str = "the"
    ) -> Samples:
        """Return checked samples; `name` stands before "samples" in errors.

        >>> Samples.of([[1.0], [2.0]], [[0.0, 1.0], [1.0, 0.0]], [1, 0]).features.shape
        torch.Size([2, 1])
        """
        rows = as_tensor(logits, "logits").detach().float()
        numbers = as_tensor(labels, "labels").long()
        if rows.ndim != 2 or numbers.shape != rows.shape[:1]:
            raise ValueError(
                f"{name} samples need logits (N, C) and labels (N,), got the shapes "
                f"{tuple(rows.shape)} and {tuple(numbers.shape)}"
            )
        vectors = None
        if features is not None:
            vectors = as_tensor(features, "features").detach().float()
            if vectors.ndim != 2 or len(vectors) != len(rows) or not vectors.shape[1]:
                raise ValueError(
                    f"{name} samples need features (N, D) for {len(rows)} logits, got the shape "
                    f"{tuple(vectors.shape)}: flatten them"
                )
        for kind, values in (("logits", rows), ("features", vectors)):
            if values is None:
                continue
            if bad := int((~torch.isfinite(values).all(dim=1)).sum()):
                raise ValueError(
                    f"the {kind} of {bad} of {name} {len(rows)} samples are not finite: novelty "
                    "needs a model that has not diverged"
                )
        return cls(vectors, rows, numbers)

    def __len__(self) -> int:
        return len(self.labels)


class NoveltyScore(nn.Module):
    """Base of the novelty scores: higher is stranger.

    A class in `NOVELTY` is all that the package knows of a score. `title` and `short` are its
    printed names, `keeps` says what of the training data a fitted one holds. A score that
    `needs_features` takes the inputs of the model's last layer; one that `needs_unknown_class` is
    for models whose last column is the unknown class. A subclass implements `_fit`, which returns
    the raw scores of the validation samples as if they were new, and `raw`.

    Scores take logits as the model returns them, before any scaler: scaling blurs their order.
    `forward` returns `novelty`: the share of known validation samples that look less strange, with
    the sample itself counted among them. So of new samples of the known classes, which look like
    the validation samples, at most a share 1 - q has a novelty above q. It is never 1: with n
    validation samples it is at most n / (n + 1), but 1 for what is not finite.

    >>> from socrates.novelty import Energy
    >>> logits = torch.arange(40.0).reshape(20, 2)
    >>> samples = Samples.of(None, logits, torch.zeros(20))
    >>> score = Energy().fit(samples, samples)
    >>> score(None, torch.tensor([[-90.0, -90.0], [19.0, 19.0], [90.0, 0.0]]))
    tensor([0.9524, 0.4671, 0.0000])
    """

    title: ClassVar[str]
    short: ClassVar[str]
    keeps: ClassVar[str]
    needs_features: ClassVar[bool] = True
    needs_unknown_class: ClassVar[bool] = False
    # The attributes that are options of the constructor, all of them numbers.
    options: ClassVar[tuple[str, ...]] = ()

    mean: Tensor
    deviation: Tensor
    quantiles: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.num_classes = 0  # of the logits it was fitted on; 0 before
        self.num_features = 0
        for name in ("mean", "deviation", "quantiles"):
            self._keep(name, torch.zeros(0))
        self.register_load_state_dict_pre_hook(_take_saved_shapes)  # pyright: ignore[reportUnknownMemberType]

    def fit(
        self: AnyScore,
        train: Samples,
        val: Samples,
        *,
        unknown_class: bool = False,
        max_bytes: int | None = None,
    ) -> AnyScore:
        """Fit the score to training samples, standardize it on validation samples, and return it.

        Args:
            train: samples that trained the model, without augmentation.
            val: samples of the same classes that did not train it.
            unknown_class: whether the last column of the logits is the unknown class.
            max_bytes: the most that a bank of training features may take.
        """
        self._check(train, val, unknown_class)
        self.fit_checked(train, val, train.logits.shape[1] - unknown_class, max_bytes)
        if len(val) < ENOUGH:
            warnings.warn(
                f"{len(val)} validation samples are too few to call anything strange: novelty "
                f"is at most {len(val)}/{len(val) + 1}, and {ENOUGH} samples are needed for 0.95",
                stacklevel=2,
            )
        return self

    def fit_checked(
        self, train: Samples, val: Samples, num_classes: int, max_bytes: int | None
    ) -> Tensor:
        """Fit to samples that `fit` has checked; return the z-scores (N,) of val as if new."""
        self.num_classes = num_classes
        self.num_features = 0
        if train.features is not None and self.needs_features:
            self.num_features = train.features.shape[1]
        raw = self._fit(train, val, max_bytes).double()
        return self._standardize(raw)

    def _check(self, train: Samples, val: Samples, unknown_class: bool) -> None:
        """Refuse samples that nothing can be fitted to."""
        name = type(self).__name__
        if self.needs_unknown_class and not unknown_class:
            raise ValueError(f"{name} needs a model with an unknown last column: use another score")
        if len(val) < 2 or len(train) < 2:
            raise ValueError(
                f"{name} needs at least 2 training and 2 validation samples, got {len(train)} and "
                f"{len(val)}"
            )
        if train.logits.shape[1] != val.logits.shape[1] or train.logits.shape[1] <= unknown_class:
            raise ValueError(
                f"{name} needs logits of the same classes, got {train.logits.shape[1]} columns for "
                f"training and {val.logits.shape[1]} for validation"
            )
        num_classes = train.logits.shape[1] - unknown_class
        for samples in (train, val):
            if int(samples.labels.min()) < 0 or int(samples.labels.max()) >= num_classes:
                raise ValueError(
                    f"{name} is fitted on known classes: expected labels from 0 to "
                    f"{num_classes - 1}, got {int(samples.labels.min())} to "
                    f"{int(samples.labels.max())}"
                )
        if not self.needs_features:
            return
        shapes = [
            None if part.features is None else part.features.shape[1] for part in (train, val)
        ]
        if shapes[0] is None or shapes[0] != shapes[1]:
            raise ValueError(
                f"{name} needs features of training and validation samples of equal length, got "
                f"{shapes[0]} and {shapes[1]}: use energy for a model without features"
            )

    def _fit(self, train: Samples, val: Samples, max_bytes: int | None) -> Tensor:
        """Fit to the training samples; return the raw scores (N,) of val as if it were new."""
        raise NotImplementedError

    def raw(self, features: Tensor | None, logits: Tensor) -> Tensor:
        """Return the score (N,) before it is standardized; higher is stranger."""
        raise NotImplementedError

    def _standardize(self, scores: Tensor) -> Tensor:
        """Keep mean, deviation and quantiles of the scores of new known samples; return z."""
        deviation = scores.std()
        if not bool(torch.isfinite(scores).all()):
            raise ValueError(
                f"{type(self).__name__} is not finite on the validation samples: their features "
                "are too large"
            )
        # A score that is the same for all known samples says nothing, and must not divide by 0.
        if float(deviation) <= 1e-7 * max(1.0, float(scores.abs().max())):
            deviation = torch.ones_like(deviation)
        self._keep("mean", scores.mean().float())
        self._keep("deviation", deviation.float())
        z = (scores - self.mean.double()) / self.deviation.double()
        self._keep("quantiles", quantiles_of(z.sort().values).float())
        return z

    def standardized(self, features: Tensor | None, logits: Tensor) -> Tensor:
        """Return the z-score (N,): in standard deviations of the known validation samples."""
        return (self.raw(features, logits) - self.mean) / self.deviation

    def forward(self, features: Tensor | None, logits: Tensor) -> Tensor:
        """Return the novelty (N,) of one batch: from 0, familiar, to 1, strange."""
        return share_below(self.standardized(features, logits), self.quantiles)

    def scores(self, features: ArrayLike | None, logits: ArrayLike, *, raw: bool = False) -> Tensor:
        """Return the novelty (N,) of any number of samples, or what it is ranked by before (raw).

        The raw score ranks samples beyond all validation samples, too, whose novelty is equal.
        """
        self._check_fitted()
        rows = as_tensor(logits, "logits").detach()
        vectors = None if features is None else as_tensor(features, "features").detach()
        if vectors is None and self.needs_features:
            raise ValueError(f"{type(self).__name__} needs the features of the samples, too")
        measure = self.standardized if raw else self.forward
        chunks = [
            measure(
                None if vectors is None else vectors[start : start + CHUNK].float(),
                rows[start : start + CHUNK].float(),
            )
            for start in range(0, len(rows), CHUNK)
        ]
        return torch.cat(chunks) if chunks else rows.new_zeros(0)

    def known(self, logits: Tensor) -> Tensor:
        """Return the columns of the known classes."""
        return logits[:, : self.num_classes].float()

    @property
    def num_bytes(self) -> int:
        """Return the bytes of everything that the fitted score keeps."""
        return sum(value.numel() * value.element_size() for value in self.buffers())

    @property
    def bank_bytes(self) -> int:
        """Return the bytes of the features of single training samples that it keeps."""
        return 0

    def _check_fitted(self) -> None:
        if self.num_classes == 0:
            raise ValueError(f"{type(self).__name__} is not fitted: call fit first")

    def _keep(self, name: str, value: Tensor) -> None:
        # A plain copy, because torch.export warns about saving a view or a transpose.
        copy = value.detach().clone(memory_format=torch.contiguous_format)
        self.register_buffer(name, copy)

    def get_extra_state(self) -> Tensor:
        """Return the sizes that it was fitted on, and its options."""
        options = [float(getattr(self, name)) for name in self.options]
        return torch.tensor([self.num_classes, self.num_features, *options], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore what `get_extra_state` returned."""
        self.num_classes = int(state[0])
        self.num_features = int(state[1])
        for name, value in zip(self.options, state[2:].tolist(), strict=True):
            setattr(self, name, type(getattr(self, name))(value))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> NoveltyScore:
        # .half() of a whole model must not round what was fitted; .to(device) moves it.
        def move(fitted: Tensor) -> Tensor:
            return fitted.to(fn(fitted).device)

        return super()._apply(move, recurse)  # pyright: ignore[reportUnknownMemberType]

    def extra_repr(self) -> str:
        """Return the sizes of the fit."""
        if self.num_classes == 0:
            return "not fitted"
        return f"classes={self.num_classes}, features={self.num_features}, bytes={self.num_bytes}"


def quantiles_of(ascending: Tensor, most: int = MOST_QUANTILES) -> Tensor:
    """Return the m = min(N, most) of N ascending scores at the shares 1/(m+1), ..., m/(m+1).

    Each is the smallest score that at least this share of N + 1 exchangeable samples is below.

    >>> quantiles_of(torch.arange(1.0, 1000.0), most=9)
    tensor([100., 200., 300., 400., 500., 600., 700., 800., 900.])
    """
    total = len(ascending)
    count = min(total, most)
    positions = [math.ceil(place * (total + 1) / (count + 1)) - 1 for place in range(1, count + 1)]
    return ascending[torch.tensor(positions, device=ascending.device)]


def share_below(scores: Tensor, quantiles: Tensor) -> Tensor:
    """Return the share (N,) of known samples below each score, linear between quantiles.

    It is never above the share of a step at each quantile, so that what is promised of that
    holds. What is not finite gets 1.

    >>> share_below(torch.tensor([0.0, 1.5, 2.0, 9.0, math.nan]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([0.0000, 0.1250, 0.2500, 0.7500, 1.0000])
    """
    count = quantiles.shape[0]
    # Beyond the last quantile it rises as fast as before it, but not in a jump.
    last = quantiles[-1:]
    step = (last - quantiles[-2:-1]).clamp_min(1e-3) if count > 1 else torch.full_like(last, 1e-3)
    ends = torch.cat([quantiles, last + step])
    widths = (ends[1:] - ends[:-1]).clamp_min(1e-12)
    passed = (scores[:, None] - ends[:-1]) / widths
    share = passed.clamp(0, 1).sum(dim=1) / (count + 1)
    return torch.where(torch.isfinite(scores), share, torch.ones_like(share))


def _take_saved_shapes(score: nn.Module, saved: dict[str, Any], prefix: str, *_: object) -> None:
    # The sizes are known only after a fit, so a fresh score takes the saved shapes and types.
    for name, _buffer in list(score.named_buffers(recurse=False)):
        value = saved.get(prefix + name)
        if isinstance(value, Tensor):
            score.register_buffer(name, torch.empty_like(value))


def spread_rows(labels: Tensor, most: int) -> Tensor:
    """Return the positions of at most `most` samples, as equally spread over the classes as can be.

    >>> labels = torch.tensor([0, 0, 0, 0, 1, 2, 2])
    >>> labels[spread_rows(labels, 5)].sort().values
    tensor([0, 0, 1, 2, 2])
    """
    if len(labels) <= most:
        return torch.arange(len(labels))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    shuffled = labels.cpu()[order]
    # The place of each sample within its class: first come the first of each class, and so on.
    by_class = shuffled.argsort(stable=True)
    counts = torch.bincount(shuffled)
    starts = counts.cumsum(0) - counts
    places = torch.empty_like(shuffled)
    places[by_class] = torch.arange(len(shuffled)) - starts[shuffled[by_class]]
    return order[places.argsort(stable=True)[:most]].sort().values
