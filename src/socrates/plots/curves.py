"""Plots of curves, without bins: risk against coverage, and the CORP reliability curve."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from .. import metrics
from ..metrics.binning import bin_edges, bin_stats
from ..metrics.decomposition import pooled
from ..metrics.inputs import Entry, LabelsLike, TopLike, Unpack, open_event, open_top
from ..metrics.samples import Array, Top
from .diagram import Z, diagram_of, gap_in_words, weight_of
from .ink import COLOURS, DASH, GREY, draw_chance, draw_dots, draw_square, draw_strip, finish, new_axes, percent

MOST_POINTS = 2000  # of a curve: more cannot be seen


def risk_coverage(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    title: str = "",
    ax: Axes | None = None,
    **entry: Unpack[Entry],
) -> Axes:
    """Share of wrong answers as the least confident are withheld, beside the share that the confidences promise.

    Args: as for `reliability`; scores that are no probabilities promise nothing, and are refused.

    >>> axes = risk_coverage(confidence=[0.9, 0.6] * 50, correct=[1, 0] * 50)
    >>> print(axes.get_title())
    AURC 25.00 %, error 50.0 % if all are answered
    overconfident by 25.0 points
    """
    top = open_top(probs, labels, **entry)
    top = top.take(np.argsort(top.confidence))  # all below sort again, which is fast when there is nothing to do
    curve, data = metrics.risk_coverage(top), diagram_of(top, floor=False)
    claimed, reach = _claimed_risk(top)
    # Evenly by coverage, and the last one; the risk of the first few answers is mostly noise.
    chosen = np.unique(np.searchsorted(curve.coverage, np.linspace(0, 1, MOST_POINTS)).clip(0, len(claimed) - 1))
    x, risk, claimed, reach = (values[chosen] for values in (curve.coverage, curve.risk, claimed, reach))
    axes = new_axes(5.4, 4.2) if ax is None else ax
    few = len(x) < 30  # points, which would hardly make a line
    look: dict[str, Any] = {"marker": "o", "markersize": 4, "clip_on": False} if few else {}
    low, high = np.maximum(claimed - reach, 0), np.minimum(claimed + reach, 1)
    draw_chance(axes, x, low, high)
    axes.plot(x, claimed, color=GREY, linewidth=1.2, linestyle=DASH, label="as claimed", **look)
    axes.plot(x, risk, color=COLOURS[0], linewidth=1.8, label="measured", **look)
    seen = x >= (0 if few else 0.05)
    axes.set(xlim=(0, 1), ylim=(0, max(1.1 * float(np.maximum(risk, high)[seen].max()), 0.001)))
    axes.set(xlabel="coverage: share of answers given", ylabel="risk: share of them wrong")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(percent)
    measured = f"AURC {100 * metrics.aurc(top):.2f} %, error {100 * curve.risk[-1]:.1f} % if all are answered"
    return finish(axes, ax, title, measured, gap_in_words(data))


def _claimed_risk(top: Top) -> tuple[Array, Array]:
    """The risk that rising confidences promise at each point of their curve, and how far chance takes it."""
    ranked, weight = top.confidence[::-1].astype(np.float64), weight_of(top)[::-1]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))  # of equal confidences
    answered, promised = (np.cumsum(values)[last] for values in (weight, weight * (1 - ranked)))
    variance = np.cumsum(weight**2 * np.maximum(ranked * (1 - ranked), 0.0))[last]
    return promised / answered, Z * np.sqrt(variance) / answered


def corp(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    title: str = "",
    ax: Axes | None = None,
    **entry: Unpack[Entry],
) -> Axes:
    """The CORP reliability curve: frequency as the best rising function of the forecast, without bins to choose.

    Above it stand miscalibration, discrimination and uncertainty, the parts of the Brier score; see
    `socrates.metrics.corp`, also for what (N,) scores of class 1 mean.

    Args: as for `reliability`.

    >>> axes = corp([0.4, 0.3, 0.2, 0.1, 0.5, 0.9], [0, 0, 0, 1, 1, 1])
    >>> print(axes.get_title())
    MCB 0.102, DSC 0.125, UNC 0.250
    forecasts too low by 10.0 points, within chance
    """
    top = open_event(probs, labels, **entry)
    top = top.take(np.argsort(top.confidence))  # once, as above
    curve, bins = metrics.corp(top), bin_stats(top, 40)
    axes = new_axes(4.6, 5.2) if ax is None else ax
    draw_chance(axes, *_isotonic_chance(top))
    axes.plot(curve.forecast, curve.frequency, color=COLOURS[0], linewidth=1.5, clip_on=False, label="measured")
    draw_dots(axes, curve.forecast, curve.frequency, curve.count, COLOURS[0])
    draw_strip(axes, bins.count, bin_edges(40))
    draw_square(axes)
    axes.set(xlabel="forecast", ylabel="frequency, isotonic")
    gap = gap_in_words(diagram_of(top, floor=False), "forecasts too high", "forecasts too low")
    return finish(axes, ax, title, f"MCB {curve.mcb:.3f}, DSC {curve.dsc:.3f}, UNC {curve.unc:.3f}", gap)


def _isotonic_chance(top: Top, num_groups: int = 500, num_draws: int = 200) -> tuple[Array, Array, Array]:
    """Of rising confidences, between which frequencies the curve of a calibrated model lies, by simulation.

    Neighbours are joined to at most some groups, or many samples would take long.
    """
    first = np.unique(top.confidence[:: math.ceil(len(top) / num_groups)])
    group, weight = np.searchsorted(first, top.confidence, side="right") - 1, weight_of(top)
    count, squares, claimed = (np.bincount(group, each) for each in (weight, weight**2, weight * top.confidence))
    forecast, size = np.clip(claimed / count, 0, 1), np.rint(count**2 / squares).astype(int)
    rng = np.random.default_rng(0)
    curves = np.empty((num_draws, len(count)))
    for curve in curves:
        right = count * rng.binomial(size, forecast) / size
        start = pooled(count, right)
        frequency = np.add.reduceat(right, start) / np.add.reduceat(count, start)
        curve[:] = np.repeat(frequency, np.diff(np.append(start, len(count))))
    low, high = np.quantile(curves, [0.025, 0.975], axis=0)
    return forecast, low, high
