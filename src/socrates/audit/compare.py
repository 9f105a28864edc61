"""Compare files row by row: is one better than another on the same samples, beyond chance?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from socrates import metrics
from socrates.arrays.entries import open_samples
from socrates.arrays.open import Array
from socrates.metrics.scoring import brier_per_row, nll_per_row
from socrates.metrics.uncertainty import Z
from socrates.report.vocabulary import METRICS

from .judge import Judgement
from .rows import JudgedRows

NUM_RESAMPLES = 500
CONFIDENCE_LEVEL = 0.95


@dataclass(frozen=True)
class FileDifference:
    """A metric of a file minus that of the reference, with its 95% interval over the rows.

    >>> FileDifference("ece", "b", "a", -0.02, -0.03, -0.01).words
    'better'
    """

    metric: str
    label: str
    reference: str
    value: float
    low: float
    high: float
    undecided: str = ""  # why the interval is not a verdict

    @property
    def words(self) -> str:
        """Say whether the file is better than the reference, if it is more than chance."""
        if self.undecided:
            return self.undecided
        if self.low <= 0 <= self.high:
            return "within chance"
        is_better = (self.value > 0) == METRICS[self.metric].larger_is_better
        return "better" if is_better else "worse"


def compare_files(files: Sequence[Judgement]) -> tuple[list[FileDifference], str]:
    """Return how each file differs from the first, and why nothing is compared if nothing is."""
    reference = files[0]
    all_differences: list[FileDifference] = []
    for file in files[1:]:
        rows, reference_rows = common_rows(file, reference)
        has_labels = not rows.of_confidence and not reference_rows.of_confidence
        what = "" if len(rows) else "rows"
        if has_labels and not np.array_equal(rows.labels, reference_rows.labels):
            what = "labels"
        if what:
            return (
                [],
                f"{file.label} and {reference.label} have different {what}, so they are not "
                "compared row by row",
            )
        all_differences += [
            fair_difference(difference, file, reference)
            for difference in differences(file.label, rows, reference.label, reference_rows)
        ]
    return all_differences, ""


def fair_difference(
    difference: FileDifference, file: Judgement, reference: Judgement
) -> FileDifference:
    """Return a difference of ECE without a verdict if the higher ECE passes its own test.

    Chance alone makes the ECEs of calibrated files differ, the more accurate one is the lower.
    """
    higher = file if difference.value > 0 else reference
    if difference.metric != "ece" or not higher.passes:
        return difference
    return replace(difference, undecided=f"none: {higher.label} passes its own test")


def common_rows(file: Judgement, reference: Judgement) -> tuple[JudgedRows, JudgedRows]:
    """Return the rows that were judged in both files; none if one file has more rows."""
    common = np.intersect1d(file.sample.positions, reference.sample.positions, assume_unique=True)
    if file.measured.num_read != reference.measured.num_read:
        common = common[:0]
    return _rows_at(file.sample, common), _rows_at(reference.sample, common)


def _rows_at(rows: JudgedRows, positions: Array) -> JudgedRows:
    if len(rows) == len(positions):
        return rows
    return rows.take(np.searchsorted(rows.positions, positions))


def differences(
    label: str, rows: JudgedRows, reference_label: str, reference: JudgedRows
) -> list[FileDifference]:
    """Return how accuracy and ECE of two files differ on the same rows.

    NLL and Brier score follow if both files have all probabilities.
    """
    scores = scores_per_row(rows)
    reference_scores = scores_per_row(reference)
    numbers = {
        name: _difference_of_means(scores[name] - reference_scores[name], rows.weight)
        for name in scores
        if name in reference_scores
    }
    in_order = {"accuracy": numbers["accuracy"], "ece": _difference_of_ece(rows, reference)}
    in_order |= numbers
    return [
        FileDifference(name, label, reference_label, *estimate)
        for name, estimate in in_order.items()
    ]


def scores_per_row(rows: JudgedRows) -> dict[str, Array]:
    """Return the metrics that are means over rows, one value per row."""
    scores = {"accuracy": rows.top().correct.astype(float)}
    if not rows.of_confidence:
        samples = open_samples(rows.prediction(), rows.labels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of probabilities of 0, which are counted
            scores["nll"] = samples.cached(nll_per_row)
            scores["brier"] = samples.cached(brier_per_row)
    return scores


def _difference_of_means(per_row: Array, weight: Array | None) -> tuple[float, float, float]:
    """Return the mean difference and its interval by the normal distribution."""
    share = np.full(len(per_row), 1 / len(per_row))
    if weight is not None:
        share = weight / weight.sum()
    value = float(share @ per_row)
    reach = Z * math.sqrt(float(share**2 @ (per_row - value) ** 2))
    return value, value - reach, value + reach


def _difference_of_ece(
    rows: JudgedRows, reference: JudgedRows, seed: int = 0
) -> tuple[float, float, float]:
    """Return the difference and its interval by resampling the rows of both files together."""
    top = rows.top()
    reference_top = reference.top()
    rng = np.random.default_rng(seed)
    resampled = np.empty(NUM_RESAMPLES)
    for draw in range(NUM_RESAMPLES):
        index = rng.integers(0, len(rows), len(rows))
        ece = metrics.ece(top.take(index), num_bins=rows.num_bins)
        reference_ece = metrics.ece(reference_top.take(index), num_bins=rows.num_bins)
        resampled[draw] = ece - reference_ece
    value = rows.ece() - reference.ece()
    tail = (1 - CONFIDENCE_LEVEL) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return value, min(float(low), value), max(float(high), value)
