"""Calibration of a stream: sums that grow with the bins and classes, never with the samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from socrates.metrics.binning import BinStats, ClassBins, bin_stats, equal_mass
from socrates.metrics.calibration import largest_gap
from socrates.metrics.inputs import LabelsLike, ProbsLike, Top, check_positive, open_samples
from socrates.metrics.scoring import brier_of_rows, nll_of_rows

Array = npt.NDArray[Any]

# A power of two, so that the edges are exact in every dtype.
FINE_BINS = 1 << 14


class CalibrationMeter:
    """Accuracy, calibration errors and scores of a stream of batches, in memory O(num_bins x num_classes).

    Meters add up: update one in each process, gather their `state()` and merge, in any order and grouping.

    All values but `ada_ece` are those of the whole set, to rounding. Bins of equal counts need the ranks of all
    confidences; the meter keeps a histogram of 2^14 fine bins in their place, and shares out a fine bin that lies
    across a cut. Let n_j be the count of the fine bin that holds the j-th of the num_bins - 1 cuts: then

        |ada_ece of the meter - ada_ece of the samples| <= (1 + 2^-14) / (2 N) * sum_j n_j

    because r of n_j samples differ from a share r / n_j of them all by at most r (1 - r / n_j) <= n_j / 4 right
    answers, and 2^-14 of that in confidence, on either side of the cut. `ada_ece_bound` gives the sharper value that
    follows from the right answers actually counted.

    Args:
        num_bins: number of bins (lo, hi].
        num_classes: number of classes for `cw_ece`; without it that one is left out.

    >>> meter = CalibrationMeter(num_bins=15, num_classes=2)
    >>> meter.update([[0.9, 0.1]], [0])
    >>> meter.update([[0.6, 0.4]], [1])
    >>> round(meter.compute()["ece"], 4)
    0.35
    """

    def __init__(self, num_bins: int = 15, num_classes: int | None = None) -> None:
        self.num_bins = check_positive("num_bins", num_bins)
        self.num_classes = None if num_classes is None else check_positive("num_classes", num_classes)
        self._bins = _zeros(self.num_bins)
        self._fine = _zeros(FINE_BINS)
        self._class_bins = None if self.num_classes is None else _zeros(self.num_classes, self.num_bins)
        self._scores: Array = np.zeros(2)  # sums of nll and brier

    def update(self, probs: ProbsLike, labels: LabelsLike) -> None:
        """Add a batch; on bad input nothing is added.

        Args:
            probs: (N, C) probabilities, torch or numpy, or a `Prediction`.
            labels: (N,) class numbers.

        >>> meter = CalibrationMeter()
        >>> meter.update([[0.9, 0.1]], [0])
        >>> meter.compute()["count"]
        1.0
        """
        samples = open_samples(probs, labels)
        if self.num_classes not in (None, samples.num_classes):
            raise ValueError(
                f"probs have {samples.num_classes} classes, the meter was made for {self.num_classes}: "
                f"make it with CalibrationMeter(num_classes={samples.num_classes})"
            )
        scores = np.zeros(2)
        confidence = np.empty(len(samples), samples.probs.dtype)
        correct = np.empty(len(samples), np.bool_)
        classes = ClassBins(self.num_bins, self.num_classes, samples.dtype) if self.num_classes else None
        for rows, chunk in samples.summed_chunks():
            label = samples.labels[rows]
            confidence[rows], correct[rows] = samples.top_of(rows, chunk)
            scores += [score(chunk, label, samples.dtype).sum() for score in (nll_of_rows, brier_of_rows)]
            if classes is not None:
                classes.add(chunk, label, rows.start)
        self._bins += bin_stats(Top(confidence, correct, samples.dtype), self.num_bins)
        self._fine += _fine_stats(confidence, correct)
        self._scores = self._scores + scores
        if self._class_bins is not None and classes is not None:
            self._class_bins += classes.stats()

    def merge(self, other: CalibrationMeter) -> None:
        """Add the samples of another meter with the same bins and classes to this one.

        `a + b` and `sum(meters)` make a new meter.

        >>> a, b = CalibrationMeter(), CalibrationMeter()
        >>> a.update([[0.9, 0.1]], [0])
        >>> b.update([[0.6, 0.4]], [1])
        >>> a.merge(b)
        >>> a.compute()["count"]
        2.0
        """
        if not isinstance(cast("object", other), CalibrationMeter):
            raise TypeError(
                f"got a {type(other).__name__}, expected a CalibrationMeter: make one with from_state(state)"
            )
        if (self.num_bins, self.num_classes) != (other.num_bins, other.num_classes):
            raise ValueError(
                f"a meter of num_bins={other.num_bins}, num_classes={other.num_classes} cannot be merged into one of "
                f"num_bins={self.num_bins}, num_classes={self.num_classes}: make both with the same values"
            )
        self._bins += other._bins
        self._fine += other._fine
        self._scores = self._scores + other._scores
        if self._class_bins is not None and other._class_bins is not None:
            self._class_bins += other._class_bins

    def __add__(self, other: object) -> CalibrationMeter:
        if not isinstance(other, CalibrationMeter):
            return NotImplemented
        total = CalibrationMeter(self.num_bins, self.num_classes)
        total.merge(self)
        total.merge(other)
        return total

    def __radd__(self, other: object) -> CalibrationMeter:
        """`0 + meter`, with which `sum(meters)` starts."""
        if other != 0:
            return NotImplemented
        return self + CalibrationMeter(self.num_bins, self.num_classes)

    def compute(self) -> dict[str, float]:
        """The metrics of everything seen so far, by name.

        >>> meter = CalibrationMeter()
        >>> meter.update([[0.9, 0.1]], [0])
        >>> sorted(meter.compute())
        ['accuracy', 'ada_ece', 'brier', 'count', 'ece', 'mce', 'nll']
        """
        count = self._filled_count()
        values = {
            "count": count,
            "accuracy": float(self._bins.correct.sum() / count),
            "ece": self._bins.ece,
            "mce": largest_gap(self._bins),
            "ada_ece": equal_mass(self._fine, self.num_bins).ece,
            "nll": float(self._scores[0] / count),
            "brier": float(self._scores[1] / count),
        }
        if self._class_bins is not None:
            values["cw_ece"] = self._class_bins.ece
        return values

    def ada_ece_bound(self) -> float:
        """How far `ada_ece` of the meter can lie from that of the samples themselves.

        >>> meter = CalibrationMeter(num_bins=2)
        >>> meter.update([[0.9, 0.1], [0.6, 0.4]], [0, 1])
        >>> meter.ada_ece_bound()
        0.0
        """
        total = int(self._filled_count())
        cut = np.arange(1, self.num_bins)
        rank = cut * (total // self.num_bins) + np.minimum(cut, total % self.num_bins)
        reached = np.cumsum(self._fine.count)
        at = np.searchsorted(reached, rank, side="left")  # the fine bin that holds each cut
        size, right = self._fine.count[at], self._fine.correct[at]
        part = rank - (reached[at] - size)
        size = np.maximum(size, 1)
        most, least = np.minimum(part, right), np.maximum(0, part - (size - right))
        share = part * right / size
        answers = np.maximum(most - share, share - least)
        confidences = part * (1 - part / size) / FINE_BINS
        return float(2 * (answers + confidences).sum() / total)

    def state(self) -> dict[str, Array]:
        """Everything the meter holds, as plain arrays to gather or to save; `from_state` takes it back.

        >>> meter = CalibrationMeter(num_bins=5)
        >>> CalibrationMeter.from_state(meter.state()).num_bins
        5
        """
        state = {"bins": _stack(self._bins), "fine": _stack(self._fine), "scores": np.array(self._scores)}
        if self._class_bins is not None:
            state["class_bins"] = _stack(self._class_bins)
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, torch.Tensor | npt.ArrayLike]) -> CalibrationMeter:
        """A meter that holds a copy of what `state()` gave; tensors and lists do as well as arrays.

        >>> CalibrationMeter.from_state(CalibrationMeter(num_classes=3).state()).num_classes
        3
        """
        missing = {"bins", "fine", "scores"} - set(state)
        if missing:
            raise ValueError(f"the state lacks {sorted(missing)}: pass what CalibrationMeter.state() returned")
        bins = _opened(state, "bins", (3, None))
        num_bins = bins.shape[1]
        classes = _opened(state, "class_bins", (3, None, num_bins)) if "class_bins" in state else None
        meter = cls(num_bins, None if classes is None else classes.shape[1])
        meter._bins, meter._fine = BinStats(*bins), BinStats(*_opened(state, "fine", (3, FINE_BINS)))
        meter._class_bins = None if classes is None else BinStats(*classes)
        meter._scores = _opened(state, "scores", (2,))
        return meter

    def _filled_count(self) -> float:
        count = float(self._bins.count.sum())
        if count == 0:
            raise ValueError("the meter has seen no samples: call update(probs, labels) first")
        return count


def _fine_stats(confidence: Array, correct: Array) -> BinStats:
    above = np.ceil(confidence * confidence.dtype.type(FINE_BINS)).astype(np.intp)  # exact: a power of two
    index = np.minimum(np.maximum(above - 1, 0), FINE_BINS - 1)
    weights = (None, confidence, correct)
    return BinStats(*(np.bincount(index, w, minlength=FINE_BINS).astype(np.float64) for w in weights))


def _opened(state: Mapping[str, torch.Tensor | npt.ArrayLike], name: str, shape: tuple[int | None, ...]) -> Array:
    """A float64 copy of an entry of a state, which has this shape; None stands for any length."""
    value = state[name]
    try:
        array = np.array(
            value.detach().cpu().double().numpy() if isinstance(value, torch.Tensor) else value, dtype=np.float64
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} of the state does not form an array of numbers ({error})") from error
    expected = tuple(given if length is None else length for given, length in zip(array.shape, shape, strict=False))
    if array.ndim != len(shape) or array.shape != expected or 0 in array.shape:
        wanted = str(shape).replace("None", "any")
        raise ValueError(
            f"{name} of the state has shape {array.shape}, expected {wanted}: "
            "pass what CalibrationMeter.state() returned"
        )
    return array


def _zeros(*shape: int) -> BinStats:
    return BinStats(np.zeros(shape), np.zeros(shape), np.zeros(shape))


def _stack(stats: BinStats) -> Array:
    return np.stack([stats.count, stats.confidence, stats.correct])
