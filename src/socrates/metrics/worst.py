"""The classes and groups whose confidence is most surely wrong, with intervals that hold for all of them at once."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array, check_positive, check_share
from .groups import Groups, named_groups
from .inputs import Entry, LabelsLike, ProbsLike, Shared, TopLike, Unpack, open_samples, open_top
from .samples import Top

_HALVINGS = 50


@dataclass(frozen=True)
class GroupGap:
    """How far the confidence of a group's answers is off.

    Args:
        name: the class or the group.
        count: number of answers.
        confidence: their mean confidence.
        accuracy: the share that is right.
        gap: confidence less accuracy, positive where the model is too sure.
        low: lower end of the gap's interval.
        high: upper end.

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
        """The least absolute gap that the interval allows; 0 where it holds 0."""
        return max(self.low, -self.high, 0.0)

    def __str__(self) -> str:
        ends = sorted((self.low, self.high), key=abs) if self.sure else (self.low, self.high)
        off, side = ("over", 1) if self.gap > 0 else ("under", -1)
        over = f"over {self.count} answers"
        if not self.sure:
            return f"{self.name}: not surely off ({100 * ends[0]:.1f} to {100 * ends[1]:.1f} points) {over}"
        reach = f"({100 * side * ends[0]:.1f} to {100 * side * ends[1]:.1f})"
        return f"{self.name}: {off}confident by {100 * abs(self.gap):.1f} points {reach} {over}"


def worst_classes(
    probs: ProbsLike, labels: LabelsLike, *, level: float = 0.95, limit: int | None = None, **shared: Unpack[Shared]
) -> list[GroupGap]:
    """The classes whose answers are most surely too sure or not sure enough, the worst first.

    A class is judged by the answers that name it: their mean confidence less the share of them that is right. (The
    samples whose *label* is the class cannot tell: of these, a perfectly calibrated model is right less often than it
    is sure wherever it confuses classes.) Order and intervals are those of `worst_groups`. Where confidence and
    correctness are all there is, that function with the predicted classes as groups gives the same.

    Args:
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`; the answer unknown is a class of its own.
        labels: (N,) class numbers.
        level: how often all intervals shall hold at once.
        limit: return only so many; the intervals hold for all classes that answered.
        sample_weight: refused, for the intervals count whole answers.
        classes: names of the columns; labels may be names, too.

    >>> for gap in worst_classes([[0.9, 0.1]] * 40 + [[0.2, 0.8]] * 40, [0] * 36 + [1] * 4 + [1] * 16 + [0] * 24):
    ...     print(gap)
    1: overconfident by 40.0 points (19.9 to 58.1) over 40 answers
    0: not surely off (-8.5 to 17.0 points) over 40 answers
    """
    samples = open_samples(probs, labels, **shared)
    prediction = samples.prediction
    predicted = samples.each(_first_largest) if prediction is None else np.asarray(prediction.predicted)
    return _worst(samples.top(), predicted, [*(samples.names or range(samples.num_classes)), "unknown"], level, limit)


def worst_groups(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    groups: Groups,
    level: float = 0.95,
    limit: int | None = None,
    **entry: Unpack[Entry],
) -> list[GroupGap]:
    """The groups whose answers are most surely too sure or not sure enough, the worst first.

    They are ordered by the least gap that their interval allows (`sure`), then by how near the interval comes to
    leaving 0 out. With probability `level` or more all intervals hold at once, so that whichever group stands first was
    not picked by chance. An interval is about the answers at hand: it takes their confidences as given and asks what
    share of them was to be expected to be right, where each has a chance of its own. For this share the binomial
    distribution is the worst case (Hoeffding, 1956), whose tails are bounded by those of a normal one in closed form
    (Zubkov and Serov, 2012), at the level `level ** (1 / number of groups)` each. That never claims too much, is hardly
    wider than the Clopper-Pearson interval except in the smallest groups, and a group of one answer claims nothing. Of
    all answers that a group could give, the intervals hold, too, if within the group a higher confidence means answers
    that are right more often, by half of the difference or more; where confidence tells nothing about who is right,
    they held in 91 % of the simulations or more.

    Args: as for `ece`, and
        groups: (N,) the group of each sample: numbers or words.
        level: how often all intervals shall hold at once.
        limit: return only so many; the intervals hold for all groups looked at.
        sample_weight: refused, for the intervals count whole answers.

    >>> correct = [1] * 27 + [0] * 3 + [1] * 18 + [0] * 12
    >>> print(worst_groups(confidence=[0.9] * 60, correct=correct, groups=["day"] * 30 + ["night"] * 30)[0])
    night: overconfident by 30.0 points (9.2 to 53.5) over 30 answers
    """
    top = open_top(probs, labels, **entry)
    names, index = named_groups(groups, len(top), entry.get("sample_weight"))
    return _worst(top, index, names, level, limit)


def _first_largest(chunk: Array, _: Array) -> Array:
    return chunk.argmax(axis=1)


def _worst(top: Top, index: Array, names: list[Any], level: float, limit: int | None) -> list[GroupGap]:
    check_share("level", level, "a share between 0 and 1, such as 0.95")
    if limit is not None:
        check_positive("limit", limit)
    if top.weight is not None:
        todo = "leave sample_weight out, or take ece(..., groups=...) with bootstrap"
        raise ValueError(f"got weights, expected none: these intervals count whole answers: {todo}")
    count, confidence, right = (np.bincount(index, values) for values in (None, top.confidence, top.correct))
    seen = np.flatnonzero(count)
    count = count[seen]
    confidence, right = confidence[seen] / count, right[seen]
    z = statistics.NormalDist().inv_cdf((1 + level ** (1 / len(seen))) / 2)
    most, least = largest_share(right, count, z), 1 - largest_share(count - right, count, z)
    columns = (count, confidence, right / count, confidence - right / count, confidence - most, confidence - least)
    rows = zip(seen.tolist(), *(column.tolist() for column in columns), strict=True)
    gaps = [GroupGap(names[place], *values) for place, *values in rows]
    return sorted(gaps, key=_order)[:limit]


def _order(gap: GroupGap) -> tuple[float, float]:
    """What is surely off, then the part of the way from the gap to the interval's end at which 0 lies."""
    end = gap.low if gap.gap > 0 else gap.high
    return -gap.sure, -gap.gap / (gap.gap - end) if gap.gap != end else 0.0


def largest_share(right: Array, count: Array, z: float) -> Array:
    """The largest mean chance of being right at which so few right answers have a probability of P(normal > z).

    Zubkov and Serov: P(X <= k) <= P(normal <= -sqrt(2 n KL((k + 1) / n, q))) of a binomial X with q > (k + 1) / n,
    which is just where it is the worst case of unequal chances (Hoeffding).

    >>> largest_share(np.array([0.0, 0.0, 12.0]), np.array([1.0, 20.0, 20.0]), z=1.96).round(3)
    array([1.   , 0.202, 0.832])
    """
    share: Array = np.minimum((right + 1) / count, 1)
    low, high = share, np.ones(len(share))
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            # One of the two logarithms is multiplied by 0 only where share is 1, and there the answer is 1.
            distance = share * np.log(share / middle) + (1 - share) * np.log((1 - share) / (1 - middle))
            inside = 2 * count * distance < z * z
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.where(share < 1, high, 1)
