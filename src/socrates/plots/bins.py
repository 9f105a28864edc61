"""Plots over bins of confidence: the reliability diagram and the histogram of confidences.

They take what the metrics take: probabilities and labels, or confidence and correctness.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from ..arrays.content import Classes
from ..arrays.entries import LabelsLike, TopLike, open_top
from ..arrays.open import Array, ArrayLike
from ..metrics.binning import BinStats, bin_edges, bin_stats
from ..palette import DASHES, GREY, INK, SERIES
from .diagram import diagram_of, ece_in_words, gap_in_words
from .ink import CHANCE, draw_reliability, finish, new_axes, percent

# Ticks of a square-root axis, as far as they fit.
SHARES = (1, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def reliability(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    num_bins: int = 15,
    *,
    title: str = "",
    ax: Axes | None = None,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Axes:
    """Draw the reliability diagram: accuracy against confidence.

    Above it stand the ECE, how much of it is chance, and the gap in words.

    Args:
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`, beside labels; or a `Top`
            alone; as for `socrates.metrics.ece`, like all that is not explained here.
        labels: (N,) class numbers, or names with `classes`.
        num_bins: number of bins (lo, hi].
        title: a first line above.
        ax: axes to draw on; a new figure by default.
        confidence: (N,) confidences beside `correct`, instead of probs and labels.
        correct: (N,) whether each answer is right.
        sample_weight: (N,) weight of each sample.
        classes: names of the classes, in their order.

    >>> axes = reliability([[0.9, 0.1], [0.6, 0.4]] * 50, [0, 1] * 50)
    >>> print(axes.get_title())
    ECE 35.00%, floor 4.34%
    overconfident by 25.0 points
    """
    top = open_top(probs, labels, confidence, correct, sample_weight, classes)
    data = diagram_of(top, num_bins)
    axes = new_axes(4.6, 5.2) if ax is None else ax
    draw_reliability(axes, data)
    return finish(axes, ax, title, ece_in_words(data), gap_in_words(data))


def confidence_histogram(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    num_bins: int = 40,
    *,
    title: str = "",
    ax: Axes | None = None,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Axes:
    """Draw how confident the answers are, all of them and the wrong ones, on a square-root axis.

    Mean confidence and accuracy are vertical lines.

    Args: as for `reliability`.

    >>> axes = confidence_histogram(confidence=[0.9, 0.6] * 50, correct=[1, 0] * 50)
    >>> print(axes.get_title())
    accuracy 50.0%, mean confidence 75.0%
    overconfident by 25.0 points
    """
    top = open_top(probs, labels, confidence, correct, sample_weight, classes)
    bins = bin_stats(top, num_bins)
    axes = new_axes(5.4, 4.2) if ax is None else ax
    _draw_histogram(axes, bins, num_bins)
    data = diagram_of(top, floor=False)
    accuracy = bins.correct.sum() / bins.count.sum()
    mean = bins.confidence.sum() / bins.count.sum()
    axes.axvspan(mean - data.reach, mean + data.reach, **CHANCE)
    axes.axvline(
        mean,
        color=GREY,
        linewidth=1.3,
        linestyle=DASHES["dash"],
        label="mean confidence",
    )
    axes.axvline(accuracy, color=INK, linewidth=1.3, label="accuracy")
    measured = f"accuracy {100 * accuracy:.1f}%, mean confidence {100 * mean:.1f}%"
    return finish(axes, ax, title, measured, gap_in_words(data))


def _draw_histogram(axes: Axes, bins: BinStats, num_bins: int) -> None:
    """Draw the share of all answers and of the wrong ones in each bin."""
    edges = bin_edges(num_bins)
    share = bins.count / bins.count.sum()
    wrong = share - bins.correct / bins.count.sum()
    axes.set_yscale("function", functions=(_root, np.square))
    for values, label, colour, alpha in (
        (share, "all answers", SERIES[0], 0.35),
        (wrong, "wrong answers", SERIES[1], 0.85),
    ):
        axes.stairs(values, edges, color=colour, alpha=alpha, label=label, fill=True, linewidth=0)
    highest = 1.1 * float(share.max())
    axes.yaxis.set_major_locator(FixedLocator(_root_ticks(highest)))
    axes.yaxis.set_major_formatter(percent)
    axes.set(xlim=(0, 1), ylim=(0, highest), xlabel="confidence", ylabel="share of the answers")


def _root(values: Array) -> Array:
    return np.sqrt(np.maximum(values, 0))


def _root_ticks(highest: float) -> list[float]:
    """Return the round shares that have room on a square-root axis.

    >>> _root_ticks(0.4)
    [0.0, 0.005, 0.02, 0.05, 0.1, 0.25]
    """
    ticks = [0.0]
    for share in SHARES:
        nearest = min(abs(math.sqrt(share) - math.sqrt(other)) for other in ticks)
        if share <= highest and nearest >= 0.1 * math.sqrt(highest):
            ticks.append(share)
    return sorted(ticks)
