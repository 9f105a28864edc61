"""The picture of the first screen: a row per method, from its ECE as trained to that after scaling.

Beside it stands the accuracy. Seeds are small dots, the grey band is what chance alone makes, and
failed runs are crosses at the edge. All of it is SVG that needs no script.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .answer import ACCURACY, ECE, AnswerRow, FloorBand, Point
from .figures.chart import Json
from .markup import markup
from .results import Members, Results
from .statistics import PairedDifference, mean_std
from .strip import Strip, with_minus
from .style import Look
from .vocabulary import Metric, glossary_terms
from .words import counted

MANY = 5  # rows above which they are drawn lower
CROWD = 3.0  # times the median of the means: what is beyond stands at the edge
LEAST_SPAN = 2.0  # points of accuracy: a narrower axis would make much of little

RowDifference = tuple[PairedDifference, PairedDifference]  # of ECE as trained, and of accuracy


@dataclass(frozen=True)
class Frame:
    """Both axes, and the number of decimals that an ECE is printed with."""

    ece: Strip
    accuracy: Strip
    decimals: int = 1

    def printed(self, ece: float) -> str:
        """Return an ECE as it is printed beside its row."""
        return f"{ece:.{self.decimals}f}"


def frame_of(rows: Sequence[AnswerRow]) -> Frame:
    """Return the axes that hold what the rows show; a very bad one does not press the others."""
    means = _known([row.trained.mean for row in rows])
    scaled = _known([row.scaled.mean for row in rows if row.scaled])
    floors = _known([row.floor.high for row in rows])
    reach = max([*means, *scaled, 1e-3])
    if means:
        reach = min(reach, CROWD * float(np.median(means)))
    seeds = [value for row in rows for value in row.trained.by_seed.values()]
    near = [value for value in _known(seeds) if value <= 1.3 * reach]
    high = max([reach, *near, *floors])
    return Frame(Strip(0.0, 1.06 * high), _accuracy_strip(rows), 1 if high >= 1 else 2)


def _accuracy_strip(rows: Sequence[AnswerRow]) -> Strip:
    """Return a strip around the accuracies of all seeds, at least LEAST_SPAN wide."""
    values = [value for row in rows for value in row.accuracy.by_seed.values()]
    values = _known([*values, *(row.accuracy.mean for row in rows)])
    if not values:
        return Strip(0.0, 100.0)
    low = min(values)
    high = max(values)
    edge = max(0.08 * (high - low), (LEAST_SPAN - (high - low)) / 2)
    return Strip(max(low - edge, 0.0), min(high + edge, 100.0))


def dumbbells(
    rows: Sequence[AnswerRow],
    look: Look,
    shown: Collection[str] | None = None,
    members: Members = (),
    differences: Mapping[int, Sequence[RowDifference]] | None = None,
) -> str:
    """Return the rows as a table with its drawings.

    Only the labels in `shown` are there at first; axes are made for them. `members` have the runs
    that failed as well, for readers who want them counted. `differences` are those of all rows to
    the rows at some places, which a reader can choose as the reference.

    >>> dumbbells([], {}).count("<tr")
    2
    """
    first = [row for row in rows if shown is None or row.label in shown] or list(rows)
    frame = frame_of(first)
    everything = {results.label: results for results in members}
    drawn: list[Json] = []
    for row in rows:
        content = row_content(row, frame)
        content |= {"method": look[row.label].place, "more": row not in first, "versus": []}
        if row.failures and row.label in everything:
            content["counted"] = counted_values(row, everything[row.label], frame)
        drawn.append(content)
    offered = differences or {}
    for place, family in offered.items():
        for content, versus in zip(drawn, versus_of(rows[place], family, frame), strict=True):
            content["versus"].append({**versus, "method": drawn[place]["method"]})
    return markup(
        "dumbbell.html",
        rows=drawn,
        offered=[drawn[place]["method"] for place in offered],
        frame=frame,
        band=any(not math.isnan(row.floor.high) for row in first),
        many=len(first) > MANY,
        terms=glossary_terms(),
    )


def row_content(row: AnswerRow, frame: Frame) -> Json:
    """Return what the row of a method shows: names, numbers, and where its marks stand."""
    return {
        "label": row.label,
        "seeds": seeds_in_words(row),
        "failed": bool(row.failures) or bool(row.results.collapses),
        "uncounted": values_of(row.trained, row.scaled, row.accuracy, frame),
        "counted": None,
        "floor": floor_of(row.floor, frame.ece),
        "crosses": ", ".join(f"{failure.accuracy:.1f}" for failure in row.failures),
    }


def seeds_in_words(row: AnswerRow) -> str:
    """Return how many of the seeds are counted, as '4 of 5 seeds; 1 failed'."""
    num_failed = len(row.failures)
    if row.num_runs == 1 and not num_failed:
        return "1 seed"
    failed = f"; {num_failed} failed" if num_failed else ""
    return f"{row.num_seeds} of {counted(row.num_runs, 'seed')}{failed}"


def values_of(trained: Point, scaled: Point | None, accuracy: Point, frame: Frame) -> Json:
    """Return the places of the marks in percent of each strip, and the numbers beside them."""
    texts = [frame.printed(trained.mean)]
    if scaled is not None:
        texts.append(frame.printed(scaled.mean))
    known = math.isfinite(trained.mean)
    return {
        "trained": frame.ece.at(trained.mean) if known else None,
        "scaled": None if scaled is None else frame.ece.at(scaled.mean),
        "trained_seeds": _places(trained, frame.ece),
        "scaled_seeds": [] if scaled is None else _places(scaled, frame.ece),
        "beyond": trained.mean > frame.ece.high,
        "ece": texts if known else ["–"],
        "at": frame.accuracy.at(accuracy.mean) if math.isfinite(accuracy.mean) else None,
        "seeds": _places(accuracy, frame.accuracy),
        "accuracy": f"{accuracy.mean:.1f}" if math.isfinite(accuracy.mean) else "–",
    }


def counted_values(row: AnswerRow, results: Results, frame: Frame) -> Json:
    """Return the values of a row with its failed runs counted."""
    scaled = None if row.scaled is None else _point(results, ECE, row.scaler)
    return values_of(_point(results, ECE), scaled, _point(results, ACCURACY), frame)


def floor_of(floor: FloorBand, strip: Strip) -> Json | None:
    """Return how far chance reaches on a strip, on average and in 95 of 100 cases."""
    if math.isnan(floor.high):
        return None
    return {"mean": strip.at(floor.mean), "high": strip.at(floor.high)}


def versus_of(base: AnswerRow, differences: Sequence[RowDifference], frame: Frame) -> list[Json]:
    """Return the differences of all rows to one in words, and where their intervals stand.

    An interval stands beside the mark of the reference, and leaves it out exactly where the
    difference is shown.
    """
    return [
        {
            "ece": _versus(ece, base.trained.mean, frame.ece),
            "accuracy": _versus(accuracy, base.accuracy.mean, frame.accuracy),
        }
        for ece, accuracy in differences
    ]


def _versus(difference: PairedDifference, base: float, strip: Strip) -> Json:
    """Return a difference in words, and its interval shifted to what it is a difference to."""
    known = math.isfinite(difference.low) and difference.words != "reference"
    text = f"{difference.mean:+.1f}" if math.isfinite(difference.mean) else "–"
    return {
        "low": strip.at(base + difference.low) if known else None,
        "high": strip.at(base + difference.high) if known else None,
        "text": "" if difference.words == "reference" else with_minus(text),
        "words": difference.words,
    }


def _point(results: Results, spec: Metric, scaler: str = "none") -> Point:
    """Return a metric of all runs, failed ones too; its interval would mean nothing."""
    by_seed = results.by_seed(spec, scaler)
    return Point(mean_std(np.array([*by_seed.values()]))[0], math.nan, math.nan, by_seed)


def _places(point: Point, strip: Strip) -> list[float]:
    """Return where the seeds stand; a single one is the mean itself."""
    values = _known([*point.by_seed.values()])
    return [strip.at(value) for value in values] if len(values) > 1 else []


def _known(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]
