"""The classes and groups with the clearest miscalibration, with simultaneous intervals."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays.content import Classes
from ..arrays.entries import (
    Groups,
    LabelsLike,
    ProbsLike,
    TopLike,
    named_groups,
    open_samples,
    open_top,
)
from ..arrays.open import Array, ArrayLike, check_positive, check_share
from ..arrays.samples import Samples, Top

_HALVINGS = 50


@dataclass(frozen=True)
class GroupGap:
    """The gap between confidence and accuracy in a group of predictions, with its interval.

    Args:
        name: name of the class or the group.
        count: number of predictions.
        confidence: mean confidence of the predictions.
        accuracy: share of correct predictions.
        gap: confidence - accuracy, positive if the model is overconfident.
        low: lower end of the interval of the gap.
        high: upper end of the interval of the gap.

    >>> print(GroupGap("cat", 120, 0.9, 0.8, 0.1, 0.02, 0.19))
    cat: overconfident by 10.0 points (2.0 to 19.0) over 120 answers
    >>> print(GroupGap("dog", 4, 0.9, 0.75, 0.15, -0.1, 0.8))
    dog: not surely off (-10.0 to 80.0 points) over 4 answers
    """

    name: Any
    count: int
    confidence: float
    accuracy: float
    gap: float
    low: float
    high: float

    @property
    def sure(self) -> float:
        """Return the smallest absolute gap in the interval; 0 if the interval contains 0."""
        return max(self.low, -self.high, 0.0)

    def __str__(self) -> str:
        answers = f"over {self.count} answers"
        if not self.sure:
            interval = f"{100 * self.low:.1f} to {100 * self.high:.1f} points"
            return f"{self.name}: not surely off ({interval}) {answers}"
        word = "overconfident" if self.gap > 0 else "underconfident"
        nearest, farthest = sorted((abs(self.low), abs(self.high)))
        interval = f"{100 * nearest:.1f} to {100 * farthest:.1f}"
        return f"{self.name}: {word} by {100 * abs(self.gap):.1f} points ({interval}) {answers}"


def worst_classes(
    probs: ProbsLike,
    labels: LabelsLike | None = None,
    *,
    level: float = 0.95,
    limit: int | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> list[GroupGap]:
    """Return the predicted classes with the clearest over- or underconfidence, worst first.

    A class is judged by the samples that are predicted as this class: their mean confidence minus
    their accuracy. The samples whose *label* is the class would mislead, because even a perfectly
    calibrated model is overconfident on them wherever it confuses classes. Order and intervals are
    those of `worst_groups`. If you only have confidence and correctness, pass the predicted classes
    to `worst_groups` as groups.

    Args:
        probs: (N, C) probabilities in any kind of array, or a `Prediction`; the prediction unknown
            is a separate class.
        labels: (N,) class numbers, or names with `classes`.
        level: probability that all intervals hold at once.
        limit: number of classes to return; the intervals hold for all predicted classes.
        sample_weight: not supported, because the intervals count whole answers.
        classes: names of the classes in the order of the columns.

    Returns:
        One gap per predicted class.

    >>> probs = [[0.9, 0.1]] * 40 + [[0.2, 0.8]] * 40
    >>> for gap in worst_classes(probs, [0] * 36 + [1] * 4 + [1] * 16 + [0] * 24):
    ...     print(gap)
    1: overconfident by 40.0 points (19.9 to 58.1) over 40 answers
    0: not surely off (-8.5 to 17.0 points) over 40 answers
    """
    opened = open_samples(probs, labels, sample_weight=sample_weight, classes=classes)
    samples = opened if isinstance(opened, Samples) else opened.source.take(opened.index)
    if samples.prediction is None:
        predicted = samples.map_rows(lambda chunk, _: chunk.argmax(axis=1))
    else:
        predicted = np.asarray(samples.prediction.predicted)
    names = [*(samples.names or range(samples.num_classes)), "unknown"]
    return _worst(samples.top(), predicted, names, level, limit)


def worst_groups(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    groups: Groups,
    level: float = 0.95,
    limit: int | None = None,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> list[GroupGap]:
    """Return the groups with the clearest over- or underconfidence, worst first.

    Groups are ordered by the smallest absolute gap in their interval (`GroupGap.sure`), then by how
    close the interval comes to excluding 0. All intervals hold at once with probability `level` or
    more, so the first group is not first by chance.

    The intervals are about these samples: the confidences are fixed, each prediction is correct
    with its own probability, and the interval is for the mean of these probabilities. The binomial
    distribution is the worst case for this mean (Hoeffding, 1956), and its tails have a bound in
    closed form (Zubkov and Serov, 2012). Each interval has the level `level ** (1 / number of
    groups)`. The intervals are conservative, and hardly wider than Clopper-Pearson intervals except
    in the smallest groups; the interval of a single sample excludes nothing.

    The intervals also hold for new samples of a group if a higher confidence in it means a higher
    probability of being correct, with a slope of at least one half. Where confidence is unrelated
    to correctness, they held in at least 91% of the simulations.

    Args: as for `ece`, and
        groups: (N,) the group of each sample, as numbers or strings.
        level: probability that all intervals hold at once.
        limit: number of groups to return; the intervals hold for all groups.
        sample_weight: not supported, because the intervals count whole answers.

    Returns:
        One gap per group.

    >>> correct = [1] * 27 + [0] * 3 + [1] * 18 + [0] * 12
    >>> groups = ["day"] * 30 + ["night"] * 30
    >>> print(worst_groups(confidence=[0.9] * 60, correct=correct, groups=groups)[0])
    night: overconfident by 30.0 points (9.2 to 53.5) over 30 answers
    """
    top = open_top(probs, labels, confidence, correct, sample_weight, classes)
    names, index = named_groups(groups, len(top), sample_weight)
    return _worst(top, index, names, level, limit)


def _worst(
    top: Top, index: Array, names: list[Any], level: float, limit: int | None
) -> list[GroupGap]:
    """Return the gap of each group, worst first; `index` is the group of each sample."""
    check_share("level", level, "a share between 0 and 1, such as 0.95")
    if limit is not None:
        check_positive("limit", limit)
    if top.weight is not None:
        raise ValueError(
            "got weights, expected none: these intervals count whole answers: "
            "leave sample_weight out, or use ece(..., groups=...) with bootstrap"
        )
    counts = np.bincount(index)
    seen = np.flatnonzero(counts)
    count = counts[seen]
    correct = np.bincount(index, top.correct)[seen]
    accuracy = correct / count
    confidence = np.bincount(index, top.confidence)[seen] / count
    z = statistics.NormalDist().inv_cdf((1 + level ** (1 / len(seen))) / 2)
    low = confidence - largest_share(correct, count, z)
    high = confidence - (1 - largest_share(count - correct, count, z))
    columns = (count, confidence, accuracy, confidence - accuracy, low, high)
    rows = zip(seen.tolist(), *(column.tolist() for column in columns), strict=True)
    gaps = [GroupGap(names[place], *values) for place, *values in rows]
    return sorted(gaps, key=_order)[:limit]


def _order(gap: GroupGap) -> tuple[float, float]:
    """Return the sort key: the sure gap, then how close the interval comes to excluding 0."""
    end = gap.low if gap.gap > 0 else gap.high
    return -gap.sure, -gap.gap / (gap.gap - end) if gap.gap != end else 0.0


def largest_share(correct: Array, count: Array, z: float) -> Array:
    """Return the upper confidence bound of an accuracy, at the level P(normal <= z).

    Zubkov and Serov (2012) bound a binomial X with n trials of probability q > (k + 1) / n:

        P(X <= k) <= P(normal <= -sqrt(2 n KL((k + 1) / n, q)))

    The result is the largest q for which this bound is at least P(normal > z). In the same range of
    q, the binomial is the worst case of trials with unequal probabilities (Hoeffding, 1956).

    >>> largest_share(np.array([0.0, 0.0, 12.0]), np.array([1.0, 20.0, 20.0]), z=1.96).round(3)
    array([1.   , 0.202, 0.832])
    """
    share: Array = np.minimum((correct + 1) / count, 1)
    low = share
    high = np.ones(len(share))
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            # Where share is 1, `wrong` is NaN and `high` stays 1.
            right = share * np.log(share / middle)
            wrong = (1 - share) * np.log((1 - share) / (1 - middle))
            inside = 2 * count * (right + wrong) < z * z
            low = np.where(inside, middle, low)
            high = np.where(inside, high, middle)
    return high
