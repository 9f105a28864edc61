"""Files compared row by row: is one better than another on the same samples, beyond chance?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from socrates import metrics
from socrates.metrics.inputs import open_samples
from socrates.metrics.predictions import Array
from socrates.metrics.scoring import brier_of_each, nll_of_each
from socrates.metrics.uncertainty import Z
from socrates.report.vocabulary import METRICS

from .judge import Judgement
from .rows import JudgedRows

NUM_RESAMPLES = 500
LEVEL = 0.95


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
    first, made = files[0], list[Difference]()
    for one in files[1:]:
        rows, reference = paired(one, first)
        told = not (rows.of_confidence or reference.of_confidence)
        if not len(rows) or (told and not np.array_equal(rows.labels, reference.labels)):
            what = "labels" if len(rows) else "rows"
            return [], f"{one.label} and {first.label} have different {what}, so they are not compared row by row"
        made += differences(one.label, rows, first.label, reference)
    return made, ""


def paired(one: Judgement, first: Judgement) -> tuple[JudgedRows, JudgedRows]:
    """The rows that were judged in both files: without those that are bad in one, and none if one has more rows."""
    samples = one.sample, first.sample
    common = np.intersect1d(*(rows.positions for rows in samples), assume_unique=True)
    if one.measured.num_read != first.measured.num_read:
        common = common[:0]
    ours, theirs = (
        rows if len(common) == len(rows) else rows.take(np.searchsorted(rows.positions, common)) for rows in samples
    )
    return ours, theirs


def differences(label: str, rows: JudgedRows, reference_label: str, reference: JudgedRows) -> list[Difference]:
    """Accuracy and ECE of two files on the same rows; NLL and Brier score where both have all probabilities."""
    ours, theirs = of_each_row(rows), of_each_row(reference)
    found = {name: _of_mean(ours[name] - theirs[name], rows.weight) for name in ours if name in theirs}
    accuracy = {"accuracy": found.pop("accuracy"), "ece": _of_ece(rows, reference)}
    return [Difference(name, label, reference_label, *numbers) for name, numbers in {**accuracy, **found}.items()]


def of_each_row(rows: JudgedRows) -> dict[str, Array]:
    """The scores that are means over the rows."""
    found = {"accuracy": rows.top().correct.astype(float)}
    if not rows.of_confidence:
        samples = open_samples(rows.prediction(), rows.labels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of probabilities of 0, which are counted
            found |= {"nll": nll_of_each(samples), "brier": brier_of_each(samples)}
    return found


def _of_mean(difference: Array, weight: Array | None) -> tuple[float, float, float]:
    """The mean and its interval by the normal distribution."""
    share = np.full(len(difference), 1 / len(difference)) if weight is None else weight / weight.sum()
    value = float(share @ difference)
    reach = Z * math.sqrt(float(share**2 @ (difference - value) ** 2))
    return value, value - reach, value + reach


def _of_ece(rows: JudgedRows, reference: JudgedRows, seed: int = 0) -> tuple[float, float, float]:
    """The difference and its interval by resamples of the rows of both files together."""
    tops = rows.top(), reference.top()
    rng = np.random.default_rng(seed)
    drawn = np.empty(NUM_RESAMPLES)
    for place in range(NUM_RESAMPLES):
        index = rng.integers(0, len(rows), len(rows))
        ours, theirs = (metrics.ece(top.take(index), num_bins=rows.num_bins) for top in tops)
        drawn[place] = ours - theirs
    value = rows.ece() - reference.ece()
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return value, min(float(low), value), max(float(high), value)
