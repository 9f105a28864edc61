"""Hold checked samples, which every metric reads: rows with labels, or confidence and correctness.

entries.py makes them from whatever a caller passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .content import ROUNDED_TOLERANCE, ROW_SUM_TOLERANCE, first_bad_row, what_is_wrong
from .open import (
    Array,
    ArrayLike,
    as_numpy,
    entry_per_row,
    full_precision,
    open_scores,
    open_weight,
    zero_weightless,
)

Reading: TypeAlias = Literal["answer", "abstain", "renormalize", "spread"]

# A chunk stays in the cache, so that its checks and the metric itself read the memory once.
CHUNK_VALUES = 1 << 20
# A class above this leads its row alone: two of them would take the sum of the row beyond any
# tolerance. Where a good model is that sure of the label no search is needed, and ece takes 0.29
# instead of 0.40 ms at 10,000 x 10.
_MAJORITY = 0.5 + ROUNDED_TOLERANCE


@dataclass(frozen=True, eq=False)
class Prediction:
    """Probabilities, confidence and predicted class of N samples, as `predict` returns them.

    Every metric takes it in place of `probs`. It unpacks into its first three fields.

    Args:
        probs: (N, C) probabilities; rows sum to less than 1 if the unknown class is left out.
        confidence: (N,) probability of the predicted class.
        predicted: (N,) predicted class; `num_classes` stands for unknown.
        num_classes: number of known classes, which are the first columns of `probs`.
        logits: (N, C) logits that `predict` was called on. They make `nll` exact if a probability
            rounds to 0.
        unknown: how the unknown column of these logits was read.
        answered: (N,) whether each sample is answered, if a certificate decided that; see
            `socrates.abstention`.
        novelty: (N,) share of known validation samples that look less strange, if it was measured;
            see `socrates.novelty`.

    >>> from socrates.metrics import predict
    >>> probs, confidence, predicted = predict([[0.0, 0.0, 2.0]], unknown="renormalize")
    >>> probs, predicted
    (array([[0.5, 0.5]]), array([0]))
    """

    probs: Tensor | Array
    confidence: Tensor | Array
    predicted: Tensor | Array
    num_classes: int
    logits: Tensor | None = None
    unknown: Reading | None = None
    answered: Tensor | Array | None = None
    novelty: Tensor | Array | None = None

    def __iter__(self) -> Iterator[Tensor | Array]:
        return iter((self.probs, self.confidence, self.predicted))

    def __len__(self) -> int:
        return len(self.predicted)

    @property
    def unknown_share(self) -> float:
        """Return the share of samples predicted as unknown; 0 unless the reading is "answer".

        >>> from socrates.metrics import predict
        >>> predict([[0.0, 0.0, 2.0], [3.0, 0.0, 2.0]], unknown="answer").unknown_share
        0.5
        """
        return float((torch.as_tensor(self.predicted) == self.num_classes).double().mean())

    def take(self, index: Any) -> Prediction:
        """Return the samples at these positions."""
        return replace(
            self,
            probs=take_rows(self.probs, index),
            confidence=take_rows(self.confidence, index),
            predicted=take_rows(self.predicted, index),
            logits=None if self.logits is None else self.logits[index],
            answered=None if self.answered is None else take_rows(self.answered, index),
            novelty=None if self.novelty is None else take_rows(self.novelty, index),
        )


def take_rows(values: Any, index: Any) -> Any:
    """Return the rows at these positions, as a tensor for a tensor and otherwise as numpy."""
    return values[index] if isinstance(values, Tensor) else np.asarray(values)[index]


@dataclass(frozen=True, eq=False)
class Top:
    """The confidence of each prediction, and whether it is correct.

    Metrics of the top class take it in place of `probs` and labels, for predictions without the
    probabilities of all classes. Make it with `Top.of`, which checks its inputs; the constructor
    does not.

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
    def of(
        cls, confidence: ArrayLike, correct: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Top:
        """Return the samples after checking that confidence is in [0, 1] and correctness is 0 or 1.

        Samples of weight 0 are left out.

        >>> Top.of([0.9, 0.6], [True, False]).correct
        array([ True, False])
        >>> len(Top.of([0.9, 0.6, 0.5], [True, False, False], sample_weight=[2, 0, 1]))
        2
        """
        scores = open_scores(confidence, "confidence", sample_weight)
        for worst in (scores.min(), scores.max()):
            if not 0 <= worst <= 1:
                raise ValueError(
                    f"confidence holds {worst:.6g}, expected probabilities of the predicted classes"
                )
        return cls.ranked(scores, correct, sample_weight)

    @classmethod
    def ranked(cls, scores: Array, correct: ArrayLike, sample_weight: ArrayLike | None) -> Top:
        """Return the samples after checking correctness; only the order of the scores matters."""
        right = as_numpy(correct, "correct")
        if right.shape != scores.shape:
            raise ValueError(
                f"correct has shape {right.shape}, expected {scores.shape}: "
                f"pass one answer per confidence"
            )
        right = zero_weightless(right, sample_weight)
        wrong = ~((right == 0) | (right == 1)) if right.dtype.kind in "biuf" else [True]
        if np.any(wrong):
            raise ValueError(
                f"correct holds other values than 0 and 1, the first at position "
                f"{int(np.argmax(wrong))}: compare predicted classes with labels first"
            )
        return cls(scores, right.astype(np.bool_)).weighted(sample_weight)

    def __len__(self) -> int:
        return len(self.correct)

    def take(self, index: Array | slice) -> Top:
        """Return the samples at these positions."""
        weight = None if self.weight is None else self.weight[index]
        return Top(self.confidence[index], self.correct[index], weight)

    view = take  # the name that Samples has, where a view is not a copy

    def weighted(self, sample_weight: ArrayLike | None) -> Top:
        """Return the samples whose weight is above 0, with these weights."""
        if sample_weight is None:
            return self
        if self.weight is not None:
            raise ValueError(
                "got sample_weight beside a Top that has weights: "
                "pass them once, to Top.of or to the metric"
            )
        weight = open_weight(sample_weight, len(self))
        top = replace(self, weight=weight)
        return top if weight is None or weight.all() else top.take(np.flatnonzero(weight))


@dataclass(eq=False)
class Samples:
    """N rows of probabilities with labels; `chunks` checks the values as it yields them."""

    probs: Tensor | Array  # (N, C), not copied if it can be avoided; tensors are of half precision
    labels: Array  # (N,) integers in [0, num_classes)
    num_classes: int
    prediction: Prediction | None = None  # of these rows: it knows confidence and answers
    weight: Array | None = None  # (N,) float64 above 0; None where every row counts once
    names: list[Any] | None = None  # of the classes
    positions: Array | None = None  # of the rows among those passed in, where these are a part
    num_given: int = 0
    checked: bool = False  # whether the values of all rows are known to be good
    tolerance: float = ROW_SUM_TOLERANCE  # how far the sum of a row may be from 1
    _cache: dict[Any, Any] = field(default_factory=dict[Any, Any])  # what was read from every row

    def __post_init__(self) -> None:
        self.num_given = self.num_given or len(self.labels)
        if isinstance(self.probs, Tensor):
            self.tolerance = ROUNDED_TOLERANCE
            if self.probs.numel() <= CHUNK_VALUES:
                self.probs = full_precision(self.probs)

    def __len__(self) -> int:
        return len(self.labels)

    def chunks(self) -> Iterator[tuple[slice, Array]]:
        """Yield checked float32 or float64 rows that fit the cache, with their place."""
        width = int(self.probs.shape[1])
        step = max(16, CHUNK_VALUES // width)
        # One space for all chunks of half precision: fresh memory is slow.
        space = torch.empty(step, width) if isinstance(self.probs, Tensor) else None
        for start in range(0, len(self.labels), step):
            chunk = full_precision(self.probs[start : start + step], space)
            bad = None
            if not self.checked:
                bad = first_bad_row(chunk, self.tolerance, whole=self.prediction is None)
            if bad is not None:
                place = start + bad if self.positions is None else int(self.positions[start + bad])
                raise ValueError(f"row {place} of probs {what_is_wrong(chunk[bad])}")
            yield slice(start, start + len(chunk)), chunk
        self.checked = True

    def map_rows(self, read: Callable[[Array, Array], Array]) -> Array:
        """Return one value per row, as `read` gives it for the rows of a chunk and their labels."""
        return np.concatenate([read(chunk, self.labels[place]) for place, chunk in self.chunks()])

    def cached(self, read: Callable[[Samples], Array]) -> Array:
        """Return one value per row, as `read` gives it for these samples, and keep it."""
        if read not in self._cache:
            self._cache[read] = read(self)
        return self._cache[read]

    def top(self) -> Top:
        """Return confidence and correctness; of equal probabilities the first class answers."""
        if "top" not in self._cache:
            confidence: list[Array] = []
            correct: list[Array] = []
            for place, chunk in self.chunks():
                labels = self.labels[place]
                if self.prediction is not None:
                    confidence.append(np.asarray(self.prediction.confidence)[place])
                    correct.append(np.asarray(self.prediction.predicted)[place] == labels)
                    continue
                highest = entry_per_row(chunk, labels)
                is_correct = highest > _MAJORITY
                unsure = (~is_correct).nonzero()[0]
                searched = chunk.take(unsure, axis=0)  # less than half the time of chunk[unsure]
                predicted = searched.argmax(axis=1)
                highest[unsure] = entry_per_row(searched, predicted)
                is_correct[unsure] = predicted == labels.take(unsure)
                confidence.append(highest)
                correct.append(is_correct)
            self._cache["top"] = Top(
                np.concatenate(confidence), np.concatenate(correct), self.weight
            )
        return self._cache["top"]

    def take(self, index: Array) -> Samples:
        """Return a copy of the rows at these positions."""
        prediction = self.prediction
        return replace(
            self,
            probs=self.probs[index],
            labels=self.labels[index],
            prediction=None if prediction is None else prediction.take(index),
            weight=None if self.weight is None else self.weight[index],
            positions=index if self.positions is None else self.positions[index],
            _cache={},
        )

    def view(self, index: Array) -> SamplesView:
        """Return the samples at these positions without a copy of their rows; some may repeat."""
        return SamplesView(self, index)


class SamplesView:
    """Samples at some positions of others, which may repeat; what those read is not read again.

    A resample of a bootstrap is one, and so are the samples of a group.
    """

    def __init__(self, source: Samples, index: Array) -> None:
        self.source = source
        self.index = index
        self.num_classes = source.num_classes

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def labels(self) -> Array:
        """Return the class numbers of these samples."""
        return self.source.labels[self.index]

    @cached_property
    def weight(self) -> Array | None:
        """Return the weights of these samples."""
        return None if self.source.weight is None else self.source.weight[self.index]

    def view(self, index: Array) -> SamplesView:
        """Return the samples at these positions of the view."""
        return SamplesView(self.source, self.index[index])

    def chunks(self) -> Iterator[tuple[slice, Array]]:
        """Yield the rows of these samples, with their place."""
        return self.source.take(self.index).chunks()

    def cached(self, read: Callable[[Samples], Array]) -> Array:
        """Return the values that `read` gives for the source, at these positions."""
        return self.source.cached(read)[self.index]

    def top(self) -> Top:
        """Return confidence and correctness of these samples."""
        return self.source.top().take(self.index)


Rows: TypeAlias = Samples | SamplesView
