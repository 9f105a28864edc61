"""METRICS: the name, unit and direction of each metric, and the function that computes it.

Evaluation, tables, reports, audits and model cards loop over it. To add your own metric, add an
entry:

    METRICS["mine"] = Metric("mine", "Mine", "my metric", "what it says in one line", my_function)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from ..arrays.entries import LabelsLike, TopLike
from .calibration import ada_ece, cw_ece, debiased_ece, ece, mce
from .scoring import accuracy, brier, nll
from .selective import aurc
from .smooth import smooth_ece
from .uncertainty import floor

Unit: TypeAlias = Literal["%", "nats", ""]

_FLOOR_DRAWS = 20


@dataclass(frozen=True)
class Metric:
    """A metric: its names, its unit, which way is better, and the function that computes it.

    Args:
        name: key in records and in `METRICS`.
        symbol: short printed name, such as ECE.
        title: long printed name.
        meaning: what it measures, in one line.
        function: `function(probs, labels)`, where probs may be a `Prediction`; called with
            `num_bins=` if the metric is binned.
        unit: "%" for shares, which are recorded from 0 to 1 and printed from 0 to 100; "nats"; or
            "" for numbers without a unit.
        larger_is_better: whether a larger value is better.
        needs_rows: whether it needs the probabilities of all classes, rather than the confidence
            and correctness of the predictions only.
        binned: whether the function takes `num_bins`.
        ranked: whether models are ranked by it.
        in_study: whether the tables of a study and of a run show it.
        in_audit: whether an audit shows it.
        has_floor: whether chance alone raises it, as it raises every calibration error: then models
            are compared by what is left without chance.

    >>> METRICS["ece"].head, METRICS["nll"].head
    ('ECE (%)', 'NLL')
    >>> METRICS["ece"].measure([[0.9, 0.1], [0.6, 0.4]], [0, 1], num_bins=2)
    0.25
    >>> METRICS["ece"].text(0.0429)
    '4.29%'
    """

    name: str
    symbol: str
    title: str
    meaning: str
    function: Callable[..., Any]
    unit: Unit = "%"
    larger_is_better: bool = False
    needs_rows: bool = False
    binned: bool = False
    ranked: bool = True
    in_study: bool = True
    in_audit: bool = True
    has_floor: bool = False

    def measure(
        self, probs: TopLike, labels: LabelsLike | None = None, num_bins: int = 15, **entries: Any
    ) -> float:
        """Compute the metric of these samples; `entries` are other keywords of the function."""
        if self.binned:
            entries["num_bins"] = num_bins
        return float(self.function(probs, labels, **entries))

    @property
    def head(self) -> str:
        """Return the symbol for table headings and axes, with a percent sign for shares."""
        return f"{self.symbol} (%)" if self.unit == "%" else self.symbol

    @property
    def factor(self) -> float:
        """Return the factor from the recorded number to the printed one."""
        return 100.0 if self.unit == "%" else 1.0

    @property
    def form(self) -> str:
        """Return the format specification of the printed number."""
        return ".2f" if self.unit == "%" else ".3f"

    @property
    def perfect(self) -> float:
        """Return the best possible value, as it is printed.

        >>> METRICS["accuracy"].perfect, METRICS["ece"].perfect
        (100.0, 0.0)
        """
        return self.factor if self.larger_is_better else 0.0

    @property
    def direction(self) -> str:
        """Return which way is better, in words; an empty string if the metric is not ranked.

        >>> METRICS["accuracy"].direction
        'higher is better'
        """
        if not self.ranked:
            return ""
        return "higher is better" if self.larger_is_better else "lower is better"

    def text(self, value: float) -> str:
        """Format a recorded number for a sentence, with its unit."""
        space = " " if self.unit == "nats" else ""
        return f"{self.factor * value:{self.form}}{space}{self.unit}"


def ece_floor(probs: TopLike, labels: LabelsLike | None = None, num_bins: int = 15) -> float:
    """Return the mean ECE of a perfectly calibrated model; labels are not read.

    >>> round(ece_floor([[0.7, 0.3]] * 100), 2)
    0.04
    """
    return floor(partial(ece, num_bins=num_bins), probs, num_draws=_FLOOR_DRAWS)


# In the order in which they are shown.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "accuracy", "Acc", "accuracy", "share of right answers", accuracy, larger_is_better=True
        ),
        Metric(
            "ece",
            "ECE",
            "expected calibration error",
            "mean gap between confidence and accuracy over bins",
            ece,
            binned=True,
            has_floor=True,
        ),
        Metric(
            "ece_floor",
            "Floor",
            "floor of the ECE",
            "the ECE that a perfectly calibrated model of this confidence would measure by chance",
            ece_floor,
            binned=True,
            ranked=False,
            in_audit=False,
        ),
        Metric(
            "ada_ece",
            "AdaECE",
            "adaptive ECE",
            "ECE over bins of equal counts",
            ada_ece,
            binned=True,
            has_floor=True,
        ),
        Metric(
            "cw_ece",
            "CW-ECE",
            "class-wise ECE",
            "mean of the ECEs of the single classes",
            cw_ece,
            needs_rows=True,
            binned=True,
            has_floor=True,
        ),
        Metric(
            "nll",
            "NLL",
            "negative log-likelihood",
            "mean surprise at the true class",
            nll,
            unit="nats",
            needs_rows=True,
        ),
        Metric(
            "brier",
            "Brier score",
            "Brier score",
            "mean squared distance from the true class",
            brier,
            unit="",
            needs_rows=True,
        ),
        Metric(
            "smooth_ece",
            "smooth ECE",
            "smooth calibration error",
            "the gap smoothed over confidence",
            smooth_ece,
            in_study=False,
            has_floor=True,
        ),
        Metric(
            "mce",
            "MCE",
            "maximum calibration error",
            "the largest gap of any bin",
            mce,
            binned=True,
            in_study=False,
            has_floor=True,
        ),
        Metric(
            "debiased_ece",
            "debiased ECE",
            "debiased calibration error",
            "ECE less what sampling noise adds to it",
            debiased_ece,
            binned=True,
            in_study=False,
            in_audit=False,
            has_floor=True,
        ),
        Metric(
            "aurc",
            "AURC",
            "area under the risk-coverage curve",
            "mean error if the least confident answers are withheld",
            aurc,
            in_study=False,
            in_audit=False,
        ),
    )
}


def study_metrics() -> dict[str, Metric]:
    """Return the metrics that the tables of a study and of a run show, by name.

    >>> [*study_metrics()]
    ['accuracy', 'ece', 'ece_floor', 'ada_ece', 'cw_ece', 'nll', 'brier']
    """
    return {name: metric for name, metric in METRICS.items() if metric.in_study}


def audit_metrics() -> dict[str, Metric]:
    """Return the metrics that an audit shows, by name.

    >>> [*audit_metrics()]
    ['accuracy', 'ece', 'ada_ece', 'cw_ece', 'nll', 'brier', 'smooth_ece', 'mce']
    """
    return {name: metric for name, metric in METRICS.items() if metric.in_audit}
