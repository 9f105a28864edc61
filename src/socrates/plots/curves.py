"""Plots of curves, without bins: risk against coverage, and the CORP reliability curve."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from .. import metrics
from ..arrays.content import Classes
from ..arrays.entries import LabelsLike, TopLike, open_event, open_top
from ..arrays.open import Array, ArrayLike
from ..arrays.samples import Top
from ..isotonic import pool_starts
from ..metrics.binning import bin_edges, bin_stats
from ..palette import DASHES, GREY, SERIES
from .diagram import Z, diagram_of, gap_in_words, weight_of
from .ink import draw_chance, draw_dots, draw_square, draw_strip, finish, new_axes, percent

MOST_POINTS = 2000  # of a curve: more cannot be seen
FEW_POINTS = 30  # of a curve: fewer hardly make a line, and are marked
NUM_BINS = 40  # of the confidences below a CORP curve


def risk_coverage(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    title: str = "",
    ax: Axes | None = None,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Axes:
    """Draw the share of wrong answers as the least confident are withheld, and the promised share.

    Args: as for `reliability`; scores that are not probabilities promise nothing, and are refused.

    >>> axes = risk_coverage(confidence=[0.9, 0.6] * 50, correct=[1, 0] * 50)
    >>> print(axes.get_title())
    AURC 25.00%, error 50.0% if all are answered
    overconfident by 25.0 points
    """
    top = open_top(probs, labels, confidence, correct, sample_weight, classes)
    # All below sort again, which is fast when there is nothing to do.
    top = top.take(np.argsort(top.confidence))
    curve = metrics.risk_coverage(top)
    axes = new_axes(5.4, 4.2) if ax is None else ax
    _draw_risk(axes, curve.coverage, curve.risk, *_claimed_risk(top))
    error = 100 * curve.risk[-1]
    measured = f"AURC {100 * metrics.aurc(top):.2f}%, error {error:.1f}% if all are answered"
    return finish(axes, ax, title, measured, gap_in_words(diagram_of(top, floor=False)))


def _draw_risk(axes: Axes, coverage: Array, risk: Array, claimed: Array, reach: Array) -> None:
    """Draw measured and claimed risk against coverage, at points that are spread over coverage."""
    asked = np.searchsorted(coverage, np.linspace(0, 1, MOST_POINTS))
    chosen = np.unique(asked.clip(0, len(coverage) - 1))
    x, risk, claimed, reach = (each[chosen] for each in (coverage, risk, claimed, reach))
    few = len(x) < FEW_POINTS
    marks: dict[str, Any] = {"marker": "o", "markersize": 4, "clip_on": False} if few else {}
    highest = np.minimum(claimed + reach, 1)
    draw_chance(axes, x, np.maximum(claimed - reach, 0), highest)
    axes.plot(
        x,
        claimed,
        color=GREY,
        linewidth=1.2,
        linestyle=DASHES["dash"],
        label="as claimed",
        **marks,
    )
    axes.plot(x, risk, color=SERIES[0], linewidth=1.8, label="measured", **marks)
    # The risk of the first few answers is mostly noise, which must not stretch the axis.
    seen = x >= (0 if few else 0.05)
    top = 1.1 * float(np.maximum(risk, highest)[seen].max())
    axes.set(xlim=(0, 1), xlabel="coverage: share of answers given")
    axes.set(ylim=(0, max(top, 0.001)), ylabel="risk: share of them wrong")
    axes.xaxis.set_major_formatter(percent)
    axes.yaxis.set_major_formatter(percent)


def _claimed_risk(top: Top) -> tuple[Array, Array]:
    """Return the risk that rising confidences promise at each coverage, and how far chance goes."""
    ranked = top.confidence[::-1].astype(np.float64)
    weight = weight_of(top)[::-1]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))  # of equal confidences
    answered = np.cumsum(weight)[last]
    promised = np.cumsum(weight * (1 - ranked))[last]
    variance = np.cumsum(weight**2 * np.maximum(ranked * (1 - ranked), 0.0))[last]
    return promised / answered, Z * np.sqrt(variance) / answered


def corp(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    title: str = "",
    ax: Axes | None = None,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Axes:
    """Draw the CORP reliability curve: frequency as the best rising function of the forecast.

    It has no bins to choose. Above it stand miscalibration, discrimination and uncertainty, the
    parts of the Brier score; see `socrates.metrics.corp`, also for what (N,) scores of class 1
    mean.

    Args: as for `reliability`.

    >>> axes = corp([0.4, 0.3, 0.2, 0.1, 0.5, 0.9], [0, 0, 0, 1, 1, 1])
    >>> print(axes.get_title())
    MCB 0.102, DSC 0.125, UNC 0.250
    forecasts too low by 10.0 points, within chance
    """
    top = open_event(probs, labels, confidence, correct, sample_weight, classes)
    top = top.take(np.argsort(top.confidence))  # once, as above
    curve = metrics.corp(top)
    axes = new_axes(4.6, 5.2) if ax is None else ax
    draw_chance(axes, *_isotonic_chance(top))
    axes.plot(
        curve.forecast,
        curve.frequency,
        color=SERIES[0],
        linewidth=1.5,
        clip_on=False,
        label="measured",
    )
    draw_dots(axes, curve.forecast, curve.frequency, curve.count, SERIES[0])
    draw_strip(axes, bin_stats(top, NUM_BINS).count, bin_edges(NUM_BINS))
    draw_square(axes)
    axes.set(xlabel="forecast", ylabel="frequency, isotonic")
    parts = f"MCB {curve.mcb:.3f}, DSC {curve.dsc:.3f}, UNC {curve.unc:.3f}"
    gap = gap_in_words(diagram_of(top, floor=False), "forecasts too high", "forecasts too low")
    return finish(axes, ax, title, parts, gap)


def _isotonic_chance(
    top: Top, num_groups: int = 500, num_draws: int = 200
) -> tuple[Array, Array, Array]:
    """Return forecasts and the band of the isotonic curve of a calibrated model, by simulation.

    The confidences must rise. Neighbors are joined into a limited number of groups, or many samples
    would take long.
    """
    first = np.unique(top.confidence[:: math.ceil(len(top) / num_groups)])
    group = np.searchsorted(first, top.confidence, side="right") - 1
    weight = weight_of(top)
    count = np.bincount(group, weight)
    forecast = np.clip(np.bincount(group, weight * top.confidence) / count, 0, 1)
    size = np.rint(count**2 / np.bincount(group, weight**2)).astype(int)
    rng = np.random.default_rng(0)
    curves = np.empty((num_draws, len(count)))
    for curve in curves:
        right = count * rng.binomial(size, forecast) / size
        start = pool_starts(sums=right, weights=count)
        frequency = np.add.reduceat(right, start) / np.add.reduceat(count, start)
        curve[:] = np.repeat(frequency, np.diff(np.append(start, len(count))))
    low, high = np.quantile(curves, [0.025, 0.975], axis=0)
    return forecast, low, high
