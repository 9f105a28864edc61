"""The inside of the Socrates loss: mean penalty and mean target over the epochs."""

import itertools
import re
from collections.abc import Iterator, Mapping

from ...palette import BLUE, INK, ORANGE, RED
from ..results import Members, Results, bands
from ..style import Look, Style
from ..vocabulary import CURVES
from .chart import Chart
from .compose import Drawing, Panel
from .curves import CurveLine, CurvePanel, curve_charts, draw_lines

# The paper's colours, which stand for quantities here, not for methods.
COLOURS = {"beta": ORANGE, "target": BLUE, "val_ece": RED, "error": INK}
QUANTITIES = "mean, 0 to 1"  # of each quantity of the legend


def drawings(members: Members, look: Look) -> Iterator[Drawing]:
    """Yield a panel for each method with a penalty, and a grid of its values of gamma and alpha."""
    penalized = [results for results in members if bands([results], "beta")]
    if penalized:
        words = "penalty and target in training, ECE and error in validation"
        yield evolution_drawing(words, penalized)
    grid = evolution_grid(members)
    if len(grid) > 1:
        yield grid_drawing("Socrates loss for each γ (rows) and α (columns)", grid)


def charts(members: Members, look: Look) -> list[Chart]:
    """Return penalty and target of all methods."""
    return curve_charts(members, look, ("beta", "target"), whole=True)


def evolution_drawing(title: str, members: Members) -> Drawing:
    """Return one panel per label."""
    wide = 4.6 if len(members) == 1 else 2.4
    panels = [Panel(with_trained(results), draw_lines, evolution(results)) for results in members]
    return Drawing("evolution", title, panels, size=(wide, wide / 1.35), shared=True)


def grid_drawing(
    title: str,
    grid: Mapping[tuple[float, float], CurvePanel],
    titles: Mapping[tuple[float, float], str] | None = None,
) -> Drawing:
    """Return one panel per configuration: a row for each gamma, a column for each alpha.

    Missing ones stay empty. `titles` name panels that stand for something else than the gamma and
    alpha that were trained.
    """
    gammas = sorted({gamma for gamma, _ in grid})
    alphas = sorted({alpha for _, alpha in grid})
    panels: list[Panel] = []
    for gamma, alpha in itertools.product(gammas, alphas):
        words = (titles or {}).get((gamma, alpha), f"γ = {gamma:g}, α = {alpha:g}")
        panel = grid.get((gamma, alpha))
        if panel is None:
            panel = CurvePanel([], QUANTITIES, (0, 1))
            words = f"{words}: no runs"
        panels.append(Panel(words, draw_lines, panel))
    size = (2.3, 1.75)
    return Drawing("evolution-grid", title, panels, len(alphas), size, shared=True, fixed=True)


def evolution(results: Results) -> CurvePanel:
    """Return curves of beta, target, ECE and error as shares, 0 to 1, in the paper's colours."""
    return CurvePanel(quantity_lines(results, COLOURS), QUANTITIES, (0, 1))


def quantity_lines(results: Results, colours: Mapping[str, str]) -> list[CurveLine]:
    """Return the lines of the recorded ones of some quantities, each in its colour."""
    return [
        CurveLine(band, Style(colour), CURVES[name].short)
        for name, colour in colours.items()
        for band in bands([results], name)
    ]


def evolution_grid(members: Members) -> dict[tuple[float, float], CurvePanel]:
    """Return the evolution for each (gamma, alpha) of a loss that has both, in rising order.

    Of two with the same pair the first counts. Ablations, and runs that recorded no beta, are left
    out.
    """
    grid: dict[tuple[float, float], CurvePanel] = {}
    for results in members:
        has_both = {"gamma", "alpha"} <= {name for name, _ in results.method.options}
        is_plain = ":" not in results.method.name
        if has_both and is_plain and bands([results], "beta"):
            grid.setdefault(gamma_and_alpha(results), evolution(results))
    return dict(sorted(grid.items()))


def with_trained(results: Results) -> str:
    """Return the label of results, with the alpha of their runs where it is another one.

    A small scale trains with an alpha of its own in place of the paper's, which the label has.
    """
    alpha = dict(results.method.options).get("alpha")
    named = re.search(r"α ?= ?([\d.]+)", results.label)
    if named is None or alpha is None or float(named[1]) == float(f"{float(alpha):.4g}"):
        return results.label
    return f"{results.label} (trained: α = {float(alpha):.4g})"


def gamma_and_alpha(results: Results) -> tuple[float, float]:
    """Return gamma and alpha as trained; one that was switched off counts as 0."""
    options = dict(results.method.options)
    return float(options["gamma"] or 0), float(options["alpha"] or 0)
