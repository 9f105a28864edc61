"""Plots over bins of confidence: the reliability diagram and the histogram of confidences.

They take what the metrics take: probabilities and labels, or confidence and correctness.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from ..metrics.binning import bin_edges, bin_stats
from ..metrics.inputs import Entry, LabelsLike, TopLike, Unpack, open_top
from ..metrics.samples import Array
from .diagram import diagram_of, ece_in_words, gap_in_words
from .ink import CHANCE, COLOURS, DASH, GREY, INK, draw_reliability, finish, new_axes, percent

SHARES = (1, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)  # ticks of a square-root axis, as far as they fit


def reliability(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    num_bins: int = 15,
    *,
    title: str = "",
    ax: Axes | None = None,
    **entry: Unpack[Entry],
) -> Axes:
    """The reliability diagram: accuracy against confidence; above it ECE, what of it is chance, and the gap in words.

    Args:
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`, beside labels; or a `Top` alone; as for
            `socrates.metrics.ece`, like labels and `entry`.
        labels: (N,) class numbers, or names with `classes`.
        num_bins: number of bins (lo, hi].
        title: a first line above.
        ax: axes to draw on; a new figure unless given.
        entry: `confidence` and `correct` in the place of probs and labels; `sample_weight`; `classes`.

    >>> axes = reliability([[0.9, 0.1], [0.6, 0.4]] * 50, [0, 1] * 50)
    >>> print(axes.get_title())
    ECE 35.00 %, floor 4.34 %
    overconfident by 25.0 points
    """
    top = open_top(probs, labels, **entry)
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
    **entry: Unpack[Entry],
) -> Axes:
    """How sure the answers are, all of them and the wrong ones, on a square-root axis; mean confidence and accuracy.

    Args: as for `reliability`.

    >>> axes = confidence_histogram(confidence=[0.9, 0.6] * 50, correct=[1, 0] * 50)
    >>> print(axes.get_title())
    accuracy 50.0 %, mean confidence 75.0 %
    overconfident by 25.0 points
    """
    top = open_top(probs, labels, **entry)
    bins, data, edges = bin_stats(top, num_bins), diagram_of(top, floor=False), bin_edges(num_bins)
    share, correct, confidence = (sums / bins.count.sum() for sums in (bins.count, bins.correct, bins.confidence))
    right, mean = correct.sum(), confidence.sum()
    axes = new_axes(5.4, 4.2) if ax is None else ax
    axes.set_yscale("function", functions=(_root, np.square))
    axes.stairs(share, edges, fill=True, color=COLOURS[0], alpha=0.35, linewidth=0, label="all answers")
    axes.stairs(share - correct, edges, fill=True, color=COLOURS[1], alpha=0.85, linewidth=0, label="wrong answers")
    axes.axvspan(mean - data.reach, mean + data.reach, label="95 % by chance", **CHANCE)
    axes.axvline(mean, color=GREY, linewidth=1.3, linestyle=DASH, label="mean confidence")
    axes.axvline(right, color=INK, linewidth=1.3, label="accuracy")
    highest = 1.1 * float(share.max())
    axes.yaxis.set_major_locator(FixedLocator(_root_ticks(highest)))
    axes.yaxis.set_major_formatter(percent)
    axes.set(xlim=(0, 1), ylim=(0, highest), xlabel="confidence", ylabel="share of the answers")
    measured = f"accuracy {100 * right:.1f} %, mean confidence {100 * mean:.1f} %"
    return finish(axes, ax, title, measured, gap_in_words(data))


def _root(values: Array) -> Array:
    return np.sqrt(np.maximum(values, 0))


def _root_ticks(highest: float) -> list[float]:
    """Round shares that have room on a square-root axis.

    >>> _root_ticks(0.4)
    [0.0, 0.005, 0.02, 0.05, 0.1, 0.25]
    """
    ticks = [0.0]
    for share in SHARES:
        nearest = min(abs(math.sqrt(share) - math.sqrt(other)) for other in ticks)
        if share <= highest and nearest >= 0.1 * math.sqrt(highest):
            ticks.append(share)
    return sorted(ticks)
