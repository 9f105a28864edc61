"""Labelled numbers: what tables and figures are made of, whoever measured them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from socrates.experiment import Experiment, Part
from socrates.metrics import BinStats
from socrates.records import Evaluation

from .statistics import mean_std
from .vocabulary import USUAL_READING, Metric, method_title
from .words import counted

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Results:
    """What was measured under a label: once, or by a run for each seed.

    The method decides the look. Curves are (runs, E), over the epochs; `bins(split, reading)` are the confidence bins
    of each run; `collapses` says why runs of some seeds mean nothing.
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

    @property
    def title(self) -> str:
        """The label without options."""
        return method_title(self.method.name)

    @property
    def unknown_class(self) -> bool:
        """Whether there is an unknown class, and so several readings."""
        return any(one.unknown_class for one in self.evaluations)

    @property
    def scalers(self) -> list[str]:
        """Those that there are numbers of."""
        return list(dict.fromkeys(name for one in self.evaluations for name in one.scalers))

    @property
    def collapse_count(self) -> str:
        """How many runs collapsed, as '2 of 5 runs'; empty if none did."""
        return f"{len(self.collapses)} of {counted(len(self.seeds), 'run')}" if self.collapses else ""

    @property
    def switch_epoch(self) -> int | None:
        """The first epoch of the second phase of a two-phase method; None if it has one phase.

        Phase one lasts for `start_epoch` epochs, so the loss changes in the epoch after it.
        """
        start = dict(self.method.options).get("start_epoch")
        return int(start) + 1 if isinstance(start, int | float) and 0 < start < len(self.epochs) else None

    @property
    def collapse_reasons(self) -> str:
        """Why runs collapsed, each reason once."""
        return "; ".join(dict.fromkeys(self.collapses.values()))

    def values(self, metric: str, scaler: str = "none", split: str = "test", reading: str = USUAL_READING) -> Array:
        """A metric of each run, (runs,); NaN where it was not computed."""
        return np.array([one.value(scaler, split, reading, metric) for one in self.evaluations], dtype=float)

    def by_seed(
        self, spec: Metric, scaler: str = "none", split: str = "test", reading: str = USUAL_READING
    ) -> dict[int, float]:
        """A metric of each seed, in the unit that is printed."""
        values = spec.factor * self.values(spec.name, scaler, split, reading)
        return dict(zip(self.seeds, values.tolist(), strict=True))

    def standing(self, spec: Metric) -> tuple[bool, float]:
        """To sort by: the best test mean first, those without one after it, and collapsed ones behind all."""
        mean = mean_std(self.values(spec.name))[0]
        return bool(self.collapses), math.inf if math.isnan(mean) else -mean if spec.larger_is_better else mean

    def curve(self, name: str) -> Array:
        """A number of each epoch for each run, (runs, E); NaN where it was not recorded."""
        return self.curves.get(name, np.full((len(self.seeds), len(self.epochs)), np.nan))


@dataclass(frozen=True)
class Band:
    """A number of each epoch: mean over the seeds, and mean -/+ their standard deviation; NaN where no run has it."""

    label: str
    epochs: Array  # (E,)
    mean: Array
    low: Array
    high: Array


def bands(members: Sequence[Results], name: str, factor: float = 1.0) -> list[Band]:
    """The curves of a number times `factor`, of those that recorded it; `error` is that of the validation data.

    The deviation has n - 1 below it; where only one run has a value, the band is as thin as the line.
    """
    curves = [1 - one.curve("val_accuracy") if name == "error" else one.curve(name) for one in members]
    found = [(one, values) for one, values in zip(members, curves, strict=True) if np.isfinite(values).any()]
    return [Band(one.label, one.epochs, *mean_and_band(factor * values)) for one, values in found]


def mean_and_band(values: Array) -> tuple[Array, Array, Array]:
    """Mean, mean - std and mean + std over the first axis, values that are not finite left out.

    >>> mean, low, high = mean_and_band(np.array([[1.0, 2.0, np.nan], [3.0, np.nan, np.nan]]))
    >>> mean, high.round(2)
    (array([ 2., 2., nan]), array([3.41, 2. , nan]))
    """
    known = np.ma.masked_invalid(values)
    mean = known.mean(axis=0).filled(np.nan)
    spread = known.std(axis=0, ddof=1).filled(0.0)  # none of a single value
    return mean, mean - spread, mean + spread
