"""The answer of a report, computed from the tests: what is best calibrated, how sure, at what cost.

The same headline and sentences open the page and end the commands; `lines` are the rows of its
forest plot.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from .results import Members, Results, Settings
from .statistics import (
    BySeed,
    PairedDifference,
    cannot_tell,
    compared,
    leaders,
    mean_interval,
    paired,
)
from .vocabulary import METHODS, METRICS, Metric, scaler_of, study_scalers, with_scaler
from .words import counted, listed, p_value, seeds_of

# Times its floor: about 19 of 20 calibrated models measure less (simulated, 1,000 rows, accuracies
# of up to 98%).
CHANCE = 2.0
FEW = 3  # names that a headline has room for
ECE = METRICS["ece"]
ACCURACY = METRICS["accuracy"]
FLOOR = METRICS["ece_floor"]


@dataclass(frozen=True)
class Estimate:
    """A mean in percent and its 95% interval over n seeds, or over resampled rows.

    NaN where there is none.
    """

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class AnswerLine:
    """A method as trained or after a scaler; a leader is not shown to be worse calibrated."""

    label: str
    results: Results
    scaler: str
    ece: Estimate
    accuracy: Estimate
    floor: float
    leader: bool
    collapsed: str = ""

    def by_seed(self, spec: Metric) -> BySeed:
        """Return a metric of each seed, in the unit that is printed."""
        return self.results.by_seed(spec, self.scaler)

    @property
    def may_be_calibrated(self) -> bool:
        """Return whether chance alone may make its ECE; True without a floor."""
        return not self.ece.mean > CHANCE * self.floor


@dataclass(frozen=True)
class Point:
    """A mean over seeds in percent, its 95% interval, and the value of each seed.

    The interval of a share stays between 0 and 100; it is NaN where there is only one seed.
    """

    mean: float
    low: float
    high: float
    by_seed: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FloorBand:
    """The ECE that a perfectly calibrated model measures by chance, in percent.

    `mean` is that of many such models; 95 of 100 of them measure less than `high`.
    """

    mean: float
    high: float


@dataclass(frozen=True)
class Failure:
    """A run that failed, recognised by itself or against its siblings, and why.

    `epoch` is the one in which it went wrong, as far as its records show; `accuracy` is that of
    the test data, in percent.
    """

    label: str
    seed: int
    epoch: int | None
    reason: str
    accuracy: float
    directory: Path | None = None


Standing = Literal["best", "with the best", "worse", "unranked"]


@dataclass(frozen=True)
class AnswerRow:
    """A method: as trained and after a scaler, its accuracy, its floor, its failed runs.

    `results` are without failed seeds. `standing` is that of the calibration as trained: the best
    alone, not to be told from the lowest mean, surely worse than another, or not ranked.
    """

    label: str
    results: Results
    trained: Point
    scaled: Point | None
    scaler: str
    accuracy: Point
    floor: FloorBand
    failures: tuple[Failure, ...] = ()
    standing: Standing = "unranked"

    @property
    def num_seeds(self) -> int:
        """Return how many seeds the means are of."""
        return len(self.results.seeds)

    @property
    def num_runs(self) -> int:
        """Return how many seeds were trained, with those that failed."""
        return len(self.results.seeds) + len(self.failures)


Case = Literal[
    "nothing",
    "failed",
    "one run",
    "one method",
    "few seeds",
    "winner",
    "floor",
    "losers",
    "undecided",
    "tune",
    "files",
]


@dataclass(frozen=True)
class Answer:
    """What is said first: a headline, at most two sentences, failures, rows, and small print."""

    headline: str
    sentences: tuple[str, ...]
    lines: tuple[AnswerLine, ...]
    verdict: str
    failures: tuple[Failure, ...] = ()
    rows: tuple[AnswerRow, ...] = ()
    case: Case = "undecided"


def answer(members: Members) -> Answer:
    """Return the answer of one setting.

    >>> answer([]).headline
    'There is nothing to compare.'
    """
    lines = lines_of(members)
    sound = [line for line in lines if not line.collapsed]
    if not sound:
        reasons = [f"{line.label}: {line.collapsed}." for line in lines if line.scaler == "none"]
        headline = "Every method collapsed." if lines else "There is nothing to compare."
        verdict = "No number here says anything about calibration."
        return Answer(headline, tuple(reasons[:FEW]), lines, verdict, rows=rows_of(members))
    sentences = [_calibration(sound), _training(sound), _accuracy(sound)]
    headline, verdict = _headline_and_verdict(sound)
    said = tuple(filter(None, sentences))
    return Answer(headline, said, lines, verdict, rows=rows_of(members))


def rows_of(members: Members) -> tuple[AnswerRow, ...]:
    """Return one row per method, the lowest ECE as trained first.

    >>> rows_of([])
    ()
    """
    rows = [_answer_row(results) for results in members]
    rows.sort(key=lambda row: (row.standing == "unranked", row.trained.mean))
    return tuple(rows)


def _answer_row(results: Results) -> AnswerRow:
    floor = mean_interval(results.values(FLOOR.name) * FLOOR.factor)[0]
    scaled = _point(results, ECE, "temperature")
    return AnswerRow(
        results.label,
        results,
        _point(results, ECE),
        None if math.isnan(scaled.mean) else scaled,
        "temperature",
        _point(results, ACCURACY),
        FloorBand(floor, CHANCE * floor),
        standing="unranked" if results.collapses else "with the best",
    )


def _point(results: Results, spec: Metric, scaler: str = "none") -> Point:
    by_seed = results.by_seed(spec, scaler)
    mean, low, high, _ = mean_interval(np.array([*by_seed.values()]))
    return Point(mean, max(low, 0.0), min(high, 100.0), by_seed)


def answer_scalers() -> list[str]:
    """Return the scalers whose results are lines of the answer."""
    for_unknown = [name for name, words in study_scalers().items() if words.needs_unknown]
    return ["none", "temperature", *for_unknown]


def answers_of(settings: Settings) -> dict[str, Answer]:
    """Return the answer of each setting."""
    return {heading: answer(members) for heading, members in settings.items()}


def lines_of(members: Members) -> tuple[AnswerLine, ...]:
    """Return every method with each of `answer_scalers`, the lowest ECE first, collapsed last.

    >>> lines_of([])
    ()
    """
    lines = [
        _line(results, scaler)
        for results in members
        for scaler in answer_scalers()
        if np.isfinite(results.values("ece", scaler)).any()
    ]
    lines.sort(key=lambda line: (bool(line.collapsed), line.ece.mean))
    sound = [line for line in lines if not line.collapsed]
    several = any(line.ece.n > 1 for line in sound)
    first = leaders([line.by_seed(ECE) for line in sound], ECE)
    ranked = [
        replace(line, leader=leads or (several and line.may_be_calibrated))
        for line, leads in zip(sound, first, strict=True)
    ]
    return (*ranked, *(line for line in lines if line.collapsed))


def _line(results: Results, scaler: str) -> AnswerLine:
    """Return a row whose leaders are not yet known."""
    ece, accuracy, floor = (
        Estimate(*mean_interval(spec.factor * results.values(spec.name, scaler)))
        for spec in (ECE, ACCURACY, FLOOR)
    )
    collapsed = ""
    if results.collapses:
        collapsed = f"{results.collapse_count} collapsed: {results.collapse_reasons}"
    label = with_scaler(results.label, scaler)
    return AnswerLine(label, results, scaler, ece, accuracy, floor.mean, False, collapsed)


def differences(
    lines: Sequence[AnswerLine], reference: int
) -> list[tuple[PairedDifference, PairedDifference]]:
    """Return ECE and accuracy of every line minus those of one, with intervals, p and words.

    The words are better, worse, within seed noise, "2 seeds cannot tell", no common seed, or
    reference.

    >>> differences([], 0)
    []
    """
    if not lines:
        return []
    ece, accuracy = (
        compared([line.by_seed(spec) for line in lines], reference, spec)
        for spec in (ECE, ACCURACY)
    )
    return [*zip(ece, accuracy, strict=True)]


def over_settings(answers: Mapping[str, Answer]) -> str:
    """Return a sentence about what leads in most settings; empty for a single setting.

    >>> over_settings({"digits, mlp": answer([])})
    ''
    """
    if len(answers) < 2:
        return ""
    counts: Counter[str] = Counter()
    for setting in answers.values():
        counts.update({line.label: 1 for line in setting.lines if line.leader})
    if not counts:
        return f"No method can be ranked in any of the {len(answers)} settings."
    most = max(counts.values())
    names = [label for label, count in counts.items() if count == most]
    where = f"all {len(answers)} settings"
    if most < len(answers):
        where = f"{most} of {len(answers)} settings"
    who = listed(names, "and") if len(names) <= FEW else f"{len(names)} rows"
    verb = "is" if len(names) == 1 else "are"
    alone = ", more often than any other" if len(names) < len(counts) else ""
    return f"{who} {verb} among the best calibrated in {where}{alone}."


def _headline_and_verdict(lines: Sequence[AnswerLine]) -> tuple[str, str]:
    """Return what is best calibrated, and how sure that is: both depend on the same cases."""
    best = lines[0]
    most = max(line.ece.n for line in lines)
    seeds = seeds_of([line.ece.n for line in lines])
    one_seed = "One seed: nothing can be said about other seeds."
    if len(lines) == 1:
        headline = f"{best.label} measures an ECE of {best.ece.mean:.2f}%."
        return headline, one_seed if most == 1 else f"{seeds}; there is nothing to compare it with."
    names = [line.label for line in lines if line.leader]
    if most == 1:
        who = _few_or_count(names, len(lines))
        return f"{who} measured the lowest ECE, on one seed.", one_seed
    if best.ece.n == 1:
        headline = f"{best.label} measured the lowest ECE, on one seed: too few to compare it."
        return headline, f"{seeds}: train {best.label} with more of them to compare it."
    tests = f"{seeds}, paired, corrected for {counted(len(lines) - 1, 'comparison')}"
    if len(names) == 1:
        headline = f"{names[0]} is the best calibrated."
        return headline, f"{tests}: every other ECE is higher beyond seed noise."
    if _too_few_seeds(lines):
        few = cannot_tell(most)
        why = "a difference would have to be larger than any that is plausible"
        return f"{few} which is best calibrated.", f"{few}: {why}."
    # Those that pass their own calibration test: nothing is called better.
    passing = [line.label for line in lines if line.ece.mean <= CHANCE * line.floor]
    if passing:
        verb = "is" if len(passing) == 1 else "are"
        who = _few_or_count(passing, len(lines))
        chance = f"chance alone gives a calibrated model an ECE of up to {CHANCE:g} times its floor"
        return (
            f"{who} {verb} as well calibrated as this test set can show.",
            f"{seeds}: {chance}.",
        )
    verdict = f"{tests}: {len(names)} of {len(lines)} may have the lowest ECE."
    return _several_leaders(names, lines), verdict


def _few_or_count(names: Sequence[str], total: int) -> str:
    return listed(names, "and") if len(names) <= FEW else f"{len(names)} of {total}"


def _several_leaders(names: Sequence[str], lines: Sequence[AnswerLine]) -> str:
    """Return the headline where several may be the best calibrated."""
    if len(names) <= FEW:
        return f"{listed(names, 'or')} is the best calibrated."
    if len(names) == len(lines):
        return f"No winner: any of the {len(lines)} may be the best calibrated."
    if len(names) == len(lines) - 1:
        behind = next(line.label for line in lines if not line.leader)
        return f"No single winner: all but {behind} may be the best calibrated."
    return f"No single winner: {len(names)} of {len(lines)} may be the best calibrated."


def _too_few_seeds(lines: Sequence[AnswerLine]) -> bool:
    """Return whether the seeds are too few to compare most leaders with the lowest ECE."""
    family = differences(lines, 0)
    rivals = [ece for line, (ece, _) in zip(lines, family, strict=True) if line.leader][1:]
    return 2 * sum("cannot tell" in rival.words for rival in rivals) > len(rivals)


def _calibration(lines: Sequence[AnswerLine]) -> str:
    """Return what the lowest ECE is, and how much of it is chance."""
    best = lines[0]
    scaler = scaler_of(best.scaler)
    name = f"{best.label} (after {scaler.long})" if scaler.short else best.label
    what = (
        "the lowest calibration error (ECE)," if len(lines) > 1 else "a calibration error (ECE) of"
    )
    measured = f"{name} measures {what} {_interval(best.ece)}"
    if math.isnan(best.floor):
        return f"{measured}."
    chance = f"a perfectly calibrated model would measure {best.floor:.2f}% by chance (its floor)"
    if at_floor(best):
        return f"{measured}; {chance}, so it is as well calibrated as this test set can show."
    excess = best.ece.mean - best.floor
    return f"{measured}; {chance}, so {excess:.2f} points of it are more than chance."


def at_floor(line: AnswerLine) -> bool:
    """Return whether chance alone may make the ECE, as far as the seeds can tell."""
    if not line.ece.mean > line.floor:
        return line.ece.mean <= line.floor
    excess = paired(line.by_seed(ECE), line.by_seed(FLOOR))
    return excess.low <= 0 and (excess.high - excess.low) / 2 <= line.ece.mean


def _training(lines: Sequence[AnswerLine]) -> str:
    """Return what training alone does to the ECE of cross-entropy, or of the highest ECE."""
    trained = [place for place, line in enumerate(lines) if line.scaler == "none"]
    titles = {lines[place].results.title: place for place in reversed(trained)}
    base = titles.get(METHODS["ce"], trained[-1] if trained else 0)
    ours = titles.get(METHODS["socrates"], base)
    chosen = [place for place in dict.fromkeys([*trained[:1], ours]) if place != base]
    if not chosen:
        return ""
    family = differences(lines, base)
    moves = [f"{lines[place].label} {_moved(family[place][0], lines[base])}" for place in chosen]
    return f"As trained, {'; '.join(moves)}."


def _moved(difference: PairedDifference, base: AnswerLine) -> str:
    if difference.n == 0:
        return f"has no seed in common with {base.label}"
    points = f"{abs(difference.mean):.2f}"
    direction = "less" if difference.mean < 0 else "more"
    words = f"measures {points} points {direction} than {base.label}"
    if points == "0.00":
        words = f"measures the ECE of {base.label}"
    if difference.n == 1:
        return words
    if "cannot tell" in difference.words:  # an interval that wide says no more than that
        return f"{words} ({difference.words})"
    sure = f"95% {difference.low:+.2f} to {difference.high:+.2f}, {p_value(difference.p)}"
    return (
        f"{words} ({sure})" if difference.beyond_noise else f"{words} ({sure}: {difference.words})"
    )


def _accuracy(lines: Sequence[AnswerLine]) -> str:
    """Return whether accuracies differ, and what the best calibrated pays in accuracy."""
    known = [line for line in lines if math.isfinite(line.accuracy.mean)]
    if not known:
        return ""
    if len(lines) == 1:
        return f"Its accuracy is {_interval(lines[0].accuracy)}."
    means = [line.accuracy.mean for line in known]
    lowest = min(means)
    highest = max(means)
    most = max(line.ece.n for line in lines)
    if most == 1:
        return f"Their accuracies lie between {lowest:.2f}% and {highest:.2f}%."
    best = known[0]
    top = known[means.index(highest)]
    family = [accuracy for _, accuracy in differences(known, means.index(highest))]
    if family[0].words == "worse":
        return (
            f"{best.label} pays in accuracy: {best.accuracy.mean:.2f}%, {-family[0].mean:.2f} "
            f"points below {top.label} ({p_value(family[0].p)})."
        )
    if any("cannot tell" in difference.words for difference in family):
        return (
            f"{cannot_tell(most)} their accuracies apart, which lie between {lowest:.2f}% and "
            f"{highest:.2f}%."
        )
    if not any(difference.beyond_noise for difference in family):
        spread = f"all within {highest - lowest:.2f} points, inside seed noise"
        return f"Accuracy does not separate any of them ({spread})."
    return (
        f"{best.label} costs no accuracy that the seeds can show: {best.accuracy.mean:.2f}%, where "
        f"the highest is {highest:.2f}% ({top.label})."
    )


def _interval(estimate: Estimate) -> str:
    mean = f"{estimate.mean:.2f}%"
    if math.isnan(estimate.low):
        return mean
    return f"{mean} (95% {estimate.low:.2f} to {estimate.high:.2f})"
