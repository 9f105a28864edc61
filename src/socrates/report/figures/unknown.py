"""The unknown class over the epochs: how much belief it draws, where, and how often it is the answer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..results import Results, bands
from ..style import Style
from ..vocabulary import CURVES
from .chart import Chart
from .compose import INK, Drawing, Panel
from .curves import Line, Lines, curve_charts, draw_lines, switch_epochs
from .evolution import COLOURS, quantity_lines

SHOWN = [name for name in CURVES if name.startswith(("confidence_", "unknown_"))]  # on the page
# Blue is the true class, orange the unknown one; the line tells overall, right and wrong answers apart.
WHO = {"true": "#0072B2", "unknown": "#D55E00"}
WHERE = {"": ("solid", "all"), "_right": ("dash", "answer right"), "_wrong": ("dot", "answer wrong")}
BELIEFS = ("unknown_share", "confidence_unknown_wrong", "confidence_unknown_right")
UNUSED = 0.01  # of answers and of belief, below which there is nothing to see
_COLUMNS_A_PAGE = 4


def drawings(members: Sequence[Results], look: Mapping[str, Style]) -> Iterator[Drawing]:
    """Three panels a method, four methods a file; and for SAT its belief in unknown beside its ECE."""
    found = [one for one in members if one.unknown_class and any(lines.lines for lines in unknown_behaviour(one))]
    pages = [found[k : k + _COLUMNS_A_PAGE] for k in range(0, len(found), _COLUMNS_A_PAGE)]
    for number, page in enumerate(pages, start=1):
        name = "unknown" if len(pages) == 1 else f"unknown-{number}"
        yield unknown_drawing(name, "the unknown class in validation", page)
    of_sat = [one for one in members if one.method.name.partition(":")[0] == "sat"]
    panels = [panel for one in of_sat for panel in belief_panels(one.label, one)]
    if panels:
        yield belief_drawing("unknown-and-ece", "belief in the unknown class and ECE in validation", panels)


def charts(members: Sequence[Results], look: Mapping[str, Style]) -> list[Chart]:
    """Belief in the unknown and in the true class of the methods that have an unknown one."""
    having = [one for one in members if one.unknown_class]
    unused = unused_in_words(having)
    if unused:
        return [Chart("unknown", "Unknown class", {}, summary=unused)]
    answered = any(np.nanmax(own.mean) > 0 for own in bands(having, "unknown_share"))
    return curve_charts(having, look, [name for name in SHOWN if answered or name != "unknown_share"])


def unused_in_words(members: Sequence[Results]) -> str:
    """That no method uses its unknown class, in a sentence; nothing if one does, or if none recorded it."""
    most: list[tuple[float, str]] = []
    for name in BELIEFS:
        for own in bands(members, name):
            late = own.mean[len(own.mean) // 2 :]
            if np.isfinite(late).any():
                most.append((float(np.nanmax(late)), own.label))
    if not most or max(most)[0] >= UNUSED:
        return ""
    return (
        f"The unknown class is not used: in the second half of training it is the answer to less than "
        f"{100 * UNUSED:g} % of the inputs and draws at most {100 * max(most)[0]:.2g} % of belief ({max(most)[1]}), "
        f"so its curves would lie at zero."
    )


def unknown_drawing(name: str, title: str, members: Sequence[Results]) -> Drawing:
    """A column a label, of three panels."""
    wide = 4.8 if len(members) == 1 else 2.9
    columns = [(one.label, list(unknown_behaviour(one))) for one in members]
    top = max(lines[2].limits[1] or 0.0 for _, lines in columns)
    for _, lines in columns:
        lines[2] = replace(lines[2], limits=(-0.02 * top, top))  # one scale a row, which holds all of them
    panels = [Panel("" if row else label, draw_lines, lines[row]) for row in range(3) for label, lines in columns]
    return Drawing(name, title, panels, len(members), (wide, 2.1), shared=True, fixed=True)


def unknown_behaviour(results: Results) -> tuple[Lines, Lines, Lines]:
    """ECE and error; mean confidence in the true and the unknown class; share of answers "unknown"."""
    confidences = [
        Line(curve, Style(colour, dash), f"{who} class, {words}")
        for where, (dash, words) in WHERE.items()
        for who, colour in WHO.items()
        for curve in bands([results], f"confidence_{who}{where}")
    ]
    share = [Line(curve, Style(INK), "answer is unknown") for curve in bands([results], "unknown_share")]
    top = max([0.01, *(1.05 * float(np.nanmax(line.band.high)) for line in share)])
    return (
        Lines(quantity_lines(results, {name: COLOURS[name] for name in ("val_ece", "error")}), "ECE, error"),
        Lines(confidences, "mean confidence", (-0.02, 1.02)),
        Lines(share, "unknown answers", (-0.02 * top, top)),
    )


def belief_panels(title: str, results: Results) -> list[Panel]:
    """Mean confidence in the unknown class, and ECE beside it; nothing if one of them was never recorded."""
    switches = switch_epochs([results])
    beliefs = [Line(curve, Style(WHO["unknown"])) for curve in bands([results], "confidence_unknown")]
    errors = quantity_lines(results, {"val_ece": COLOURS["val_ece"]})
    if not beliefs or not errors:
        return []
    left = Lines(beliefs, "confidence in unknown", switches=switches)
    return [Panel(title, draw_lines, left), Panel("", draw_lines, Lines(errors, "ECE", switches=switches))]


def belief_drawing(name: str, title: str, panels: Sequence[Panel]) -> Drawing:
    """A row for each pair of `belief_panels`."""
    return Drawing(name, title, panels, columns=2, size=(3.2, 2.5))
