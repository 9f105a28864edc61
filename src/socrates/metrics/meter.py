"""Calibration metrics of a stream of batches, in memory that does not grow with the samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from ..arrays.content import Classes
from ..arrays.entries import LabelsLike, TopLike, open_samples, open_top
from ..arrays.open import Array, ArrayLike, as_numpy, check_positive
from ..arrays.samples import Samples, Top
from .binning import BinStats, bin_stats, class_bin_stats, equal_mass, equal_ranks
from .scoring import brier_per_row, nll_per_row

# A power of two, so that the edges are exact in every dtype.
FINE_BINS = 1 << 14


class CalibrationMeter:
    """Accuracy, calibration errors and scores of a stream, in memory O(num_bins x num_classes).

    Meters can be added: update one in each process, gather the results of `state()`, and merge them
    in any order.

    All values except `ada_ece` equal those of the whole set up to rounding; `count` is the sum of
    the weights. Bins of equal counts would need the ranks of all confidences. The meter keeps a
    histogram of 2^14 fine bins instead, and splits a fine bin that lies across a cut in proportion.
    Let n_j be the count of the fine bin that holds the j-th of the num_bins - 1 cuts. Then

        |ada_ece of the meter - ada_ece of the samples| <= (1 + 2^-14) / (2 N) * sum_j n_j

    because r of the n_j samples and a share r / n_j of all of them differ by at most
    r (1 - r / n_j) <= n_j / 4 correct predictions, and by 2^-14 of that in confidence, on each side
    of the cut. `ada_ece_bound` returns a sharper bound, from the correct predictions that were
    counted. It holds for every order of the samples within a fine bin, so it can be pessimistic: if
    most confidences are above 1 - 2^-14, the bound may be 0.1 although the error is below 1e-4.

    Args:
        num_bins: number of bins (lo, hi] of equal width.
        num_classes: number of classes, which `cw_ece` needs; without it `cw_ece` is left out.

    >>> meter = CalibrationMeter(num_bins=15, num_classes=2)
    >>> meter.update([[0.9, 0.1]], [0])
    >>> meter.update([[0.6, 0.4]], [1])
    >>> round(meter.compute()["ece"], 4)
    0.35
    """

    def __init__(self, num_bins: int = 15, num_classes: int | None = None) -> None:
        self.num_bins = check_positive("num_bins", num_bins)
        self.num_classes = num_classes
        shapes: dict[str, tuple[int, ...]] = {
            "bins": (3, self.num_bins),
            "fine": (3, FINE_BINS),
            "scores": (2,),  # nll and brier
        }
        if num_classes is not None:
            shapes["class_bins"] = (3, check_positive("num_classes", num_classes), self.num_bins)
        self._sums: dict[str, Array] = {name: np.zeros(shape) for name, shape in shapes.items()}

    def update(
        self,
        probs: TopLike | None = None,
        labels: LabelsLike | None = None,
        *,
        confidence: ArrayLike | None = None,
        correct: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        classes: Classes | None = None,
    ) -> None:
        """Add a batch of samples. If the input is invalid, the meter does not change.

        Args: as for `ece`. A meter that is updated with confidence and correctness cannot compute
            `nll`, `brier` and `cw_ece`, and then takes no rows of probabilities.

        >>> meter = CalibrationMeter()
        >>> meter.update([[0.9, 0.1]], [0])
        >>> meter.update([0.4], [True], sample_weight=[2.0])
        >>> meter.compute()["count"]
        3.0
        """
        if isinstance(probs, Top) or confidence is not None or correct is not None:
            top = open_top(probs, labels, confidence, correct, sample_weight, classes)
            self._add({**self._top_sums(top), "scores": np.full(2, np.nan)})
            return
        samples = open_samples(probs, labels, sample_weight=sample_weight, classes=classes)
        assert isinstance(samples, Samples)
        if self.num_classes not in (None, samples.num_classes):
            raise ValueError(
                f"probs have {samples.num_classes} classes, the meter was made for "
                f"{self.num_classes}: make it with "
                f"CalibrationMeter(num_classes={samples.num_classes})"
            )
        sums = self._top_sums(samples.top())
        weight = 1.0 if samples.weight is None else samples.weight
        scores = (nll_per_row(samples, stacklevel=3), brier_per_row(samples))
        sums["scores"] = np.array([(values * weight).sum() for values in scores])
        if self.num_classes is not None:
            sums["class_bins"] = _stacked(class_bin_stats(samples, self.num_bins))
        self._add(sums)

    def merge(self, other: CalibrationMeter) -> None:
        """Add the samples of another meter with the same bins and classes to this one.

        `a + b` and `sum(meters)` return a new meter instead.

        >>> a = CalibrationMeter()
        >>> b = CalibrationMeter()
        >>> a.update([[0.9, 0.1]], [0])
        >>> b.update([[0.6, 0.4]], [1])
        >>> a.merge(b)
        >>> a.compute()["count"]
        2.0
        """
        if not isinstance(cast("object", other), CalibrationMeter):
            raise TypeError(
                f"got a {type(other).__name__}, expected a CalibrationMeter: "
                f"make one with from_state(state)"
            )
        if (other.num_bins, other.num_classes) != (self.num_bins, self.num_classes):
            raise ValueError(
                f"a meter of {other._options()} cannot be merged into one of {self._options()}: "
                f"make both with the same values"
            )
        self._add(other._sums)

    def __add__(self, other: object) -> CalibrationMeter:
        if not isinstance(other, CalibrationMeter):
            return NotImplemented
        total = CalibrationMeter.from_state(self.state())
        total.merge(other)
        return total

    def __radd__(self, other: object) -> CalibrationMeter:
        """Return a copy for `0 + meter`, with which `sum(meters)` starts."""
        return CalibrationMeter.from_state(self.state()) if other == 0 else NotImplemented

    def compute(self) -> dict[str, float]:
        """Return the metrics of everything seen so far, by name.

        >>> meter = CalibrationMeter()
        >>> meter.update([[0.9, 0.1]], [0])
        >>> sorted(meter.compute())
        ['accuracy', 'ada_ece', 'brier', 'count', 'ece', 'mce', 'nll']
        """
        bins = self._stats("bins")
        count = self._filled_count()
        values = {
            "count": count,
            "accuracy": float(bins.correct.sum() / count),
            "ece": bins.ece,
            "mce": bins.mce,
            "ada_ece": equal_mass(self._stats("fine"), self.num_bins).ece,
        }
        if not np.isnan(self._sums["scores"]).any():
            values["nll"], values["brier"] = (self._sums["scores"] / count).tolist()
            if self.num_classes is not None:
                values["cw_ece"] = self._stats("class_bins").ece
        return values

    def ada_ece_bound(self) -> float:
        """Return a bound on the difference between the meter's `ada_ece` and the exact one.

        >>> meter = CalibrationMeter(num_bins=2)
        >>> meter.update([[0.9, 0.1], [0.6, 0.4]], [0, 1])
        >>> meter.ada_ece_bound()
        0.0
        """
        total = self._filled_count()
        fine = self._stats("fine")
        rank = equal_ranks(fine.count, self.num_bins)[1:-1]
        reached = np.cumsum(fine.count)
        cut_bin = np.searchsorted(reached, rank, side="left")  # the fine bin that holds each cut
        size = fine.count[cut_bin]
        correct = fine.correct[cut_bin]
        below_cut = rank - (reached[cut_bin] - size)  # samples of the fine bin before the cut
        most_correct = np.minimum(below_cut, correct)
        least_correct = np.maximum(0, below_cut - (size - correct))
        assumed_correct = below_cut * correct / size
        correct_error = np.maximum(most_correct - assumed_correct, assumed_correct - least_correct)
        confidence_error = below_cut * (1 - below_cut / size) / FINE_BINS
        return float(2 * (correct_error + confidence_error).sum() / total)

    def state(self) -> dict[str, Array]:
        """Return everything that the meter holds, as plain arrays to gather or to save.

        `from_state` makes a meter from it again.

        >>> meter = CalibrationMeter(num_bins=5)
        >>> CalibrationMeter.from_state(meter.state()).num_bins
        5
        """
        return {name: np.array(sums) for name, sums in self._sums.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, ArrayLike]) -> CalibrationMeter:
        """Return a meter with a copy of what `state()` returned, in any kind of array.

        >>> CalibrationMeter.from_state(CalibrationMeter(num_classes=3).state()).num_classes
        3
        """
        missing = {"bins", "fine", "scores"} - set(state)
        if missing:
            raise ValueError(
                f"the state lacks {sorted(missing)}: pass what CalibrationMeter.state() returned"
            )
        num_bins = _open_sums(state, "bins", (3, None)).shape[1]
        num_classes = None
        if "class_bins" in state:
            num_classes = _open_sums(state, "class_bins", (3, None, num_bins)).shape[1]
        meter = cls(num_bins, num_classes)
        for name, sums in meter._sums.items():
            meter._sums[name] = _open_sums(state, name, sums.shape)
        return meter

    def _options(self) -> str:
        """Describe the numbers of bins and classes, for errors."""
        return f"num_bins={self.num_bins}, num_classes={self.num_classes}"

    def _top_sums(self, top: Top) -> dict[str, Array]:
        """Return the sums of confidence and correctness over both kinds of bins."""
        return {
            "bins": _stacked(bin_stats(top, self.num_bins)),
            "fine": _stacked(bin_stats(top, FINE_BINS)),
        }

    def _add(self, sums: Mapping[str, Array]) -> None:
        """Add the sums of a batch, which must be of the kind that the meter has seen so far.

        Sums that cannot be computed for this kind are missing.
        """
        seen = _kind(self._sums)
        added = _kind(sums)
        if seen is not None and added is not None and seen != added:
            raise ValueError(
                f"the meter has seen {seen}, and cannot add {added}: fill one meter of each kind, "
                f"or pass confidence and correctness of the rows to this one, too"
            )
        totals = {name: self._sums[name] + part for name, part in sums.items()}
        self._sums = {**self._sums, **totals}

    def _stats(self, name: str) -> BinStats:
        """Return the sums of this name as bins."""
        return BinStats(*self._sums[name])

    def _filled_count(self) -> float:
        """Return the sum of the weights, or raise an error if there are no samples yet."""
        count = float(self._sums["bins"][0].sum())
        if count == 0:
            raise ValueError("the meter has seen no samples: call update(probs, labels) first")
        return count


def _stacked(stats: BinStats) -> Array:
    """Return the three sums over the bins as one array."""
    return np.stack([stats.count, stats.confidence, stats.correct])


def _kind(sums: Mapping[str, Array]) -> str | None:
    """Return which kind of samples was added; None before the first sample.

    For confidence and correctness alone, the scores are NaN.
    """
    if not sums["bins"].any():
        return None
    if np.isnan(sums["scores"]).any():
        return "confidence and correctness alone"
    return "rows of probabilities"


def _open_sums(state: Mapping[str, ArrayLike], name: str, shape: tuple[int | None, ...]) -> Array:
    """Return a float64 copy of an entry of a state; None in the shape stands for any length."""
    try:
        array = np.array(as_numpy(state[name], name), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} of the state does not form an array of numbers ({error})"
        ) from error
    lengths = zip(array.shape, shape, strict=False)
    expected = tuple(length if wanted is None else wanted for length, wanted in lengths)
    if array.ndim != len(shape) or array.shape != expected or 0 in array.shape:
        raise ValueError(
            f"{name} of the state has shape {array.shape}, "
            f"expected {str(shape).replace('None', 'any')}: "
            f"pass what CalibrationMeter.state() returned"
        )
    return array
