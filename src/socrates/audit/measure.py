"""One pass over predictions on disk: sums over all rows, sums by group, and a sample for all that needs the rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from socrates.cluster import check_engine, in_ray
from socrates.metrics import CalibrationMeter, predict
from socrates.metrics.arrays import check_positive, picked
from socrates.metrics.inputs import open_top
from socrates.metrics.predictions import Array, Prediction, Reading
from socrates.metrics.samples import Top
from socrates.metrics.scoring import CLIP

from .columns import Layout
from .pool import in_processes
from .read import Rows, Source
from .reader import Part
from .sample import MISSING_GROUP, MOST_VALUES, Reservoir, Sample
from .table import MISSING, Coded
from .validity import FAULTS, OTHER_LABEL, BadRows, described

MOST_GROUPS = 10_000
SAMPLED = (
    "intervals, floor, tests, direction, smooth ECE, scalers, decomposition, risk and coverage, certificate and worst "
    "classes and groups"
)
_Task = tuple[Source, Part, "Measured", bool]  # where to read, what to add to, and whether a bad row is an error


@dataclass(frozen=True)
class GroupSums:
    """What is known of all rows of a group: how many they are, and their sums of weights, confidence and right answers.

    >>> sums = GroupSums(2, 2.0, 1.5, 1.0)
    >>> sums.confidence, sums.accuracy, (sums + sums).num_rows
    (0.75, 0.5, 4)
    """

    num_rows: int
    weight: float
    sure: float
    right: float

    @property
    def confidence(self) -> float:
        return self.sure / self.weight

    @property
    def accuracy(self) -> float:
        return self.right / self.weight

    def __add__(self, other: GroupSums) -> GroupSums:
        sums = self.weight + other.weight, self.sure + other.sure, self.right + other.right
        return GroupSums(self.num_rows + other.num_rows, *sums)


@dataclass(eq=False)
class Measured:
    """What one pass found.

    Args:
        layout: what the file holds.
        bad: the rows that were left out.
        meter: sums over all others; `meter.compute()` gives the metrics.
        reservoir: those of them that `sample` is made of.
        reading: how belief in "unknown" was read; None where there is none.
        groups: the sums of each group, by column and name; answers that are too many are not there.
        num_rows: how many rows were measured.
        rounded: how many rows missed 1 by the rounding of few digits, and were divided by their sum.
        zeros: how many rows give their label probability 0, or a logit of -infinity.
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

    @property
    def num_read(self) -> int:
        """How many rows there were, with those that were left out."""
        return self.num_rows + self.bad.count

    @cached_property
    def sample(self) -> Sample:
        """All rows that were measured, or a seeded sample of them."""
        return self.reservoir.sample()

    @property
    def is_sample(self) -> bool:
        """Whether the sample lacks some of them."""
        return len(self.sample) < self.num_rows

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers has to know: rows that were left out, divided, or counted by a limit."""
        said = {
            self.bad.words: self.bad.count,
            f"{self.rounded} rounded rows, which miss 1 by their last digit, were divided by their sum": self.rounded,
            f"{self.zeros} rows give their label probability 0, which the NLL counts as {CLIP:.2g}": self.zeros,
        }
        for column in {*self.layout.carried} - {*self.groups}:
            said[f"{column} has more than {MOST_GROUPS:,} different values, which are not looked at one by one"] = 1
        if self.is_sample:
            few = f"{len(self.sample):,} random rows of {self.num_rows:,}"
            said[f"{SAMPLED} are those of {few}"] = 1
        return [words for words, count in said.items() if count]

    def add(self, rows: Rows) -> None:
        """Add a batch."""
        self.bad += rows.bad
        if not len(rows.labels):
            return
        self.num_rows += len(rows.labels)
        self.rounded += rows.rounded
        self.reservoir.add(rows)
        if self.layout.kind == "confidence":
            given = (Top(rows.values, rows.labels), None)
        else:
            given = (predictions(rows.values, self.layout, self.reading), rows.labels)
            impossible = 0 if self.layout.kind == "probabilities" else -np.inf
            self.zeros += int((picked(rows.values, rows.labels) == impossible).sum())
        self.meter.update(*given, sample_weight=rows.weight)
        if self.groups:
            top = open_top(*given, sample_weight=rows.weight)
            self._add_groups({column: _by_group(rows.groups[column], top) for column in self.groups})

    def merge(self, other: Measured) -> None:
        """Add what was found in another part."""
        self.num_rows += other.num_rows
        self.rounded += other.rounded
        self.zeros += other.zeros
        self.bad += other.bad
        self.meter.merge(other.meter)
        self.reservoir.merge(other.reservoir)
        self._add_groups(other.groups)

    def _add_groups(self, added: Mapping[str, Mapping[str, GroupSums]]) -> None:
        """Add the sums of each column; answers that nobody asked for are dropped where they are too many."""
        for column in [*self.groups]:
            here = self.groups[column]
            for name, part in added.get(column, {}).items():
                here[name] = here[name] + part if name in here else part
            if len(here) > MOST_GROUPS and column in self.layout.groups:
                raise ValueError(f"{column} has more than {MOST_GROUPS} different values: expected groups of rows")
            if len(here) > MOST_GROUPS or column not in added:
                del self.groups[column]


def measure(
    source: Source,
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
) -> Measured:
    """Read everything once.

    Args:
        source: what `open_predictions` gave.
        workers: processes for the parts of a Parquet file or folder, 1 if not given; no number depends on it.
        engine: whether these are of this machine, or tasks of a Ray cluster, which has room for as many as it has.
        address: of the cluster; None starts one on this machine for as long as it takes.
        sample: how many rows are kept at most, fewer if they are wide (50 million values).
        seed: of the choice of these rows, which depends on their numbers in the file alone.
        num_bins: bins of the calibration errors.
        reading: what belief in "unknown" means, if there is such a column; see `socrates.metrics.predict`.
        strict: raise at the first bad row.
        tell: hears how many rows have been read.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from socrates.audit.read import open_predictions
    >>> path = Path(tempfile.mkdtemp(), "model.npz")
    >>> np.savez(path, probs=[[0.9, 0.1], [0.6, 0.4], [0.5, 0.4]], labels=[0, 1, 1])
    >>> found = measure(open_predictions(path))
    >>> round(found.meter.compute()["ece"], 4), found.bad.words
    (0.35, '1 bad row was left out: row 2 sums to 0.9, expected 1')
    """
    check_positive("sample", sample)
    check_positive("workers", 1 if workers is None else workers)
    check_engine(engine, address)
    layout = source.layout
    size = min(sample, max(1, MOST_VALUES // max(1, len(layout.classes) + layout.unknown)))

    def nothing_yet() -> Measured:
        meter = CalibrationMeter(num_bins, len(layout.classes) or None)
        reservoir = Reservoir(size, seed, None if layout.weight else source.num_rows)
        groups = {name: dict[str, GroupSums]() for name in layout.carried}
        told = reading if layout.unknown else None
        return Measured(layout, BadRows(source.reader.unit), meter, reservoir, told, groups)

    total, tasks = nothing_yet(), [(source, part, nothing_yet(), strict) for part in source.parts]
    if engine == "ray" or min(workers or 1, len(tasks)) > 1:
        on_ray = engine == "ray"
        parts = in_ray(_measured, tasks, address, workers) if on_ray else in_processes(_measured, tasks, workers or 1)
        for found in parts:
            total.merge(found)
            tell(total.num_read)
    else:
        for task in tasks:
            total.merge(_measured(task, total.num_read, tell))
    _refuse(source, total)
    total.groups = {column: dict(sorted(sums.items())) for column, sums in total.groups.items()}
    return total


def predictions(values: Array, layout: Layout, reading: Reading | None) -> Array | Prediction:
    """Values of a file as the metrics take them: probabilities as they are, logits and unknown by `predict`.

    >>> logits = Layout("logits", ("z0", "z1"), ("0", "1"))
    >>> predictions(np.array([[0.0, 0.0]]), logits, None).probs
    array([[0.5, 0.5]])
    """
    if layout.kind == "logits":
        return predict(values, reading)
    if not layout.unknown:
        return values
    with np.errstate(divide="ignore"):
        return predict(np.log(values), reading)


def _measured(task: _Task, before: int = 0, tell: Callable[[int], None] = lambda rows: None) -> Measured:
    """What is found in a part; `tell` hears how many rows have been read, with those before it."""
    source, part, found, strict = task
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*probability 0 at their label")  # they are counted
        for rows in source.batches(part):
            if strict and rows.bad.count:
                line, why = rows.bad.first[0]
                raise ValueError(f"{source.path}: {rows.bad.unit} {line} {why}")
            found.add(rows)
            tell(before + found.num_read)
    return found


def _by_group(column: Coded, top: Top) -> dict[str, GroupSums]:
    """Sums of each group of a batch."""
    names = [*column.names, MISSING_GROUP]
    codes = np.where(column.codes == MISSING, len(names) - 1, column.codes)
    weight = np.ones(len(codes)) if top.weight is None else top.weight
    each = (None, weight, weight * top.confidence, weight * top.correct)
    sums = zip(*(np.bincount(codes, of, len(names)).tolist() for of in each), strict=True)
    return {name: GroupSums(*of) for name, of in zip(names, sums, strict=True) if of[0]}


def _refuse(source: Source, total: Measured) -> None:
    """Raise where it is not some rows that are wrong, but what was understood of the file."""
    bad, layout = total.bad, source.layout
    if not total.num_read:
        raise ValueError(
            f"{source.path} holds no rows{' of a weight above 0' * bool(layout.weight)}: nothing to measure"
        )
    shifted = {described(OTHER_LABEL, np.zeros(0), label) for label in (str(len(layout.classes)), "-1")}
    if shifted & {why for _, why in bad.first} and not total.meter.state()["class_bins"][2, 0].any():
        given = f"no label of {source.path} is {layout.classes[0]}, and {bad.unit} {bad.first[0][0]} {bad.first[0][1]}"
        raise ValueError(f"{given}: do labels count from 1, or are they -1 and 1? Count them from 0")
    if layout.is_score and 10 * bad.reasons[OTHER_LABEL] > total.num_read:
        given = f"{bad.reasons[OTHER_LABEL]} of {total.num_read} labels of {source.path} are neither"
        todo = f"say kind='confidence' with columns={list(layout.columns)} if it is the confidence in an answer"
        names = "tell both names, classes=['NEGATIVE', 'POSITIVE']"
        raise ValueError(f"{given} {' nor '.join(layout.classes)}, read as {layout.words}: {names}, or {todo}")
    if 2 * bad.count > total.num_read:
        fault, count = bad.reasons.most_common(1)[0]
        given = f"{bad.count} of {total.num_read} rows of {source.path} are bad, read as {layout.words}"
        line, why = bad.first[0]
        example = f"the first of all, {bad.unit} {line}, {why}"
        is_answer = fault == OTHER_LABEL and layout.correct
        todo = f"expected 1 and 0, or true and false in {layout.correct}" if is_answer else FAULTS[fault]
        raise ValueError(f"{given}. The reason for {count} of them: each {fault} ({example}): {todo}")
