"""The unknown class over the epochs: how much belief it draws, where, and how often it answers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ...palette import BLUE, PURPLE, VERMILION
from ..results import Members, Results, bands
from ..style import Look, Style
from ..vocabulary import CURVES
from .chart import Chart
from .compose import Drawing, Panel
from .curves import CurveLine, CurvePanel, curve_charts, draw_lines, switch_epochs
from .evolution import COLOURS, quantity_lines

SHOWN = [name for name in CURVES if name.startswith(("confidence_", "unknown_"))]  # on the page
# Colours stand for classes, dashes for answers.
CLASSES = {"true": BLUE, "unknown": VERMILION}
ANSWERS = {
    "": ("solid", "all"),
    "_right": ("dash", "answer right"),
    "_wrong": ("dot", "answer wrong"),
}
BELIEFS = ("unknown_share", "confidence_unknown_wrong", "confidence_unknown_right")
UNUSED = 0.01  # of answers and of belief, below which there is nothing to see
COLUMNS_PER_PAGE = 4


def drawings(members: Members, look: Look) -> Iterator[Drawing]:
    """Yield three panels per method, four methods per file, and belief in unknown beside ECE.

    The latter is for methods without a penalty on that belief; `evolution` shows the others.
    """
    recorded = [results for results in members if results.unknown_class and _is_recorded(results)]
    pages = [
        recorded[first : first + COLUMNS_PER_PAGE]
        for first in range(0, len(recorded), COLUMNS_PER_PAGE)
    ]
    for number, page in enumerate(pages, start=1):
        name = "unknown" if len(pages) == 1 else f"unknown-{number}"
        yield unknown_drawing(name, "the unknown class in validation", page)
    free = [results for results in members if not bands([results], "beta")]
    panels = [panel for results in free for panel in belief_panels(results.label, results)]
    if panels:
        words = "belief in the unknown class and ECE in validation"
        yield belief_drawing("unknown-and-ece", words, panels)


def _is_recorded(results: Results) -> bool:
    """Return whether any panel of the unknown class has a line."""
    return any(panel.lines for panel in unknown_behaviour(results))


def charts(members: Members, look: Look) -> list[Chart]:
    """Return belief in the unknown and in the true class of methods with an unknown class."""
    having = [results for results in members if results.unknown_class]
    unused = unused_in_words(having)
    if unused:
        return [Chart("unknown", "Unknown class", {}, summary=unused)]
    answered = any(np.nanmax(band.mean) > 0 for band in bands(having, "unknown_share"))
    names = [name for name in SHOWN if answered or name != "unknown_share"]
    return curve_charts(having, look, names, whole=True)


def unused_in_words(members: Members) -> str:
    """Return a sentence if no method uses its unknown class, else nothing."""
    most: list[tuple[float, str]] = []
    for band in (band for name in BELIEFS for band in bands(members, name)):
        late = band.mean[len(band.mean) // 2 :]
        if np.isfinite(late).any():
            most.append((float(np.nanmax(late)), band.label))
    if not most or max(most)[0] >= UNUSED:
        return ""
    belief, label = max(most)
    return (
        "The unknown class is not used: in the second half of training it is the answer to less "
        f"than {100 * UNUSED:g}% of the inputs and draws at most {100 * belief:.2g}% of belief "
        f"({label}), so its curves would lie at zero."
    )


def unknown_drawing(name: str, title: str, members: Members) -> Drawing:
    """Return a column of three panels per label; of two if "unknown" is never the answer."""
    wide = 4.8 if len(members) == 1 else 2.9
    columns = {results.label: [*unknown_behaviour(results)] for results in members}
    tops = [
        float(np.nanmax(line.band.mean, initial=0.0))
        for column in columns.values()
        for line in column[2].lines
    ]
    answered = max(tops, default=0.0) > 0
    if not answered:
        title = "; ".join(filter(None, (title, "“unknown” is never the answer")))
    top = max(column[2].limits[1] or 0.0 for column in columns.values())
    for column in columns.values():
        # One scale for the row, which holds all of them.
        column[2] = replace(column[2], limits=(-0.02 * top, top))
    panels = [
        Panel("" if row else label, draw_lines, column[row])
        for row in range(3 if answered else 2)
        for label, column in columns.items()
    ]
    size = (wide, 2.1)
    columns_fixed = {"shared": True, "fixed": True, "legend_above": True}
    return Drawing(name, title, panels, len(members), size, **columns_fixed)


def unknown_behaviour(results: Results) -> tuple[CurvePanel, CurvePanel, CurvePanel]:
    """Return ECE and error, mean confidence by class, and the share of "unknown" answers."""
    errors = quantity_lines(results, {name: COLOURS[name] for name in ("val_ece", "error")})
    confidences = [
        CurveLine(band, Style(colour, dash), f"{known} class, {words}")
        for answer, (dash, words) in ANSWERS.items()
        for known, colour in CLASSES.items()
        for band in bands([results], f"confidence_{known}{answer}")
    ]
    shares = [
        CurveLine(band, Style(PURPLE, "dashdot"), "answer is unknown")
        for band in bands([results], "unknown_share")
    ]
    top = max([0.01, *(1.05 * float(np.nanmax(line.band.high)) for line in shares)])
    return (
        CurvePanel(errors, "ECE and error, 0 to 1"),
        CurvePanel(confidences, "mean confidence", (-0.02, 1.02)),
        CurvePanel(shares, "share of answers", (-0.02 * top, top)),
    )


def belief_panels(title: str, results: Results) -> list[Panel]:
    """Return mean confidence in the unknown class and ECE beside it, if both were recorded."""
    beliefs = [
        CurveLine(band, Style(CLASSES["unknown"]))
        for band in bands([results], "confidence_unknown")
    ]
    errors = quantity_lines(results, {"val_ece": COLOURS["val_ece"]})
    if not beliefs or not errors:
        return []
    switches = switch_epochs([results])
    left = CurvePanel(beliefs, "confidence in unknown", switches=switches)
    right = CurvePanel(errors, "ECE", switches=switches)
    return [Panel(title, draw_lines, left), Panel("", draw_lines, right)]


def belief_drawing(name: str, title: str, panels: Sequence[Panel]) -> Drawing:
    """Return a row for each pair of `belief_panels`."""
    return Drawing(name, title, panels, columns=2, size=(3.2, 2.5))
