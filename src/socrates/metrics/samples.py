"""What the metrics read: probability rows with labels, by chunks, or each sample's confidence and correctness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from .arrays import ArrayLike, as_numpy, blanked, check_positive, in_full, open_scores, open_weight, picked, row_sums
from .predictions import HALF_TOLERANCE, ROW_SUM_TOLERANCE, Array, Prediction

# A chunk stays in the cache, so that its checks and the metric itself read the memory once.
CHUNK_VALUES = 1 << 20
# A class above this leads its row alone: two of them would take the sum of the row beyond any tolerance. Where a good
# model is that sure of the label no search is needed, and ece takes 0.29 in place of 0.40 ms at 10,000 x 10.
_MAJORITY = 0.5 + HALF_TOLERANCE


@dataclass(frozen=True, eq=False)
class Top:
    """The currency of the metrics: each sample's confidence in its answer, and whether that was right.

    Metrics of the top class take it in the place of `probs`, without labels, for predictions of which nothing else is
    known. `Top.of` makes one from what a user has; the constructor itself checks nothing.

    Args:
        confidence: (N,) float32 or float64, the probability of the predicted class.
        correct: (N,) bool.
        weight: (N,) float64 above 0; None where every sample counts once.

    >>> from socrates.metrics import ece
    >>> round(ece(Top.of(confidence=[0.9, 0.6], correct=[1, 0])), 4)
    0.35
    """

    confidence: Array
    correct: Array
    weight: Array | None = None

    @classmethod
    def of(cls, confidence: ArrayLike, correct: ArrayLike, sample_weight: ArrayLike | None = None) -> Top:
        """Checked confidence in [0, 1] and correctness, booleans or 0 and 1, torch or numpy.

        Samples of weight 0 are left out.

        >>> Top.of([0.9, 0.6], [True, False]).correct
        array([ True, False])
        >>> len(Top.of([0.9, 0.6, 0.5], [True, False, False], sample_weight=[2, 0, 1]))
        2
        """
        scores = open_scores(confidence, "confidence", sample_weight)
        for worst in (scores.min(), scores.max()):
            if not 0 <= worst <= 1:
                raise ValueError(f"confidence holds {worst:.6g}, expected probabilities of the predicted classes")
        return cls.ranked(scores, correct, sample_weight)

    @classmethod
    def ranked(cls, scores: Array, correct: ArrayLike, sample_weight: ArrayLike | None) -> Top:
        """The same for scores of which only the order counts."""
        right = as_numpy(correct, "correct")
        if right.shape != scores.shape:
            raise ValueError(f"correct has shape {right.shape}, expected {scores.shape}: one answer a confidence")
        right = blanked(right, sample_weight)
        if right.dtype.kind not in "biuf" or not ((right == 0) | (right == 1)).all():
            raise ValueError("correct holds other values than 0 and 1: compare predicted classes with labels first")
        return cls(scores, right.astype(np.bool_)).weighted(sample_weight)

    def __len__(self) -> int:
        return len(self.correct)

    def take(self, index: Array | slice) -> Top:
        """The samples at these positions."""
        weight = None if self.weight is None else self.weight[index]
        return Top(self.confidence[index], self.correct[index], weight)

    def weighted(self, sample_weight: ArrayLike | None) -> Top:
        """The samples whose weight is above 0, with these weights."""
        if sample_weight is None:
            return self
        if self.weight is not None:
            raise ValueError("got sample_weight beside a Top that has weights: give them once, to Top.of or the metric")
        weight = open_weight(sample_weight, len(self))
        top = replace(self, weight=weight)
        return top if weight is None or weight.all() else top.take(np.flatnonzero(weight))


@dataclass(eq=False)
class Samples:
    """N probability rows with their labels; the values of the rows are checked as `chunks` hands them out."""

    probs: torch.Tensor | Array  # (N, C), not copied if it can be avoided; tensors are of half precision
    labels: Array  # (N,) integers in [0, num_classes)
    num_classes: int
    prediction: Prediction | None = None  # of these rows, where one was given: it knows confidence and answers
    weight: Array | None = None  # (N,) float64 above 0; None where every row counts once
    names: list[Any] | None = None  # of the classes
    positions: Array | None = None  # of the rows among those given, where these are a part of them
    num_given: int = 0
    checked: bool = False  # whether the values of all rows are known to be good
    tolerance: float = ROW_SUM_TOLERANCE  # how far the sum of a row may be from 1

    def __post_init__(self) -> None:
        self.num_given = self.num_given or len(self)
        if isinstance(self.probs, torch.Tensor):
            self.tolerance = HALF_TOLERANCE
            if self.probs.numel() <= CHUNK_VALUES:
                self.probs = in_full(self.probs)

    def __len__(self) -> int:
        return len(self.probs)

    def chunks(self) -> Iterator[tuple[slice, Array]]:
        """Contiguous float32 or float64 rows that fit the cache, with their place, after their values were checked."""
        half, width = isinstance(self.probs, torch.Tensor), int(self.probs.shape[1])
        step = max(16, CHUNK_VALUES // width)
        lowest = 1 - self.tolerance if self.prediction is None else 0.0
        space = torch.empty(step, width) if half else None  # one for all: fresh memory is slow
        for start in range(0, len(self), step):
            chunk = in_full(self.probs[start : start + step], space)
            bad = None if self.checked else _first_bad(chunk, lowest, 1 + self.tolerance)
            if bad is not None:
                place = start + bad if self.positions is None else int(self.positions[start + bad])
                raise ValueError(f"row {place} of probs {_what_is_wrong(chunk[bad])}")
            yield slice(start, start + len(chunk)), chunk
        self.checked = True

    def each(self, read: Callable[[Array, Array], Array]) -> Array:
        """What `read` gives for the rows of a chunk and their labels, one value a row."""
        return np.concatenate([read(chunk, self.labels[rows]) for rows, chunk in self.chunks()])

    def top(self) -> Top:
        """Confidence and correctness of every sample; of equal probabilities the first class answers."""
        parts = [self._top_of(rows, chunk) for rows, chunk in self.chunks()]
        confidence, correct = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        return Top(confidence, correct, self.weight)

    def take(self, index: Array) -> Samples:
        """The rows at these positions."""
        prediction = self.prediction
        return replace(
            self,
            probs=self.probs[index],
            labels=self.labels[index],
            prediction=None if prediction is None else take_rows(prediction, index),
            weight=None if self.weight is None else self.weight[index],
            positions=index if self.positions is None else self.positions[index],
        )

    def leading(self, num_classes: int | None) -> Samples:
        """The same rows, of which only as many leading columns are classes."""
        if num_classes is None:
            return self
        if check_positive("num_classes", num_classes) > self.num_classes:
            raise ValueError(f"num_classes={num_classes}, expected at most the {self.num_classes} classes of probs")
        return replace(self, num_classes=num_classes)

    def _top_of(self, rows: slice, chunk: Array) -> tuple[Array, Array]:
        labels = self.labels[rows]
        if self.prediction is not None:
            return np.asarray(self.prediction.confidence)[rows], np.asarray(self.prediction.predicted)[rows] == labels
        best = picked(chunk, labels)
        correct = best > _MAJORITY
        unsure = (~correct).nonzero()[0]
        if 2 * len(unsure) > len(chunk):
            predicted = chunk.argmax(axis=1)
            return picked(chunk, predicted), predicted == labels
        searched = chunk.take(unsure, axis=0)  # less than half the time of chunk[unsure]
        predicted = searched.argmax(axis=1)
        best[unsure], correct[unsure] = picked(searched, predicted), predicted == labels.take(unsure)
        return best, correct


def weighted_mean(values: Array, weight: Array | None) -> float:
    """The mean of values, each as often as its weight says."""
    return float(values.mean() if weight is None else (values * weight).sum() / weight.sum())


def take_rows(probs: Any, index: Any) -> Any:
    """The rows at these positions, of the kind that was given."""
    if isinstance(probs, Prediction):
        parts = {name: take_rows(getattr(probs, name), index) for name in ("probs", "confidence", "predicted")}
        return replace(probs, **parts, logits=None if probs.logits is None else probs.logits[index])
    return probs[index] if isinstance(probs, torch.Tensor) else np.asarray(probs)[index]


def _first_bad(chunk: Array, lowest: float, highest: float) -> int | None:
    """The first row that does not sum to 1 or holds a negative value; a NaN or an infinity is in the sum as well."""
    sums = row_sums(chunk)
    if not (sums.min() >= lowest and sums.max() <= highest):
        off = np.flatnonzero(~((sums >= lowest) & (sums <= highest)))
        off = off[~of_half_precision(chunk[off], sums[off], HALF_TOLERANCE)]
        if len(off):
            return int(off[0])
    return int((chunk.min(axis=1) < 0).argmax()) if chunk.min() < 0 else None


def of_half_precision(rows: Array, sums: Array, tolerance: float) -> Array:
    """Whether a row misses 1 by no more than that, and float16 or bfloat16 can hold it: then it was one of these once.

    >>> of_half_precision(np.array([[0.5, 0.5078125], [0.5, 0.508]]), np.array([1.0078125, 1.008]), HALF_TOLERANCE)
    array([ True, False])
    """
    wide = torch.as_tensor(rows)
    held = [(wide.to(half).to(wide.dtype) == wide).all(dim=1).numpy() for half in (torch.bfloat16, torch.float16)]
    return (held[0] | held[1]) & (np.abs(sums - 1) <= tolerance)


def _what_is_wrong(values: Array) -> str:
    softmax = "if these are logits, apply softmax, or socrates.metrics.predict(logits)"
    if not np.isfinite(values).all():
        return "holds NaN or infinity, expected probabilities: drop the row or mend the model"
    if values.min() < 0:
        return f"holds {values.min():.6g}, expected values >= 0: {softmax}; else clip"
    with np.errstate(over="ignore"):
        given = f"sums to {values.sum():.6g}, expected 1 within {ROW_SUM_TOLERANCE}"
    wide = f"or {HALF_TOLERANCE} where float16 or bfloat16 can hold its values"
    return f"{given}, {wide}: {softmax}; if they were rounded, divide each row by its sum"
