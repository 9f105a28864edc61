"""Which way a calibration error points: over- and underconfidence apart, in words; and the k best classes as one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import Array, check_positive, picked
from .binning import bin_stats
from .inputs import Entry, LabelsLike, ProbsLike, Shared, TopLike, Unpack, open_samples, open_top
from .samples import Top


@dataclass(frozen=True)
class Direction:
    """The part of the ECE from bins that are too sure, and the part from bins that are not sure enough.

    >>> print(Direction(over=0.031, under=0.0))
    overconfident by 3.1 points
    >>> print(Direction(over=0.002, under=0.022))
    underconfident by 2.0 points: by 2.2 in some bins, overconfident by 0.2 in others
    """

    over: float
    under: float

    @property
    def ece(self) -> float:
        """Both parts: the expected calibration error over the same bins."""
        return self.over + self.under

    @property
    def signed(self) -> float:
        """Mean confidence less accuracy, positive where the model is too sure; the bins do not matter."""
        return self.over - self.under

    def __str__(self) -> str:
        parts = {"overconfident": self.over, "underconfident": self.under}
        main, other = sorted(parts, key=lambda name: -parts[name])
        if parts[main] < 0.0005:
            return "neither over- nor underconfident"
        words = f"{main} by {100 * abs(self.signed):.1f} points"
        if parts[other] < 0.0005:
            return words
        return f"{words}: by {100 * parts[main]:.1f} in some bins, {other} by {100 * parts[other]:.1f} in others"


def direction(
    probs: TopLike | None = None, labels: LabelsLike | None = None, num_bins: int = 15, **entry: Unpack[Entry]
) -> Direction:
    """The two parts of the ECE: over + under is `ece`, over - under is mean confidence less accuracy.

    Args: as for `ece`, without groups.

    >>> parts = direction([[0.9, 0.1], [0.6, 0.4]], [0, 1])
    >>> round(parts.over, 4), round(parts.under, 4), round(parts.signed, 4)
    (0.3, 0.05, 0.25)
    """
    stats = bin_stats(open_top(probs, labels, **entry), num_bins)
    gap = (stats.confidence - stats.correct) / stats.count.sum()
    return Direction(over=float(gap[gap > 0].sum()), under=float(np.abs(gap[gap < 0]).sum()))


def top_k(probs: ProbsLike, labels: LabelsLike, k: int, **shared: Unpack[Shared]) -> Top:
    """The k most probable classes as one answer: `ece(top_k(probs, labels, 5))` is the ECE of the top five.

    The confidence is the sum of their probabilities, and the answer is right if the label is among them; of equal
    probabilities the first classes count.

    Args:
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`.
        labels: (N,) class numbers.
        k: number of classes, at most C.
        sample_weight: (N,) how much each sample counts.
        classes: names of the columns, where labels are names.

    >>> top = top_k([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1]], [1, 2], k=2)
    >>> top.confidence, top.correct
    (array([0.8, 0.9]), array([ True, False]))
    """
    samples = open_samples(probs, labels, **shared)
    num_columns = int(samples.probs.shape[1])
    if check_positive("k", k) > num_columns:
        raise ValueError(f"k={k}, expected at most the {num_columns} classes of probs")

    def confidence(chunk: Array, _: Array) -> Array:
        largest = np.partition(chunk, num_columns - k, axis=1)[:, num_columns - k :]
        return np.minimum(largest.sum(axis=1), 1)

    def correct(chunk: Array, label: Array) -> Array:
        own = picked(chunk, label)[:, None]
        earlier = np.arange(num_columns) < label[:, None]
        return ((chunk > own) | ((chunk == own) & earlier)).sum(axis=1) < k

    return Top(samples.each(confidence), samples.each(correct), samples.weight)
