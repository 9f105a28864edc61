"""What measured predictions are worth: every number of an audit, with its interval, test and floor."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from socrates import metrics
from socrates.abstention import Certificate, certify
from socrates.metrics import BinStats, CalibrationTest, Corp, Direction, GroupGap, Interval, RiskCoverage, Top

from .measure import Measured
from .recalibrate import Recalibrated, recalibrate
from .rows import JudgedRows

NUM_RESAMPLES = 1000
NUM_DRAWS = 1000  # of the test, whose p is at least 1 / (1 + NUM_DRAWS)
MANY_ROWS = 20_000  # beyond, intervals are narrow, and fewer resamples find them
POINTS = 400  # of a curve that is shown


@dataclass(frozen=True)
class Judgement:
    """Everything that an audit says of one file."""

    label: str
    sample: JudgedRows = field(repr=False)  # what intervals, tests and scalers are made of
    measured: Measured = field(repr=False)
    values: Mapping[str, float]  # of all rows but smooth_ece, which is of the sample as all that follows
    intervals: Mapping[str, Interval]
    floor: float  # of the ECE
    test: CalibrationTest
    direction: Direction
    corp: Corp
    bins: BinStats = field(repr=False)
    curve: RiskCoverage = field(repr=False)
    certificate: Certificate | None
    uncertified: str  # why there is none
    recalibrated: Recalibrated
    worst: tuple[GroupGap, ...]
    groups: Mapping[str, tuple[GroupGap, ...]]


def judge(measured: Measured, label: str, *, risk: float = 0.05, delta: float = 0.1) -> Judgement:
    """The judgement of measured predictions; `risk` and `delta` are those of the certificate."""
    with warnings.catch_warnings():
        # Probabilities of 0 are counted, and a scaler without an optimum shows in its numbers.
        warnings.simplefilter("ignore")
        return _judge(measured, label, risk, delta)


def _judge(measured: Measured, label: str, risk: float, delta: float) -> Judgement:
    sample = JudgedRows.of(measured)
    top, num_bins = sample.top(), measured.meter.num_bins
    of_top = {"accuracy": metrics.accuracy, "ece": partial(metrics.ece, num_bins=num_bins)}
    of_rows = {} if sample.of_confidence else {"nll": metrics.nll, "brier": metrics.brier}
    resamples = NUM_RESAMPLES if len(sample) <= MANY_ROWS else NUM_RESAMPLES // 5
    intervals = {name: metrics.bootstrap(one, top, num_resamples=resamples) for name, one in of_top.items()}
    for name, one in of_rows.items():
        intervals[name] = metrics.bootstrap(one, sample.prediction(), sample.labels, num_resamples=resamples)
    certificate, uncertified = certified(top, risk, delta)
    return Judgement(
        label=label,
        sample=sample,
        measured=measured,
        values={**measured.meter.compute(), "smooth_ece": metrics.smooth_ece(top)},
        intervals=intervals,
        floor=metrics.floor(of_top["ece"], top),
        test=metrics.calibration_test(top, num_draws=NUM_DRAWS),
        direction=metrics.direction(top, num_bins=num_bins),
        corp=metrics.corp(top),
        bins=BinStats(*measured.meter.state()["bins"]),
        curve=thinned(metrics.risk_coverage(top)),
        certificate=certificate,
        uncertified=uncertified,
        recalibrated=recalibrate(sample),
        worst=sample.worst_classes(),
        groups=worst_groups(measured, sample, top),
    )


def certified(top: Top, risk: float, delta: float) -> tuple[Certificate | None, str]:
    """The certificate, or why there is none."""
    if top.weight is not None:
        return None, "nothing is certified, for rows have weights, and a certificate counts each of them once"
    try:
        return certify(top.confidence, top.correct, risk, delta), ""
    except ValueError as error:
        return None, str(error)


def worst_groups(measured: Measured, sample: JudgedRows, top: Top) -> dict[str, tuple[GroupGap, ...]]:
    """The groups of each column, the most surely wrong first; where rows have weights, the widest gap of all rows."""
    if top.weight is None:
        return {name: tuple(metrics.worst_groups(top, groups=of)) for name, of in sample.groups.items()}
    found: dict[str, tuple[GroupGap, ...]] = {}
    for column, groups in measured.groups.items():
        means = {name: (of.num_rows, of.confidence, of.accuracy) for name, of in groups.items()}
        gaps = [GroupGap(name, *of, of[1] - of[2], math.nan, math.nan) for name, of in means.items()]
        found[column] = tuple(sorted(gaps, key=lambda each: -abs(each.gap)))
    return found


def thinned(curve: RiskCoverage) -> RiskCoverage:
    """At most POINTS points of a curve, its ends among them."""
    if len(curve.risk) <= POINTS:
        return curve
    kept = np.unique(np.linspace(0, len(curve.risk) - 1, POINTS).astype(int))
    return RiskCoverage(curve.coverage[kept], curve.risk[kept], curve.threshold[kept])
