"""The inside of the Socrates loss: mean penalty and mean target over the epochs, beside ECE and error."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from ..results import Results, bands
from ..style import Style
from ..vocabulary import CURVES
from .chart import Chart
from .compose import Drawing, Panel
from .curves import Line, Lines, curve_charts, draw_lines

# The paper's colours, which stand for quantities here, not for methods.
COLOURS = {"beta": "#E58600", "target": "#0072B2", "val_ece": "#C1121F", "error": "#1A1A1A"}
QUANTITIES = "β, t, ECE, error"  # all of them shares, 0 to 1


def drawings(members: Sequence[Results], look: Mapping[str, Style]) -> Iterator[Drawing]:
    """A panel for each method that has a penalty; the Socrates losses among them also by gamma and alpha."""
    moving = [one for one in members if bands([one], "beta")]
    if moving:
        yield evolution_drawing("penalty and target in training, ECE and error in validation", moving)
    grid = evolution_grid(members)
    if len(grid) > 1:
        yield grid_drawing("Socrates loss for each γ (rows) and α (columns)", grid)


def charts(members: Sequence[Results], look: Mapping[str, Style]) -> list[Chart]:
    """Penalty and target of all methods."""
    return curve_charts(members, look, ("beta", "target"))


def evolution_drawing(title: str, members: Sequence[Results]) -> Drawing:
    """One panel a label."""
    wide = 4.6 if len(members) == 1 else 2.4
    panels = [Panel(one.label, draw_lines, evolution(one)) for one in members]
    return Drawing("evolution", title, panels, size=(wide, wide / 1.35), shared=True)


def grid_drawing(
    title: str, grid: Mapping[tuple[float, float], Lines], titles: Mapping[tuple[float, float], str] | None = None
) -> Drawing:
    """One panel a configuration: a row for each gamma, a column for each alpha; missing ones stay empty.

    `titles` say what panels stand for where that is not the gamma and alpha that were trained.
    """
    gammas, alphas = (sorted({pair[place] for pair in grid}) for place in (0, 1))
    panels: list[Panel] = []
    for pair in itertools.product(gammas, alphas):
        words = (titles or {}).get(pair, "γ = {:g}, α = {:g}".format(*pair)) + ("" if pair in grid else ": no runs")
        panels.append(Panel(words, draw_lines, grid.get(pair, Lines([], QUANTITIES, (0, 1)))))
    return Drawing("evolution-grid", title, panels, len(alphas), (2.3, 1.75), shared=True, fixed=True)


def evolution(results: Results) -> Lines:
    """Curves of beta, target, ECE and error as shares, 0 to 1, in the paper's colours."""
    return Lines(quantity_lines(results, COLOURS), QUANTITIES, (0, 1))


def quantity_lines(results: Results, colours: Mapping[str, str]) -> list[Line]:
    """Lines of recorded quantities, each in its own colour; what was not recorded is left out."""
    return [
        Line(curve, Style(colour), CURVES[name].short)
        for name, colour in colours.items()
        for curve in bands([results], name)
    ]


def evolution_grid(members: Sequence[Results]) -> dict[tuple[float, float], Lines]:
    """The evolution for each (gamma, alpha) of the plain Socrates loss, in rising order.

    Of two with the same pair the first counts; those that recorded no beta are left out.
    """
    grid: dict[tuple[float, float], Lines] = {}
    for one in members:
        if one.method.name == "socrates" and bands([one], "beta"):
            grid.setdefault(gamma_and_alpha(one), evolution(one))
    return dict(sorted(grid.items()))


def gamma_and_alpha(results: Results) -> tuple[float, float]:
    """Of a Socrates loss, as trained."""
    options = dict(results.method.options)
    return float(options["gamma"] or 0), float(options["alpha"] or 0)
