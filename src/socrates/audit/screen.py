"""The first screen of an audit's page: a reliability diagram and three cards, without any script.

Numbers first: `Diagram`, `MendCard`, `RiskLine` and `WorstCard` hold what is shown, in words and
pixels; the template `audit-screen.html` only draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from socrates import metrics
from socrates.metrics import GroupGap
from socrates.metrics.binning import bin_index
from socrates.report.markup import asset, markup
from socrates.report.vocabulary import scaler_of
from socrates.report.words import capitalised, counted

from .answer import calibration_error, chance_words, scaler_effect, scaler_reason
from .judge import Judgement
from .run import AuditResult

SIDE = 330.0  # of the square diagram, in pixels
LARGEST = 9.5  # radius of the mark of the fullest bin
SMALLEST = 2.2
STRIP = 38.0  # height of the tallest bar below the diagram
FEWEST_IN_BIN = 10  # fewer rows are a hollow mark that no line goes through
MOST_CURVES = 4
MOST_BARS = 7
MOST_WORST = 3
# Where the remark on a bin stands, as shares of the side, and the room that it needs there.
LOWER_RIGHT = (0.99, 0.13, 0.42, 0.24)
UPPER_LEFT = (0.02, 0.93, 0.56, 0.80)


@dataclass(frozen=True)
class Mark:
    """A bin of a reliability diagram: where it stands in pixels, and how large it is."""

    x: float
    y: float
    radius: float
    hollow: bool
    words: str


@dataclass(frozen=True)
class Remark:
    """The sentence at one bin, in two lines, with the line that leads to it."""

    lines: tuple[str, str]
    x: float
    y: float
    anchor: str
    start: tuple[float, float]
    end: tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """The reliability of one file: its marks, the line through the full ones, and the gap."""

    label: str
    place: int
    marks: tuple[Mark, ...]
    line: str
    gap: str


@dataclass(frozen=True)
class Diagram:
    """What the diagram shows; bars are (x, width, height) in pixels, by the root of the count."""

    curves: tuple[Curve, ...]
    remark: Remark | None
    bars: tuple[tuple[float, float, float], ...]
    rows: str


@dataclass(frozen=True)
class Bar:
    """An ECE on held-out rows: of a file as it is or after a scaler; widths in percent."""

    label: str
    before: float
    after: float
    text: str
    chosen: bool
    place: int = 0


@dataclass(frozen=True)
class MendCard:
    """What scaling makes of the ECE, beside what chance alone would make of it."""

    bars: tuple[Bar, ...]
    floor: float
    floor_95: float
    words: str
    code: tuple[str, ...]
    paired: bool  # whether each bar goes from before to after


def diagram_of(files: Sequence[Judgement]) -> Diagram:
    """Return the reliability diagram of at most MOST_CURVES files."""
    shown = files[:MOST_CURVES]
    curves = tuple(curve_of(judged, place) for place, judged in enumerate(shown))
    count = shown[0].bins.count
    width = SIDE / len(count)
    heights = STRIP * np.sqrt(count / count.max())
    bars = tuple(
        (round(place * width, 1), round(width - 1, 1), round(float(height), 1))
        for place, height in enumerate(heights)
        if height > 0
    )
    rows = f"{counted(shown[0].measured.num_rows, 'answer')} by confidence (square-root scale)"
    if len(shown) > 1:
        rows = f"{shown[0].label}: {rows}"
    remark = remark_on(shown[0], curves[0]) if len(shown) == 1 else None
    return Diagram(curves, remark, bars, rows)


def curve_of(judged: Judgement, place: int) -> Curve:
    """Return the marks of a file's bins, and the line through those that hold enough rows."""
    bins = judged.bins
    filled = np.flatnonzero(bins.count > 0)
    confidence = bins.mean(bins.confidence)[filled]
    accuracy = bins.mean(bins.correct)[filled]
    count = bins.count[filled]
    radius = np.maximum(LARGEST * np.sqrt(count / count.max()), SMALLEST)
    marks = tuple(
        Mark(
            x=round(SIDE * float(confidence[at]), 1),
            y=round(SIDE * (1 - float(accuracy[at])), 1),
            radius=round(float(radius[at]), 1),
            hollow=bool(count[at] < FEWEST_IN_BIN),
            words=f"states {percent_0(confidence[at])}, right in {percent_0(accuracy[at])} of "
            f"{count[at]:,.0f} answers",
        )
        for at in range(len(filled))
    )
    solid = [mark for mark in marks if not mark.hollow]
    line = " ".join(f"{mark.x},{mark.y}" for mark in solid)
    back = " ".join(f"{mark.x},{round(SIDE - mark.x, 1)}" for mark in reversed(solid))
    return Curve(judged.label, place, marks, line, f"{line} {back}" if len(solid) > 1 else "")


def annotated_bin(judged: Judgement) -> int | None:
    """Return the bin with the largest gap times count, of those that are surely off.

    The intervals of all bins hold at once. There is none where rows have weights.
    """
    top = judged.sample.top()
    if top.weight is not None:
        return None
    groups = bin_index(top.confidence, judged.sample.num_bins)
    sure = [gap for gap in metrics.worst_groups(top, groups=groups) if gap.sure]
    worst = max(sure, key=lambda gap: abs(gap.gap) * gap.count, default=None)
    return None if worst is None else int(worst.name)


def remark_on(judged: Judgement, curve: Curve) -> Remark | None:
    """Return the sentence at the bin that costs most, where there is room for it."""
    place = annotated_bin(judged)
    bins = judged.bins
    if place is None or not bins.count[place]:
        return None
    mark = curve.marks[int(np.flatnonzero(bins.count > 0).searchsorted(place))]
    stated = percent_0(bins.confidence[place] / bins.count[place])
    right = percent_0(bins.correct[place] / bins.count[place])
    x, y, inner, edge = LOWER_RIGHT
    in_the_way = [
        other for other in curve.marks if other.x > inner * SIDE and other.y > (1 - edge) * SIDE
    ]
    if in_the_way:
        x, y, inner, edge = UPPER_LEFT
    text_y = SIDE * (1 - y)
    start_y = text_y - 17 if mark.y < text_y else text_y + 24
    left, right_end = sorted((x, inner))
    start = (min(max(mark.x, SIDE * left), SIDE * right_end), start_y)
    away = math.hypot(mark.x - start[0], mark.y - start[1])
    reach = max(0.0, 1 - (mark.radius + 2) / away) if away else 0.0
    end = (start[0] + reach * (mark.x - start[0]), start[1] + reach * (mark.y - start[1]))
    return Remark(
        lines=(f"when it says {stated},", f"it is right {right} of the time"),
        x=round(SIDE * x, 1),
        y=round(text_y, 1),
        anchor="start" if in_the_way else "end",
        start=(round(start[0], 1), round(start[1], 1)),
        end=(round(end[0], 1), round(end[1], 1)),
    )


def mend_card(files: Sequence[Judgement]) -> MendCard:
    """Return the ECE on held-out rows: by scaler of one file, or before and after of several."""
    several = len(files) > 1
    shown = several_bars(files) if several else scaler_bars(files[0])
    largest = max([*(bar.before for bar in shown), *(bar.after for bar in shown), 1e-6])
    floors = [judged.recalibrated.remaining for judged in files]
    largest = max(1.04 * largest, *(half.floor_95 for half in floors))
    bars = tuple(
        Bar(
            bar.label,
            round(100 * bar.before / largest, 2),
            round(100 * bar.after / largest, 2),
            bar.text,
            bar.chosen,
            bar.place,
        )
        for bar in shown
    )
    return MendCard(
        bars,
        round(100 * max(half.floor for half in floors) / largest, 2),
        round(100 * max(half.floor_95 for half in floors) / largest, 2),
        mend_words(files),
        tuple(load_line(judged) for judged in files if judged.recalibrated.scaler is not None),
        several,
    )


def scaler_bars(judged: Judgement) -> list[Bar]:
    """Return the ECE of the held-out half as it is and after each scaler, at most MOST_BARS."""
    recalibrated = judged.recalibrated
    numbers = recalibrated.numbers
    by_nll = sorted(numbers, key=lambda name: numbers[name]["nll"])
    kept = {"none", recalibrated.winner, *by_nll[: MOST_BARS - 2]}
    bars: list[Bar] = []
    for name in [name for name in numbers if name in kept]:
        label = "as it is" if name == "none" else scaler_of(name).long.replace(" scaling", "")
        ece = numbers[name]["ece"]
        chosen = name == recalibrated.winner
        bars.append(Bar(label, ece, ece, f"{100 * ece:.1f}", chosen))
    return bars


def several_bars(files: Sequence[Judgement]) -> list[Bar]:
    """Return the ECE of each file on held-out rows, before and after its scaler."""
    bars: list[Bar] = []
    for place, judged in enumerate(files[:MOST_BARS]):
        before = judged.recalibrated.before["ece"]
        after = judged.recalibrated.after["ece"]
        text = f"{100 * before:.1f} → {100 * after:.1f}"
        bars.append(Bar(judged.label, before, after, text, True, place))
    return bars


def mend_words(files: Sequence[Judgement]) -> str:
    """Say what the scaler to use does, and why it is this one; or what the grey band is."""
    if len(files) > 1:
        return "Grey: what a perfectly calibrated model measures, from its mean to 1 case in 20."
    recalibrated = files[0].recalibrated
    words = [scaler_effect(files[0]), scaler_reason(files[0])]
    half = recalibrated.remaining
    if recalibrated.winner == "none":
        words.append(f"There, {chance_words(half.floor, half.floor_95, half.p_value)} (grey).")
    return " ".join(filter(None, words))


def scaler_file(judged: Judgement) -> str:
    """Return the name of the file that holds the scaler to use."""
    return f"{judged.label.replace('/', '-')}-{judged.recalibrated.winner}.npz"


def load_line(judged: Judgement) -> str:
    """Return the line of Python that loads the scaler to use."""
    return f'scaler = socrates.scaling.load("{scaler_file(judged)}")'


@dataclass(frozen=True)
class RiskLine:
    """How many of 100 inputs a file can answer at the accepted risk, or why none."""

    label: str
    answered: int | None
    threshold: float
    words: str


def risk_lines(files: Sequence[Judgement]) -> list[RiskLine]:
    """Return what each file can answer at the risk that was asked for."""
    lines: list[RiskLine] = []
    for judged in files:
        certificate = judged.certificate
        if certificate is None:
            lines.append(
                RiskLine(judged.label, None, math.nan, f"{capitalised(judged.uncertified)}.")
            )
            continue
        answered = math.floor(100 * certificate.coverage)
        words = (
            f"Certified: with probability {1 - certificate.delta:g}, at most "
            f"{100 * certificate.risk:g}% of these answers are wrong on data like these "
            f"({certificate.num_errors:,} of {certificate.num_accepted:,} were)."
        )
        lines.append(RiskLine(judged.label, answered, certificate.threshold, words))
    return lines


@dataclass(frozen=True)
class WorstCard:
    """The classes and groups whose confidence is surely off, and how many were looked at."""

    gaps: tuple[tuple[str, str, str], ...]  # name, stated, right
    words: str


def worst_card(judged: Judgement) -> WorstCard:
    """Return the classes and groups whose simultaneous interval leaves out 0, the worst first."""
    columns: dict[str, Sequence[GroupGap]] = {"class": judged.worst, **judged.groups}
    gaps = [(column, gap) for column, found in columns.items() for gap in found]
    if not gaps:
        return WorstCard((), "The file names neither classes nor groups to look at one by one.")
    if all(math.isnan(gap.low) for _, gap in gaps):
        return WorstCard((), "Rows have weights, so no gap has an interval: none of them is sure.")
    sure = [(column, gap) for column, gap in gaps if gap.sure]
    sure.sort(key=lambda pair: -abs(pair[1].gap))
    total = " and ".join(
        counted(len(found), "class" if column == "class" else f"{column} group").replace(
            "classs", "classes"
        )
        for column, found in columns.items()
        if found
    )
    if not sure:
        return WorstCard((), f"Nothing is surely off among {total}.")
    shown = tuple(
        (f"{column} {gap.name}", percent_0(gap.confidence), percent_0(gap.accuracy))
        for column, gap in sure[:MOST_WORST]
    )
    more = len(sure) - len(shown)
    return WorstCard(shown, f"and {more} more of {total}" if more else f"of {total}")


def kicker(files: Sequence[Judgement]) -> list[str]:
    """Return the line above the headline: which files, and how much; equal rows count once."""
    counts = {judged.measured.num_rows for judged in files}
    if len(files) > 1:
        each = f"{counted(counts.pop(), 'row')} each" if len(counts) == 1 else ""
        return list(filter(None, [counted(len(files), "file"), each]))
    (judged,) = files
    words = [judged.label, counted(counts.pop(), "row")]
    if num_classes := len(judged.measured.layout.classes):
        words.append(f"{num_classes:,} classes")
    return words


def screen(result: AuditResult) -> str:
    """Return the first screen as markup."""
    answer = result.answer
    files = result.files
    return markup(
        "audit-screen.html",
        css=asset("audit.css"),
        kicker=kicker(files),
        answer=answer,
        evidence=answer.evidence if len(files) > 1 else (calibration_error(files[0]),),
        side=SIDE,
        strip=STRIP,
        diagram=diagram_of(files),
        mend=mend_card(files),
        risk=files[0].risk,
        risks=risk_lines(files),
        worst=[(judged.label, worst_card(judged)) for judged in files[:MOST_CURVES]],
        several=len(files) > 1,
    )


def percent_0(value: float) -> str:
    """Return a share in whole percent, with a decimal where that would read as 0 or 100.

    >>> percent_0(0.774), percent_0(0.9973), percent_0(1.0)
    ('77%', '99.7%', '100%')
    """
    whole = f"{100 * value:.0f}"
    if whole in ("0", "100") and value not in (0.0, 1.0):
        return f"{100 * value:.1f}%"
    return f"{whole}%"
