"""The answer of an audit in two sentences: can the confidence be trusted, and what would make it better."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from socrates.experiment import Part
from socrates.metrics.uncertainty import Z
from socrates.records import Evaluation
from socrates.report.answer import FEW, Answer, Estimate, Line
from socrates.report.results import Results
from socrates.report.vocabulary import scaler_of
from socrates.report.words import capitalised, counted, listed, p_value, percent

from .judge import Judgement
from .pairs import compare

if TYPE_CHECKING:
    from .run import Audit

LEVEL = 0.05  # of the test
INTERVALS = "Intervals are 95 % over the choice of the rows."
SLIGHT = 0.01  # an ECE above its floor by less is no reason to worry


def answer(judged: Judgement) -> tuple[str, str]:
    """Is it calibrated, and in which direction it is not; what a scaler gives, and what can be certified."""
    return verdict(judged), remedy(judged)


def verdict(judged: Judgement) -> str:
    """Whether the file is calibrated: by the test, its ECE and floor, and the sign of the gap."""
    return f"{state(judged)}: {evidence(judged)}."


def state(judged: Judgement) -> str:
    """Whether the file is calibrated, in a few words."""
    if judged.test.p_value >= LEVEL:
        return f"{judged.label} is calibrated as far as {counted(len(judged.sample), 'row')} can tell"
    slight = judged.values["ece"] - judged.floor < SLIGHT
    return f"{judged.label} {'is slightly miscalibrated' if slight else 'is not calibrated'}"


def evidence(judged: Judgement) -> str:
    """The numbers behind it: ECE, floor, p and, if it is not calibrated, the direction."""
    ece, floor, p = judged.values["ece"], judged.floor, judged.test.p_value
    measured = f"its ECE is {percent(ece)}, where chance alone gives a calibrated model {percent(floor)}"
    measured += f" ({p_value(p)})"
    return measured if p >= LEVEL else f"{measured}, and it is {direction(judged)}"


def direction(judged: Judgement) -> str:
    """Whether it is too sure or not sure enough; that the gap of all rows may be chance is said, as on the diagram."""
    words, colon, parts = str(judged.direction).partition(":")
    count, mean = judged.bins.count.sum(), judged.bins.confidence / judged.bins.count.clip(1e-300)
    deviation = math.sqrt((judged.bins.count * (mean * (1 - mean)).clip(0)).sum()) / count
    within = ", which alone may be chance" if parts and abs(judged.direction.signed) <= Z * deviation else ""
    return f"{words}{within}{colon}{parts}"


def answer_of(made: Audit) -> Answer:
    """The answer of a whole audit in the shape of a report's: its files are the lines, the lowest ECE first.

    Intervals are those over resampled rows; a file leads if its rows, paired with those of the lowest, cannot tell it
    apart.
    """
    files = sorted(made.files, key=ece_of)
    best = files[0]
    found = made.differences if best is made.files[0] else compare(files)[0]
    worse = {one.label: one.low > 0 for one in found if one.metric == "ece"}
    lines = tuple(line_of(one, one is best or not worse.get(one.label, True)) for one in files)
    if len(files) == 1:
        return Answer(f"{state(best)}.", (f"{capitalised(evidence(best))}.", remedy(best)), lines, INTERVALS)
    names = [line.label for line in lines if line.leader]
    headline = f"{listed(names, 'or')} is the best calibrated."
    if len(names) > FEW:
        headline = f"No single winner: {len(names)} of {len(lines)} files may be the best calibrated."
    if not found:
        headline = f"{best.label} has the lowest ECE, {percent(ece_of(best))}."
    return Answer(headline, (verdict(best), remedy(best)), lines, made.not_compared or INTERVALS)


def ece_of(judged: Judgement) -> float:
    """The expected calibration error of a file."""
    return judged.values["ece"]


def line_of(one: Judgement, leader: bool) -> Line:
    """A file as a row of the forest plot, in percent."""
    ece, accuracy = (
        Estimate(100 * one.values[name], 100 * one.intervals[name].low, 100 * one.intervals[name].high, len(one.sample))
        for name in ("ece", "accuracy")
    )
    return Line(one.label, results_of(one), "none", ece, accuracy, 100 * one.floor, leader)


def results_of(one: Judgement) -> Results:
    """A file as the report's figures take it: a method that was measured once."""
    numbers = {**one.values, "ece_floor": one.floor}
    evaluation = Evaluation(0, len(one.bins.count), False, {"none": {"test": {"plain": numbers}}})
    return Results(one.label, Part(one.label), [evaluation], bins=lambda split, reading: [one.bins])


def remedy(judged: Judgement) -> str:
    """What a scaler gives on held-out rows, and how many answers are certified."""
    return f"{capitalised(scaled(judged))}; {certified(judged)}."


def scaled(judged: Judgement) -> str:
    """What the best scaler does to ECE and NLL on rows that it was not fitted on."""
    made = judged.recalibrated
    if made.reason:
        return made.reason
    if made.winner == "none":
        return "no scaler makes it clearly better"
    before, after, title = made.before, made.after, scaler_of(made.winner).long
    changes = f"the ECE from {percent(before['ece'])} to {percent(after['ece'])}"
    changes += f" and the NLL from {before['nll']:.3f} to {after['nll']:.3f}"
    was, becomes = percent(before["accuracy"]), percent(after["accuracy"])
    changes += f", and the accuracy from {was} to {becomes}," if was != becomes else ""
    return f"{title} takes {changes} on held-out rows"


def certified(judged: Judgement) -> str:
    """Which share of the rows can be answered at the risk that was asked for."""
    made = judged.certificate
    if made is None:
        return judged.uncertified.partition(": ")[0]  # the rest tells how many more rows it takes
    return (
        f"answers with a confidence of at least {made.threshold:.3f} ({percent(made.coverage)} of the rows) are wrong "
        f"in at most {100 * made.risk:g} %, certified with probability {1 - made.delta:g}"
    )
