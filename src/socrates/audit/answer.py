"""Answer as a decision: can this confidence be trusted, and what would make it better?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from socrates.metrics.uncertainty import Z
from socrates.report.vocabulary import scaler_of
from socrates.report.words import capitalised, counted, p_value

from .judge import LEVEL, Judgement

SLIGHT = 0.01  # an ECE above its floor by less is a reason for care, not for alarm
UNCERTAIN = 0.1  # an interval of the accuracy that is wider leaves the question open
MIXED = 0.5  # a smaller part of the ECE above this share of the larger one: both directions count

Trust = Literal["yes", "with care", "not yet", "too few rows"]
Lean = Literal["surer", "less sure", "both"]

LEANS: dict[Lean, str] = {
    "surer": "it is {}surer than it is right",
    "less sure": "it is {}less sure than it is right",
    "both": "it is {}too sure at some confidences and not sure enough at others",
}


@dataclass(frozen=True)
class AuditAnswer:
    """What an audit says first: a decision in one line, one or two sentences, and the evidence.

    The same words stand on the page, in the terminal and in the JSON.
    """

    headline: str
    sentences: tuple[str, ...]
    evidence: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """Return the headline and everything that supports it."""
        return [self.headline, *self.sentences, *self.evidence]


def answer_of(judged: Judgement) -> AuditAnswer:
    """Return the answer for one file."""
    evidence = (
        calibration_error(judged),
        scaler_effect(judged),
        scaler_reason(judged),
        certificate_words(judged),
    )
    return AuditAnswer(
        headline(judged),
        (stated_and_right(judged), scaler_verdict(judged)),
        tuple(filter(None, evidence)),
    )


def trust(judged: Judgement) -> Trust:
    """Return whether the confidence can be trusted, by the test and by how far it is off.

    A file that passes its test with so few rows that even its accuracy is known only to within
    UNCERTAIN is not called trustworthy: nothing was shown.
    """
    if not judged.passes:
        return "with care" if judged.values["ece"] - judged.floor < SLIGHT else "not yet"
    interval = judged.intervals["accuracy"]
    return "too few rows" if interval.high - interval.low > UNCERTAIN else "yes"


def lean(judged: Judgement) -> Lean:
    """Return on which side the confidence is off: "both" if neither side clearly prevails."""
    parts = judged.direction
    smaller, larger = sorted((parts.over, parts.under))
    may_be_chance = abs(parts.signed) <= Z * judged.gap_error
    if may_be_chance or smaller > MIXED * larger:
        return "both"
    return "surer" if parts.signed > 0 else "less sure"


def headline(judged: Judgement) -> str:
    """Return the decision about one file."""
    rows = counted(len(judged.sample), "row")
    decision = trust(judged)
    if decision == "yes":
        return f"Its confidence can be trusted as far as {rows} show."
    if decision == "too few rows":
        verb = "is" if len(judged.sample) == 1 else "are"
        return f"{rows} {verb} too few to say whether its confidence can be trusted."
    off = LEANS[lean(judged)]
    if decision == "with care":
        return f"Trust it with care: {off.format('slightly ')}."
    return f"Do not trust it yet: {off.format('')}."


def stated_and_right(judged: Judgement) -> str:
    """Say how sure the file is on average, and how often it is right."""
    stated = share(judged.bins.confidence.sum() / judged.bins.count.sum())
    right = share(judged.values["accuracy"])
    sentence = f"It states {stated} on average and is right in {right}"
    if trust(judged) == "too few rows":
        interval = judged.intervals["accuracy"]
        return f"{sentence} (95% interval {share(interval.low)} to {share(interval.high)})."
    if judged.passes or lean(judged) != "both":
        return f"{sentence}."
    over = 100 * judged.direction.over
    under = 100 * judged.direction.under
    return (
        f"{sentence}; {over:.1f} points of its calibration error come from being too sure, "
        f"{under:.1f} from not being sure enough."
    )


def calibration_error(judged: Judgement) -> str:
    """Return the calibration error beside what chance alone makes of it, and the test."""
    ece = share(judged.values["ece"])
    band = chance_words(judged.floor, judged.floor_95, judged.test.p_value)
    return f"Its calibration error (ECE) is {ece}; {band}."


def chance_words(floor: float, floor_95: float, p: float) -> str:
    """Say what a perfectly calibrated model would measure, and the p-value of the test.

    The test is one of the smooth ECE, so now and then the two disagree.

    >>> chance_words(0.011, 0.016, 0.039)
    'a perfectly calibrated model would measure 1.1% on average, and more than 1.6% in 1 of 20
    cases (test of the smooth ECE: p = 0.039)'
    """
    return (
        f"a perfectly calibrated model would measure {share(floor)} on average, and more than "
        f"{share(floor_95)} in 1 of 20 cases (test of the smooth ECE: {p_value(p)})"
    )


def scaler_verdict(judged: Judgement) -> str:
    """Say whether a scaler mends the file, judged on rows that it was not fitted on."""
    recalibrated = judged.recalibrated
    if recalibrated.untried:
        return f"No scaler was tried: {recalibrated.untried}."
    if recalibrated.winner == "none":
        return "No scaler is needed." if judged.passes else "No scaler that was tried mends it."
    remaining = recalibrated.remaining
    if judged.passes:
        does = "lowers its NLL still further"
    elif remaining.p_value >= LEVEL and remaining.ece <= remaining.floor_95:
        does = "mends it, as far as the rows show"
    elif remaining.ece - remaining.floor < SLIGHT:
        does = "all but mends it"
    else:
        does = "helps, but does not mend it"
    return f"{capitalised(scaler_of(recalibrated.winner).long)} {does}."


def scaler_effect(judged: Judgement) -> str:
    """Return what the scaler to use changes on rows that it was not fitted on, and what remains."""
    recalibrated = judged.recalibrated
    if recalibrated.winner == "none":
        return ""
    before = recalibrated.before
    after = recalibrated.after
    sentence = (
        f"On the half of the rows that {scaler_of(recalibrated.winner).long} was not fitted on, it "
        f"takes the ECE from {share(before['ece'])} to {share(after['ece'])} and the NLL from "
        f"{before['nll']:.3f} to {after['nll']:.3f}"
    )
    if share(before["accuracy"]) != share(after["accuracy"]):
        sentence += f", the accuracy from {share(before['accuracy'])} to {share(after['accuracy'])}"
    remaining = recalibrated.remaining
    chance = chance_words(remaining.floor, remaining.floor_95, remaining.p_value)
    return f"{sentence}; there, {chance}."


def scaler_reason(judged: Judgement) -> str:
    """Say why this scaler is the one to use, or why none is."""
    recalibrated = judged.recalibrated
    if not recalibrated.reason:
        return ""
    if recalibrated.winner == "none":
        return f"Why no scaler: {recalibrated.reason}."
    return f"Why {scaler_of(recalibrated.winner).long}: {recalibrated.reason}."


def certificate_words(judged: Judgement) -> str:
    """Say how many of 100 inputs can be answered at the risk that was asked for."""
    certificate = judged.certificate
    if certificate is None:
        reason, _, _ = judged.uncertified.partition(": ")  # the rest says how many rows it takes
        return f"{capitalised(reason)}."
    return (
        f"If at most {100 * certificate.risk:g}% of the answers may be wrong, answer where the "
        f"confidence is at least {certificate.threshold:.3f}: {share(certificate.coverage)} of the "
        f"rows, certified with probability {1 - certificate.delta:g} for {world_of(judged)}."
    )


def world_of(judged: Judgement) -> str:
    """Return the data for which a certificate of a file holds; strangers are not among them."""
    return "data of known classes, without strangers" if judged.strangers else "data like these"


def share(value: float) -> str:
    """Return a share in percent with one decimal, or with two below 1%.

    >>> share(0.75412), share(0.00531), share(1.0)
    ('75.4%', '0.53%', '100.0%')
    """
    return f"{100 * value:.1f}%" if abs(value) >= 0.00995 else f"{100 * value:.2f}%"
