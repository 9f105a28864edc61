"""The first screen of an audit's page: a reliability diagram and three cards, without any script.

Numbers first: `ReliabilityPicture`, `MendCard`, `RiskLine` and `WorstCard` hold what is shown, in
words and pixels; the template `audit-screen.html` only draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from socrates.metrics import GroupGap
from socrates.report.markup import asset, markup
from socrates.report.vocabulary import scaler_of
from socrates.report.words import capitalised, counted

from .answer import calibration_error, chance_words, scaler_effect, scaler_reason, world_of
from .judge import Judgement
from .picture import MOST_CURVES, SIDE, STRIP, diagram_of, percent_0
from .run import AuditResult

MOST_BARS = 7
MOST_WORST = 3


@dataclass(frozen=True)
class MendBar:
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

    bars: tuple[MendBar, ...]
    floor: float
    floor_95: float
    words: str
    code: tuple[str, ...]
    paired: bool  # whether each bar goes from before to after


def mend_card(files: Sequence[Judgement]) -> MendCard:
    """Return the ECE on held-out rows: by scaler of one file, or before and after of several."""
    several = len(files) > 1
    shown = several_bars(files) if several else scaler_bars(files[0])
    largest = max([*(bar.before for bar in shown), *(bar.after for bar in shown), 1e-6])
    floors = [judged.recalibrated.remaining for judged in files]
    largest = max(1.04 * largest, *(half.floor_95 for half in floors))
    bars = tuple(
        MendBar(
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


def scaler_bars(judged: Judgement) -> list[MendBar]:
    """Return the ECE of the held-out half as it is and after each scaler, at most MOST_BARS."""
    recalibrated = judged.recalibrated
    numbers = recalibrated.numbers
    by_nll = sorted(numbers, key=lambda name: numbers[name]["nll"])
    kept = {"none", recalibrated.winner, *by_nll[: MOST_BARS - 2]}
    bars: list[MendBar] = []
    for name in [name for name in numbers if name in kept]:
        label = "as it is" if name == "none" else scaler_of(name).long.replace(" scaling", "")
        ece = numbers[name]["ece"]
        chosen = name == recalibrated.winner
        bars.append(MendBar(label, ece, ece, f"{100 * ece:.1f}", chosen))
    return bars


def several_bars(files: Sequence[Judgement]) -> list[MendBar]:
    """Return the ECE of each file on held-out rows, before and after its scaler."""
    bars: list[MendBar] = []
    for place, judged in enumerate(files[:MOST_BARS]):
        before = judged.recalibrated.before["ece"]
        after = judged.recalibrated.after["ece"]
        text = f"{100 * before:.1f} → {100 * after:.1f}"
        bars.append(MendBar(judged.label, before, after, text, True, place))
    return bars


def mend_words(files: Sequence[Judgement]) -> str:
    """Say what the scaler to use does, what remains, and why it is this one."""
    if len(files) > 1:
        return ""
    recalibrated = files[0].recalibrated
    words = [scaler_effect(files[0]), scaler_reason(files[0])]
    half = recalibrated.remaining
    if recalibrated.winner == "none":
        words.append(f"There, {chance_words(half.floor, half.floor_95, half.p_value)}.")
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
    for judged in files[:MOST_BARS]:
        certificate = judged.certificate
        if certificate is None:
            lines.append(
                RiskLine(judged.label, None, math.nan, f"{capitalised(judged.uncertified)}.")
            )
            continue
        answered = round(100 * certificate.coverage)
        words = (
            f"Certified: with probability {1 - certificate.delta:g}, at most "
            f"{100 * certificate.risk:g}% of these answers are wrong on {world_of(judged)} "
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
    if judged.sample.weight is not None:
        return WorstCard((), "Rows have weights, so no gap has an interval: none of them is sure.")
    if not gaps:
        return WorstCard((), "The file names neither classes nor groups to look at one by one.")
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
