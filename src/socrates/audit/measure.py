"""Measure predictions on disk in one pass: sums over all rows and by group, and a sample."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from socrates.arrays.entries import open_top
from socrates.arrays.open import check_positive, entry_per_row
from socrates.arrays.samples import Top
from socrates.cluster import check_engine, in_ray
from socrates.metrics import CalibrationMeter
from socrates.metrics.predictions import Reading
from socrates.metrics.scoring import CLIP
from socrates.processes import in_processes

from .faults import BadRows
from .layout import Layout
from .predictions import PredictionFile, RowBatch
from .read import FilePart
from .read.columns import MISSING, MISSING_GROUP, Words
from .rows import PredictionRows, Reservoir, predictions
from .strangers import StrangerRows

MOST_GROUPS = 10_000
MOST_VALUES = 50_000_000  # of a sample: of wide rows fewer are kept, 200 MB in single precision
PRELOADED = ("socrates.audit.measure", "pyarrow.parquet")  # slow to import, needed by each worker
SAMPLED = (
    "intervals, floor, tests, direction, smooth ECE, scalers, decomposition, risk and coverage, "
    "certificate and worst classes and groups"
)


@dataclass(frozen=True)
class GroupSums:
    """The sums of all rows of a group: their number, weights, confidence and correct answers.

    >>> sums = GroupSums(2, 2.0, 1.5, 1.0)
    >>> sums.confidence, sums.accuracy, (sums + sums).num_rows
    (0.75, 0.5, 4)
    """

    num_rows: int
    weight: float
    confidence_sum: float
    correct_sum: float

    @property
    def confidence(self) -> float:
        """Return the mean confidence."""
        return self.confidence_sum / self.weight

    @property
    def accuracy(self) -> float:
        """Return the share of correct answers."""
        return self.correct_sum / self.weight

    def __add__(self, other: GroupSums) -> GroupSums:
        return GroupSums(
            self.num_rows + other.num_rows,
            self.weight + other.weight,
            self.confidence_sum + other.confidence_sum,
            self.correct_sum + other.correct_sum,
        )


@dataclass(eq=False)
class Measurement:
    """What one pass over a file found.

    Args:
        layout: what the file holds.
        bad: the rows that were left out.
        meter: sums over all others; `meter.compute()` returns the metrics.
        reservoir: those of them that `sample` is made of.
        reading: how belief in "unknown" was read; None without such a column.
        groups: the sums of each group, by column and name; without answers that are too many.
        num_rows: how many rows were measured.
        rounded: how many rows were divided by their sum, which missed 1 by the rounding of few
            digits.
        zeros: how many rows assign probability 0 to their label, or a logit of -infinity.
        percents: how many rows hold one number between 1 and 100 where a share should be.
        others: how often each label occurs that is none of the classes.
        strangers: the rows whose label is unknown, which are measured apart.
    """

    layout: Layout
    bad: BadRows
    meter: CalibrationMeter
    reservoir: Reservoir
    reading: Reading | None
    groups: dict[str, dict[str, GroupSums]]
    num_rows: int = 0
    rounded: int = 0
    zeros: int = 0
    percents: int = 0
    others: Counter[str] = field(default_factory=Counter)
    strangers: StrangerRows = field(default_factory=StrangerRows)

    @property
    def num_read(self) -> int:
        """Return how many rows there were, with those that were left out."""
        return self.num_rows + self.bad.count + self.strangers.count

    @cached_property
    def sample(self) -> PredictionRows:
        """Return all rows that were measured, or a seeded sample of them."""
        return self.reservoir.sample()

    @property
    def is_sample(self) -> bool:
        """Return whether the sample lacks some of them."""
        return len(self.sample) < self.num_rows

    @property
    def notes(self) -> list[str]:
        """Return what a reader of the numbers has to know about the rows."""
        notes: list[str] = []
        if self.bad.count:
            notes.append(self.bad.words)
        if self.strangers.count:
            notes.append(self.strangers.note)
        if self.rounded:
            notes.append(
                f"{self.rounded} rounded rows, which miss 1 by their last digit, were divided by "
                "their sum"
            )
        if self.zeros:
            notes.append(
                f"{self.zeros} rows assign probability 0 to their label, which the NLL counts as "
                f"{CLIP:.2g}"
            )
        notes += [
            f"{column} has more than {MOST_GROUPS:,} different values, which are not looked at one "
            "by one"
            for column in {*self.layout.carried} - {*self.groups}
        ]
        if self.is_sample:
            rows = f"{len(self.sample):,} random rows of {self.num_rows:,}"
            notes.append(f"{SAMPLED} are those of {rows}")
        return notes

    def add(self, batch: RowBatch) -> None:
        """Add some rows of the file."""
        rows = batch.rows
        self.bad += batch.bad
        self.percents += batch.num_percent
        self._add_others(batch.others)
        self.strangers.add(batch.strangers, self.layout, self.reading)
        if not len(rows):
            return
        self.num_rows += len(rows)
        self.rounded += batch.num_rounded
        self.reservoir.add(rows)
        if self.layout.kind == "confidence":
            samples = (Top(rows.values, rows.labels), None)
        else:
            samples = (predictions(rows.values, self.layout, self.reading), rows.labels)
            impossible = 0 if self.layout.kind == "probabilities" else -np.inf
            self.zeros += int((entry_per_row(rows.values, rows.labels) == impossible).sum())
        self.meter.update(*samples, sample_weight=rows.weight)
        if self.groups:
            top = open_top(*samples, sample_weight=rows.weight)
            sums = {column: _sums_by_group(rows.groups[column], top) for column in self.groups}
            self._add_groups(sums)

    def merge(self, other: Measurement) -> None:
        """Add what was found in another part of the file."""
        self.num_rows += other.num_rows
        self.rounded += other.rounded
        self.zeros += other.zeros
        self.bad += other.bad
        self.percents += other.percents
        self._add_others(other.others)
        self.strangers.merge(other.strangers)
        self.meter.merge(other.meter)
        self.reservoir.merge(other.reservoir)
        self._add_groups(other.groups)

    def _add_others(self, added: Counter[str]) -> None:
        """Count labels that are none of the classes; of very many different ones, the first."""
        for label, count in added.items():
            if label in self.others or len(self.others) < MOST_GROUPS:
                self.others[label] += count

    def _add_groups(self, added: Mapping[str, Mapping[str, GroupSums]]) -> None:
        """Add the sums of each column.

        Too many different values are an error in a group that was asked for; answers are dropped.
        """
        for column in [*self.groups]:
            groups = self.groups[column]
            for name, sums in added.get(column, {}).items():
                groups[name] = groups[name] + sums if name in groups else sums
            if len(groups) > MOST_GROUPS and column in self.layout.groups:
                raise ValueError(
                    f"{column} has more than {MOST_GROUPS} different values: expected groups of "
                    "rows"
                )
            if len(groups) > MOST_GROUPS or column not in added:
                del self.groups[column]


@dataclass(frozen=True)
class PartToMeasure:
    """A part of a file, the empty measurement to add to, and whether a bad row is an error."""

    file: PredictionFile
    part: FilePart
    measurement: Measurement
    strict: bool


def measure(
    file: PredictionFile,
    *,
    workers: int | None = None,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    sample: int = 200_000,
    seed: int = 0,
    num_bins: int = 15,
    reading: Reading = "renormalize",
    strict: bool = False,
    tell: Callable[[int], None] = lambda rows: None,
) -> Measurement:
    """Read a whole file once, and return what it holds in sums and a sample.

    Args:
        file: what `open_predictions` returned.
        workers: the number of processes for the parts of a Parquet file or folder, 1 by default;
            the results do not depend on it.
        engine: whether these are processes of this machine, or tasks of a Ray cluster, which runs
            as many as it has room for.
        address: of the cluster; None starts one on this machine for the time of the call.
        sample: how many rows are kept at most, fewer if they are wide (50 million values).
        seed: of the choice of these rows, which depends on nothing but their numbers in the file.
        num_bins: bins of the calibration errors.
        reading: what belief in "unknown" means, if there is such a column; see
            `socrates.metrics.predict`.
        strict: raise at the first bad row.
        tell: called with the number of rows that have been read.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from socrates.audit.predictions import open_predictions
    >>> path = Path(tempfile.mkdtemp(), "model.npz")
    >>> np.savez(path, probs=[[0.9, 0.1], [0.6, 0.4], [0.5, 0.4]], labels=[0, 1, 1])
    >>> measurement = measure(open_predictions(path))
    >>> round(measurement.meter.compute()["ece"], 4), measurement.bad.words
    (0.35, '1 bad row was left out: row 2 sums to 0.9, expected 1')
    """
    check_positive("sample", sample)
    check_positive("workers", 1 if workers is None else workers)
    check_engine(engine, address)
    layout = file.layout

    def empty() -> Measurement:
        width = max(1, len(layout.classes) + layout.unknown)
        size = min(sample, max(1, MOST_VALUES // width))
        return Measurement(
            layout=layout,
            bad=BadRows(file.reader.unit),
            meter=CalibrationMeter(num_bins, len(layout.classes) or None),
            reservoir=Reservoir(size, seed, None if layout.weight else file.num_rows),
            reading=reading if layout.unknown else None,
            groups={name: {} for name in layout.carried},
        )

    from .doubts import refuse_misunderstood

    total = empty()
    parts = [PartToMeasure(file, part, empty(), strict) for part in file.parts]
    if engine == "ray" or min(workers or 1, len(parts)) > 1:
        measured: Iterable[Measurement] = (
            in_ray(_measure_part, parts, address, workers)
            if engine == "ray"
            else in_processes(_measure_part, parts, workers or 1, PRELOADED)
        )
        for measurement in measured:
            total.merge(measurement)
            tell(total.num_read)
    else:
        for part in parts:
            total.merge(_measure_part(part, total.num_read, tell))
    refuse_misunderstood(file, total)
    total.groups = {column: dict(sorted(sums.items())) for column, sums in total.groups.items()}
    return total


def _measure_part(
    task: PartToMeasure, rows_before: int = 0, tell: Callable[[int], None] = lambda rows: None
) -> Measurement:
    """Return what a part holds; `tell` hears how many rows have been read, with those before it."""
    measurement = task.measurement
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*probability 0 at their label")  # they are counted
        for batch in task.file.batches(task.part):
            if task.strict and batch.bad.count:
                line, reason = batch.bad.first[0]
                raise ValueError(f"{task.file.path}: {batch.bad.unit} {line} {reason}")
            measurement.add(batch)
            tell(rows_before + measurement.num_read)
    return measurement


def _sums_by_group(column: Words, top: Top) -> dict[str, GroupSums]:
    """Return the sums of each group of a batch."""
    names = [*column.names, MISSING_GROUP]
    codes = np.where(column.codes == MISSING, len(names) - 1, column.codes)
    weight = np.ones(len(codes)) if top.weight is None else top.weight
    counts = np.bincount(codes, None, len(names)).tolist()
    weights = np.bincount(codes, weight, len(names)).tolist()
    confidence = np.bincount(codes, weight * top.confidence, len(names)).tolist()
    correct = np.bincount(codes, weight * top.correct, len(names)).tolist()
    columns = zip(names, counts, weights, confidence, correct, strict=True)
    return {name: GroupSums(count, *sums) for name, count, *sums in columns if count}
