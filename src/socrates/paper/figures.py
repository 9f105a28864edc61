"""The paper's figures from runs: one panel or one file a setting, drawn with the functions of the report."""

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
TRANSFER_EVERY = 2  # epochs

Look = Mapping[str, Style]
Make = Callable[..., list[Drawing]]  # of data and the name of the figure, and maybe of which columns


def panels(draw: Callable[[Any, Any], list[Any]], data_of: Callable[[Sequence[Results], Look], Any]) -> Make:
    """Makes a figure of one panel a setting."""

    def make(data: RecipeData, name: str, shown: Callable[[str], bool] = bool) -> list[Drawing]:
        made: list[Panel] = []
        for setting, groups in data.groups.items():
            look = styles({one.label: one.method for one in groups.values()})  # of all: panels share a legend
            members = [one for title, one in groups.items() if shown(title)]
            made.append(Panel(data.scale.title(setting), draw, data_of(members, look)))
        return [Drawing(name, "", made, PANELS_A_ROW, PANEL)]

    return make


def files(draw: Callable[[str, Sequence[Results]], Drawing]) -> Make:
    """Makes a file a setting, named after it if there are several."""

    def make(data: RecipeData, name: str) -> list[Drawing]:
        drawn = {setting: draw(data.scale.title(setting), list(own.values())) for setting, own in data.groups.items()}
        named = {setting: name if len(drawn) == 1 else f"{name}-{setting}" for setting in drawn}
        return [replace(drawing, name=named[setting]) for setting, drawing in drawn.items() if drawing.panels]

    return make


def paths_data(members: Sequence[Results], look: Look, every: int | None = None) -> Plane:
    """Paths with a mark every so many epochs: if not told, so that the paper's 300 have one every 25."""
    every = every or max(1, round(max((len(one.epochs) for one in members), default=0) / MARKS))
    return Plane(pareto.epoch_paths(members, every), look, collapsed_labels(members))


def points_data(members: Sequence[Results], look: Look) -> Plane:
    """Where the runs end on test data."""
    return Plane(pareto.final_points(members), look, collapsed_labels(members))


def scaled_data(members: Sequence[Results], look: Look) -> Plane:
    """Where each of the paper's scalers moves the ends."""
    return Plane(scaling.scaled_points(members, SCALERS), look, collapsed_labels(members))


def diagrams(members: Sequence[Results], look: Look) -> list[reliability.Diagram]:
    """Reliability on validation data."""
    return [reliability.Diagram(reliability.reliability_of(one, "val"), look[one.label]) for one in members]


losses = panels(draw_lines, losses_data)
paths = panels(pareto.draw_paths, paths_data)
transfer_paths = panels(pareto.draw_paths, partial(paths_data, every=TRANSFER_EVERY))
points = panels(pareto.draw_points, points_data)
scaled = panels(scaling.draw_scaled, scaled_data)
reliabilities = panels(reliability.draw_lines, diagrams)
evolutions = files(evolution.evolution_drawing)


@files
def evolution_grids(title: str, members: Sequence[Results]) -> Drawing:
    """Panels have the paper's gamma and alpha for titles, whatever a scale trains for them."""
    titles = {evolution.gamma_and_alpha(one): one.label for one in members}
    return evolution.grid_drawing(title, evolution.evolution_grid(members), titles)


unknown_behaviours = files(partial(unknown.unknown_drawing, "unknown"))


def transfer(data: RecipeData, name: str) -> list[Drawing]:
    """Error against ECE over the epochs, and beside it the reliability of all methods."""
    return side_by_side({"over the epochs": transfer_paths(data, name), "reliability": reliabilities(data, name)})


def transfer_test(data: RecipeData, name: str) -> list[Drawing]:
    """Transfer learning on test data: methods but CE, and beside them post-hoc scaling of Socrates and CE."""
    trained = points(data, name, lambda title: title != "CE")
    return side_by_side({"ad-hoc": trained, "post-hoc": scaled(data, name, lambda title: title in ("Socrates", "CE"))})


def gamma_and_alpha(data: RecipeData, name: str) -> list[Drawing]:
    """The values of γ, and beside them those of α."""
    return side_by_side({s: paths(data, name, lambda title, own=s: title.startswith(own)) for s in "γα"})


def side_by_side(drawings: Mapping[str, Sequence[Drawing]]) -> list[Drawing]:
    """One figure of several, each by its words: the panels of a setting, which have the same place in all, in a row."""
    firsts = {words: drawing for words, (drawing,) in drawings.items()}
    rows = zip(*(drawing.panels for drawing in firsts.values()), strict=True)
    panels = [
        panel._replace(title=f"{words}: {panel.title}")
        for row in rows
        for words, panel in zip(firsts, row, strict=True)
    ]
    return [replace(next(iter(firsts.values())), panels=panels, columns=len(firsts))]


def sat_unknown(data: RecipeData, name: str) -> list[Drawing]:
    """SAT's confidence in the unknown class beside its ECE, one row a setting."""
    found = [
        panel
        for setting, groups in data.groups.items()
        for group in groups.values()
        for panel in unknown.belief_panels(data.scale.title(setting), group)
    ]
    return [unknown.belief_drawing(name, "", found)] if found else []
