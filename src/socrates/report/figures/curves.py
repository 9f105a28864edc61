"""Curves over the epochs with a band for the seeds: losses, accuracy, calibration errors, anything recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from socrates.report.aggregate import Group
from socrates.report.figures.ink import LINES, ceiling, draw_band, epoch_axis, few, grey_box, group_line, tidy
from socrates.report.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]

# Methods whose second phase begins halfway through training unless their options say otherwise.
HALFWAY = ("ccl_sc",)


@dataclass(frozen=True)
class Band:
    """A number of each epoch: mean over the seeds, and mean -/+ their standard deviation; NaN where no run has it."""

    label: str
    epochs: Array  # (E,)
    mean: Array
    low: Array
    high: Array


def band(group: Group, key: str, factor: float = 1.0) -> Band | None:
    """The curve of a recorded number times `factor`; None if no run of the group ever recorded it.

    The deviation has n - 1 below it; where only one run has a value, the band is as thin as the line.
    """
    values = group.curve(key)  # (runs, E)
    known = np.isfinite(values)
    if not known.any():
        return None
    return Band(group.label, group.epochs, *mean_and_band(factor * values))


def mean_and_band(values: Array) -> tuple[Array, Array, Array]:
    """Mean, mean - std and mean + std over the first axis, values that are not finite left out.

    >>> mean, low, high = mean_and_band(np.array([[1.0, 2.0, np.nan], [3.0, np.nan, np.nan]]))
    >>> mean, high.round(2)
    (array([ 2., 2., nan]), array([3.41, 2. , nan]))
    """
    known = np.isfinite(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    mean = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    squares = np.where(known, values - mean, 0.0) ** 2
    spread = np.sqrt(squares.sum(axis=0) / np.maximum(count - 1, 1))
    return mean, mean - spread, mean + spread


def loss_curves(groups: Sequence[Group]) -> dict[str, tuple[Band | None, Band | None]]:
    """Training and validation loss of each group by label; None for one that was never recorded."""
    return {group.label: (band(group, "train_loss"), band(group, "val_loss")) for group in groups}


def switch_epoch(group: Group) -> int | None:
    """The first epoch of the second phase of a two-phase method; None if the runs have one phase.

    Phase one lasts for `start_epoch` epochs, so the loss changes in the epoch after it.
    """
    start = dict(group.experiment.method.options).get("start_epoch")
    if start is None and group.method in HALFWAY:
        start = group.setting.epochs // 2
    if not isinstance(start, int | float) or not 0 < start < group.epochs[-1]:
        return None
    return int(start) + 1


def bands(groups: Sequence[Group], key: str, factor: float = 1.0) -> list[Band]:
    """The curves of the groups that recorded the number."""
    found = [band(group, key, factor) for group in groups]
    return [curve for curve in found if curve is not None]


def draw_losses(
    axes: Axes,
    curves: Mapping[str, tuple[Band | None, Band | None]],
    styles: Mapping[str, Style],
    switches: Sequence[int] = (),
) -> None:
    """Training losses solid, validation losses dashed, a grey box at each epoch where a method changes its loss."""
    drawn = [curve for pair in curves.values() for curve in pair if curve is not None]
    for rank, (label, pair) in enumerate(curves.items()):
        for curve, dash in zip(pair, ("solid", "dash"), strict=True):
            if curve is not None:
                line = {**group_line(styles[label], len(curve.epochs), rank), "linestyle": LINES[dash]}
                draw_band(axes, curve, styles[label].colour, few(curves), **line)
    _limit(axes, drawn, switches)
    axes.set_ylabel("loss")


def draw_bands(
    axes: Axes, bands: Sequence[Band], styles: Mapping[str, Style], ylabel: str, switches: Sequence[int] = ()
) -> None:
    """One curve a group, with the shade of its seeds as long as the curves are few."""
    for rank, curve in enumerate(bands):
        style = styles[curve.label]
        draw_band(axes, curve, style.colour, few(bands), **group_line(style, len(curve.epochs), rank))
    _limit(axes, bands, switches)
    axes.set_ylabel(ylabel)


def _limit(axes: Axes, drawn: Sequence[Band], switches: Sequence[int]) -> None:
    epoch_axis(axes, drawn)
    top = ceiling(drawn)
    if top is not None:
        axes.set_ylim(0, top)
    for epoch in switches:
        grey_box(axes, epoch, 0.02 * max(curve.epochs[-1] for curve in drawn))
    tidy(axes)
