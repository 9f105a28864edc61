"""Judge measured predictions: every number of an audit, with its interval, test and floor."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from socrates import metrics
from socrates.abstention import Certificate, certify
from socrates.arrays.open import Array
from socrates.metrics import (
    BinStats,
    CalibrationTest,
    Corp,
    Direction,
    GroupGap,
    Interval,
    Metric,
    Prediction,
    RiskCoverage,
    Top,
)
from socrates.metrics.registry import audit_metrics
from socrates.metrics.scoring import CLIP
from socrates.metrics.uncertainty import values_if_calibrated

from .measure import Measurement
from .recalibrate import Recalibration, recalibrate
from .rows import JudgedRows

NUM_RESAMPLES = 1000
NUM_DRAWS = 1000  # of the test, whose p is at least 1 / (1 + NUM_DRAWS)
MANY_ROWS = 20_000  # beyond, intervals are narrow, and fewer resamples find them
LEVEL = 0.05  # of the test
POINTS = 400  # of a curve that is shown


@dataclass(frozen=True)
class Judgement:
    """Everything that an audit says about one file.

    `values` are those of all rows but for the smooth ECE and metrics from elsewhere, which are of
    the sample, as is all that follows.
    """

    label: str
    sample: JudgedRows = field(repr=False)
    measured: Measurement = field(repr=False)
    values: Mapping[str, float]
    intervals: Mapping[str, Interval]
    floor: float  # the mean ECE of a perfectly calibrated model with the same confidences
    floor_95: float  # the ECE that such a model exceeds in 1 of 20 cases
    test: CalibrationTest
    direction: Direction
    gap_error: float  # the standard error of its mean gap, were the file calibrated
    corp: Corp
    bins: BinStats = field(repr=False)
    curve: RiskCoverage = field(repr=False)
    risk: float  # the share of wrong answers that the reader accepts
    certificate: Certificate | None
    uncertified: str  # why there is no certificate
    recalibrated: Recalibration
    worst: tuple[GroupGap, ...]
    groups: Mapping[str, tuple[GroupGap, ...]]
    strangers: Mapping[str, float]  # the metrics of OPEN_WORLD, if rows are labeled unknown

    @property
    def passes(self) -> bool:
        """Return whether the file passes its own calibration test."""
        return self.test.p_value >= LEVEL


def judge(
    measured: Measurement, label: str, *, risk: float = 0.05, delta: float = 0.1
) -> Judgement:
    """Return the judgement of measured predictions, certified at `risk` with `delta`."""
    with warnings.catch_warnings():
        # Probabilities of 0 are counted, and a scaler without an optimum shows in its numbers.
        warnings.simplefilter("ignore")
        return _judge(measured, label, risk, delta)


def _judge(measured: Measurement, label: str, risk: float, delta: float) -> Judgement:
    sample = judged_rows(measured)
    top = sample.top()
    floor, floor_95 = floor_and_95(top, sample.num_bins)
    certificate, uncertified = certify_rows(top, risk, delta)
    return Judgement(
        label=label,
        sample=sample,
        measured=measured,
        values=values_of(measured, sample, top),
        intervals=intervals_of(sample),
        floor=floor,
        floor_95=floor_95,
        test=metrics.calibration_test(top, num_draws=NUM_DRAWS),
        direction=metrics.direction(top, num_bins=sample.num_bins),
        gap_error=gap_error(top),
        corp=metrics.corp(top),
        bins=BinStats(*measured.meter.state()["bins"]),
        curve=thinned(metrics.risk_coverage(top)),
        risk=risk,
        certificate=certificate,
        uncertified=uncertified,
        recalibrated=recalibrate(sample),
        worst=sample.worst_classes(),
        groups=worst_groups(measured, sample, top),
        strangers=measured.strangers.numbers(top),
    )


def floor_and_95(top: Top, num_bins: int) -> tuple[float, float]:
    """Return what a perfectly calibrated model would measure as its ECE: the mean and 95% point."""
    num_draws = few_draws(len(top))
    ece = partial(metrics.ece, num_bins=num_bins)
    values = values_if_calibrated(ece, top, num_draws, 0, None, None)
    return float(values.mean()), float(np.quantile(values, 0.95))


def gap_error(top: Top) -> float:
    """Return the standard error of mean confidence minus accuracy for a calibrated model.

    >>> gap_error(Top.of(np.full(400, 0.5), np.ones(400)))
    0.025
    """
    variance = top.confidence * (1 - top.confidence).clip(0)
    if top.weight is None:
        return math.sqrt(float(variance.sum())) / len(top)
    return math.sqrt(float(top.weight**2 @ variance)) / float(top.weight.sum())


def few_draws(num_rows: int) -> int:
    """Return how many resamples or draws are made: fewer where there are many rows."""
    return NUM_RESAMPLES if num_rows <= MANY_ROWS else NUM_RESAMPLES // 5


def judged_rows(measured: Measurement) -> JudgedRows:
    """Return the sample of a measured file, in the form in which it is judged."""
    rows = measured.sample
    values = rows.values
    if measured.layout.kind == "confidence":
        values = np.stack([1 - values, values], axis=1)
    elif measured.layout.kind == "logits":
        values = _finite(values)
    return JudgedRows(
        values=values,
        labels=rows.labels.astype(np.int64),
        positions=rows.positions,
        groups={name: rows.groups[name] for name in measured.groups},
        weight=rows.weight,
        layout=measured.layout,
        reading=measured.reading,
        num_bins=measured.meter.num_bins,
    )


def _finite(logits: Array) -> Array:
    """Return logits with a number instead of the -infinity that masks a class."""
    if np.isfinite(logits).all():
        return logits
    impossible = logits.max(axis=1, keepdims=True) + math.log(CLIP)
    return np.where(np.isneginf(logits), impossible, logits)


def values_of(measured: Measurement, sample: JudgedRows, top: Top) -> dict[str, float]:
    """Return each metric of an audit: of all rows by the meter, the others of the sample."""
    values = {**measured.meter.compute(), "smooth_ece": metrics.smooth_ece(top)}
    for name, metric in audit_metrics().items():
        value = None if name in values else metric_of_sample(metric, sample, top)
        if value is not None:
            values[name] = value
    return values


def metric_of_sample(metric: Metric, sample: JudgedRows, top: Top) -> float | None:
    """Return a metric of the sample, None if it needs more than the file holds."""
    if sample.of_confidence:
        try:
            return None if metric.needs_rows else metric.measure(top, num_bins=sample.num_bins)
        except (AttributeError, TypeError):  # it reads more than confidence and correctness
            return None
    entries: dict[str, Any] = {}
    if sample.weight is not None:
        if "sample_weight" not in signature(metric.function).parameters:
            return None
        entries["sample_weight"] = sample.weight
    return metric.measure(_as_prediction(sample), sample.labels, sample.num_bins, **entries)


def _as_prediction(sample: JudgedRows) -> Prediction:
    """Return the predictions of the sample in the form that functions of `METRICS` accept."""
    prediction = sample.prediction()
    if isinstance(prediction, Prediction):
        return prediction
    top_probs = prediction.max(axis=1)
    return Prediction(prediction, top_probs, prediction.argmax(axis=1), prediction.shape[1])


def intervals_of(sample: JudgedRows) -> dict[str, Interval]:
    """Return the bootstrap interval of each main metric that can be computed from the rows."""
    num_resamples = few_draws(len(sample))
    top = sample.top()
    ece = partial(metrics.ece, num_bins=sample.num_bins)
    intervals = {
        "accuracy": metrics.bootstrap(metrics.accuracy, top, num_resamples=num_resamples),
        "ece": metrics.bootstrap(ece, top, num_resamples=num_resamples),
    }
    if not sample.of_confidence:
        for name, metric in {"nll": metrics.nll, "brier": metrics.brier}.items():
            intervals[name] = metrics.bootstrap(
                metric, sample.prediction(), sample.labels, num_resamples=num_resamples
            )
    return intervals


def certify_rows(top: Top, risk: float, delta: float) -> tuple[Certificate | None, str]:
    """Return the certificate, or why there is none."""
    if top.weight is not None:
        return (
            None,
            "nothing is certified, because rows have weights, and a certificate counts each of "
            "them once",
        )
    try:
        return certify(top.confidence, top.correct, risk, delta), ""
    except ValueError as error:
        return None, str(error)


def worst_groups(
    measured: Measurement, sample: JudgedRows, top: Top
) -> dict[str, tuple[GroupGap, ...]]:
    """Return the groups of each column, the most surely wrong first.

    If rows have weights, the widest gap of all rows comes first, and there are no intervals.
    """
    if top.weight is None:
        return {
            name: tuple(metrics.worst_groups(top, groups=words.to_array()))
            for name, words in sample.groups.items()
        }
    worst: dict[str, tuple[GroupGap, ...]] = {}
    for column, groups in measured.groups.items():
        gaps: list[GroupGap] = []
        for name, sums in groups.items():
            gap = sums.confidence - sums.accuracy
            means = (sums.num_rows, sums.confidence, sums.accuracy, gap)
            gaps.append(GroupGap(name, *means, math.nan, math.nan))
        worst[column] = tuple(sorted(gaps, key=lambda group: -abs(group.gap)))
    return worst


def thinned(curve: RiskCoverage) -> RiskCoverage:
    """Return at most POINTS points of a curve, with its ends."""
    if len(curve.risk) <= POINTS:
        return curve
    kept = np.unique(np.linspace(0, len(curve.risk) - 1, POINTS).astype(int))
    return RiskCoverage(curve.coverage[kept], curve.risk[kept], curve.threshold[kept])
