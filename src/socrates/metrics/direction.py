"""Split the ECE into over- and underconfidence; treat the top k classes as one prediction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays.content import Classes
from ..arrays.entries import LabelsLike, ProbsLike, TopLike, open_samples, open_top
from ..arrays.open import Array, ArrayLike, check_positive, entry_per_row
from ..arrays.samples import Samples, Top
from .binning import bin_stats


@dataclass(frozen=True)
class Direction:
    """The ECE as the sum of an overconfident part and an underconfident part.

    Args:
        over: the part of the ECE that comes from overconfident bins.
        under: the part that comes from underconfident bins.

    >>> print(Direction(over=0.031, under=0.0))
    overconfident by 3.1 points
    >>> print(Direction(over=0.002, under=0.022))
    underconfident by 2.0 points: by 2.2 in some bins, overconfident by 0.2 in others
    """

    over: float
    under: float

    @property
    def ece(self) -> float:
        """Return the sum of both parts, the expected calibration error over the same bins."""
        return self.over + self.under

    @property
    def signed(self) -> float:
        """Return mean confidence minus accuracy, positive if the model is overconfident.

        It does not depend on the bins.
        """
        return self.over - self.under

    def __str__(self) -> str:
        parts = {"overconfident": self.over, "underconfident": self.under}
        main, other = sorted(parts, key=lambda name: -parts[name])
        if parts[main] < 0.0005:
            return "neither over- nor underconfident"
        words = f"{main} by {100 * abs(self.signed):.1f} points"
        if parts[other] < 0.0005:
            return words
        return (
            f"{words}: by {100 * parts[main]:.1f} in some bins, {other} by "
            f"{100 * parts[other]:.1f} in others"
        )


def direction(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    num_bins: int = 15,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Direction:
    """Split the ECE into an overconfident part and an underconfident part.

    The sum of the parts is `ece`. Their difference is mean confidence minus accuracy.

    Args: as for `ece`, without groups.

    >>> parts = direction([[0.9, 0.1], [0.6, 0.4]], [0, 1])
    >>> round(parts.over, 4), round(parts.under, 4), round(parts.signed, 4)
    (0.3, 0.05, 0.25)
    """
    top = open_top(probs, labels, confidence, correct, sample_weight, classes)
    stats = bin_stats(top, num_bins)
    gap = (stats.confidence - stats.correct) / stats.count.sum()
    return Direction(over=float(gap[gap > 0].sum()), under=float(np.abs(gap[gap < 0]).sum()))


def top_k(
    probs: ProbsLike,
    labels: LabelsLike,
    k: int,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Top:
    """Treat the k most probable classes as one prediction, for metrics of the top class.

    `ece(top_k(probs, labels, 5))` is the ECE of the top five. The confidence is the sum of their
    probabilities, and the prediction is correct if the label is among them. Ties go to the first
    classes.

    Args:
        probs: (N, C) probabilities in any kind of array, or a `Prediction`.
        labels: (N,) class numbers, or names with `classes`.
        k: number of classes, at most C.
        sample_weight: (N,) weights, as for `ece`.
        classes: names of the classes in the order of the columns, if labels are names.

    Returns:
        Confidence and correctness of each sample.

    >>> top = top_k([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1]], [1, 2], k=2)
    >>> top.confidence, top.correct
    (array([0.8, 0.9]), array([ True, False]))
    """
    samples = open_samples(probs, labels, sample_weight=sample_weight, classes=classes)
    assert isinstance(samples, Samples)
    num_columns = int(samples.probs.shape[1])
    if check_positive("k", k) > num_columns:
        raise ValueError(f"k={k}, expected at most the {num_columns} classes of probs")

    def confidence(chunk: Array, _: Array) -> Array:
        largest = np.partition(chunk, num_columns - k, axis=1)[:, num_columns - k :]
        return np.minimum(largest.sum(axis=1), 1)

    def correct(chunk: Array, label: Array) -> Array:
        of_label = entry_per_row(chunk, label)[:, None]
        is_earlier = np.arange(num_columns) < label[:, None]
        is_before = (chunk > of_label) | ((chunk == of_label) & is_earlier)
        return is_before.sum(axis=1) < k

    return Top(samples.map_rows(confidence), samples.map_rows(correct), samples.weight)
