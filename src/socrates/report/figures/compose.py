"""Whole figures of a setting: which ones its groups support, and how each is put together."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from socrates.report.aggregate import Group, Setting
from socrates.report.figures import curves, evolution, pareto, reliability, scaling, unknown
from socrates.report.figures.curves import Band
from socrates.report.figures.ink import GREY, LINES, RED, ceiling, few, group_handle, legend_beside, wrapped
from socrates.report.style import Style, styles

Make = Callable[[], Figure | None]  # None if there is nothing to draw after all

# Name of the figure, recorded number, factor and axis label.
CURVES = (
    ("accuracy", "val_accuracy", 100.0, "validation accuracy, %"),
    ("ece", "val_ece", 100.0, "validation ECE, %"),
    ("ada-ece", "val_ada_ece", 100.0, "validation AdaECE, %"),
    ("cw-ece", "val_cw_ece", 100.0, "validation CW-ECE, %"),
    ("nll", "val_nll", 1.0, "validation NLL"),
    ("weight-norm", "weight_norm", 1.0, "norm of the weights"),
)
WORDS = {"γ": "gamma", "α": "alpha", "β": "beta", "E_s": "start"}
_PANELS_A_ROW = 5
_COLUMNS_A_PAGE = 4  # of the three-panel figure of the unknown class


def figures_of(setting: Setting, groups: Sequence[Group]) -> Iterator[tuple[str, Make]]:
    """Name and maker of every figure that the groups have data for."""
    look = styles(groups)
    makers = [*_over_epochs(groups, look), *_planes(groups, look), *_insides(groups)]
    makers.append(("reliability", "reliability on the test set", partial(reliability_panels, groups, look)))
    for name, words, make in makers:
        yield name, partial(_titled, make, f"{words}\n{setting.title}")


def slug(text: str) -> str:
    """A title as a file name.

    >>> slug("Socrates α=0.99 γ=1, num_bins 15")
    'socrates-alpha-0.99-gamma-1-num-bins-15'
    """
    for symbol, word in WORDS.items():
        text = text.replace(symbol, word)
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") or "setting"


def losses(groups: Sequence[Group], look: Mapping[str, Style]) -> Figure:
    """Training and validation losses of all groups, in one panel for each if the groups are many."""
    found = curves.loss_curves(groups)
    switches = _switches(groups)
    if few(groups):
        figure, axes = _single()
        curves.draw_losses(axes, found, look, switches)
    else:
        figure = Figure(figsize=(8.4, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        curves.draw_losses(left, {label: (train, None) for label, (train, _) in found.items()}, look, switches)
        curves.draw_losses(right, {label: (None, val) for label, (_, val) in found.items()}, look, switches)
        right.set(ylabel="", ylim=(0, ceiling([curve for pair in found.values() for curve in pair if curve])))
    kinds = [
        Line2D([], [], color=GREY, linestyle=LINES[dash], label=words)
        for words, dash in (("training", "solid"), ("validation", "dash"))
    ]
    solid = {label: replace(style, dash="solid") for label, style in look.items()}
    legend_beside(figure, [*kinds, *(group_handle(label, solid[label]) for label in found), *_switch_handle(switches)])
    return figure


def banded(groups: Sequence[Group], found: Sequence[Band], look: Mapping[str, Style], ylabel: str) -> Figure:
    """One recorded number of all groups over the epochs."""
    figure, axes = _single()
    curves.draw_bands(axes, found, look, ylabel, _switches(groups))
    if "accuracy" in ylabel:
        axes.set_ylim(_accuracy_limits(found))
    handles = [group_handle(curve.label, look[curve.label]) for curve in found]
    legend_beside(figure, [*handles, *_switch_handle(_switches(groups))])
    return figure


def epoch_plane(groups: Sequence[Group], paths: Sequence[pareto.EpochPath], look: Mapping[str, Style]) -> Figure:
    """Error against ECE over the epochs."""
    figure, axes = _single()
    bad = pareto.collapsed_labels(groups)
    handles = [group_handle(path.label, look[path.label], bad.get(path.label)) for path in paths]
    legend_beside(figure, handles)
    pareto.draw_paths(axes, paths, look, bad)
    return figure


def final_plane(groups: Sequence[Group], points: Sequence[pareto.FinalPoint], look: Mapping[str, Style]) -> Figure:
    """Error against ECE at the end."""
    figure, axes = _single()
    bad = pareto.collapsed_labels(groups)
    pareto.draw_points(axes, points, look, bad)
    handles = [group_handle(point.label, look[point.label], bad.get(point.label)) for point in points]
    for handle in handles:
        handle.set_linestyle("none")
    front = Line2D([], [], color=GREY, linewidth=1, linestyle=LINES["dash"], label="not dominated")
    legend_beside(figure, [*handles, front])
    return figure


def scaled_plane(groups: Sequence[Group], points: Sequence[scaling.ScaledPoint], look: Mapping[str, Style]) -> Figure:
    """Before and after post-hoc scaling."""
    figure, axes = _single()
    scaling.draw_scaled(axes, points, look, pareto.collapsed_labels(groups))
    plain: dict[str, Any] = {"linestyle": "none", "markersize": 5.5}
    labels, scalers = (dict.fromkeys(getattr(point, name) for point in points) for name in ("label", "scaler"))
    of_groups = [Line2D([], [], marker="o", color=look[label].colour, label=label, **plain) for label in labels]
    of_scalers = [
        Line2D([], [], marker=scaling.scaler_marker(name), color=GREY, label=name.replace("none", "unscaled"), **plain)
        for name in scalers
    ]
    legend_beside(figure, [*of_scalers, *of_groups])
    return figure


def reliability_panels(groups: Sequence[Group], look: Mapping[str, Style]) -> Figure | None:
    """The test reliability diagrams of all groups, side by side; None if no logits can be read."""
    diagrams = [reliability.reliability_data(group) for group in groups]
    if not any(data.runs for data in diagrams):
        return None
    rows, columns = _grid(len(groups))
    figure = Figure(figsize=(2.15 * columns + 0.3, 2.55 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    bad = pareto.collapsed_labels(groups)
    for axes, data in zip(panels.flat, diagrams, strict=False):
        reliability.draw_reliability(axes, data, look[data.label])
        if data.label in bad:
            axes.set_title(f"{axes.get_title()}\ncollapsed: {bad[data.label]}", fontsize=8, color=RED)
    _outer(panels, len(groups))
    legend_beside(figure, reliability.legend_handles())
    return figure


def evolution_panels(found: Sequence[tuple[Group, Mapping[str, Band]]]) -> Figure:
    """Penalty, target, ECE and error of each group, side by side."""
    rows, columns = _grid(len(found))
    wide = 4.6 if len(found) == 1 else 2.4
    figure = Figure(figsize=(wide * columns + 0.3, wide / 1.35 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, (group, data) in zip(panels.flat, found, strict=False):
        evolution.draw_evolution(axes, data)
        axes.set_title(wrapped(group.label), fontsize=8)
    _outer(panels, len(found))
    legend_beside(figure, panels[0, 0].get_lines())
    return figure


def evolution_grid_figure(grid: Mapping[tuple[float, float], Mapping[str, Band]]) -> Figure:
    """The evolution for every gamma (rows) and alpha (columns)."""
    gammas, alphas = (len({pair[place] for pair in grid}) for place in (0, 1))
    figure = Figure(figsize=(2.3 * alphas + 0.4, 1.75 * gammas + 0.6), layout="constrained")
    evolution.draw_evolution_grid(figure, grid)
    drawn = [axes.get_lines() for axes in figure.axes]
    legend_beside(figure, max(drawn, key=len))
    return figure


def unknown_columns(found: Sequence[tuple[Group, Mapping[str, Band]]]) -> Figure:
    """The three panels of the unknown class, one column a group."""
    wide = 4.8 if len(found) == 1 else 2.9
    figure = Figure(figsize=(wide * len(found) + 0.3, 6.4), layout="constrained")
    panels = figure.subplots(3, len(found), sharex=True, squeeze=False)
    for column, (group, data) in enumerate(found):
        unknown.draw_unknown(list(panels[:, column]), data)
        panels[0, column].set_title(wrapped(group.label), fontsize=8)
    for axes in panels[:-1].flat:
        axes.set_xlabel("")
    for axes in panels[:, 1:].flat:
        axes.set_ylabel("")
    legend_beside(figure, [line for row in panels for line in max((axes.get_lines() for axes in row), key=len)])
    return figure


def unknown_and_ece_rows(found: Sequence[tuple[Group, tuple[Band, Band]]]) -> Figure:
    """Confidence in the unknown class beside ECE, one row a group."""
    figure = Figure(figsize=(6.4, 2.5 * len(found) + 0.4), layout="constrained")
    panels = figure.subplots(len(found), 2, sharex=True, squeeze=False)
    for row, (group, pair) in zip(panels, found, strict=True):
        unknown.draw_unknown_and_ece(list(row), pair, curves.switch_epoch(group))
        row[0].set_title(group.label, fontsize=8, loc="left")
    for axes in panels[:-1].flat:
        axes.set_xlabel("")
    return figure


def _over_epochs(groups: Sequence[Group], look: Mapping[str, Style]) -> Iterator[tuple[str, str, Make]]:
    """Name, title and maker of the figures of curves."""
    if any(pair != (None, None) for pair in curves.loss_curves(groups).values()):
        yield "losses", "training and validation loss", partial(losses, groups, look)
    for name, key, factor, ylabel in CURVES:
        found = curves.bands(groups, key, factor)
        if found:
            yield name, ylabel.removesuffix(", %"), partial(banded, groups, found, look, ylabel)


def _planes(groups: Sequence[Group], look: Mapping[str, Style]) -> Iterator[tuple[str, str, Make]]:
    """Those of error against ECE."""
    better = "lower left is better"
    step = pareto.usual_step(groups[0].setting.epochs)
    paths = pareto.epoch_paths(groups, step)
    if paths:
        words = f"validation error and ECE every {step} epochs, {better}"
        yield "pareto-epochs", words, partial(epoch_plane, groups, paths, look)
    for split, words in (("test", "test"), ("val", "validation")):
        points = pareto.final_points(groups, split)
        if points:
            yield f"pareto-{split}", f"{words} error and ECE, {better}", partial(final_plane, groups, points, look)
    scaled = scaling.scaled_points(groups)
    if scaled:
        words = f"test error and ECE before and after scaling, {better}"
        yield "scaling", words, partial(scaled_plane, groups, scaled, look)


def _insides(groups: Sequence[Group]) -> Iterator[tuple[str, str, Make]]:
    """Those of single methods: penalty and target, the unknown class."""
    moving = [(group, data) for group in groups if "beta" in (data := evolution.evolution(group))]
    if moving:
        yield (
            "evolution",
            "penalty and target in training, ECE and error in validation",
            partial(evolution_panels, moving),
        )
    grid = evolution.evolution_grid(groups)
    if len(grid) > 1:
        words = "Socrates loss for each γ (rows) and α (columns)"
        yield "evolution-grid", words, partial(evolution_grid_figure, grid)
    unsure = [(group, data) for group in groups if (data := unknown.unknown_behaviour(group))]
    pages = [unsure[k : k + _COLUMNS_A_PAGE] for k in range(0, len(unsure), _COLUMNS_A_PAGE)]
    for number, page in enumerate(pages, start=1):
        name = "unknown" if len(pages) == 1 else f"unknown-{number}"
        yield name, "the unknown class in validation", partial(unknown_columns, page)
    of_sat = [group for group in groups if group.method.partition(":")[0] == "sat"]
    pairs = [(group, pair) for group in of_sat if (pair := unknown.unknown_confidence_and_ece(group))]
    if pairs:
        yield (
            "unknown-and-ece",
            "belief in the unknown class and ECE in validation",
            partial(unknown_and_ece_rows, pairs),
        )


def _switch_handle(switches: Sequence[int]) -> list[Any]:
    """The legend's entry for grey boxes, if there are any."""
    return [Patch(color=GREY, alpha=0.22, label="change of loss")] if switches else []


def _accuracy_limits(found: Sequence[Band]) -> tuple[float, float]:
    """Accuracy, in percent, has its ceiling at 100: the distance from there is what is limited."""
    errors = [
        Band(curve.label, curve.epochs, *(100 - values for values in (curve.mean, curve.high, curve.low)))
        for curve in found
    ]
    return max(0.0, 100 - (ceiling(errors) or 100.0)), 100.0


def _titled(make: Make, title: str) -> Figure | None:
    figure = make()
    if figure is None:
        return None
    letters = int(figure.get_size_inches()[0] / 0.08)  # that fit in a line
    figure.suptitle("\n".join(textwrap.fill(line, letters) for line in title.split("\n")), fontsize=9)
    return figure


def _single() -> tuple[Figure, Any]:
    figure = Figure(figsize=(5.6, 4.0), layout="constrained")
    return figure, figure.subplots()


def _switches(groups: Sequence[Group]) -> list[int]:
    found = {curves.switch_epoch(group) for group in groups}
    return sorted(epoch for epoch in found if epoch is not None)


def _grid(panels: int) -> tuple[int, int]:
    """Rows and columns, near the shape of a page."""
    columns = min(panels, _PANELS_A_ROW)
    return math.ceil(panels / columns), columns


def _outer(panels: Any, used: int) -> None:
    """Tick labels and axis labels on the outside alone; panels beyond the used ones vanish."""
    for axes in panels.flat:
        axes.label_outer()
    for axes in panels.flat[used:]:
        axes.set_visible(False)
    columns = panels.shape[1]
    for axes in panels.flat[max(0, used - columns) : used]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(panels.flat[0].get_xlabel() or axes.get_xlabel())
