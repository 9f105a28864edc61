"""Files compared row by row: is one better than another on the same samples, beyond chance?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from socrates import metrics
from socrates.metrics.inputs import open_samples
from socrates.metrics.scoring import brier_of_each, nll_of_each
from socrates.report.vocabulary import METRICS

from .judge import Array, Judgement

NUM_RESAMPLES = 500
LEVEL = 0.95
Z = 1.959964  # two-sided 95 % of a normal distribution


@dataclass(frozen=True)
class Difference:
    """A metric of a file less that of the reference, and its 95 % interval over the choice of the rows.

    >>> Difference("ece", "b", "a", -0.02, -0.03, -0.01).words
    'better'
    """

    metric: str
    label: str
    reference: str
    value: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """Whether the file is better than the reference, if it is more than chance."""
        if self.low <= 0 <= self.high:
            return "within chance"
        return "better" if (self.value > 0) == METRICS[self.metric].larger_is_better else "worse"


def compare(files: Sequence[Judgement]) -> tuple[list[Difference], str]:
    """Every file against the first, and why there is nothing to compare where there is not."""
    for one in files[1:]:
        first = files[0]
        if not np.array_equal(one.sample.positions, first.sample.positions):
            return [], f"{one.label} and {first.label} have different rows, so they are not compared row by row"
        told = not (one.sample.of_confidence or first.sample.of_confidence)
        if told and not np.array_equal(one.sample.labels, first.sample.labels):
            return [], f"{one.label} and {first.label} have different labels, so they are not compared row by row"
    return [difference for one in files[1:] for difference in differences(one, files[0])], ""


def differences(one: Judgement, first: Judgement) -> list[Difference]:
    """Accuracy and ECE of two files on the same rows; NLL and Brier score where both have all probabilities."""
    ours, theirs = of_each_row(one), of_each_row(first)
    weight = one.sample.weight
    made = [_of_mean(name, one, first, ours[name] - theirs[name], weight) for name in ours if name in theirs]
    made.insert(1, _of_ece(one, first))
    return made


def of_each_row(one: Judgement) -> dict[str, Array]:
    """The scores that are means over the rows."""
    sample = one.sample
    found = {"accuracy": sample.top().correct.astype(float)}
    if not sample.of_confidence:
        rows = open_samples(sample.prediction(), sample.labels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of probabilities of 0, which are counted
            found |= {"nll": nll_of_each(rows), "brier": brier_of_each(rows)}
    return found


def _of_mean(name: str, one: Judgement, first: Judgement, difference: Array, weight: Array | None) -> Difference:
    """By the normal distribution of a mean."""
    share = np.full(len(difference), 1 / len(difference)) if weight is None else weight / weight.sum()
    value = float(share @ difference)
    reach = Z * math.sqrt(float(share**2 @ (difference - value) ** 2))
    return Difference(name, one.label, first.label, value, value - reach, value + reach)


def _of_ece(one: Judgement, first: Judgement, seed: int = 0) -> Difference:
    """By resamples of the rows of both files together."""
    tops = one.sample.top(), first.sample.top()
    rng = np.random.default_rng(seed)
    drawn = np.empty(NUM_RESAMPLES)
    for place in range(NUM_RESAMPLES):
        index = rng.integers(0, len(one.sample), len(one.sample))
        ours, theirs = (metrics.ece(top.take(index)) for top in tops)
        drawn[place] = ours - theirs
    value = metrics.ece(tops[0]) - metrics.ece(tops[1])
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Difference("ece", one.label, first.label, value, min(float(low), value), max(float(high), value))
