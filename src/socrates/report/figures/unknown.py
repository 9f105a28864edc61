"""The unknown class over the epochs: how much belief it draws, where, and how often it is the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from socrates.report.aggregate import Group
from socrates.report.figures.curves import Band, band
from socrates.report.figures.evolution import COLOURS, NAMES, error_band
from socrates.report.figures.ink import INK, LINES, draw_band, epoch_axis, grey_box, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CONFIDENCES = tuple(f"confidence_{who}{where}" for where in ("", "_right", "_wrong") for who in ("true", "unknown"))
# Blue is the true class, orange the unknown one; the line tells overall, right and wrong answers apart.
_BLUE, _ORANGE = "#0072B2", "#D55E00"
_WHERE = {"": ("solid", "all"), "_right": ("dash", "answer right"), "_wrong": ("dot", "answer wrong")}


def unknown_behaviour(group: Group) -> dict[str, Band]:
    """Curves as shares, 0 to 1: ece, error, the six of CONFIDENCES, unknown_share. Empty without an unknown class."""
    if not any(run.unknown_class for run in group.runs):
        return {}
    found = {
        "ece": band(group, "val_ece"),
        "error": error_band(group),
        **{key: band(group, key) for key in (*CONFIDENCES, "unknown_share")},
    }
    return {name: curve for name, curve in found.items() if curve is not None}


def unknown_confidence_and_ece(group: Group) -> tuple[Band, Band] | None:
    """Mean confidence in the unknown class and ECE, as shares; None if one of them was never recorded."""
    confidence, ece = band(group, "confidence_unknown"), band(group, "val_ece")
    return None if confidence is None or ece is None else (confidence, ece)


def draw_unknown(axes3: Sequence[Axes], data: Mapping[str, Band]) -> None:
    """Three panels: ECE and error; mean confidence in the true and the unknown class; share of answers "unknown"."""
    errors, confidences, share = axes3
    for name in ("ece", "error"):
        if name in data:
            draw_band(errors, data[name], COLOURS[name], label=NAMES[name])
    for key in CONFIDENCES:
        if key in data:
            who, where = key.removeprefix("confidence_").partition("_")[::2]
            dash, words = _WHERE[f"_{where}" if where else ""]
            colour = _BLUE if who == "true" else _ORANGE
            draw_band(confidences, data[key], colour, linestyle=LINES[dash], label=f"{who} class, {words}")
    if "unknown_share" in data:
        draw_band(share, data["unknown_share"], INK, label="answer is unknown")
    for axes, ylabel in zip(axes3, ("share", "mean confidence", "share of answers unknown"), strict=True):
        epoch_axis(axes, list(data.values()))
        axes.set_ylabel(ylabel)
        axes.set_ylim(bottom=0)
        tidy(axes)
    confidences.set_ylim(-0.02, 1.02)
    top = max(share.get_ylim()[1], 0.01)
    share.set_ylim(-0.02 * top, top)


def draw_unknown_and_ece(axes2: Sequence[Axes], curves: tuple[Band, Band], switch: int | None = None) -> None:
    """Left the mean confidence in the unknown class, right the ECE; a grey box where the method changes its loss."""
    for axes, curve, colour, ylabel in zip(
        axes2, curves, (_ORANGE, COLOURS["ece"]), ("mean confidence in unknown", "ECE"), strict=True
    ):
        draw_band(axes, curve, colour)
        epoch_axis(axes, curves)
        if switch is not None:
            grey_box(axes, switch, 0.06 * curve.epochs[-1])
        axes.set_ylabel(ylabel)
        axes.set_ylim(bottom=0)
        tidy(axes)
