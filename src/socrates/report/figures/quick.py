"""The two pictures of the quickstart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from socrates.metrics import ece, predict, reliability
from socrates.metrics.predictions import Reading
from socrates.records import Run

Array = NDArray[Any]

# Okabe and Ito's colours, which people with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")


@dataclass(frozen=True)
class ReliabilityData:
    """Bins of a reliability diagram, pooled over the runs of a method."""

    lower: Array
    upper: Array
    accuracy: Array
    share: Array  # of the samples
    ece: float


def reliability_data(runs: Sequence[Run], reading: Reading | None, split: str = "test") -> ReliabilityData:
    """The diagram of several runs' pooled predictions at their last kept epoch."""
    stored = [run.predictions(split, run.kept_epochs()[-1]) for run in runs]
    logits = np.concatenate([part.logits for part in stored])
    labels = np.concatenate([part.labels for part in stored])
    prediction = predict(logits, unknown=reading)
    num_bins = runs[0].experiment.num_bins
    bins = reliability(prediction, labels, num_bins)
    return ReliabilityData(
        bins.lower, bins.upper, bins.accuracy, bins.count / bins.count.sum(), ece(prediction, labels, num_bins)
    )


def draw_reliability(axes: Any, data: ReliabilityData, title: str, colour: str) -> None:
    """Accuracy against confidence, the diagonal of perfect calibration, and where the samples lie."""
    width = data.upper - data.lower
    centre = (data.lower + data.upper) / 2
    filled = data.share > 0
    axes.bar(
        centre[filled], data.accuracy[filled], width=0.9 * width[filled], color=colour, alpha=0.75, label="accuracy"
    )
    axes.bar(centre, data.share, width=0.3 * width, color="#333333", label="share of samples")
    axes.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1)
    axes.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", title=f"{title}\nECE {100 * data.ece:.2f} %"
    )
    axes.set_aspect("equal")


def draw_error_ece(axes: Any, points: Mapping[str, Sequence[tuple[float, float]]], colours: Mapping[str, str]) -> None:
    """Error against ECE in percent: one small point a seed, one large point a mean; lower left is better."""
    for name, runs in points.items():
        error, gap = 100 * np.array(runs).T
        axes.scatter(error, gap, s=18, color=colours[name], alpha=0.45)
        axes.scatter(error.mean(), gap.mean(), s=90, color=colours[name], edgecolor="black", label=name)
    axes.set(xlabel="error, %", ylabel="ECE, %", title="Error against calibration error (lower left is better)")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
