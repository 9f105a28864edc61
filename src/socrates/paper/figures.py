"""The paper's figures from runs: one panel a setting, drawn with the functions of the report."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..report.aggregate import Group
from ..report.figures import compose, curves, pareto, reliability, scaling, unknown
from ..report.figures.evolution import evolution, evolution_grid
from ..report.figures.ink import GREY, INK, LINES, group_handle, legend_beside, tidy
from ..report.style import Style, styles
from .material import Material

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL = (3.1, 2.7)  # inches
PANELS_A_ROW = 3
LETTERS_A_LINE = 56  # of a panel
MARKS = 12  # steps of a path over the epochs: every 25th of 300


class Drawing(NamedTuple):
    """A figure with the name of its files."""

    name: str
    figure: Figure


def loss_trends(material: Material) -> list[Drawing]:
    """Training and validation losses, one panel a setting."""

    def draw(axes: Axes, groups: Sequence[Group], look: Mapping[str, Style]) -> None:
        switches = [epoch for epoch in map(curves.switch_epoch, groups) if epoch is not None]
        curves.draw_losses(axes, curves.loss_curves(groups), look, sorted(set(switches)))

    kinds = [Line2D([], [], color=GREY, linestyle=LINES[dash], label=name) for name, dash in _KINDS]
    return [Drawing("losses", panels(material, draw, before=kinds))]


_KINDS = (("train", "solid"), ("validation", "dash"))


def pareto_over_epochs(material: Material, name: str) -> list[Drawing]:
    """Validation error against ECE over the epochs, one panel a setting."""
    return [Drawing(name, panels(material, _draw_paths))]


def transfer(material: Material) -> list[Drawing]:
    """Error against ECE over the epochs, and beside it the reliability of all methods."""
    (setting, groups), *_ = material.groups.items()
    members = list(groups.values())
    figure = Figure(figsize=(2 * PANEL[0] + 0.6, PANEL[1] + 0.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    look = styles(members)
    _draw_paths(left, members, look)
    draw_reliability_lines(right, members, look)
    figure.suptitle(material.scale.title(setting), fontsize=9)
    legend_beside(figure, _handles([members]))
    return [Drawing("transfer", figure)]


def reliability_lines(material: Material) -> list[Drawing]:
    """Accuracy against confidence of all methods on validation data, one panel a setting."""
    return [Drawing("reliability", panels(material, draw_reliability_lines))]


def draw_reliability_lines(axes: Axes, groups: Sequence[Group], look: Mapping[str, Style]) -> None:
    """One line a method through its bins, and the diagonal of perfect calibration."""
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=LINES["dash"])
    for group in groups:
        data, style = reliability.reliability_data(group, "val"), look[group.label]
        filled = data.count > 0
        line: dict[str, Any] = {"color": style.colour, "marker": style.marker, "linestyle": LINES[style.dash]}
        axes.plot(data.confidence[filled], data.accuracy[filled], markersize=3.5, linewidth=1.2, **line)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
    tidy(axes)


def final_pareto(material: Material, name: str) -> list[Drawing]:
    """Test error against ECE at the last epoch, one panel a setting."""

    def draw(axes: Axes, groups: Sequence[Group], look: Mapping[str, Style]) -> None:
        pareto.draw_points(axes, pareto.final_points(groups), look, pareto.collapsed_labels(groups))

    return [Drawing(name, panels(material, draw))]


def posthoc_pareto(material: Material, name: str = "posthoc-pareto") -> list[Drawing]:
    """Where each scaler moves Socrates and CE, on test data, one panel a setting."""

    def draw(axes: Axes, groups: Sequence[Group], look: Mapping[str, Style]) -> None:
        points = [point for point in scaling.scaled_points(groups) if point.scaler != "readout"]
        scaling.draw_scaled(axes, points, look)

    marks = [
        Line2D([], [], marker=mark, color=GREY, linestyle="none", label=scaler.replace("none", "unscaled"))
        for scaler, mark in scaling.MARKERS.items()
    ]
    return [Drawing(name, panels(material, draw, before=marks))]


def transfer_test(material: Material) -> list[Drawing]:
    """Transfer learning on test data: methods, and post-hoc scaling of Socrates and CE."""
    only = {title: group for groups in material.groups.values() for title, group in groups.items()}
    two = {title: group for title, group in only.items() if title in ("Socrates", "CE")}
    setting = next(iter(material.groups))
    scaled = Material(material.scale, {setting: two})
    return final_pareto(material, "transfer-test-pareto") + posthoc_pareto(scaled, "transfer-posthoc-pareto")


def evolutions(material: Material) -> list[Drawing]:
    """Penalty, target, ECE and error of Socrates over the epochs."""
    return [
        Drawing(
            _named("evolution", setting, material),
            _headed(compose.evolution_panels(found), material.scale.title(setting)),
        )
        for setting, groups in material.groups.items()
        if (found := [(group, evolution(group)) for group in groups.values()])
    ]


def evolution_of_grid(material: Material) -> list[Drawing]:
    """The same for every gamma and alpha of the grid."""
    return [
        Drawing(
            _named("evolution-grid", setting, material),
            _headed(compose.evolution_grid_figure(grid), material.scale.title(setting)),
        )
        for setting, groups in material.groups.items()
        if (grid := evolution_grid(list(groups.values())))
    ]


def unknown_behaviours(material: Material) -> list[Drawing]:
    """ECE and error, confidence in the true and the unknown class, share of answers "unknown"."""
    return [
        Drawing(
            _named("unknown", setting, material), _headed(compose.unknown_columns(found), material.scale.title(setting))
        )
        for setting, groups in material.groups.items()
        if (found := [(group, data) for group in groups.values() if (data := unknown.unknown_behaviour(group))])
    ]


def sat_unknown(material: Material) -> list[Drawing]:
    """SAT's confidence in the unknown class beside its ECE, one row a setting."""
    found = [
        (Group(group.setting, material.scale.title(setting), group.experiment, group.runs), pair)
        for setting, groups in material.groups.items()
        for group in groups.values()
        if (pair := unknown.unknown_confidence_and_ece(group))
    ]
    return [Drawing("sat-unknown", compose.unknown_and_ece_rows(found))] if found else []


def panels(
    material: Material,
    draw: Callable[[Axes, Sequence[Group], Mapping[str, Style]], None],
    before: Sequence[Any] = (),
) -> Figure:
    """One panel a setting, and one legend for all of them."""
    count = len(material.groups)
    columns = min(count, PANELS_A_ROW)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(PANEL[0] * columns + 0.3, PANEL[1] * rows + 0.3), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    members = {setting: list(groups.values()) for setting, groups in material.groups.items()}
    for axes, (setting, groups) in zip(grid.flat, members.items(), strict=False):
        draw(axes, groups, styles(groups))
        remark = textwrap.fill(axes.get_title(), LETTERS_A_LINE)  # of the draw function, on what it left out
        axes.set_title("\n".join(filter(None, [material.scale.title(setting), remark])), fontsize=8, color=INK)
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    legend_beside(figure, [*before, *_handles(list(members.values()))])
    return figure


def _draw_paths(axes: Axes, groups: Sequence[Group], look: Mapping[str, Style]) -> None:
    every = max(1, round(groups[0].setting.epochs / MARKS))
    pareto.draw_paths(axes, pareto.epoch_paths(groups, every), look, pareto.collapsed_labels(groups))


def _handles(families: Sequence[Sequence[Group]]) -> list[Any]:
    """An entry for each label; its colour is that of its method in every panel."""
    looks = {label: style for groups in families for label, style in styles(groups).items()}
    return [group_handle(label, style) for label, style in looks.items()]


def _headed(figure: Figure, title: str) -> Figure:
    figure.suptitle(title, fontsize=9)
    return figure


def _named(name: str, setting: str, material: Material) -> str:
    return name if len(material.groups) == 1 else f"{name}-{setting}"
