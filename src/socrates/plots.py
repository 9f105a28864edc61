"""Pictures of calibration, one line each in a notebook; the report's figures are drawn with the same ink.

Every function draws on `ax`, or on a figure of its own with a legend, and returns the axes. What they draw is labelled:
`axes.legend()` explains axes of yours. Grey is what chance alone would show of a calibrated model, 95 % of the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from . import metrics
from . import pareto as fronts
from .metrics.arrays import ArrayLike
from .metrics.binning import BinStats, bin_edges, bin_index, bin_stats
from .metrics.inputs import Classes, LabelsLike, TopLike, open_top
from .metrics.samples import Array, Top

try:
    from matplotlib.axes import Axes
    from matplotlib.ticker import FixedLocator
    from matplotlib.transforms import Bbox
except ImportError as error:
    raise ImportError(f"plots need matplotlib ({error}): pip install 'socrates-loss[report]'") from error

__all__ = ["confidence_histogram", "forest", "pareto", "reliability", "risk_coverage"]

Handles: TypeAlias = list[Any]  # entries of a legend

INK, GREY = "#22262B", "#7C828B"
# Okabe and Ito's colours, which colour-blind readers tell apart; the markers differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#22262B")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
DASH, DOT = (0, (5, 2)), (0, (1.2, 1.6))
CHANCE: dict[str, Any] = {"color": GREY, "alpha": 0.4, "linewidth": 0}
ACCEPTABLE_ECE = 10.0  # percent: the paper's threshold, its dotted line
Z = 1.959964  # two-sided 95 % of a normal distribution
STRIP = 0.24  # height of the confidences below a reliability diagram
MOST_POINTS = 2000  # of a curve: more cannot be seen
MOST_DRAWN = 2_000_000  # random answers for a floor, at most, as far as ten sets of labels are enough
SHARES = (1, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)  # ticks of a square-root axis, as far as they fit


@dataclass(frozen=True)
class ReliabilityData:
    """The bins of a diagram, pooled over the runs of a label; NaN in an empty bin.

    `low` and `high` enclose the accuracy that a calibrated model would show in that bin, 95 % of the time, by chance:
    confidence -/+ z sqrt(confidence (1 - confidence) / n). A bin outside is miscalibrated, one inside need not be.
    The band belongs to the claim that is tested; one around the measured accuracy would have no width where that is 0
    or 1, which is where small bins are. The runs of a method answer the same questions, so they are not independent: n
    is the bin's count in one run on average, which keeps the band honest and errs to the wide side. Of weighted samples
    n is the number of equal ones that vary as much.

    `ece` is the mean of the runs' own values, as in tables; `floor` what it would be if they were calibrated; `gap` is
    mean confidence less accuracy over all bins, and `reach` how far that is from 0 by chance.
    """

    label: str
    lower: Array  # (M,)
    upper: Array
    confidence: Array
    accuracy: Array
    low: Array
    high: Array
    share: Array  # of all samples
    ece: float
    floor: float
    count: Array
    runs: int  # whose logits could be read
    gap: float
    reach: float


def reliability_data(
    label: str, runs: Sequence[BinStats], floor: float = math.nan, effective: Array | None = None
) -> ReliabilityData:
    """The diagram of the bins of one or more runs; all counts are 0 if there are none."""
    pooled = sum(runs[1:], start=runs[0]) if runs else BinStats(*np.zeros((3, 1)))
    edges = bin_edges(len(pooled.count))
    confidence, accuracy = pooled.mean(pooled.confidence), pooled.mean(pooled.correct)
    share, size = pooled.count / max(pooled.count.sum(), 1e-300), pooled.count / max(len(runs), 1)
    low, high = chance_band(confidence, size if effective is None else effective)
    ece = float(np.mean([stats.ece for stats in runs])) if runs else math.nan
    variance = _variance(confidence, size if effective is None else effective)
    gap, reach = np.nansum(share * (confidence - accuracy)), Z * math.sqrt(np.nansum(share**2 * variance))
    bins = (edges[:-1], edges[1:], confidence, accuracy, low, high, share)
    return ReliabilityData(label, *bins, ece, floor, pooled.count, len(runs), float(gap), reach)


def chance_band(confidence: Array, count: Array) -> tuple[Array, Array]:
    """Between which accuracies a calibrated bin lies by chance, 95 % of the time; NaN for an empty bin.

    >>> low, high = chance_band(np.array([0.5, 0.9, np.nan]), np.array([100.0, 9.0, 0.0]))
    >>> low.round(3), high.round(3)
    (array([0.402, 0.704, nan]), array([0.598, 1. , nan]))
    """
    reach = Z * np.sqrt(_variance(confidence, count))
    return np.clip(confidence - reach, 0, 1), np.clip(confidence + reach, 0, 1)


def _variance(confidence: Array, count: Array) -> Array:
    """Of the accuracy of a calibrated bin; a float32 confidence may exceed 1 by its rounding."""
    return np.maximum(confidence * (1 - confidence), 0.0) / np.where(count > 0, count, np.nan)


def ece_in_words(data: ReliabilityData) -> str:
    """ECE and what of it is chance.

    >>> ece_in_words(reliability_data("CE", [bin_stats(Top.of([0.9, 0.6], [1, 0]), 15)], floor=0.008))
    'ECE 35.00 %, by chance 0.80 %'
    """
    if not np.isfinite(data.ece):
        return ""
    chance = f", by chance {100 * data.floor:.2f} %" if np.isfinite(data.floor) else ""
    return f"ECE {100 * data.ece:.2f} %{chance}"


def gap_in_words(data: ReliabilityData) -> str:
    """How far confidence and accuracy differ overall, in which direction, and whether chance explains it.

    >>> gap_in_words(reliability_data("CE", [bin_stats(Top.of([0.9, 0.6], [1, 0]), 15)]))
    'overconfident by 25.0 points, within chance'
    """
    if not data.runs:
        return ""
    points = 100 * abs(data.gap)
    amount = f"{points:.1f}" if points >= 0.05 else "less than 0.1"
    within = ", within chance" if abs(data.gap) <= data.reach else ""
    return f"{'over' if data.gap > 0 else 'under'}confident by {amount} points{within}"


def draw_reliability(axes: Axes, data: ReliabilityData, colour: str = COLOURS[0]) -> None:
    """Accuracy of each bin as steps, dots of its count's area at its mean confidence, chance; below, the confidences.

    The strip of confidences shows square roots, or the few unsure answers could not be seen beside the many sure ones.
    """
    edges = np.append(data.lower, data.upper[-1])
    filled = data.count > 0
    fill: dict[str, Any] = {"fill": True, "linewidth": 0}
    if filled.any():
        axes.stairs(data.accuracy, edges, baseline=0, color=colour, alpha=0.35, label="accuracy", **fill)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=DASH, zorder=2, label="calibrated")
    if filled.any():
        middle, height, width = data.confidence[filled], (data.high - data.low)[filled], 0.4 * data.upper[0]
        axes.bar(middle, height, width, data.low[filled], label="95 % by chance", zorder=1.5, **CHANCE)
        relative = data.share / data.share.max()
        height = np.sqrt(relative) * 0.86 * STRIP - STRIP
        axes.stairs(height, edges, baseline=-STRIP, color=GREY, alpha=0.8, label="confidences (square root)", **fill)
        area = np.maximum(70 * relative[filled], 14)
        look: dict[str, Any] = {"color": colour, "edgecolor": "white", "linewidth": 0.6, "clip_on": False, "zorder": 3}
        axes.scatter(data.confidence[filled], data.accuracy[filled], s=area, **look)
    axes.axhline(0, color=GREY, linewidth=0.8)
    ticks = (0.0, 0.5, 1.0)
    axes.set(xlim=(0, 1), ylim=(-STRIP, 1), xticks=ticks, yticks=ticks, xlabel="confidence", ylabel="accuracy")


def reliability(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    num_bins: int = 15,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """The reliability diagram: accuracy against confidence; above it ECE, what of it is chance, and the gap in words.

    Args:
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`, beside labels; or a `Top` alone; as for
            `socrates.metrics.ece`, like all that follow up to `classes`.
        labels: (N,) class numbers, or names with `classes`.
        num_bins: number of bins (lo, hi].
        confidence: (N,) probabilities of the predicted classes, beside `correct` and in the place of probs and labels.
        correct: (N,) whether the prediction is right.
        sample_weight: (N,) weights.
        classes: names of the classes in the order of the columns.
        title: a first line above.
        ax: axes to draw on; a new figure unless given.

    >>> axes = reliability([[0.9, 0.1], [0.6, 0.4]] * 50, [0, 1] * 50)
    >>> print(axes.get_title())
    ECE 35.00 %, by chance 4.34 %
    overconfident by 25.0 points
    """
    top = open_top(probs, labels, confidence=confidence, correct=correct, sample_weight=sample_weight, classes=classes)
    data = _data(top, num_bins)
    axes = _new_axes(4.6, 5.2) if ax is None else ax
    draw_reliability(axes, data)
    return _finish(axes, ax, title, ece_in_words(data), gap_in_words(data))


def confidence_histogram(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    num_bins: int = 40,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """How sure the answers are, all of them and the wrong ones, on a square-root axis; mean confidence and accuracy.

    Args: as for `reliability`.

    >>> axes = confidence_histogram(confidence=[0.9, 0.6] * 50, correct=[1, 0] * 50)
    >>> print(axes.get_title())
    accuracy 50.0 %, mean confidence 75.0 %
    overconfident by 25.0 points
    """
    top = open_top(probs, labels, confidence=confidence, correct=correct, sample_weight=sample_weight, classes=classes)
    bins, data = bin_stats(top, num_bins), _data(top, floor=False)
    share, wrong = bins.count / bins.count.sum(), (bins.count - bins.correct) / bins.count.sum()
    right, mean = bins.correct.sum() / bins.count.sum(), bins.confidence.sum() / bins.count.sum()
    axes = _new_axes(5.4, 4.2) if ax is None else ax
    edges = bin_edges(num_bins)
    axes.set_yscale("function", functions=(_root, np.square))
    axes.stairs(share, edges, fill=True, color=COLOURS[0], alpha=0.35, linewidth=0, label="all answers")
    axes.stairs(wrong, edges, fill=True, color=COLOURS[1], alpha=0.85, linewidth=0, label="wrong answers")
    axes.axvspan(mean - data.reach, mean + data.reach, label="95 % by chance", **CHANCE)
    axes.axvline(mean, color=GREY, linewidth=1.3, linestyle=DASH, label="mean confidence")
    axes.axvline(right, color=INK, linewidth=1.3, label="accuracy")
    highest = 1.1 * float(share.max())
    axes.yaxis.set_major_locator(FixedLocator(_root_ticks(highest)))
    axes.yaxis.set_major_formatter(_percent)
    axes.set(xlim=(0, 1), ylim=(0, highest), xlabel="confidence", ylabel="share of the answers")
    measured = f"accuracy {100 * right:.1f} %, mean confidence {100 * mean:.1f} %"
    return _finish(axes, ax, title, measured, gap_in_words(data))


def risk_coverage(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Share of wrong answers as the least confident are withheld, beside the share that the confidences promise.

    Args: as for `reliability`.

    >>> axes = risk_coverage(confidence=[0.9, 0.6] * 50, correct=[1, 0] * 50)
    >>> print(axes.get_title())
    AURC 25.00 %, error 50.0 % if all are answered
    overconfident by 25.0 points
    """
    top = open_top(probs, labels, confidence=confidence, correct=correct, sample_weight=sample_weight, classes=classes)
    curve, data = metrics.risk_coverage(top), _data(top, floor=False)
    claimed, reach = _claimed_risk(top)
    # Evenly by coverage, and the last one; the risk of the first few answers is mostly noise.
    chosen = np.unique(np.searchsorted(curve.coverage, np.linspace(0, 1, MOST_POINTS)).clip(0, len(claimed) - 1))
    x, risk, claimed, reach = (values[chosen] for values in (curve.coverage, curve.risk, claimed, reach))
    axes = _new_axes(5.4, 4.2) if ax is None else ax
    few = len(x) < 30  # points, which would hardly make a line
    look: dict[str, Any] = {"marker": "o", "markersize": 4, "clip_on": False} if few else {}
    low, high = np.maximum(claimed - reach, 0), np.minimum(claimed + reach, 1)
    axes.fill_between(x, low, high, label="95 % by chance", **CHANCE)
    axes.plot(x, claimed, color=GREY, linewidth=1.2, linestyle=DASH, label="as claimed", **look)
    axes.plot(x, risk, color=COLOURS[0], linewidth=1.8, label="measured", **look)
    seen = x >= (0 if few else 0.05)
    axes.set(xlim=(0, 1), ylim=(0, max(1.1 * float(np.maximum(risk, high)[seen].max()), 0.001)))
    axes.set(xlabel="coverage: share of answers given", ylabel="risk: share of them wrong")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_percent)
    measured = f"AURC {100 * metrics.aurc(top):.2f} %, error {100 * curve.risk[-1]:.1f} % if all are answered"
    return _finish(axes, ax, title, measured, gap_in_words(data))


def _claimed_risk(top: Top) -> tuple[Array, Array]:
    """The risk that confidences promise at each point of a risk-coverage curve, and how far chance takes it."""
    order = np.argsort(-top.confidence)
    ranked, weight = top.confidence[order].astype(np.float64), _weight(top)[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))  # of equal confidences
    answered, promised = (np.cumsum(values)[last] for values in (weight, weight * (1 - ranked)))
    variance = np.cumsum(weight**2 * np.maximum(ranked * (1 - ranked), 0.0))[last]
    return promised / answered, Z * np.sqrt(variance) / answered


def forest(
    intervals: Mapping[str, Any],
    floors: Mapping[str, float] | float | None = None,
    *,
    metric: str = "ECE",
    percent: bool = True,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Measured values with their intervals, a row each from top to bottom, and what chance alone would measure.

    Args:
        intervals: an `Interval`, as `bootstrap` gives it, or (estimate, low, high) of each label.
        floors: the value of a calibrated model, as `floor` gives it: one for all, or one of each label.
        metric: name of what was measured.
        percent: whether it is a share, to be shown in percent.
        title: a line above.
        ax: axes to draw on; a new figure unless given.

    >>> axes = forest({"CE": (0.05, 0.04, 0.06), "focal": (0.02, 0.01, 0.03)}, floors=0.008)
    >>> [text.get_text() for text in axes.texts]
    ['5.00 [4.00, 6.00]', '2.00 [1.00, 3.00]']
    """
    factor = 100 if percent else 1
    values = factor * np.array([_interval(label, interval) for label, interval in intervals.items()])
    if not len(values):
        raise ValueError(
            "there are no intervals to draw: pass {label: bootstrap(...)} or {label: (estimate, low, high)}"
        )
    given = floors if isinstance(floors, Mapping) else dict.fromkeys(intervals, floors)
    if unknown := [label for label in given if label not in intervals]:
        raise ValueError(f"floors of {unknown} have no interval: expected labels among {[*intervals]}")
    axes = _new_axes(5.4, 1.4 + 0.52 * len(values)) if ax is None else ax
    rows = np.arange(len(values))
    estimate, low, high = values.T
    axes.hlines(rows, low, high, color=COLOURS[0], linewidth=2, label="95 % interval")
    axes.plot(estimate, rows, "o", color=COLOURS[0], markersize=7, markeredgecolor="white", label="measured")
    known = [(factor * chance, row) for row, label in enumerate(intervals) if (chance := given.get(label)) is not None]
    if known:
        places, at = np.transpose(known)
        axes.vlines(places, at - 0.38, at + 0.38, color=GREY, linewidth=1.6, label="by chance")
    ends = np.append(values.ravel(), [place for place, _ in known])
    left, right = float(ends.min()), float(ends.max())
    room = 0.06 * (right - left or abs(left) or 1.0)
    axes.set_xlim(0 if 0 <= left < 0.5 * right else left - room, right + room)
    axes.set(ylim=(len(values) - 0.5, -0.65), yticks=rows, yticklabels=[*intervals], xlabel=metric + percent * ", %")
    for row, (middle, *ends) in enumerate(values):
        place = (middle - axes.get_xlim()[0]) / np.diff(axes.get_xlim())[0]
        side = "left" if place < 0.3 else "right" if place > 0.7 else "center"
        text = f"{middle:.2f} [{ends[0]:.2f}, {ends[1]:.2f}]"
        look: dict[str, Any] = {"textcoords": "offset points", "ha": side, "fontsize": "small", "color": INK}
        axes.annotate(text, (middle, row), (0, 6), **look)
    return _finish(axes, ax, title)


def _interval(label: str, given: Any) -> tuple[float, float, float]:
    """Three finite numbers in their order."""
    try:
        found = (given.estimate, given.low, given.high) if hasattr(given, "estimate") else given
        estimate, low, high = (float(value) for value in found)
    except (TypeError, ValueError) as wrong:
        raise ValueError(f"{label} has {given!r}, expected an Interval or (estimate, low, high)") from wrong
    if not (math.isfinite(low) and math.isfinite(high) and low <= estimate <= high):
        raise ValueError(f"{label} has {given!r}, expected finite low <= estimate <= high")
    return estimate, low, high


def pareto(points: Mapping[str, Any], *, title: str = "lower left is better", ax: Axes | None = None) -> Axes:
    """Error against ECE of each label, and the line through those that no other dominates.

    Args:
        points: (error, ece) of each label, shares as the metrics return them; as `socrates.pareto.front` takes them.
        title: a line above.
        ax: axes to draw on; a new figure unless given.

    >>> axes = pareto({"CE": (0.05, 0.03), "focal": (0.06, 0.01), "MC": (0.07, 0.04)})
    >>> axes.get_lines()[0].get_xdata()
    array([5., 6.])
    """
    fronts.front(points.values())  # refuses what cannot be ranked
    places: dict[str, tuple[float, float]] = {}
    for label, point in points.items():
        error, ece, *_ = (point["error"], point["ece"]) if isinstance(point, Mapping) else point
        if not (0 <= error <= 1 and 0 <= ece <= 1):
            raise ValueError(f"{label} has {point}, expected shares from 0 to 1: divide percent by 100")
        places[label] = (100 * float(error), 100 * float(ece))
    axes = _new_axes(5.4, 4.2) if ax is None else ax
    draw_front(axes, [*places.values()])
    marks: Handles = []
    for number, (label, place) in enumerate(places.items()):
        colour, shape = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        marks += axes.plot(*place, shape, color=colour, markersize=9, markeredgecolor="white", label=label)
    frame_plane(axes, [(np.array([error]), np.array([ece]), 0) for error, ece in places.values()], room=0.12)
    _finish(axes, axes, title)
    notes = [(*place, label, INK) for label, place in places.items()]
    unplaced = annotate_apart(axes, notes, size=8.5)
    if unplaced:
        axes.legend(handles=[mark for mark in marks if mark.get_label() in unplaced], fontsize="small")
    return axes


def draw_front(axes: Axes, places: Sequence[tuple[float, float]]) -> None:
    """A line through the places that no other dominates, if there is more than one."""
    front = fronts.front(places) if places else []
    if len(front) > 1:
        look: dict[str, Any] = {"color": GREY, "linewidth": 1, "linestyle": DASH, "zorder": 1.5}
        axes.plot(*np.transpose(front), label="not dominated", **look)


def frame_plane(axes: Axes, parts: Sequence[tuple[Array, Array, int]], room: float = 0.06) -> None:
    """Limits of the plane of error and ECE in percent, and the dotted line of acceptable calibration.

    A part are errors, ECEs, and the position from which they must be inside; those before it only as far as they do not
    make the frame more than twice as large.
    """
    if parts:
        axes.set_xlim(*_limits([(error, start) for error, _, start in parts], room))
        top = max(_limits([(ece, start) for _, ece, start in parts], room)[1], 0.5)
        axes.set_ylim(0, max(top, 1.08 * ACCEPTABLE_ECE) if top > ACCEPTABLE_ECE / 2 else top)
    axes.axhline(ACCEPTABLE_ECE, color=GREY, linewidth=1.1, linestyle=DOT, zorder=1)
    axes.set(xlabel="error, %", ylabel="ECE, %")


def _limits(parts: Sequence[tuple[Array, int]], share: float) -> tuple[float, float]:
    """Lower and upper limit on one axis of values and the position from which they must be inside."""
    late = np.concatenate([values[start:] for values, start in parts])
    low, high = float(late.min()), float(late.max())
    room = share * max(high - low, 0.5)
    furthest = max(float(values.max()) for values, _ in parts)
    return max(0.0, low - room), min(max(furthest, high), high + max(high - low, 0.3 * high)) + room


def annotate_apart(axes: Axes, notes: Sequence[tuple[float, float, str, str]], size: float = 6.5) -> list[str]:
    """Write (x, y, text, colour) beside its point, off all these points and earlier notes; returns those without room.

    Call it when the limits are final.
    """
    dot = axes.figure.dpi / 72
    places = [axes.transData.transform(note[:2]) for note in notes]
    taken = [Bbox.from_extents(x, y, x, y).padded(4 * dot) for x, y in places]
    unplaced: list[str] = []
    for (x, y, text, colour), place in zip(notes, places, strict=True):
        width, by, below, level = 0.65 * size * len(text), 0.92 * size, -1.9 * size, -0.42 * size  # in points
        sides = ((by, level), (-by - width, level), (-width / 2, by), (-width / 2, below))
        sides += ((5, 4), (5, below), (-5 - width, 4))
        for dx, dy in sides:
            box = Bbox.from_bounds(place[0] + dx * dot, place[1] + dy * dot, width * dot, 1.1 * size * dot)
            inside = all(axes.bbox.contains(*corner) for corner in (box.min, box.max))
            if inside and not box.count_overlaps(taken):
                taken.append(box)
                look: dict[str, Any] = {"textcoords": "offset points", "fontsize": size, "color": colour, "zorder": 6}
                axes.annotate(text, (x, y), xytext=(dx, dy), **look)
                break
        else:
            unplaced.append(text)
    return unplaced


def _weight(top: Top) -> Array:
    return np.ones(len(top)) if top.weight is None else top.weight


def _data(top: Top, num_bins: int = 15, floor: bool = True) -> ReliabilityData:
    """The diagram of samples, with the floor of their ECE or without."""
    bins = bin_stats(top, num_bins)
    squares = np.bincount(bin_index(top.confidence, num_bins), _weight(top) ** 2, num_bins)
    effective = np.divide(bins.count**2, squares, out=np.zeros(num_bins), where=squares > 0)
    draws = min(max(MOST_DRAWN // len(top), 10), 100)
    chance = metrics.floor(partial(metrics.ece, num_bins=num_bins), top, num_draws=draws) if floor else math.nan
    return reliability_data("", [bins], chance, effective)


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


def _percent(share: float, place: float) -> str:
    """The text of a tick; its place among the ticks does not matter."""
    return f"{100 * share:.3g} %"


def _new_axes(width: float, height: float) -> Axes:
    """The axes of a new figure, which a notebook shows."""
    from matplotlib import pyplot  # only here: it picks a backend, and keeps every figure

    _, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _finish(axes: Axes, given: Axes | None, *lines: str) -> Axes:
    """Lines above the axes, and below those of our own figure, a legend."""
    axes.set_title("\n".join(filter(None, lines)), fontsize="medium")
    if given is None:
        handles = axes.get_legend_handles_labels()[0]
        axes.figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    return axes
