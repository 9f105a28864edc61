"""Every metric of a run at one epoch, the file evaluation.json."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from socrates.files import not_numbers, with_nan
from socrates.metrics.registry import METRICS

ROUNDING = 1e-6  # by which a share may leave [0, 1]

_STEPS = 65535  # of a confidence that is stored in 16 bits


@dataclass(frozen=True)
class RowEvidence:
    """Confidence and correctness of every test row under one scaler, to compare runs row by row.

    `floor_high` is the ECE that 95 of 100 perfectly calibrated models stay below on these rows.
    Confidences are stored in 16 bits.

    >>> rows = RowEvidence.of(np.array([0.5, 1.0]), np.array([True, False]), 0.03)
    >>> again = RowEvidence(**rows.to_json())
    >>> again.top()
    (array([0.5..., 1. ]), array([ True, False]))
    """

    confidence: str
    correct: str
    num_rows: int
    floor_high: float

    @classmethod
    def of(cls, confidence: NDArray[Any], correct: NDArray[Any], floor_high: float) -> RowEvidence:
        """Return the evidence of rows with these confidences, packed for a JSON file."""
        steps = np.rint(np.clip(confidence, 0, 1) * _STEPS).astype("<u2")
        bits = np.packbits(np.asarray(correct, dtype=bool))
        return cls(_packed(steps.tobytes()), _packed(bits.tobytes()), len(steps), floor_high)

    def top(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return confidence and correctness, (N,) each."""
        steps = np.frombuffer(_unpacked(self.confidence), "<u2")
        bits = np.frombuffer(_unpacked(self.correct), np.uint8)
        correct = np.unpackbits(bits, count=self.num_rows).astype(bool)
        if len(steps) != self.num_rows:
            raise ValueError(f"its evidence has {len(steps)} rows instead of {self.num_rows}")
        return steps / _STEPS, correct

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers and strings."""
        return asdict(self)


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


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
    # by scaler, of the test rows with the usual reading of the unknown class
    evidence: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # of the strangers, if there are any: the metrics of OPEN_WORLD by score, and their counts
    strangers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def rows(self, scaler: str) -> RowEvidence | None:
        """Return the evidence of the test rows under a scaler; None if it was not recorded."""
        stored = self.evidence.get(scaler)
        return RowEvidence(**stored) if stored else None

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
