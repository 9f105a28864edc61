"""Answer in two sentences: can the confidence be trusted, and what would make it better?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from socrates.experiment import Part
from socrates.metrics.uncertainty import Z
from socrates.records import Evaluation
from socrates.report.answer import FEW, Answer, AnswerLine, Estimate
from socrates.report.results import Results
from socrates.report.vocabulary import scaler_of
from socrates.report.words import capitalised, counted, listed, p_value, percent

from .compare import compare_files
from .judge import LEVEL, Judgement

if TYPE_CHECKING:
    from .run import AuditResult

INTERVALS = "Intervals are 95% over the choice of the rows."
SLIGHT = 0.01  # an ECE above its floor by less is not a reason to worry


def answer(judged: Judgement) -> tuple[str, str]:
    """Return whether a file is calibrated, and what a scaler and a certificate would change."""
    return verdict(judged), remedy(judged)


def verdict(judged: Judgement) -> str:
    """Say whether a file is calibrated, by the test, its ECE and floor, and the sign of the gap."""
    return f"{state(judged)}: {evidence(judged)}."


def state(judged: Judgement) -> str:
    """Say in a few words whether a file is calibrated."""
    if judged.passes:
        rows = counted(len(judged.sample), "row")
        return f"{judged.label} is calibrated as far as {rows} can tell"
    if judged.values["ece"] - judged.floor < SLIGHT:
        return f"{judged.label} is slightly miscalibrated"
    return f"{judged.label} is not calibrated"


def evidence(judged: Judgement) -> str:
    """Return the numbers behind the verdict, and the direction unless the file is calibrated."""
    ece = percent(judged.values["ece"])
    floor = percent(judged.floor)
    p = judged.test.p_value
    sentence = f"its ECE is {ece}, where chance alone gives a calibrated model {floor}"
    sentence += f" ({p_value(p)})"
    return sentence if p >= LEVEL else f"{sentence}, and it is {direction_words(judged)}"


def direction_words(judged: Judgement) -> str:
    """Say whether a file is over- or underconfident, and if its mean gap may be chance."""
    words, colon, details = str(judged.direction).partition(":")
    bins = judged.bins
    mean = bins.confidence / bins.count.clip(1e-300)
    variance = (bins.count * (mean * (1 - mean)).clip(0)).sum()
    deviation = math.sqrt(variance) / bins.count.sum()
    if details and abs(judged.direction.signed) <= Z * deviation:
        words += ", which alone may be chance"
    return f"{words}{colon}{details}"


def answer_of(result: AuditResult) -> Answer:
    """Return the answer of an audit in the shape of a report's: files are lines, by rising ECE.

    Intervals are those over resampled rows. A file leads unless its rows, paired with those of the
    lowest ECE, show a higher ECE, and it fails its own calibration test.
    """
    files = sorted(result.files, key=lambda judged: judged.values["ece"])
    best = files[0]
    differences = result.differences
    if best is not result.files[0]:
        differences, _ = compare_files(files)
    is_worse = {
        difference.label: difference.words == "worse"
        for difference in differences
        if difference.metric == "ece"
    }
    lines = tuple(
        line_of(judged, leader=judged is best or not is_worse.get(judged.label, True))
        for judged in files
    )
    if len(files) == 1:
        sentences = (f"{capitalised(evidence(best))}.", remedy(best))
        return Answer(f"{state(best)}.", sentences, lines, INTERVALS)
    if differences:
        headline = _headline(lines, [judged.label for judged in files if judged.passes])
    else:
        headline = f"{best.label} has the lowest ECE, {percent(best.values['ece'])}."
    sentences = (verdict(best), remedy(best))
    return Answer(headline, sentences, lines, result.not_compared or INTERVALS)


def _headline(lines: tuple[AnswerLine, ...], passing: list[str]) -> str:
    """Say which files are best calibrated, or which pass their own test if several may be best."""
    leaders = [line.label for line in lines if line.leader]
    if passing and len(leaders) > 1:
        names = f"{len(passing)} of {len(lines)} files"
        if len(passing) <= FEW:
            names = listed(passing, "and")
        verb = "is" if len(passing) == 1 else "are"
        return f"{names} {verb} calibrated as far as the rows can tell."
    if len(leaders) > FEW:
        return f"No single winner: {len(leaders)} of {len(lines)} files may be the best calibrated."
    return f"{listed(leaders, 'or')} is the best calibrated."


def line_of(judged: Judgement, leader: bool) -> AnswerLine:
    """Return a file as a row of the forest plot, in percent."""
    return AnswerLine(
        judged.label,
        results_of(judged),
        "none",
        _estimate(judged, "ece"),
        _estimate(judged, "accuracy"),
        100 * judged.floor,
        leader,
    )


def _estimate(judged: Judgement, metric: str) -> Estimate:
    interval = judged.intervals[metric]
    value = judged.values[metric]
    return Estimate(100 * value, 100 * interval.low, 100 * interval.high, len(judged.sample))


def results_of(judged: Judgement) -> Results:
    """Return a file as the figures of a report take it: a method that was measured once."""
    numbers = {**judged.values, "ece_floor": judged.floor}
    by_scaler = {"none": {"test": {"plain": numbers}}}
    evaluation = Evaluation(0, len(judged.bins.count), False, by_scaler)
    return Results(
        judged.label,
        Part(judged.label),
        [evaluation],
        bins=lambda split, reading: [judged.bins],
    )


def remedy(judged: Judgement) -> str:
    """Say what a scaler changes on held-out rows, and how many answers are certified."""
    return f"{capitalised(scaler_words(judged))}; {certificate_words(judged)}."


def scaler_words(judged: Judgement) -> str:
    """Say what the best scaler does to ECE and NLL on rows that it was not fitted on."""
    recalibrated = judged.recalibrated
    if recalibrated.untried:
        return recalibrated.untried
    if recalibrated.winner == "none":
        return "no scaler makes it clearly better"
    before = recalibrated.before
    after = recalibrated.after
    title = scaler_of(recalibrated.winner).long
    sentence = f"{title} takes the ECE from {percent(before['ece'])} to {percent(after['ece'])}"
    sentence += f" and the NLL from {before['nll']:.3f} to {after['nll']:.3f}"
    accuracy_before = percent(before["accuracy"])
    accuracy_after = percent(after["accuracy"])
    if accuracy_before != accuracy_after:
        sentence += f", and the accuracy from {accuracy_before} to {accuracy_after},"
    return f"{sentence} on held-out rows"


def certificate_words(judged: Judgement) -> str:
    """Say which share of the rows can be answered at the risk that was asked for."""
    certificate = judged.certificate
    if certificate is None:
        reason, _, _ = judged.uncertified.partition(": ")  # the rest says how many rows it takes
        return reason
    return (
        f"answers with a confidence of at least {certificate.threshold:.3f} "
        f"({percent(certificate.coverage)} of the rows) are wrong in at most "
        f"{100 * certificate.risk:g}%, certified with probability {1 - certificate.delta:g}"
    )
