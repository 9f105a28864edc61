"""The inside of the Socrates loss: mean penalty and mean target over the epochs, beside ECE and error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from socrates.report.aggregate import Group
from socrates.report.figures.curves import Band, band
from socrates.report.figures.ink import draw_band, epoch_axis, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The paper's colours, which stand for quantities here, not for methods.
COLOURS = {"beta": "#E58600", "target": "#0072B2", "ece": "#C1121F", "error": "#1A1A1A"}
NAMES = {"beta": "penalty β", "target": "target t", "ece": "ECE", "error": "error"}
# What a run that names no option has been trained with.
DEFAULTS = {"gamma": 2.0, "alpha": 0.99}


def evolution(group: Group) -> dict[str, Band]:
    """Curves of beta, target, ece and error as shares, 0 to 1; what was not recorded is left out."""
    found = {
        "beta": band(group, "beta"),
        "target": band(group, "target"),
        "ece": band(group, "val_ece"),
        "error": error_band(group),
    }
    return {name: curve for name, curve in found.items() if curve is not None}


def error_band(group: Group, factor: float = 1.0) -> Band | None:
    """The validation error of each epoch, 1 - accuracy, times `factor`."""
    curve = band(group, "val_accuracy")
    if curve is None:
        return None
    mean, low, high = (factor * (1 - values) for values in (curve.mean, curve.high, curve.low))
    return Band(curve.label, curve.epochs, mean, low, high)


def evolution_grid(groups: Sequence[Group]) -> dict[tuple[float, float], dict[str, Band]]:
    """The evolution for each (gamma, alpha) of the plain Socrates loss, in rising order.

    Of two groups with the same pair the first counts; groups that recorded no beta are left out.
    """
    grid: dict[tuple[float, float], dict[str, Band]] = {}
    for group in groups:
        curves = evolution(group) if group.method == "socrates" else {}
        if "beta" in curves:
            grid.setdefault(gamma_alpha(group), curves)
    return dict(sorted(grid.items()))


def gamma_alpha(group: Group) -> tuple[float, float]:
    """The two hyperparameters of a Socrates group, defaults filled in."""
    options: dict[str, Any] = {**DEFAULTS, **dict(group.experiment.method.options)}
    return float(options["gamma"]), float(options["alpha"])


def draw_evolution(axes: Axes, data: Mapping[str, Band]) -> None:
    """The four curves on one scale, in the paper's colours."""
    for name, curve in data.items():
        draw_band(axes, curve, COLOURS[name], label=NAMES[name])
    epoch_axis(axes, list(data.values()))
    axes.set_ylim(0, 1)
    axes.set_ylabel("share")
    tidy(axes)


def draw_evolution_grid(figure: Figure, grid: Mapping[tuple[float, float], Mapping[str, Band]]) -> None:
    """One panel a configuration: a row for each gamma, a column for each alpha; missing ones stay empty."""
    gammas, alphas = (sorted({pair[place] for pair in grid}) for place in (0, 1))
    panels = figure.subplots(len(gammas), len(alphas), sharex=True, sharey=True, squeeze=False)
    for row, gamma in enumerate(gammas):
        for column, alpha in enumerate(alphas):
            axes = panels[row, column]
            data = grid.get((gamma, alpha))
            axes.set_title(f"γ = {gamma:g}, α = {alpha:g}" + ("" if data else ": no runs"), fontsize=8)
            draw_evolution(axes, data or {})
    for axes in panels.flat:
        axes.label_outer()
