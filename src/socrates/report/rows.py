"""The rows of an answer: one per method, as trained and after temperature scaling."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .evidence import ACCURACY, ECE, FLOOR, evidence_of
from .results import Failure, Members, Results
from .selection import duplicates
from .statistics import Evidence, Family, PairedDifference, Standing, mean_std, share_interval
from .vocabulary import Metric

SCALER = "temperature"  # the one after which an answer shows methods
# Times the mean floor, for runs without the evidence of rows: about 19 of 20 calibrated models
# measure less (simulated, 1,000 rows, accuracies of up to 98%).
CHANCE = 2.0


@dataclass(frozen=True)
class Point:
    """A mean over seeds in percent, its 95% interval, and the value of each seed.

    The interval of a share stays between 0 and 100; it is NaN where there is only one seed.
    """

    mean: float
    low: float
    high: float
    by_seed: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FloorBand:
    """The ECE that a perfectly calibrated model measures by chance, in percent.

    `mean` is that of many such models; 95 of 100 of them measure less than `high`.
    """

    mean: float
    high: float


@dataclass(frozen=True)
class AnswerRow:
    """A method: as trained and after a scaler, its accuracy, its floor, its failed runs.

    `results` are without failed seeds. `standing` is that of the calibration as trained: the best
    alone, not to be told from the lowest mean, surely worse than another, or not ranked.
    """

    label: str
    results: Results
    trained: Point
    scaled: Point | None
    scaler: str
    accuracy: Point
    floor: FloorBand
    failures: tuple[Failure, ...] = ()
    standing: Standing = "unranked"

    @property
    def num_seeds(self) -> int:
        """Return how many seeds the means are of."""
        return len(self.results.seeds)

    @property
    def num_runs(self) -> int:
        """Return how many seeds were trained, with those that failed."""
        return len(self.results.seeds) + len(self.failures)

    @property
    def sound(self) -> bool:
        """Return whether the numbers mean anything."""
        return not self.results.collapses and math.isfinite(self.trained.mean)


class Families:
    """The comparisons behind an answer: of sound rows as trained, after scaling, by accuracy."""

    def __init__(self, rows: Sequence[AnswerRow]) -> None:
        self.rows = [row for row in rows if row.sound]

    @cached_property
    def trained(self) -> Family:
        """Return the calibration as trained."""
        return self._family(ECE, "none")

    @cached_property
    def scaled(self) -> Family:
        """Return how the calibration errors of the rows compare after scaling."""
        return self._family(ECE, SCALER)

    @cached_property
    def accuracy(self) -> Family:
        """Return how the accuracies of the rows compare, as trained."""
        return self._family(ACCURACY, "none")

    def _family(self, spec: Metric, scaler: str) -> Family:
        return Family([evidence_of(row.results, spec, scaler) for row in self.rows], spec)

    @cached_property
    def helped(self) -> list[bool]:
        """Return which rows scaling makes better calibrated, by the same test rows."""
        return [scaling_helps(row.results) for row in self.rows]


def scaling_helps(results: Results, scaler: str = SCALER) -> bool:
    """Return whether results are surely better calibrated after a scaler than as trained."""
    family = scaled_family(results, scaler)
    return family.surely_worse(0, 1)


def scaled_family(results: Results, scaler: str = SCALER) -> Family:
    """Return results as trained and after a scaler, to be compared row by row."""
    return Family([evidence_of(results, ECE), evidence_of(results, ECE, scaler)], ECE)


def rows_of(members: Members) -> tuple[AnswerRow, ...]:
    """Return one row per method, the lowest ECE as trained first, unranked ones last.

    A method that trained exactly as a plainer one did stands behind all others, so that no
    sentence names it for what the plainer one did.

    >>> rows_of([])
    ()
    """
    members = [item for item in members if np.isfinite(item.values(ECE.name)).any()]
    ranked = [
        Evidence({}, {}) if results.collapses else evidence_of(results, ECE) for results in members
    ]
    standings = Family(ranked, ECE).standings()
    rows = [_row(*pair) for pair in zip(members, standings, strict=True)]
    copies = duplicates(members)
    rows.sort(key=lambda row: (not row.sound, row.label in copies, row.trained.mean))
    return tuple(rows)


def row_differences(
    rows: Sequence[AnswerRow], reference: int
) -> list[tuple[PairedDifference, PairedDifference]]:
    """Return ECE less chance and accuracy of every row minus those of one, with verdicts.

    >>> row_differences([], 0)
    []
    """
    if not rows:
        return []
    families = [
        Family([evidence_of(row.results, spec) for row in rows], spec) for spec in (ECE, ACCURACY)
    ]
    return [*zip(*(family.against(reference) for family in families), strict=True)]


def _row(results: Results, standing: Standing) -> AnswerRow:
    scaled = _point(results, ECE, SCALER)
    return AnswerRow(
        results.label,
        results,
        _point(results, ECE),
        None if math.isnan(scaled.mean) else scaled,
        SCALER,
        _point(results, ACCURACY),
        _floor(results),
        tuple(results.failures),
        standing,
    )


def _point(results: Results, spec: Metric, scaler: str = "none") -> Point:
    by_seed = results.by_seed(spec, scaler)
    return Point(*share_interval(np.array([*by_seed.values()])), by_seed)


def _floor(results: Results) -> FloorBand:
    mean = mean_std(FLOOR.factor * results.values(FLOOR.name))[0]
    rows = [evaluation.rows("none") for evaluation in results.evaluations]
    highs = [FLOOR.factor * own.floor_high for own in rows if own is not None]
    return FloorBand(mean, max(mean, float(np.mean(highs))) if highs else CHANCE * mean)
