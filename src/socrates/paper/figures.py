"""The paper's figures, one panel or one file per setting, drawn by the report's functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..report.figures import evolution, pareto, reliability, scaling, unknown
from ..report.figures.compose import Drawing, Panel
from ..report.figures.curves import draw_lines, losses_data
from ..report.figures.plane import Plane, plane_of
from ..report.results import Results
from ..report.style import Style, styles
from .recipe_data import RecipeData
from .tables import SCALERS

PANEL = (3.1, 2.7)  # inches
PANELS_PER_ROW = 3
MARKS = 12  # steps of a path over the epochs: every 25th of 300
TRANSFER_EVERY = 2  # epochs

StyleByLabel = Mapping[str, Style]
# from the data and the name of the figure, and sometimes from the columns to show
MakeDrawings = Callable[..., list[Drawing]]


def panels(
    draw: Callable[[Any, Any], list[Any]], data_of: Callable[[Sequence[Results], StyleByLabel], Any]
) -> MakeDrawings:
    """Return a function that makes a figure of one panel per setting."""

    def make(data: RecipeData, name: str, shown: Callable[[str], bool] = bool) -> list[Drawing]:
        panels: list[Panel] = []
        for setting, groups in data.groups.items():
            # of all groups, shown or not: panels share a legend
            look = styles({group.label: group.method for group in groups.values()})
            members = [group for title, group in groups.items() if shown(title)]
            panels.append(Panel(data.scale.title(setting), draw, data_of(members, look)))
        return [Drawing(name, "", panels, PANELS_PER_ROW, PANEL)]

    return make


def files(draw: Callable[[str, Sequence[Results]], Drawing]) -> MakeDrawings:
    """Return a function that makes one file per setting, named after it if there are several."""

    def make(data: RecipeData, name: str) -> list[Drawing]:
        drawings: list[Drawing] = []
        for setting, groups in data.groups.items():
            drawing = draw(data.scale.title(setting), list(groups.values()))
            file = name if len(data.groups) == 1 else f"{name}-{setting}"
            if drawing.panels:
                drawings.append(replace(drawing, name=file))
        return drawings

    return make


def paths_data(members: Sequence[Results], look: StyleByLabel, every: int | None = None) -> Plane:
    """Return paths over the epochs with a mark at every `every`-th, by default 12 in all."""
    epochs = max((len(group.epochs) for group in members), default=0)
    every = every or max(1, round(epochs / MARKS))
    return plane_of(pareto.epoch_paths(members, every), look, members)


def points_data(members: Sequence[Results], look: StyleByLabel) -> Plane:
    """Return the points where the runs end on test data."""
    return plane_of(pareto.final_points(members), look, members)


def scaled_data(members: Sequence[Results], look: StyleByLabel) -> Plane:
    """Return the points to which each of the paper's scalers moves the ends."""
    return plane_of(scaling.scaled_points(members, SCALERS), look, members)


def diagrams(members: Sequence[Results], look: StyleByLabel) -> list[reliability.Diagram]:
    """Return the reliability on validation data."""
    return [
        reliability.Diagram(reliability.reliability_of(group, "val"), look[group.label])
        for group in members
    ]


losses = panels(draw_lines, losses_data)
paths = panels(pareto.draw_paths, paths_data)
transfer_paths = panels(pareto.draw_paths, partial(paths_data, every=TRANSFER_EVERY))
points = panels(pareto.draw_points, points_data)
scaled = panels(scaling.draw_scaled, scaled_data)
reliabilities = panels(reliability.draw_lines, diagrams)
evolutions = files(evolution.evolution_drawing)


@files
def evolution_grids(title: str, members: Sequence[Results]) -> Drawing:
    """Draw a grid whose panels show the paper's gamma and alpha, whatever a scale trains."""
    titles = {evolution.gamma_and_alpha(group): evolution.with_trained(group) for group in members}
    return evolution.grid_drawing(title, evolution.evolution_grid(members), titles)


unknown_behaviours = files(partial(unknown.unknown_drawing, "unknown"))


def transfer(data: RecipeData, name: str) -> list[Drawing]:
    """Draw error against ECE over the epochs, and beside it the reliability of all methods."""
    return side_by_side(
        {"over the epochs": transfer_paths(data, name), "reliability": reliabilities(data, name)}
    )


def transfer_test(data: RecipeData, name: str) -> list[Drawing]:
    """Draw test results: methods but CE, and beside them Socrates and CE after scaling."""
    trained = points(data, name, lambda title: title != "CE")
    rescaled = scaled(data, name, lambda title: title in ("Socrates", "CE"))
    return side_by_side({"ad-hoc": trained, "post-hoc": rescaled})


def gamma_and_alpha(data: RecipeData, name: str) -> list[Drawing]:
    """Draw the values of γ, and beside them those of α."""
    gammas = paths(data, name, lambda title: title.startswith("γ"))
    alphas = paths(data, name, lambda title: title.startswith("α"))
    return side_by_side({"γ": gammas, "α": alphas})


def side_by_side(drawings: Mapping[str, Sequence[Drawing]]) -> list[Drawing]:
    """Combine several figures into one, with the panels of a setting in one row.

    The keys stand above the titles of the panels, so that neighbours do not touch.
    """
    figures = [drawing for (drawing,) in drawings.values()]
    panels: list[Panel] = []
    for row in zip(*(figure.panels for figure in figures), strict=True):
        for prefix, panel in zip(drawings, row, strict=True):
            panels.append(panel._replace(title=f"{prefix}:\n{panel.title}"))
    return [replace(figures[0], panels=panels, columns=len(figures))]


def sat_unknown(data: RecipeData, name: str) -> list[Drawing]:
    """Draw SAT's confidence in the unknown class beside its ECE, one row per setting."""
    panels: list[Panel] = []
    for setting, groups in data.groups.items():
        for group in groups.values():
            panels += unknown.belief_panels(data.scale.title(setting), group)
    return [unknown.belief_drawing(name, "", panels)] if panels else []
