"""The paper's figures from runs: one panel a setting, drawn with the functions of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..report.figures import evolution, pareto, reliability, scaling, unknown
from ..report.figures.compose import Drawing, Panel
from ..report.figures.curves import draw_lines, losses_data
from ..report.figures.pareto import Plane, collapsed_labels
from ..report.results import Results
from ..report.style import Style, styles
from .recipe_data import RecipeData
from .tables import SCALERS

PANEL = (3.1, 2.7)  # inches
PANELS_A_ROW = 3
MARKS = 12  # steps of a path over the epochs: every 25th of 300

Look = Mapping[str, Style]


def loss_trends(data: RecipeData) -> list[Drawing]:
    """Training and validation losses, one panel a setting."""
    return panels(data, "losses", draw_lines, losses_data)


def pareto_over_epochs(data: RecipeData, name: str) -> list[Drawing]:
    """Validation error against ECE over the epochs, one panel a setting."""
    return panels(data, name, pareto.draw_paths, paths_data)


def transfer(data: RecipeData) -> list[Drawing]:
    """Error against ECE over the epochs, and beside it the reliability of all methods."""
    (left,) = panels(data, "transfer", pareto.draw_paths, paths_data)
    (right,) = panels(data, "transfer", reliability.draw_lines, diagrams)
    return [replace(left, panels=[*left.panels, *right.panels])]


def reliability_lines(data: RecipeData) -> list[Drawing]:
    """Accuracy against confidence of all methods on validation data, one panel a setting."""
    return panels(data, "reliability", reliability.draw_lines, diagrams)


def final_pareto(data: RecipeData, name: str) -> list[Drawing]:
    """Test error against ECE at the last epoch, one panel a setting."""

    def points(members: Sequence[Results], look: Look) -> Plane:
        return Plane(pareto.final_points(members), look, collapsed_labels(members))

    return panels(data, name, pareto.draw_points, points)


def posthoc_pareto(data: RecipeData, name: str = "posthoc-pareto") -> list[Drawing]:
    """Where each scaler moves Socrates and CE, on test data, one panel a setting."""

    def points(members: Sequence[Results], look: Look) -> Plane:
        return Plane(scaling.scaled_points(members, SCALERS), look, collapsed_labels(members))

    return panels(data, name, scaling.draw_scaled, points)


def transfer_test(data: RecipeData) -> list[Drawing]:
    """Transfer learning on test data: methods, and post-hoc scaling of Socrates and CE."""
    two = {
        setting: {title: group for title, group in groups.items() if title in ("Socrates", "CE")}
        for setting, groups in data.groups.items()
    }
    scaled = RecipeData(data.scale, two)
    return final_pareto(data, "transfer-test-pareto") + posthoc_pareto(scaled, "transfer-posthoc-pareto")


def evolutions(data: RecipeData) -> list[Drawing]:
    """Penalty, target, ECE and error of Socrates over the epochs."""
    return _by_setting(data, evolution.evolution_drawing)


def evolution_of_grid(data: RecipeData) -> list[Drawing]:
    """The same for every gamma and alpha of the grid."""
    return _by_setting(data, lambda title, members: evolution.grid_drawing(title, evolution.evolution_grid(members)))


def unknown_behaviours(data: RecipeData) -> list[Drawing]:
    """ECE and error, confidence in the true and the unknown class, share of answers "unknown"."""
    return _by_setting(data, partial(unknown.unknown_drawing, "unknown"))


def sat_unknown(data: RecipeData) -> list[Drawing]:
    """SAT's confidence in the unknown class beside its ECE, one row a setting."""
    found = [
        panel
        for setting, groups in data.groups.items()
        for group in groups.values()
        for panel in unknown.belief_panels(data.scale.title(setting), group)
    ]
    return [unknown.belief_drawing("sat-unknown", "", found)] if found else []


def panels(
    data: RecipeData,
    name: str,
    draw: Callable[[Any, Any], list[Any]],
    data_of: Callable[[Sequence[Results], Look], Any],
) -> list[Drawing]:
    """One panel a setting."""
    made: list[Panel] = []
    for setting, groups in data.groups.items():
        members = list(groups.values())
        look = styles({one.label: one.method for one in members})
        made.append(Panel(data.scale.title(setting), draw, data_of(members, look)))
    return [Drawing(name, "", made, PANELS_A_ROW, PANEL)]


def paths_data(members: Sequence[Results], look: Look) -> Plane:
    """Paths with so many marks that the paper's 300 epochs have one every 25."""
    every = max(1, round(len(members[0].epochs) / MARKS))
    return Plane(pareto.epoch_paths(members, every), look, collapsed_labels(members))


def diagrams(members: Sequence[Results], look: Look) -> list[reliability.Diagram]:
    """Reliability on validation data."""
    return [reliability.Diagram(reliability.reliability_of(one, "val"), look[one.label]) for one in members]


def _by_setting(data: RecipeData, draw: Callable[[str, Sequence[Results]], Drawing]) -> list[Drawing]:
    """One file a setting, named after it if there are several."""
    made: list[Drawing] = []
    for setting, groups in data.groups.items():
        drawing = draw(data.scale.title(setting), list(groups.values()))
        made.append(drawing if len(data.groups) == 1 else replace(drawing, name=f"{drawing.name}-{setting}"))
    return [drawing for drawing in made if drawing.panels]
