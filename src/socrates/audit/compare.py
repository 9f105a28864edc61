"""Compare files row by row: is one better than another on the same samples, beyond chance?

All files are compared on the rows that all of them have. Intervals are wide enough to hold for all
pairs of files at once, because the reader picks the pair that looks best.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from statistics import NormalDist

import numpy as np

from socrates import metrics, scaling
from socrates.arrays.entries import open_samples
from socrates.arrays.open import Array
from socrates.metrics.scoring import brier_per_row, nll_per_row
from socrates.metrics.uncertainty import Z
from socrates.report.vocabulary import METRICS
from socrates.scaling import Scaler

from .judge import LEVEL, Judgement
from .recalibrate import fit_copy, halves, most_rows
from .rows import JudgedRows

# A choice between files looks at two numbers, accuracy and NLL after scaling.
NUM_DECISIVE = 2
NOT_SHOWN = "not shown"
NEGLIGIBLE = 0.005  # nats; the fit of a scaler alone moves the NLL by a share of it
TOO_SMALL = "too small to matter"


@dataclass(frozen=True, eq=False)
class Contender:
    """A file as it is compared with others.

    Args:
        label: its name.
        rows: the rows that were judged.
        num_read: how many rows the file has, with those that were left out.
        p_value: of its own calibration test.
        held_out: the rows that its scaler was not fitted on.
        scaler: fitted on the other rows; None if none is recommended.
    """

    label: str
    rows: JudgedRows
    num_read: int
    p_value: float
    held_out: JudgedRows
    scaler: Scaler | None = None


@dataclass(frozen=True)
class FileDifference:
    """A metric of a file minus that of the reference, with its interval over the rows.

    All intervals of a metric hold at once in 95 of 100 comparisons. The ECE is compared less what
    chance alone adds to it, and the NLL also after scaling, on rows that no scaler was fitted on.

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
    after_scaling: bool = False

    @property
    def words(self) -> str:
        """Say whether the file is better than the reference, if the rows show it."""
        if self.undecided:
            return self.undecided
        if not (self.low > 0 or self.high < 0):
            return NOT_SHOWN
        is_better = (self.value > 0) == METRICS[self.metric].larger_is_better
        return "better" if is_better else "worse"


def contender_of(judged: Judgement) -> Contender:
    """Return a judged file as it is compared with others."""
    fit, held_out = halves(judged.sample)
    winner = judged.recalibrated.winner
    scaler = None
    if winner != "none" and not judged.sample.of_confidence:
        candidates = scaling.candidates(judged.sample.values.shape[1], judged.sample.has_unknown)
        scaler = fit_copy(candidates[winner], fit.take(slice(most_rows(judged.sample))))
    return Contender(
        label=judged.label,
        rows=judged.sample,
        num_read=judged.measured.num_read,
        p_value=judged.test.p_value,
        held_out=held_out,
        scaler=scaler,
    )


def why_not_compared(files: Sequence[Contender]) -> str:
    """Return why files cannot be compared row by row, "" if they can."""
    reference = files[0]
    for file in files[1:]:
        rows = rows_at(file.rows, common_positions([file.rows, reference.rows]))
        reference_rows = rows_at(reference.rows, rows.positions)
        what = ""
        if file.num_read != reference.num_read or not len(rows):
            what = "rows"
        elif not (rows.of_confidence or reference_rows.of_confidence):
            what = "" if np.array_equal(rows.labels, reference_rows.labels) else "labels"
        if what:
            return (
                f"{file.label} and {reference.label} have different {what}, so they are not "
                "compared row by row"
            )
    return ""


def compare_files(files: Sequence[Contender]) -> list[FileDifference]:
    """Return how each file differs from the first: accuracy, ECE and, if known, NLL and Brier."""
    if len(files) < 2:
        return []
    rows = common_rows(files)
    scores = [scores_per_row(part) for part in rows]
    differences = accuracy_differences(files) + ece_differences(files)
    for metric in ("nll", "brier"):
        per_row = [score[metric] for score in scores if metric in score]
        if len(per_row) == len(files):
            differences += differences_of_means(metric, files, per_row, rows[0].weight)
    return differences + scaled_differences(files)


def ece_differences(files: Sequence[Contender]) -> list[FileDifference]:
    """Return the differences of ECE less chance to the first file.

    There is no verdict if the file behind passes its own calibration test: nobody is called better
    calibrated than a file that nothing is shown against.
    """
    reference, *others = files
    reference_rows, *rows = common_rows(files)
    failing = failing_files(files)
    differences: list[FileDifference] = []
    for file, part in zip(others, rows, strict=True):
        estimate = difference_of_ece(part, reference_rows, len(files))
        behind = file.label if estimate[0] > 0 else reference.label
        undecided = "" if behind in failing else f"none: {behind} passes its own test"
        labels = (file.label, reference.label)
        differences.append(FileDifference("ece", *labels, *estimate, undecided))
    return differences


def accuracy_differences(files: Sequence[Contender], reference: int = 0) -> list[FileDifference]:
    """Return the differences of accuracy to one file.

    Half a row is added to each way in which two files can be right or wrong, without which the
    interval is too short where they rarely differ (Agresti and Min, 2005).
    """
    rows = common_rows(files)
    correct = [part.top().correct.astype(float) for part in rows]
    weight = rows[0].weight
    differences = differences_of_means(
        "accuracy", files, correct, weight, reference, num_metrics=NUM_DECISIVE
    )
    if weight is not None:
        return differences
    return [_with_half_rows(difference, len(correct[0]), len(files)) for difference in differences]


def scaled_differences(files: Sequence[Contender], reference: int = 0) -> list[FileDifference]:
    """Return the differences of NLL to one file after scaling, on rows that no scaler saw.

    There are none if a file has only confidence and correctness: its NLL says whether it knows when
    it is right, and a less accurate model can do that just as well.
    """
    positions = common_positions([file.held_out for file in files])
    if any(file.rows.of_confidence for file in files) or not len(positions):
        return []
    rows = [rows_at(file.held_out, positions) for file in files]
    pairs = zip(rows, files, strict=True)
    nll = [scores_per_row(part, file.scaler)["nll"] for part, file in pairs]
    differences = differences_of_means(
        "nll", files, nll, rows[0].weight, reference, num_metrics=NUM_DECISIVE
    )
    return [
        replace(
            difference,
            after_scaling=True,
            undecided=TOO_SMALL if abs(difference.value) < NEGLIGIBLE else "",
        )
        for difference in differences
    ]


def differences_of_means(
    metric: str,
    files: Sequence[Contender],
    per_row: Sequence[Array],
    weight: Array | None,
    reference: int = 0,
    *,
    num_metrics: int = 1,
) -> list[FileDifference]:
    """Return the differences of a mean over rows to one file, with intervals of the family."""
    z = family_z(len(files), num_metrics)
    base = files[reference].label
    return [
        FileDifference(
            metric,
            file.label,
            base,
            *difference_of_means(per_row[place] - per_row[reference], weight, z),
        )
        for place, file in enumerate(files)
        if place != reference
    ]


def _with_half_rows(difference: FileDifference, num_rows: int, num_files: int) -> FileDifference:
    """Return a difference of accuracies whose interval counts two more rows."""
    z = family_z(num_files, NUM_DECISIVE)
    error = (difference.high - difference.value) / z
    sum_of_squares = num_rows * (num_rows * error**2 + difference.value**2)
    total = num_rows + 2
    centre = difference.value * num_rows / total
    reach = z * math.sqrt((sum_of_squares + 1) / total - centre**2) / math.sqrt(total)
    low = min(centre - reach, difference.value)
    return replace(difference, low=low, high=max(centre + reach, difference.value))


def failing_files(files: Sequence[Contender]) -> set[str]:
    """Return the files that fail their calibration tests, corrected for their number (Holm)."""
    failing: set[str] = set()
    for place, file in enumerate(sorted(files, key=lambda file: file.p_value)):
        if file.p_value * (len(files) - place) >= LEVEL:
            break
        failing.add(file.label)
    return failing


def common_rows(files: Sequence[Contender]) -> list[JudgedRows]:
    """Return the judged rows of each file that all files have."""
    positions = common_positions([file.rows for file in files])
    return [rows_at(file.rows, positions) for file in files]


def common_positions(parts: Sequence[JudgedRows]) -> Array:
    """Return the positions of the rows that all of these have."""
    positions = [np.sort(part.positions) for part in parts]
    return reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), positions)


def rows_at(rows: JudgedRows, positions: Array) -> JudgedRows:
    """Return the rows at these positions of the file, in their order."""
    if np.array_equal(rows.positions, positions):
        return rows
    order = np.argsort(rows.positions)
    return rows.take(order[np.searchsorted(rows.positions[order], positions)])


def scores_per_row(rows: JudgedRows, scaler: Scaler | None = None) -> dict[str, Array]:
    """Return the metrics that are means over rows, one value per row."""
    scores = {"accuracy": rows.top(scaler).correct.astype(float)}
    if not rows.of_confidence:
        samples = open_samples(rows.prediction(scaler), rows.labels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of probabilities of 0, which are counted
            scores["nll"] = samples.cached(nll_per_row)
            scores["brier"] = samples.cached(brier_per_row)
    return scores


def family_z(num_files: int, num_metrics: int = 1) -> float:
    """Return the reach of an interval in standard errors, so that those of all pairs hold at once.

    >>> round(family_z(2), 2), round(family_z(2, num_metrics=2), 2), round(family_z(4), 2)
    (1.96, 2.24, 2.64)
    """
    num_pairs = num_files * (num_files - 1) // 2
    return NormalDist().inv_cdf(1 - LEVEL / (2 * num_pairs * num_metrics))


def difference_of_means(
    per_row: Array, weight: Array | None, z: float
) -> tuple[float, float, float]:
    """Return the mean difference and its interval by the normal distribution."""
    share = np.full(len(per_row), 1 / len(per_row))
    if weight is not None:
        share = weight / weight.sum()
    value = float(share @ per_row)
    reach = z * math.sqrt(float(share**2 @ (per_row - value) ** 2))
    return value, value - reach, value + reach


def difference_of_ece(
    rows: JudgedRows, reference: JudgedRows, num_files: int
) -> tuple[float, float, float]:
    """Return the difference of the calibration errors less chance, with the family's interval."""
    found = metrics.compare_excess(rows.top(), reference.top(), num_bins=rows.num_bins)
    reach = (found.high - found.value) * family_z(num_files) / Z
    return found.value, found.value - reach, found.value + reach
