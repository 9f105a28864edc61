"""The forest of the first screen: ECE and accuracy of each row with their intervals, as inline SVG.

Everything is placed in percent of the width, so that one drawing serves screens, phones and paper
without any script.
"""

import math
from collections.abc import Sequence

import numpy as np

from .answer import Answer, AnswerLine, Estimate, differences
from .figures.chart import Json
from .markup import markup
from .statistics import PairedDifference
from .strip import Strip, with_minus
from .style import Look
from .vocabulary import glossary_terms, scaler_of

MANY_ROWS = 12  # more are folded to the first few
FIRST_ROWS = 5
# The best rows, which can be chosen: all differences to each of them are on the page.
MOST_REFERENCES = 36
CROWD = 3.0  # times the upper quartile: what is farther from the good end is drawn at the edge


def ece_strip(lines: Sequence[AnswerLine]) -> Strip:
    """Return a strip from 0 to a little beyond the largest sound mean or floor.

    A single very bad one does not press the others together.
    """
    sound = _sound(lines)
    if not sound:
        return Strip(0.0, 1.0)
    means = [line.ece.mean for line in sound]
    most = min(max(means), CROWD * float(np.quantile(means, 0.75)))
    ends = _known([line.ece.high for line in sound if line.ece.mean <= most])
    reach = min(max([most, *ends]), 1.3 * most)
    floor = max(line.floor for line in sound)
    return Strip(0.0, max(1.04 * reach, 1.1 * floor, 1e-3))


def accuracy_strip(lines: Sequence[AnswerLine]) -> Strip:
    """Return a strip around the sound means and their intervals, unless these are very wide."""
    accuracies = [line.accuracy for line in _sound(lines)]
    if not accuracies:
        return Strip(0.0, 100.0)
    low = min(accuracy.mean for accuracy in accuracies)
    high = max(accuracy.mean for accuracy in accuracies)
    reaches = _known([(accuracy.high - accuracy.low) / 2 for accuracy in accuracies])
    room = max(high - low, 0.5, float(np.median(reaches or [0.0])))
    lows = _known([accuracy.low for accuracy in accuracies])
    highs = _known([accuracy.high for accuracy in accuracies])
    low = max(min([low, *lows]), low - room)
    high = min(max([high, *highs]), high + room)
    edge = 0.05 * max(high - low, 0.5)
    return Strip(max(low - edge, 0.0), min(high + edge, 100.0))


def difference_strip(pairs: Sequence[PairedDifference]) -> Strip:
    """Return a strip around 0 that holds all differences, and intervals that are not much wider."""
    means = [abs(mean) for mean in _known([pair.mean for pair in pairs])]
    ends = [abs(end) for end in _known([end for pair in pairs for end in (pair.low, pair.high)])]
    reach = min(max([*means, *ends], default=0.0), 1.5 * max(means, default=0.0)) or 1.0
    return Strip(-1.05 * reach, 1.05 * reach)


def forest(
    lines: Sequence[AnswerLine],
    look: Look,
    reference: int | None = None,
    offered: int = MOST_REFERENCES,
) -> str:
    """Return the rows as markup: their values, or the differences to the line at `reference`.

    The first rows, as many as are `offered`, can be chosen as the reference.

    >>> forest([], {}).count("<tr")
    2
    """
    rows = [_row(place, line, look) for place, line in enumerate(lines)]
    if reference is None:
        strips = [ece_strip(lines), accuracy_strip(lines)]
        values = [(line.ece, line.accuracy) for line in lines]
        form = ".2f"
    else:
        values = differences(lines, reference)
        strips = [difference_strip([pair[place] for pair in values]) for place in (0, 1)]
        form = "+.2f"
        rows[reference]["reference"] = True
    for row, line, pair in zip(rows, lines, values, strict=True):
        row["strips"] = [_on_strip(strips[place], pair[place], form) for place in (0, 1)]
        has_floor = reference is None and not math.isnan(line.floor)
        row["floor"] = strips[0].at(line.floor) if has_floor else None
    return markup(
        "forest.html",
        rows=rows,
        axes=strips,
        first=FIRST_ROWS if len(rows) > MANY_ROWS else len(rows),
        offered=offered,
        reference=None if reference is None else lines[reference].label,
        terms=glossary_terms(),
    )


def screen(
    answer: Answer, forest: str, interval: str = "95% over seeds", compared: bool = True
) -> str:
    """Return the first screen: headline, verdict, sentences, forest, and what its signs mean.

    Rows can be `compared` with each other if their differences are on the page.

    >>> "<h1>Nothing.</h1>" in screen(Answer("Nothing.", (), (), ""), "")
    True
    """
    lines = answer.lines
    scalers = [name for name in dict.fromkeys(line.scaler for line in lines) if name != "none"]
    leaders = sum(line.leader for line in lines)
    tinted = "not shown to be worse than the lowest ECE" if leaders > 1 else "the lowest ECE"
    return markup(
        "forest_screen.html",
        answer=answer,
        forest=forest,
        folded=len(lines) > MANY_ROWS,
        interval=interval,
        scaled=[scaler_of(name).both for name in scalers],
        tinted=tinted if leaders and len(lines) > 1 else "",
        compared=compared and len(lines) > 1,
        reading=any(line.results.unknown_class for line in lines),
    )


def _row(place: int, line: AnswerLine, look: Look) -> Json:
    """Return what a row shows besides its numbers."""
    style = look[line.results.label]
    return {
        "place": place,
        "label": line.label,
        "leader": line.leader,
        "collapsed": line.collapsed,
        "method": style.place,
        "marker": style.marker,
        "hollow": line.scaler == "none",
    }


def _on_strip(strip: Strip, value: Estimate | PairedDifference, form: str) -> Json:
    """Return where mean and interval stand, and what is written beside them.

    What lies beyond the strip ends in an arrow.
    """
    words = value.words if isinstance(value, PairedDifference) else ""
    if math.isnan(value.mean):
        return {"text": "–", "at": None, "low": None, "interval": "", "words": words}
    low = value.mean if math.isnan(value.low) else value.low
    high = value.mean if math.isnan(value.high) else value.high
    has_interval = low < high
    inside = strip.low <= value.mean <= strip.high
    interval = with_minus(f"95% from {low:{form}} to {high:{form}}")
    return {
        "text": with_minus(f"{value.mean:{form}}"),
        "at": strip.at(value.mean) if inside else None,
        "low": strip.at(low) if has_interval else None,
        "high": strip.at(high) if has_interval else None,
        "interval": interval if has_interval else "",
        "words": words,
        "left": low < strip.low != 0,  # a strip from 0 on cuts nothing off
        "right": high > strip.high,
    }


def _sound(lines: Sequence[AnswerLine]) -> list[AnswerLine]:
    """Return the lines that strips are made for: sound ones, or all if none is sound."""
    known = [line for line in lines if not math.isnan(line.ece.mean)]
    return [line for line in known if not line.collapsed] or known


def _known(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]
