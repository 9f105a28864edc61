"""The answer of a report, computed from the tests: what is best calibrated, how sure that is, and what it costs.

The same headline and sentences open the page and end the commands; `lines` are the rows of its forest plot.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .results import Results
from .statistics import BySeed, Difference, cannot_tell, compared, leaders, mean_interval, paired
from .vocabulary import METHODS, METRICS, SCALERS, Metric, scaler_of, with_scaler
from .words import counted, listed, p_value, seeds_of

ROWS = ("none", "temperature", *(name for name, scaler in SCALERS.items() if scaler.needs_unknown))  # of each method
FEW = 3  # names that a headline has room for
ECE, ACCURACY, FLOOR = METRICS["ece"], METRICS["accuracy"], METRICS["ece_floor"]


@dataclass(frozen=True)
class Estimate:
    """A mean in percent and its 95 % interval over n seeds, or over resampled rows; NaN where there is none."""

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Line:
    """A row: a method as trained or after a scaler, and whether its ECE cannot be told from the lowest."""

    label: str
    results: Results
    scaler: str
    ece: Estimate
    accuracy: Estimate
    floor: float
    leader: bool
    collapsed: str = ""

    def by_seed(self, spec: Metric) -> BySeed:
        """A metric of each of its seeds, in the unit that is printed."""
        return self.results.by_seed(spec, self.scaler)


@dataclass(frozen=True)
class Answer:
    """What is said first: a headline, two or three sentences, the lines by ECE with collapsed ones last, how sure."""

    headline: str
    sentences: tuple[str, ...]
    lines: tuple[Line, ...]
    verdict: str


def answer(members: Sequence[Results]) -> Answer:
    """The answer of one setting.

    >>> answer([]).headline
    'There is nothing to compare.'
    """
    lines = lines_of(members)
    sound = [line for line in lines if not line.collapsed]
    if not sound:
        reasons = [f"{line.label}: {line.collapsed}." for line in lines if line.scaler == "none"]
        headline = "Every method collapsed." if lines else "There is nothing to compare."
        return Answer(headline, tuple(reasons[:FEW]), lines, "No number here says anything about calibration.")
    sentences = [_calibration(sound), _training(sound), _accuracy(sound)]
    return Answer(_headline(sound), tuple(filter(None, sentences)), lines, _verdict(sound))


def lines_of(members: Sequence[Results]) -> tuple[Line, ...]:
    """Every method as trained and after the scalers of `ROWS` that it has, the lowest ECE first, collapsed ones last.

    >>> lines_of([])
    ()
    """
    made: list[Line] = []
    for one in members:
        for scaler in ROWS:
            ece, accuracy, floor = (spec.factor * one.values(spec.name, scaler) for spec in (ECE, ACCURACY, FLOOR))
            if not np.isfinite(ece).any():
                continue
            collapsed = f"{one.collapse_count} collapsed: {one.collapse_reasons}" if one.collapses else ""
            numbers = (Estimate(*mean_interval(ece)), Estimate(*mean_interval(accuracy)), mean_interval(floor)[0])
            made.append(Line(with_scaler(one.label, scaler), one, scaler, *numbers, False, collapsed))
    made.sort(key=lambda line: (bool(line.collapsed), line.ece.mean))
    first = iter(leaders([line.by_seed(ECE) for line in made if not line.collapsed], ECE))
    return tuple(line if line.collapsed else replace(line, leader=next(first)) for line in made)


def differences(lines: Sequence[Line], reference: int) -> list[tuple[Difference, Difference]]:
    """ECE and accuracy of every line less those of one of them: simultaneous intervals, p and words.

    The words are better, worse, within seed noise, "2 seeds cannot tell", no common seed, or reference.

    >>> differences([], 0)
    []
    """
    if not lines:
        return []
    ece, accuracy = (compared([line.by_seed(spec) for line in lines], reference, spec) for spec in (ECE, ACCURACY))
    return [*zip(ece, accuracy, strict=True)]


def over_settings(answers: Mapping[str, Answer]) -> str:
    """One sentence over several settings: what leads in most of them; empty for a single one.

    >>> over_settings({"digits, mlp": answer([])})
    ''
    """
    if len(answers) < 2:
        return ""
    counts: dict[str, int] = {}
    for one in answers.values():
        for label in dict.fromkeys(line.label for line in one.lines if line.leader):
            counts[label] = counts.get(label, 0) + 1
    if not counts:
        return f"No method can be ranked in any of the {len(answers)} settings."
    most = max(counts.values())
    names = [label for label, count in counts.items() if count == most]
    where = f"{most} of {len(answers)} settings" if most < len(answers) else f"all {len(answers)} settings"
    who = listed(names, "and") if len(names) <= FEW else f"{len(names)} rows"
    alone = ", more often than any other" if len(names) < len(counts) else ""
    return f"{who} {'is' if len(names) == 1 else 'are'} among the best calibrated in {where}{alone}."


def _most_seeds(lines: Sequence[Line]) -> int:
    return max(line.ece.n for line in lines)


def _headline(lines: Sequence[Line]) -> str:
    names, most = [line.label for line in lines if line.leader], _most_seeds(lines)
    if len(lines) == 1:
        return f"{lines[0].label} measures an ECE of {lines[0].ece.mean:.2f} %."
    if most == 1:
        who = listed(names, "and") if len(names) <= FEW else f"{len(names)} of {len(lines)}"
        return f"{who} measured the lowest ECE, on one seed."
    if lines[0].ece.n == 1:
        return f"{lines[0].label} measured the lowest ECE, on one seed: nothing can be told from it."
    if len(names) == 1:
        return f"{names[0]} is the best calibrated."
    if _cannot_tell(lines):
        return f"{cannot_tell(most)} which is best calibrated."
    if len(names) <= FEW:
        return f"{listed(names, 'or')} is the best calibrated."
    if len(names) == len(lines):
        return f"No winner: none of the {len(lines)} can be told from the best calibrated."
    if len(names) == len(lines) - 1:
        behind = next(line.label for line in lines if not line.leader)
        return f"No single winner: all but {behind} may be the best calibrated."
    return f"No single winner: {len(names)} of {len(lines)} may be the best calibrated."


def _cannot_tell(lines: Sequence[Line]) -> bool:
    """Whether there are too few seeds to tell most of what leads from the lowest."""
    found = [ece for line, (ece, _) in zip(lines, differences(lines, 0), strict=True) if line.leader][1:]
    return 2 * sum("cannot tell" in one.words for one in found) > len(found)


def _calibration(lines: Sequence[Line]) -> str:
    """What the lowest ECE is, and how much of it is chance."""
    best, scaler = lines[0], scaler_of(lines[0].scaler)
    name = f"{best.label} (after {scaler.long})" if scaler.short else best.label
    lowest = "the lowest calibration error (ECE)" if len(lines) > 1 else "a calibration error (ECE) of"
    measured = f"{name} measures {lowest}{',' * (len(lines) > 1)} {_interval(best.ece)}"
    if math.isnan(best.floor):
        return f"{measured}."
    chance = f"a perfectly calibrated model would measure {best.floor:.2f} % by chance (its floor)"
    if at_floor(best):
        return f"{measured}; {chance}, so it is as well calibrated as this test set can show."
    return f"{measured}; {chance}, so {best.ece.mean - best.floor:.2f} points of it are more than chance."


def at_floor(line: Line) -> bool:
    """Whether the ECE is no higher than chance alone makes it, as far as the seeds can tell."""
    if not line.ece.mean > line.floor:
        return line.ece.mean <= line.floor
    excess = paired(line.by_seed(ECE), line.by_seed(FLOOR))
    return excess.low <= 0 and (excess.high - excess.low) / 2 <= line.ece.mean


def _training(lines: Sequence[Line]) -> str:
    """What training alone does to the ECE of cross-entropy, or of the highest if there is none."""
    trained = [place for place, line in enumerate(lines) if line.scaler == "none"]
    base = next((place for place in trained if lines[place].results.method.name == "ce"), trained[-1] if trained else 0)
    ours = next((place for place in trained if lines[place].results.title == METHODS["socrates"]), base)
    chosen = [place for place in dict.fromkeys([*trained[:1], ours]) if place != base]
    family = differences(lines, base) if chosen else []
    told = [f"{lines[place].label} {_moved(family[place][0], lines[base])}" for place in chosen]
    return f"As trained, {'; '.join(told)}." if told else ""


def _moved(one: Difference, base: Line) -> str:
    if one.n == 0:
        return f"has no seed in common with {base.label}"
    if f"{abs(one.mean):.2f}" == "0.00":
        words = f"measures the ECE of {base.label}"
    else:
        words = f"measures {abs(one.mean):.2f} points {'less' if one.mean < 0 else 'more'} than {base.label}"
    if one.n == 1:
        return words
    if "cannot tell" in one.words:  # an interval so wide says no more than that
        return f"{words} ({one.words})"
    sure = f"95 % {one.low:+.2f} to {one.high:+.2f}, {p_value(one.p)}"
    return f"{words} ({sure})" if one.beyond_noise else f"{words} ({sure}: {one.words})"


def _accuracy(lines: Sequence[Line]) -> str:
    """Whether accuracy tells any of them apart, and what the best calibrated pays in it."""
    known = [line for line in lines if math.isfinite(line.accuracy.mean)]
    if not known:
        return ""
    if len(lines) == 1:
        return f"Its accuracy is {_interval(lines[0].accuracy)}."
    best, most = known[0], _most_seeds(lines)
    top = max(range(len(known)), key=lambda place: known[place].accuracy.mean)
    lowest, highest = min(line.accuracy.mean for line in known), known[top].accuracy.mean
    family = [accuracy for _, accuracy in differences(known, top)]
    spread = f"all within {highest - lowest:.2f} points"
    if most == 1:
        return f"Their accuracies lie between {lowest:.2f} and {highest:.2f} %."
    if family[0].words == "worse":
        pays = f"{best.label} pays in accuracy: {best.accuracy.mean:.2f} %, {-family[0].mean:.2f} points below"
        return f"{pays} {known[top].label} ({p_value(family[0].p)})."
    if any("cannot tell" in one.words for one in family):
        return f"{cannot_tell(most)} their accuracies apart, which lie between {lowest:.2f} and {highest:.2f} %."
    if not any(one.beyond_noise for one in family):
        return f"Accuracy does not separate any of them ({spread}, inside seed noise)."
    return (
        f"{best.label} costs no accuracy that the seeds can tell: {best.accuracy.mean:.2f} %, where the highest is "
        f"{highest:.2f} % ({known[top].label})."
    )


def _verdict(lines: Sequence[Line]) -> str:
    most, seeds = _most_seeds(lines), seeds_of([line.ece.n for line in lines])
    if most == 1:
        return "One seed: nothing can be said about other seeds."
    if len(lines) == 1:
        return f"{seeds}; there is nothing to compare it with."
    if lines[0].ece.n == 1:
        return f"{seeds}: train {lines[0].label} with more of them to compare it."
    count = sum(line.leader for line in lines)
    if _cannot_tell(lines):
        return f"{cannot_tell(most)}: a difference would have to be larger than any that is plausible."
    tests = f"{seeds}, paired, corrected for {counted(len(lines) - 1, 'comparison')}"
    if count == 1:
        return f"{tests}: every other ECE is higher beyond seed noise."
    return f"{tests}: {count} of {len(lines)} cannot be told from the lowest ECE."


def _interval(one: Estimate) -> str:
    return f"{one.mean:.2f} %" + ("" if math.isnan(one.low) else f" (95 % {one.low:.2f} to {one.high:.2f})")
