"""The door of every metric: torch or numpy in, checked rows or (confidence, correctness) out, read once by chunks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import SupportsIndex, cast

import numpy as np
import numpy.typing as npt
import torch

from .predictions import Array, Prediction, refuse_mask

ArrayLike = torch.Tensor | npt.ArrayLike
LabelsLike = ArrayLike
ProbsLike = Prediction | ArrayLike

# A chunk stays in the cache, so that its checks and the metric itself read the memory once.
CHUNK_VALUES = 1 << 20
# A softmax in single precision, or one read from few digits, misses 1 by less than this.
ROW_SUM_TOLERANCE = 1e-3
# Rounding to bfloat16 moves a row's sum by up to 2^-8, to float16 by 2^-11 and 2^-25 for each of its C classes: 0.02
# holds that for C up to half a million, and twice the rounding of a softmax computed in half precision throughout.
HALF_TOLERANCE = 2e-2
# A class above this leads its row alone: two of them would take the sum of the row beyond any tolerance. Where a good
# model is that sure of the label no search is needed, and ece takes 0.29 in place of 0.40 ms at 10,000 x 10.
_MAJORITY = 0.5 + HALF_TOLERANCE

_TWO_CLASSES = "for a score p of class 1 among two classes, stack (1 - p, p) as two columns"
_ONE_COLUMN = f"{_TWO_CLASSES}; for confidence and correctness, pass Top.of(confidence, correct) in place of both"


@dataclass(frozen=True, eq=False)
class Top:
    """The currency of the metrics: each sample's confidence in its answer, and whether that was right.

    Metrics of the top class take it in the place of `probs`, without labels, for predictions of which nothing else is
    known. `Top.of` makes one from what a user has; the constructor itself checks nothing.

    Args:
        confidence: (N,) float32 or float64, the probability of the predicted class.
        correct: (N,) bool.

    >>> from socrates.metrics import ece
    >>> round(ece(Top.of(confidence=[0.9, 0.6], correct=[1, 0])), 4)
    0.35
    """

    confidence: Array
    correct: Array

    @classmethod
    def of(cls, confidence: ArrayLike, correct: ArrayLike) -> Top:
        """Checked confidence in [0, 1] and correctness, booleans or 0 and 1, torch or numpy.

        >>> Top.of([0.9, 0.6], [True, False]).correct
        array([ True, False])
        """
        scores, right = open_scores(confidence, "confidence"), _as_numpy(correct, "correct")
        for worst in (scores.min(), scores.max()):
            if not 0 <= worst <= 1:
                raise ValueError(f"confidence holds {worst:.6g}, expected probabilities of the predicted classes")
        if right.shape != scores.shape:
            raise ValueError(f"correct has shape {right.shape}, expected {scores.shape}: one answer a confidence")
        if right.dtype.kind not in "biuf" or not ((right == 0) | (right == 1)).all():
            raise ValueError("correct holds other values than 0 and 1: compare predicted classes with labels first")
        return cls(scores, right.astype(np.bool_))

    def take(self, index: Array) -> Top:
        """The samples at these positions."""
        return Top(self.confidence[index], self.correct[index])


TopLike = ProbsLike | Top


@dataclass(eq=False)
class Samples:
    """N probability rows with their labels; the values of the rows are checked as `chunks` hands them out."""

    probs: torch.Tensor | Array  # (N, C) as given, not copied where that can be avoided
    labels: Array  # (N,) integers in [0, num_classes)
    num_classes: int
    answers: tuple[Array, Array] | None = None  # confidence and predicted class, as a Prediction gave them
    prediction: Prediction | None = None

    def __len__(self) -> int:
        return len(self.probs)

    def chunks(self) -> Iterator[tuple[slice, Array]]:
        """Contiguous float32 or float64 rows that fit the cache, with their place, after their values were checked."""
        half = isinstance(self.probs, torch.Tensor) or self.probs.dtype == np.float16
        step = max(16, CHUNK_VALUES // self.probs.shape[1])
        highest = 1 + (HALF_TOLERANCE if half else ROW_SUM_TOLERANCE)
        lowest = 2 - highest if self.answers is None else 0.0
        space = torch.empty(step, self.probs.shape[1]) if half else None  # one for all: fresh memory is slow
        for start in range(0, len(self), step):
            chunk = _in_full(self.probs[start : start + step], space)
            _check_rows(chunk, start, lowest, highest)
            yield slice(start, start + len(chunk)), chunk

    def each(self, read: Callable[[Array, Array], Array]) -> Array:
        """What `read` gives for the rows of a chunk and their labels, one value a row."""
        return np.concatenate([read(chunk, self.labels[rows]) for rows, chunk in self.chunks()])

    def top(self) -> Top:
        """Confidence and correctness of every sample; of equal probabilities the first class answers."""
        parts = [self._top_of(rows, chunk) for rows, chunk in self.chunks()]
        return Top(*(parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))))

    def _top_of(self, rows: slice, chunk: Array) -> tuple[Array, Array]:
        labels = self.labels[rows]
        if self.answers is not None:
            confidence, predicted = self.answers
            return confidence[rows], predicted[rows] == labels
        best = picked(chunk, labels)
        correct = best > _MAJORITY
        unsure = np.flatnonzero(~correct)
        if 2 * len(unsure) > len(chunk):
            unsure = slice(None)  # a view in the place of a copy
        searched = chunk[unsure]
        predicted = searched.argmax(axis=1)
        best[unsure], correct[unsure] = picked(searched, predicted), predicted == labels[unsure]
        return best, correct


def open_samples(probs: ProbsLike, labels: LabelsLike, num_classes: int | None = None) -> Samples:
    """Check kinds, shapes and labels; the values of the rows are checked on the way, as the chunks are read."""
    samples = open_probs(probs)
    known = samples.num_classes if num_classes is None else check_positive("num_classes", num_classes)
    if known > samples.num_classes:
        raise ValueError(f"num_classes={known}, expected at most the {samples.num_classes} classes of probs")
    return replace(samples, labels=_open_labels(labels, len(samples), known), num_classes=known)


def open_probs(probs: TopLike) -> Samples:
    """The same without labels: they are all 0, and mean nothing."""
    if isinstance(probs, Top):
        raise ValueError("got confidence and correctness alone, expected (N, C) probabilities: this metric reads them")
    if not isinstance(probs, Prediction):
        array = _open_floats(probs, "probs", 2)
        return Samples(array, np.zeros(len(array), np.intp), array.shape[1])
    array = _open_floats(probs.probs, "probs of the Prediction", 2)
    confidence = open_scores(probs.confidence, "confidence of the Prediction")
    predicted = _as_numpy(probs.predicted, "predicted of the Prediction")
    if not len(array) == len(confidence) == len(predicted):
        lengths = f"{len(array)}, {len(confidence)} and {len(predicted)}"
        raise ValueError(f"the Prediction holds {lengths} probs, confidences and classes: make it with predict(logits)")
    return Samples(array, np.zeros(len(array), np.intp), probs.num_classes, (confidence, predicted), probs)


def open_top(probs: TopLike, labels: LabelsLike | None) -> Top:
    """Confidence and correctness: as they are, or of rows and labels."""
    if (labels is None) != isinstance(probs, Top):
        given = "labels beside a Top, which knows what is right" if labels is not None else "probs without labels"
        raise ValueError(f"got {given}: expected (probs, labels), or Top.of(confidence, correct) alone")
    return probs if isinstance(probs, Top) else open_samples(probs, cast("LabelsLike", labels)).top()


def open_scores(scores: ArrayLike, name: str) -> Array:
    """A 1-D array of finite float32 or float64 scores."""
    array = _in_full(_open_floats(scores, name, 1))
    if not np.isfinite(array).all():
        at = int((~np.isfinite(array)).argmax())
        raise ValueError(f"{name} holds {array[at]} at position {at}, expected finite scores: drop the sample")
    return array


def check_positive(name: str, value: object) -> int:
    """A number of bins, classes or draws: an integer >= 1."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(cast("SupportsIndex", value))
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"{name}={value!r}, expected an integer >= 1")
    return number


def picked(chunk: Array, column: Array) -> Array:
    """One entry of each row."""
    width = int(chunk.shape[1])
    return np.ravel(chunk).take(np.arange(0, len(chunk) * width, width) + column)


def _check_rows(chunk: Array, start: int, lowest: float, highest: float) -> None:
    """Raise unless no value is negative and each row sums to 1; a NaN or an infinity in a row is in its sum as well."""
    with np.errstate(all="ignore"):
        sums = chunk @ np.ones(chunk.shape[1], chunk.dtype)
        fine = sums.min() >= lowest and sums.max() <= highest
    if not fine:
        off = np.flatnonzero(~((sums >= lowest) & (sums <= highest)))
        for half in (torch.bfloat16, torch.float16):  # if these can hold a row, it was one before it was stored wider
            rows = torch.as_tensor(chunk[off])
            fits = (rows.to(half).to(rows.dtype) == rows).all(dim=1).numpy()
            off = off[~(fits & (np.abs(sums[off] - 1) <= HALF_TOLERANCE))]
        if len(off):
            _refuse_row(chunk[off[0]], start + int(off[0]), float(sums[off[0]]))
    if chunk.min() < 0:
        row = int((chunk.min(axis=1) < 0).argmax())
        _refuse_row(chunk[row], start + row, float(sums[row]))


def _refuse_row(values: Array, row: int, total: float) -> None:
    softmax = "if these are logits, apply softmax, or socrates.metrics.predict(logits)"
    if not np.isfinite(values).all():
        given, todo = "holds NaN or infinity, expected probabilities", "drop the row or mend the model"
    elif values.min() < 0:
        given, todo = f"holds {values.min():.6g}, expected values >= 0", f"{softmax}; else clip"
    else:
        wide = f"{HALF_TOLERANCE} where float16 or bfloat16 can hold its values"
        given = f"sums to {total:.6g}, expected 1 within {ROW_SUM_TOLERANCE}, or {wide}"
        todo = _TWO_CLASSES if len(values) == 1 else f"{softmax}; if they were rounded, divide each row by its sum"
    raise ValueError(f"row {row} of probs {given}: {todo}")


def _open_labels(labels: LabelsLike, num_samples: int, num_classes: int) -> Array:
    array = _as_numpy(labels, "labels")
    if array.ndim != 1:
        hint = "take .argmax(1) of one-hot labels, .squeeze(1) of a column"
        raise ValueError(f"labels have shape {array.shape}, expected ({num_samples},): {hint}")
    if len(array) != num_samples:
        raise ValueError(f"{len(array)} labels for {num_samples} rows of probs: expected one label a row")
    if array.dtype.kind not in ("iub" if num_classes == 2 else "iu"):
        raise ValueError(f"labels have dtype {array.dtype}, expected class numbers: convert them to integers")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= num_classes:
        above = "do labels start at 0, are all classes in probs?" if num_classes > 1 else _TWO_CLASSES
        wrong, hint = (low, "drop unlabelled samples first") if low < 0 else (high, above)
        raise ValueError(f"labels hold {wrong}, expected 0 to {num_classes - 1} for {num_classes} classes: {hint}")
    return array.astype(np.intp, copy=False)


def _open_floats(values: ArrayLike, name: str, ndim: int) -> torch.Tensor | Array:
    """A numpy view of float16, float32 or float64, or the bfloat16 tensor itself."""
    brain = isinstance(values, torch.Tensor) and values.dtype == torch.bfloat16
    array = values.detach().cpu() if isinstance(values, torch.Tensor) and brain else _as_numpy(values, name)
    if isinstance(array, np.ndarray) and array.dtype.kind != "f":
        raise ValueError(f"{name} has dtype {array.dtype}, expected floating point: convert it to float32")
    if array.ndim != ndim or 0 in array.shape:
        expected, hint = ("(N, C)", _ONE_COLUMN) if ndim == 2 else ("(N,)", "pass one score a sample")
        raise ValueError(f"{name} has shape {tuple(array.shape)}, expected {expected}, none of them 0: {hint}")
    return array


def _in_full(values: torch.Tensor | Array, space: torch.Tensor | None = None) -> Array:
    """Contiguous and writeable (torch warns else) float32 for half precision and float32, float64 for all others.

    Half precision is converted into `space`, if there is one.
    """
    if isinstance(values, np.ndarray) and values.dtype != np.float16:
        return np.require(values, np.float32 if values.dtype == np.float32 else np.float64, ["C", "W"])
    # Torch converts from half precision some twenty times as fast as numpy.
    half = torch.as_tensor(np.require(values, np.float16, ["C", "W"])) if isinstance(values, np.ndarray) else values
    return (half.float().contiguous() if space is None else space[: len(half)].copy_(half)).numpy()


def _as_numpy(values: ArrayLike, name: str) -> Array:
    if isinstance(values, torch.Tensor):
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy(force=True)
    refuse_mask(values, name)
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} does not form an array ({error}): pass a tensor or an array") from error
