"""The forest of the first screen: a row for each line, its ECE and accuracy with their intervals as inline SVG.

Everything is placed in percent of the width, so that one drawing serves screens, phones and paper, without any script.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .answer import Answer, Estimate, Line, differences
from .figures.chart import Json
from .markup import markup
from .statistics import Difference
from .style import Style
from .vocabulary import GLOSSARY, scaler_of

MANY_ROWS = 12  # more are folded to the first few
FIRST_ROWS = 5
MOST_REFERENCES = 36  # rows that can be chosen, the best: all differences to each of them are on the page
CROWD = 3.0  # times the upper quartile: what is farther from the good end is drawn at the edge


@dataclass(frozen=True)
class Axis:
    """A range of numbers laid out from 0 to 100 percent of a strip."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Where a value stands, in percent; what lies outside stands at the edge.

        >>> Axis(0, 4).at(1), Axis(0, 4).at(9), Axis(0, 4).at(float("nan"))
        (25.0, 100.0, nan)
        """
        share = 100 * (value - self.low) / (self.high - self.low)
        return share if math.isnan(share) else round(min(max(share, 0.0), 100.0), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Places of round numbers in percent, with what is written there.

        >>> Axis(0, 3.4).ticks
        [(0.0, '0'), (29.41, '1'), (58.82, '2'), (88.24, '3')]
        """
        rough = (self.high - self.low) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        step = min((step * power for step in (1, 2, 5, 10)), key=lambda step: abs(step - rough))
        found = np.arange(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1) * step
        return [(self.at(float(value)), f"{value:.6g}".replace("-", "−")) for value in found]


def ece_axis(lines: Sequence[Line]) -> Axis:
    """From 0 to a little beyond the largest sound mean or floor; a lone very bad one does not press the others."""
    means = [line.ece.mean for line in _sound(lines)]
    if not means:
        return Axis(0.0, 1.0)
    most = min(max(means), CROWD * float(np.quantile(means, 0.75)))
    intervals = [line.ece.high for line in _sound(lines) if line.ece.mean <= most]
    reach = min(max([most, *(end for end in intervals if not math.isnan(end))]), 1.3 * most)
    return Axis(0.0, max(1.04 * reach, max(line.floor for line in _sound(lines)) * 1.1, 1e-3))


def accuracy_axis(lines: Sequence[Line]) -> Axis:
    """Around the sound means and their intervals, but not much wider than the means where intervals are wild."""
    found = [line.accuracy for line in _sound(lines)]
    if not found:
        return Axis(0.0, 100.0)
    means = [one.mean for one in found]
    low, high = min(means), max(means)
    reaches = [(one.high - one.low) / 2 for one in found if not math.isnan(one.low)]
    room = max(high - low, 0.5, float(np.median(reaches or [0.0])))
    ends = [end for one in found for end in (one.low, one.high) if not math.isnan(end)]
    low, high = max(min([low, *ends]), low - room), min(max([high, *ends]), high + room)
    edge = 0.05 * max(high - low, 0.5)
    return Axis(max(low - edge, 0.0), min(high + edge, 100.0))


def difference_axis(found: Sequence[Difference]) -> Axis:
    """Around 0, as far as the largest difference, and its interval where that is not much wider."""
    means = [abs(one.mean) for one in found if not math.isnan(one.mean)]
    ends = [abs(end) for one in found for end in (one.low, one.high) if not math.isnan(end)]
    reach = min(max([*means, *ends], default=0.0), 1.5 * max(means, default=0.0)) or 1.0
    return Axis(-1.05 * reach, 1.05 * reach)


def forest(
    lines: Sequence[Line], look: Mapping[str, Style], reference: int | None = None, offered: int = MOST_REFERENCES
) -> str:
    """The rows as markup, the values themselves, or with a reference the differences to the line at that place.

    The first rows, as many as are `offered`, can be chosen as the reference.

    >>> forest([], {}).count("<tr")
    2
    """
    rows = [_named(place, line, look) for place, line in enumerate(lines)]
    if reference is None:
        axes = [ece_axis(lines), accuracy_axis(lines)]
        for row, line in zip(rows, lines, strict=True):
            row["strips"] = [_strip(axes[0], line.ece), _strip(axes[1], line.accuracy)]
            row["floor"] = None if math.isnan(line.floor) else axes[0].at(line.floor)
    else:
        found = differences(lines, reference)
        axes = [difference_axis([pair[place] for pair in found]) for place in (0, 1)]
        for row, pair in zip(rows, found, strict=True):
            row["strips"] = [_strip(axis, one, "+.2f", one.words) for axis, one in zip(axes, pair, strict=True)]
        rows[reference]["reference"] = True
    shown = {"axes": axes, "reference": None if reference is None else lines[reference].label}
    first = FIRST_ROWS if len(rows) > MANY_ROWS else len(rows)
    return markup("forest.html", rows=rows, first=first, offered=offered, terms=GLOSSARY, **shown)


def screen(answer: Answer, forest: str, interval: str = "95 % over seeds", compared: bool = True) -> str:
    """The first screen: headline, verdict, sentences and forest, and below it what its signs mean.

    Rows can be `compared` with each other if their differences are on the page.

    >>> "<h1>Nothing.</h1>" in screen(Answer("Nothing.", (), (), ""), "")
    True
    """
    lines = answer.lines
    scalers = [name for name in dict.fromkeys(line.scaler for line in lines) if name != "none"]
    leaders = sum(line.leader for line in lines)
    tinted = "cannot be told from the lowest ECE" if leaders > 1 else "the lowest ECE"
    shown = {
        "forest": forest,
        "folded": len(lines) > MANY_ROWS,
        "interval": interval,
        "scaled": [scaler_of(name).both for name in scalers],
        "tinted": tinted if leaders and len(lines) > 1 else "",
        "compared": compared and len(lines) > 1,
        "reading": any(line.results.unknown_class for line in lines),
    }
    return markup("screen.html", answer=answer, **shown)


def _named(place: int, line: Line, look: Mapping[str, Style]) -> Json:
    """What a row shows besides its numbers."""
    style = look[line.results.label]
    drawn = {"method": style.place, "marker": style.marker, "hollow": line.scaler == "none"}
    return {"place": place, "label": line.label, "leader": line.leader, "collapsed": line.collapsed, **drawn}


def _strip(axis: Axis, one: Estimate | Difference, form: str = ".2f", words: str = "") -> Json:
    """Where mean and interval stand, and what is written beside them; what lies beyond the axis ends in an arrow."""
    strip: Json = {"text": "–", "at": None, "low": None, "interval": "", "words": words}
    if math.isnan(one.mean):
        return strip
    inside = axis.low <= one.mean <= axis.high
    strip |= {"text": f"{one.mean:{form}}".replace("-", "−"), "at": axis.at(one.mean) if inside else None}
    low, high = (one.mean if math.isnan(end) else end for end in (one.low, one.high))
    if low < high:
        strip |= {"low": axis.at(low), "high": axis.at(high)}
        strip["interval"] = f"95 % from {low:{form}} to {high:{form}}".replace("-", "−")
    strip |= {"left": low < axis.low != 0, "right": high > axis.high}  # an axis from 0 on cuts nothing off
    return strip


def _sound(lines: Sequence[Line]) -> list[Line]:
    """What axes are made for: the lines that mean something, or all if none does."""
    known = [line for line in lines if not math.isnan(line.ece.mean)]
    return [line for line in known if not line.collapsed] or known
