"""Every metric of a run at one epoch, the file evaluation.json."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from socrates.files import not_numbers, with_nan
from socrates.metrics.registry import METRICS

ROUNDING = 1e-6  # by which a share may leave [0, 1]


@dataclass(frozen=True)
class Evaluation:
    """Every metric of val and test at one epoch: results[scaler][split][reading][metric].

    A model without an unknown class has the one reading "plain", which stands for every reading.

    >>> table = {"none": {"test": {"plain": {"ece": 0.02, "mce": None}}}}
    >>> evaluation = Evaluation(25, 15, unknown_class=False, results=table)
    >>> evaluation.value("none", "test", "answer", "ece")
    0.02
    >>> evaluation.value("none", "test", "plain", "mce")
    nan
    """

    epoch: int
    num_bins: int
    unknown_class: bool
    results: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float | None]]]]
    # scalers that could not be fitted, and why
    skipped: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def values(self, scaler: str, split: str, reading: str) -> dict[str, float]:
        """Return all metrics under a scaler and a reading, NaN where one is not finite.

        The dict is empty if they were not computed.
        """
        readings = self.results.get(scaler, {}).get(split, {})
        return with_nan(readings.get(reading if self.unknown_class else "plain", {}))

    def value(self, scaler: str, split: str, reading: str, metric: str) -> float:
        """Return one metric, NaN if it was not computed or is not finite."""
        return self.values(scaler, split, reading).get(metric, math.nan)

    @property
    def scalers(self) -> tuple[str, ...]:
        """Return the scalers with results, "none" among them."""
        return tuple(self.results)

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, numbers and strings."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Any) -> Evaluation:
        """Return the evaluation that `to_json` wrote; refuse anything else."""
        required = ("epoch", "num_bins", "unknown_class", "results")
        if missing := [key for key in required if not isinstance(plain, dict) or key not in plain]:
            raise ValueError(f"it has no {', '.join(missing)}")
        if type(plain["epoch"]) is not int:
            raise ValueError(f"its epoch is {plain['epoch']!r}, not a whole number")
        if not plain["results"] and not plain.get("skipped"):
            raise ValueError("it has no results")
        try:
            by_split = [split for splits in plain["results"].values() for split in splits.values()]
            by_reading = [metrics for readings in by_split for metrics in readings.values()]
            values = [item for metrics in by_reading for item in metrics.items()]
        except AttributeError:
            raise ValueError("its results are not by scaler, split, reading and metric") from None
        if wrong := not_numbers(values):
            raise ValueError(f"{wrong} are not numbers")
        if wrong := not_shares(values):
            raise ValueError(f"shares must be between 0 and 1: {wrong}")
        return cls(**{item.name: plain[item.name] for item in fields(cls) if item.name in plain})


def not_shares(values: Iterable[tuple[str, float | None]]) -> str:
    """Return the metrics that are shares by `METRICS` and yet outside of [0, 1], with the values.

    >>> not_shares([("accuracy", 99.0), ("nll", 2.5), ("ece", None)])
    'accuracy = 99.0'
    """
    wrong = {
        f"{name} = {value}"
        for name, value in values
        if name in METRICS and METRICS[name].unit == "%"
        if value is not None and not -ROUNDING <= value <= 1 + ROUNDING
    }
    return ", ".join(sorted(wrong))
