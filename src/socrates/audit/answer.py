"""The answer of an audit in two sentences: can the confidence be trusted, and what would make it better."""

from socrates.report.vocabulary import scaler_of

from .judge import Judgement

LEVEL = 0.05  # of the test
SLIGHT = 0.01  # an ECE above its floor by less is no reason to worry


def answer(judged: Judgement) -> tuple[str, str]:
    """Is it calibrated, and in which direction it is not; what a scaler gives, and what can be certified."""
    return verdict(judged), remedy(judged)


def verdict(judged: Judgement) -> str:
    """Whether the file is calibrated: by the test, its ECE and floor, and the sign of the gap."""
    ece, floor, p = judged.values["ece"], judged.floor, judged.test.p_value
    measured = f"its ECE is {percent(ece)}, where chance alone gives a calibrated model {percent(floor)}"
    measured += f" ({p_value(p)})"
    if p >= LEVEL:
        rows = f"{len(judged.sample):,} rows" if len(judged.sample) > 1 else "1 row"
        return f"{judged.label} is calibrated as far as {rows} can tell: {measured}."
    extent = "is slightly miscalibrated" if ece - floor < SLIGHT else "is not calibrated"
    return f"{judged.label} {extent}: {measured}, and it is {judged.direction}."


def remedy(judged: Judgement) -> str:
    """What a scaler gives on held-out rows, and how many answers are certified."""
    words = f"{scaled(judged)}; {certified(judged)}."
    return f"{words[0].upper()}{words[1:]}"


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


def percent(share: float) -> str:
    """A share as it is printed.

    >>> percent(0.03124)
    '3.12 %'
    """
    return f"{100 * share:.2f} %"


def p_value(p: float) -> str:
    """A p-value as it is printed.

    >>> p_value(0.2345), p_value(0.000999)
    ('p = 0.23', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
