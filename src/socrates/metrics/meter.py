"""Calibration of a stream: sums that grow with the bins and classes, never with the samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import torch

from .arrays import ArrayLike, check_positive
from .binning import BinStats, bin_stats, class_bin_stats, equal_mass, equal_ranks
from .inputs import Entry, LabelsLike, TopLike, Unpack, is_top, open_samples, open_top
from .samples import Array, Top
from .scoring import brier_of_each, nll_of_each

# A power of two, so that the edges are exact in every dtype.
FINE_BINS = 1 << 14


class CalibrationMeter:
    """Accuracy, calibration errors and scores of a stream of batches, in memory O(num_bins x num_classes).

    Meters add up: update one in each process, gather their `state()` and merge, in any order and grouping.

    All values but `ada_ece` are those of the whole set, to rounding, and `count` is the sum of the weights. Bins of
    equal counts need the ranks of all confidences; the meter keeps a histogram of 2^14 fine bins in their place, and
    shares out a fine bin that lies across a cut. Let n_j be the count of the fine bin that holds the j-th of the
    num_bins - 1 cuts: then

        |ada_ece of the meter - ada_ece of the samples| <= (1 + 2^-14) / (2 N) * sum_j n_j

    because r of n_j samples differ from a share r / n_j of them all by at most r (1 - r / n_j) <= n_j / 4 right
    answers, and 2^-14 of that in confidence, on either side of the cut. `ada_ece_bound` gives the sharper value that
    follows from the right answers actually counted. It is the worst of all orders of the samples within a fine bin:
    where most confidences crowd into the last one, above 1 - 2^-14, it may be 0.1 although the error is below 1e-4.

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
        # The scores are nll and brier.
        shapes: dict[str, tuple[int, ...]] = {"bins": (3, self.num_bins), "fine": (3, FINE_BINS), "scores": (2,)}
        if self.num_classes is not None:
            shapes["class_bins"] = (3, self.num_classes, self.num_bins)
        self._sums: dict[str, Array] = {name: np.zeros(shape) for name, shape in shapes.items()}

    def update(self, probs: TopLike | None = None, labels: LabelsLike | None = None, **entry: Unpack[Entry]) -> None:
        """Add a batch; on bad input nothing is added.

        Args: as for `ece`. Of confidence and correctness alone `nll`, `brier` and `cw_ece` cannot be known: a meter
            that is given these computes the others, and takes no rows.

        >>> meter = CalibrationMeter()
        >>> meter.update([[0.9, 0.1]], [0])
        >>> meter.update([0.4], [True], sample_weight=[2.0])
        >>> meter.compute()["count"]
        3.0
        """
        if is_top(probs, entry):
            self._add({**self._top_sums(open_top(probs, labels, **entry)), "scores": np.full(2, np.nan)})
            return
        samples = open_samples(probs, labels, **entry)
        if self.num_classes not in (None, samples.num_classes):
            given = f"probs have {samples.num_classes} classes, the meter was made for {self.num_classes}"
            raise ValueError(f"{given}: make it with CalibrationMeter(num_classes={samples.num_classes})")
        sums = self._top_sums(samples.top())
        weight = 1.0 if samples.weight is None else samples.weight
        sums["scores"] = np.array([(each * weight).sum() for each in (nll_of_each(samples), brier_of_each(samples))])
        if self.num_classes is not None:
            sums["class_bins"] = _stacked(class_bin_stats(samples, self.num_bins))
        self._add(sums)

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
            given = type(other).__name__
            raise TypeError(f"got a {given}, expected a CalibrationMeter: make one with from_state(state)")
        given, own = (f"num_bins={meter.num_bins}, num_classes={meter.num_classes}" for meter in (other, self))
        if given != own:
            raise ValueError(f"a meter of {given} cannot be merged into one of {own}: make both with the same values")
        self._add(other._sums)

    def __add__(self, other: object) -> CalibrationMeter:
        if not isinstance(other, CalibrationMeter):
            return NotImplemented
        total = CalibrationMeter.from_state(self.state())
        total.merge(other)
        return total

    def __radd__(self, other: object) -> CalibrationMeter:
        """`0 + meter`, with which `sum(meters)` starts."""
        return CalibrationMeter.from_state(self.state()) if other == 0 else NotImplemented

    def compute(self) -> dict[str, float]:
        """The metrics of everything seen so far, by name.

        >>> meter = CalibrationMeter()
        >>> meter.update([[0.9, 0.1]], [0])
        >>> sorted(meter.compute())
        ['accuracy', 'ada_ece', 'brier', 'count', 'ece', 'mce', 'nll']
        """
        bins, count = self._stats("bins"), self._filled_count()
        values = {"count": count, "accuracy": float(bins.correct.sum() / count), "ece": bins.ece, "mce": bins.mce}
        values["ada_ece"] = equal_mass(self._stats("fine"), self.num_bins).ece
        if np.isnan(self._sums["scores"]).any():
            return values
        values["nll"], values["brier"] = (self._sums["scores"] / count).tolist()
        return {**values, "cw_ece": self._stats("class_bins").ece} if self.num_classes else values

    def ada_ece_bound(self) -> float:
        """How far `ada_ece` of the meter can lie from that of the samples themselves.

        >>> meter = CalibrationMeter(num_bins=2)
        >>> meter.update([[0.9, 0.1], [0.6, 0.4]], [0, 1])
        >>> meter.ada_ece_bound()
        0.0
        """
        total, fine = self._filled_count(), self._stats("fine")
        rank = equal_ranks(fine.count, self.num_bins)[1:-1]
        reached = np.cumsum(fine.count)
        at = np.searchsorted(reached, rank, side="left")  # the fine bin that holds each cut
        size, right = fine.count[at], fine.correct[at]
        part = rank - (reached[at] - size)
        size = np.where(size > 0, size, 1)
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
        return {name: np.array(sums) for name, sums in self._sums.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, ArrayLike]) -> CalibrationMeter:
        """A meter that holds a copy of what `state()` gave; tensors and lists do as well as arrays.

        >>> CalibrationMeter.from_state(CalibrationMeter(num_classes=3).state()).num_classes
        3
        """
        missing = {"bins", "fine", "scores"} - set(state)
        if missing:
            raise ValueError(f"the state lacks {sorted(missing)}: pass what CalibrationMeter.state() returned")
        num_bins = _opened(state, "bins", (3, None)).shape[1]
        classes = _opened(state, "class_bins", (3, None, num_bins)).shape[1] if "class_bins" in state else None
        meter = cls(num_bins, classes)
        meter._sums = {name: _opened(state, name, sums.shape) for name, sums in meter._sums.items()}
        return meter

    def _top_sums(self, top: Top) -> dict[str, Array]:
        return {"bins": _stacked(bin_stats(top, self.num_bins)), "fine": _stacked(bin_stats(top, FINE_BINS))}

    def _add(self, sums: Mapping[str, Array]) -> None:
        kinds = [_kind(self._sums), _kind(sums)]
        if None not in kinds and kinds[0] != kinds[1]:
            todo = "fill one meter of each kind, or give this one confidence and correctness of the rows, too"
            raise ValueError(f"the meter has seen {kinds[0]}, and cannot add {kinds[1]}: {todo}")
        self._sums = {**self._sums, **{name: self._sums[name] + part for name, part in sums.items()}}

    def _stats(self, name: str) -> BinStats:
        return BinStats(*self._sums[name])

    def _filled_count(self) -> float:
        count = float(self._sums["bins"][0].sum())
        if count == 0:
            raise ValueError("the meter has seen no samples: call update(probs, labels) first")
        return count


def _stacked(stats: BinStats) -> Array:
    return np.stack([stats.count, stats.confidence, stats.correct])


def _kind(sums: Mapping[str, Array]) -> str | None:
    """What was summed up; None before the first sample. Scores of confidence and correctness alone are NaN."""
    if not sums["bins"].any():
        return None
    return "confidence and correctness alone" if np.isnan(sums["scores"]).any() else "rows of probabilities"


def _opened(state: Mapping[str, ArrayLike], name: str, shape: tuple[int | None, ...]) -> Array:
    """A float64 copy of an entry of a state, which has this shape; None stands for any length."""
    value = state[name]
    try:
        array = np.array(value.numpy(force=True) if isinstance(value, torch.Tensor) else value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} of the state does not form an array of numbers ({error})") from error
    expected = tuple(given if length is None else length for given, length in zip(array.shape, shape, strict=False))
    if array.ndim != len(shape) or array.shape != expected or 0 in array.shape:
        given = f"has shape {array.shape}, expected {str(shape).replace('None', 'any')}"
        raise ValueError(f"{name} of the state {given}: pass what CalibrationMeter.state() returned")
    return array
