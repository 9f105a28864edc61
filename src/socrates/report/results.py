"""Labelled numbers: what tables and figures are made of, whoever measured them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from socrates.experiment import Experiment, Part
from socrates.metrics import BinStats
from socrates.records import Evaluation
from socrates.records.predictions import Array

from .statistics import mean_std
from .vocabulary import USUAL_READING, Metric, method_title
from .words import counted


@dataclass(frozen=True)
class Failure:
    """A run that failed, recognised by itself or against its siblings, and why.

    `epoch` is the one in which it went wrong, as far as its records show; `accuracy` is that of
    the test data, in percent.
    """

    label: str
    seed: int
    epoch: int | None
    reason: str
    accuracy: float
    directory: Path | None = None


@dataclass(frozen=True, eq=False)
class Results:
    """What was measured under a label: once, or by one run per seed.

    The method decides the look. Curves are (runs, E) over the epochs; `bins(split, reading)` are
    the confidence bins of each run; `collapses` says why the runs of some seeds mean nothing.
    """

    label: str
    method: Part
    evaluations: Sequence[Evaluation] = ()
    seeds: Sequence[int] = (1,)
    collapses: Mapping[int, str] = field(default_factory=dict)
    epochs: Array = field(default_factory=lambda: np.empty(0))
    curves: Mapping[str, Array] = field(default_factory=dict)
    bins: Callable[[str, str], Sequence[BinStats]] = lambda split, reading: ()
    experiment: Experiment | None = None  # of the first run, if there were runs
    runs: Sequence[Any] = ()
    failures: Sequence[Failure] = ()  # runs that are not among the seeds
    opened_rows: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def title(self) -> str:
        """Return the label without options."""
        return method_title(self.method.name)

    @property
    def unknown_class(self) -> bool:
        """Return whether there is an unknown class, and so several readings."""
        return any(evaluation.unknown_class for evaluation in self.evaluations)

    @property
    def scalers(self) -> list[str]:
        """Return the names of the scalers that were evaluated."""
        names = (name for evaluation in self.evaluations for name in evaluation.scalers)
        return list(dict.fromkeys(names))

    @property
    def collapse_count(self) -> str:
        """Return how many runs collapsed, as '2 of 5 runs'; empty if none did."""
        if not self.collapses:
            return ""
        return f"{len(self.collapses)} of {counted(len(self.seeds), 'run')}"

    @property
    def collapse_reasons(self) -> str:
        """Return why runs collapsed, each reason once."""
        return "; ".join(dict.fromkeys(self.collapses.values()))

    @property
    def switch_epoch(self) -> int | None:
        """Return the first epoch of the second phase; None for a method with one phase.

        Phase one lasts for `start_epoch` epochs, so the loss changes in the epoch after it.
        """
        start = dict(self.method.options).get("start_epoch")
        if isinstance(start, int | float) and 0 < start < len(self.epochs):
            return int(start) + 1
        return None

    def values(
        self, metric: str, scaler: str = "none", split: str = "test", reading: str = USUAL_READING
    ) -> Array:
        """Return a metric of each run, (runs,); NaN where it was not computed."""
        values = [item.value(scaler, split, reading, metric) for item in self.evaluations]
        return np.array(values, dtype=float)

    def by_seed(
        self, spec: Metric, scaler: str = "none", split: str = "test", reading: str = USUAL_READING
    ) -> dict[int, float]:
        """Return a metric of each seed, in the unit that is printed."""
        values = spec.factor * self.values(spec.name, scaler, split, reading)
        return dict(zip(self.seeds, values.tolist(), strict=True))

    def standing(self, spec: Metric) -> tuple[bool, float]:
        """Return a key to sort by: the best test mean first, then unknown ones, collapsed last."""
        mean = mean_std(self.values(spec.name))[0]
        if math.isnan(mean):
            return bool(self.collapses), math.inf
        return bool(self.collapses), -mean if spec.larger_is_better else mean

    def curve(self, name: str) -> Array:
        """Return a number of each epoch for each run, (runs, E); NaN where it was not recorded."""
        return self.curves.get(name, np.full((len(self.seeds), len(self.epochs)), np.nan))


Members = Sequence[Results]  # what is compared in one setting
Settings = Mapping[str, Members]  # by heading


@dataclass(frozen=True)
class Band:
    """A number of each epoch: the mean over the seeds, and one standard deviation to each side.

    NaN where no run has it.
    """

    label: str
    epochs: Array  # (E,)
    mean: Array
    low: Array
    high: Array


def bands(members: Members, name: str, factor: float = 1.0) -> list[Band]:
    """Return the curves of a number times `factor`, of the results that recorded it.

    `error` is that of the validation data. The deviation has n - 1 below it; where only one run has
    a value, the band is as thin as the line.
    """
    known: list[Band] = []
    for results in members:
        curve = 1 - results.curve("val_accuracy") if name == "error" else results.curve(name)
        if np.isfinite(curve).any():
            known.append(Band(results.label, results.epochs, *mean_and_band(factor * curve)))
    return known


def mean_and_band(values: Array) -> tuple[Array, Array, Array]:
    """Return mean, mean - std and mean + std over the first axis, without what is not finite.

    >>> mean, low, high = mean_and_band(np.array([[1.0, 2.0, np.nan], [3.0, np.nan, np.nan]]))
    >>> mean, high.round(2)
    (array([ 2., 2., nan]), array([3.41, 2. , nan]))
    """
    known = np.ma.masked_invalid(values)
    mean = known.mean(axis=0).filled(np.nan)
    deviation = known.std(axis=0, ddof=1).filled(0.0)  # 0 for a single value
    return mean, mean - deviation, mean + deviation
