"""The door of every metric: torch or numpy in, checked numpy views out, read once and chunk by chunk."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt
import torch

from socrates.metrics.predictions import Prediction

Array = npt.NDArray[Any]
ProbsLike = Prediction | torch.Tensor | npt.ArrayLike
LabelsLike = torch.Tensor | npt.ArrayLike

# A chunk stays in the cache, so that its checks and the metric itself read the memory once.
CHUNK_BYTES = 1 << 22
# Up to this many columns a maximum over transposed columns beats one over rows, which pays for each row.
FEW_COLUMNS = 16
# A softmax in half precision misses 1 by up to about 1e-2; one in single precision, or read from few digits, by 1e-3.
ROW_SUM_TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 2e-2, torch.float32: 1e-3, torch.float64: 1e-3}
# A column above this leads its row alone: two of them would take the sum of the row beyond any tolerance.
MAJORITY = 0.5 + max(ROW_SUM_TOLERANCE.values())

_SOFTMAX_HINT = "if these are logits, apply softmax, or socrates.metrics.predict(logits)"


@dataclass(frozen=True)
class Top:
    """What most metrics need of a sample: the confidence of its predicted class and whether that was right."""

    confidence: Array  # (N,) float32 or float64
    correct: Array  # (N,) bool
    dtype: torch.dtype  # of the probabilities as given: bin edges are rounded to it

    def take(self, index: Array) -> Top:
        """The samples at these positions."""
        return Top(self.confidence[index], self.correct[index], self.dtype)


@dataclass(frozen=True)
class Samples:
    """N probability rows with their labels; the values of the rows are checked as `chunks` hands them out."""

    probs: Array  # (N, C) float32 or float64, not copied where that can be avoided
    labels: Array  # (N,) integers in [0, num_classes)
    num_classes: int
    dtype: torch.dtype
    confidence: Array | None = None  # as a Prediction gave them
    predicted: Array | None = None

    def __len__(self) -> int:
        return len(self.probs)

    def chunks(self) -> Iterator[tuple[slice, Array]]:
        """Contiguous rows that fit the cache, with their position, after their values were checked."""
        for rows, chunk in self.summed_chunks():
            refuse_negative(chunk, rows.start)
            yield rows, chunk

    def top(self) -> Top:
        """Confidence and correctness of every sample."""
        confidence = np.empty(len(self), self.probs.dtype)
        correct = np.empty(len(self), np.bool_)
        for rows, chunk in self.summed_chunks():
            confidence[rows], correct[rows] = self.top_of(rows, chunk)
        return Top(confidence, correct, self.dtype)

    def top_of(self, rows: slice, chunk: Array) -> tuple[Array, Array]:
        """Confidence and correctness of one chunk, whose values turn out to be negative or not on the way."""
        if self.confidence is None or self.predicted is None:
            return top_of_rows(chunk, self.labels[rows], rows.start)
        refuse_negative(chunk, rows.start)
        return self.confidence[rows], self.predicted[rows] == self.labels[rows]

    def summed_chunks(self) -> Iterator[tuple[slice, Array]]:
        """The chunks after a check of their row sums alone: a NaN or an infinity in a row is in its sum as well."""
        num_columns = self.probs.shape[1]
        step = max(16, CHUNK_BYTES // (num_columns * self.probs.itemsize) // 16 * 16)
        ones = np.ones(num_columns, self.probs.dtype)
        tolerance = ROW_SUM_TOLERANCE[self.dtype]
        lowest, highest = 1 - tolerance if self.confidence is None else 0.0, 1 + tolerance
        for start in range(0, len(self.probs), step):
            chunk = np.ascontiguousarray(self.probs[start : start + step])
            with np.errstate(all="ignore"):
                sums = chunk @ ones
                fine = sums.min() >= lowest and sums.max() <= highest
            if not fine:
                _refuse_sums(chunk, sums, start, lowest, highest)
            yield slice(start, start + len(chunk)), chunk


def open_samples(probs: ProbsLike, labels: LabelsLike, num_classes: int | None = None) -> Samples:
    """Check kinds, shapes and labels; the values of the rows are checked on the way, as the chunks are read."""
    array, available, dtype, confidence, predicted = _open_rows(probs)
    known = available
    if num_classes is not None:
        known = check_positive("num_classes", num_classes)
        if known > available:
            raise ValueError(f"num_classes={known}, expected at most the {available} classes of probs")
    return Samples(array, _open_labels(labels, len(array), known), known, dtype, confidence, predicted)


def open_probs(probs: ProbsLike) -> Samples:
    """The same without labels: they are all 0, and mean nothing."""
    array, num_classes, dtype, confidence, predicted = _open_rows(probs)
    return Samples(array, np.zeros(len(array), np.intp), num_classes, dtype, confidence, predicted)


def _open_rows(probs: ProbsLike) -> tuple[Array, int, torch.dtype, Array | None, Array | None]:
    """Rows, number of classes, dtype, and the confidence and answers of a Prediction."""
    if not isinstance(probs, Prediction):
        array, dtype = _open_floats(probs, "probs", 2)
        return array, array.shape[1], dtype, None, None
    array, dtype = _open_floats(probs.probs, "probs of the Prediction", 2)
    confidence = open_scores(probs.confidence, "confidence of the Prediction")
    predicted = _as_numpy(probs.predicted, "predicted of the Prediction")
    if not len(array) == len(confidence) == len(predicted):
        lengths = f"{len(array)}, {len(confidence)} and {len(predicted)}"
        raise ValueError(f"the Prediction holds {lengths} probs, confidences and classes: make it with predict(logits)")
    return array, probs.num_classes, dtype, confidence, predicted


def open_scores(scores: torch.Tensor | npt.ArrayLike, name: str) -> Array:
    """A 1-D array of finite float32 or float64 scores."""
    array, _ = _open_floats(scores, name, 1)
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


def top_of_rows(chunk: Array, labels: Array, start: int) -> tuple[Array, Array]:
    """Maximum of each row and whether its first position is the label; a negative value is refused."""
    best = _picked(chunk, labels)
    correct = best > MAJORITY  # a good model is that sure of most labels, and only the other rows are searched
    unsure = np.flatnonzero(~correct)
    if 2 * len(unsure) > len(chunk):
        return _search_rows(chunk, labels, start)
    refuse_negative(chunk, start)
    if len(unsure):
        best[unsure], correct[unsure] = _search_rows(chunk.take(unsure, axis=0), labels.take(unsure), start)
    return best, correct


def _search_rows(chunk: Array, labels: Array, start: int) -> tuple[Array, Array]:
    """What `top_of_rows` returns, by a search through every row."""
    num_rows, num_columns = chunk.shape
    if num_columns <= FEW_COLUMNS:
        refuse_negative(chunk, start)
        columns = np.ascontiguousarray(np.transpose(chunk))
        best = columns.max(axis=0)
        if np.count_nonzero(columns == best) > num_rows:  # two lead together somewhere, and the first counts
            return best, chunk.argmax(axis=1) == labels
        return best, _picked(chunk, labels) == best
    # Read as unsigned integers, positive numbers keep their order and negative ones lead: one search finds both.
    predicted = as_integers(chunk, "u").argmax(axis=1)
    best = _picked(chunk, predicted)
    if not best.min() > 0:
        refuse_negative(chunk, start)
        return chunk.max(axis=1), chunk.argmax(axis=1) == labels  # it was -0.0
    return best, predicted == labels


def as_integers(values: Array, kind: str) -> Array:
    """The same memory read as signed ("i") or unsigned ("u") integers."""
    return np.ndarray(values.shape, f"{kind}{values.itemsize}", values)


def _picked(chunk: Array, column: Array) -> Array:
    """One entry of each row."""
    width = int(chunk.shape[1])
    place = np.arange(0, len(chunk) * width, width)
    place += column
    return np.ravel(chunk).take(place)


def refuse_negative(chunk: Array, start: int) -> None:
    """Raise if a value is below 0, however little; -0.0 is not."""
    # Integers are faster to compare; read as such, negative numbers stay negative, but -0.0 joins them.
    if as_integers(chunk, "i").min() >= 0 or chunk.min() >= 0:
        return
    row = int((chunk.min(axis=1) < 0).argmax())
    given = f"row {start + row} of probs holds {chunk[row].min():.6g}"
    raise ValueError(f"{given}, expected values >= 0: {_SOFTMAX_HINT}; else clip")


def _refuse_sums(chunk: Array, sums: Array, start: int, lowest: float, highest: float) -> None:
    row = int((~((sums >= lowest) & (sums <= highest))).argmax())
    where = f"row {start + row} of probs"
    if not np.isfinite(chunk[row]).all():
        raise ValueError(f"{where} holds NaN or infinity, expected probabilities: drop the row or mend the model")
    refuse_negative(chunk[row : row + 1], start + row)
    raise ValueError(f"{where} sums to {sums[row]:.6g}, expected 1 within {highest - 1:.3g}: {_SOFTMAX_HINT}")


def _open_labels(labels: LabelsLike, num_samples: int, num_classes: int) -> Array:
    array = _as_numpy(labels, "labels")
    if array.ndim != 1:
        hint = "take .argmax(1) of one-hot labels, .squeeze(1) of a column"
        raise ValueError(f"labels have shape {array.shape}, expected ({num_samples},): {hint}")
    if len(array) != num_samples:
        raise ValueError(f"{len(array)} labels for {num_samples} rows of probs: expected one label a row")
    if array.dtype.kind not in "iu":
        raise ValueError(f"labels have dtype {array.dtype}, expected class numbers: convert them to integers")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= num_classes:
        wrong = low if low < 0 else high
        hint = "drop unlabelled samples first" if low < 0 else "do labels start at 0, are all classes in probs?"
        raise ValueError(f"labels hold {wrong}, expected 0 to {num_classes - 1} for {num_classes} classes: {hint}")
    return array.astype(np.intp, copy=False)


def _open_floats(values: torch.Tensor | npt.ArrayLike, name: str, ndim: int) -> tuple[Array, torch.dtype]:
    """A float32 or float64 numpy view, and the dtype it was given in."""
    half = isinstance(values, torch.Tensor) and values.dtype in (torch.float16, torch.bfloat16)
    dtype = values.dtype if isinstance(values, torch.Tensor) and half else None
    array = _as_numpy(values, name)
    if array.dtype.kind != "f":
        raise ValueError(f"{name} has dtype {array.dtype}, expected floating point: convert it to float32")
    if array.ndim != ndim or 0 in array.shape:
        hint = "for one probability p of two classes, stack (1 - p, p)" if ndim == 2 else "pass one score a sample"
        expected = "(N, C)" if ndim == 2 else "(N,)"
        raise ValueError(f"{name} has shape {array.shape}, expected {expected}, none of them 0: {hint}")
    if array.dtype == np.float16:
        return array.astype(np.float32), torch.float16
    if array.dtype == np.float32:
        return array, dtype or torch.float32
    return array.astype(np.float64, copy=False), torch.float64


def _as_numpy(values: torch.Tensor | npt.ArrayLike, name: str) -> Array:
    if isinstance(values, torch.Tensor):
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy(force=True)
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} does not form an array ({error}): pass a tensor or an array") from error
