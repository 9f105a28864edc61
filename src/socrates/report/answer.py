"""The answer of a report: a decision in a headline, two sentences, failed runs, rows, small print.

The same headline and sentences open the page and end the commands. docs/statistics.md says which
tests decide between the cases.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from socrates import pareto

from .evidence import ACCURACY, ECE
from .results import Failure, Members, Settings
from .rows import SCALER, AnswerRow, Families, FloorBand, Point, row_differences, rows_of
from .statistics import FEWEST_SEEDS, Family
from .study_rule import USUAL_RULE
from .tuning import FEWEST_VARIANTS, validation_score
from .vocabulary import scaler_of
from .words import capitalised, counted, listed, seeds_of

__all__ = [
    "ACCURACY", "ECE", "FEW", "Answer", "AnswerRow", "Failure", "FloorBand", "Point", "answer",
    "answers_of", "over_settings", "row_differences", "rows_of", "shown_in_test",
]  # fmt: skip
FEW = 3  # names that a headline has room for
Case = Literal[
    "nothing",  # no runs
    "failed",  # no sound run
    "one run",
    "one method",
    "few seeds",  # two of several methods
    "winner",  # one is surely the best calibrated
    "floor",  # nothing is left to choose: all are calibrated, as trained or after scaling
    "losers",  # some are surely worse than others
    "undecided",
    "tune",  # one method with several options, chosen on validation data
]


@dataclass(frozen=True)
class Answer:
    """What is said first: a headline, at most two sentences, failures, rows, and small print."""

    headline: str
    sentences: tuple[str, ...]
    failures: tuple[Failure, ...] = ()
    rows: tuple[AnswerRow, ...] = ()
    verdict: str = ""
    case: Case = "undecided"
    rule: str = USUAL_RULE  # of `pareto.RULES`, for the choice of a tuning study


def answer(members: Members, rule: str = USUAL_RULE) -> Answer:
    """Return the answer of one setting; `rule` chooses among the variants of a tuning study.

    >>> answer([]).headline
    'There is nothing to compare.'
    """
    rows = rows_of(members)
    families = Families(rows)
    sound = families.rows
    failures = tuple(failure for row in rows for failure in row.failures)
    case = _case(members, families)
    if case == "nothing":
        return Answer("There is nothing to compare.", (), case=case)
    if case == "failed":
        reasons = [f"{item.label}: {item.collapse_reasons}." for item in members[:2]]
        return Answer("Every run failed.", tuple(reasons), failures, rows, "", case)
    if case == "tune":
        chosen, headline, sentences = _tuned(sound, rule)
        rows = (chosen,) if chosen else ()  # a second choice by test numbers would spoil them
    elif case in ("one run", "one method"):
        headline, sentences = _alone(sound[0], families)
    else:
        headline = _headline(case, families)
        sentences = (_calibration(case, families), _rest(case, families))
    said = tuple(filter(None, sentences))
    return Answer(headline, said, failures, rows, _small_print(rows), case, rule)


def answers_of(settings: Settings, rules: Mapping[str, str] | None = None) -> dict[str, Answer]:
    """Return the answer of each setting; `rules` are those of tuning studies, by setting."""
    rules = rules or {}
    return {
        heading: answer(members, rules.get(heading, USUAL_RULE))
        for heading, members in settings.items()
    }


def shown_in_test(settings: Settings, answers: Mapping[str, Answer]) -> Settings:
    """Return what may show test numbers: of a tuning study only the variant that was chosen.

    >>> shown_in_test({"digits": []}, {"digits": answer([])})
    {'digits': []}
    """
    kept: dict[str, Members] = {}
    for heading, members in settings.items():
        setting = answers[heading]
        chosen = {row.label for row in setting.rows}
        everyone = setting.case != "tune"
        kept[heading] = [item for item in members if everyone or item.label in chosen]
    return kept


def over_settings(answers: Mapping[str, Answer]) -> Answer | None:
    """Return what holds in most settings, in a headline and a sentence; None for a single setting.

    >>> over_settings({"digits, mlp": answer([])})
    """
    if len(answers) < 2:
        return None
    total = len(answers)
    standings: dict[str, list[str]] = {}
    for setting in answers.values():
        for row in setting.rows:
            if row.standing != "unranked":
                standings.setdefault(row.label, []).append(row.standing)
    words: list[str] = []
    headline = "No method is best calibrated in most settings."
    for standing, phrase in (("best", "the best calibrated"), ("worse", "surely worse")):
        counts = {label: own.count(standing) for label, own in standings.items()}
        most = max(counts.values(), default=0)
        names = [label for label, count in counts.items() if count == most]
        if most and len(names) <= FEW:
            verb = "is" if len(names) == 1 else "are"
            words.append(f"{listed(names, 'and')} {verb} {phrase} in {most} of {total} settings")
        if standing == "best" and 2 * most > total:
            where = f"all {total}" if most == total else f"{most} of {total}"
            headline = f"Use {names[0]}: best calibrated in {where} settings."
    num_calibrated = sum(setting.case == "floor" for setting in answers.values())
    if num_calibrated:
        words.append(
            f"in {num_calibrated} of {total} all are calibrated, as trained or after "
            f"{scaler_of(SCALER).long}, as far as the test rows show"
        )
    if num_calibrated == total:
        headline = "Rescale where needed, then choose by accuracy."
    sentence = f"No method is surely better or worse calibrated in any of the {total} settings."
    if words:
        sentence = f"{capitalised('; '.join(words))}."
    return Answer(headline, (sentence,))


def _case(members: Members, families: Families) -> Case:
    """Return which template fits; the first that does decides."""
    rows = families.rows
    if not members:
        return "nothing"
    if not rows:
        return "failed"
    if len(rows) == 1:
        return "one run" if rows[0].num_seeds == 1 else "one method"
    names = {row.results.method.name for row in rows}
    if len(names) == 1 and len(rows) >= FEWEST_VARIANTS:
        return "tune"
    if max(row.num_seeds for row in rows) < FEWEST_SEEDS:
        return "few seeds"
    if _all_calibrated(families.trained) or (
        all(row.scaled for row in rows) and _all_calibrated(families.scaled)
    ):
        return "floor"
    standings = [row.standing for row in rows]
    if "best" in standings:
        return "winner"
    return "losers" if "worse" in standings else "undecided"


def _all_calibrated(family: Family) -> bool:
    """Return whether no member fails its own calibration test."""
    tested = all(math.isfinite(member.p) for member in family.members)
    return tested and not any(family.may_be_worse)


def _accuracy_differs(families: Families) -> bool:
    return "worse" in families.accuracy.standings()


def _headline(case: Case, families: Families) -> str:
    """Return a decision of at most nine words."""
    rows = families.rows
    if case == "few seeds":
        return "Train more seeds: these cannot say what is best."
    if case == "winner":
        return f"Use {rows[0].label}: it is the best calibrated."
    if case == "floor":
        differs = _accuracy_differs(families)
        if _all_calibrated(families.trained):
            return (
                "Choose by accuracy: all are calibrated."
                if differs
                else "Any will do: calibration and accuracy are alike."
            )
        if differs:
            return "Rescale the confidences, then choose by accuracy."
        return "Rescale the confidences: then the loss hardly matters."
    if case == "losers":
        worse = [row.label for row in rows if row.standing == "worse"]
        if len(worse) <= 2 and sum(len(name.split()) for name in worse) <= 4:
            return f"Not {listed(worse, 'or')}: surely worse calibrated."
        return f"Leave out {len(worse)} of {len(rows)}: surely worse calibrated."
    if _accuracy_differs(families):
        return "Choose by accuracy: calibration shows no winner."
    return "No winner shown: train more seeds to choose."


def _calibration(case: Case, families: Families) -> str:
    """Return what the calibration errors are."""
    rows = families.rows
    best = rows[0]
    if case == "few seeds":
        return f"The ECEs lie {_range([row.trained.mean for row in rows])} as trained."
    if case == "floor" and not _all_calibrated(families.trained):
        scaled = [row.scaled.mean for row in rows if row.scaled]
        return (
            f"As trained the ECEs lie {_range([row.trained.mean for row in rows])}; after "
            f"{scaler_of(SCALER).long} {_range(scaled)}, which chance alone can make."
        )
    if case == "floor":
        return (
            f"The ECEs lie {_range([row.trained.mean for row in rows])}, which chance alone can "
            "make."
        )
    others = [row for row in rows[1:] if row.standing == ("worse" if case != "undecided" else "")]
    said = f"{best.label} measures the lowest ECE, {best.trained.mean:.1f}%"
    if case == "winner":
        return f"{said}, the others {_range([row.trained.mean for row in rows[1:]])}."
    if others:
        return (
            f"{said}; surely worse {'is' if len(others) == 1 else 'are'} "
            f"{_names(others)}, {_range([row.trained.mean for row in others])}."
        )
    return (
        f"{said}; the others, {_range([row.trained.mean for row in rows[1:]])}, are not shown "
        f"to be worse by {seeds_of([row.num_seeds for row in rows])}."
    )


def _rest(case: Case, families: Families) -> str:
    """Return what would settle the rest, or what the choice costs in accuracy."""
    rows = families.rows
    if case in ("losers", "undecided", "few seeds"):
        return _more_seeds(families)
    family = families.accuracy
    standings = family.standings()
    means = [row.accuracy.mean for row in rows]
    if not all(map(math.isfinite, means)):
        return ""
    top = int(np.argmax(means))
    if case == "winner" and standings[0] == "worse":
        return (
            f"It pays in accuracy: {means[0]:.1f}%, where {rows[top].label} has {means[top]:.1f}%."
        )
    if "worse" in standings:
        worse = [row for row, standing in zip(rows, standings, strict=True) if standing == "worse"]
        return (
            f"{rows[top].label} is the most accurate with {means[top]:.1f}%; surely less accurate "
            f"{'is' if len(worse) == 1 else 'are'} {_names(worse)}."
        )
    rescaled = case == "floor" and not _all_calibrated(families.trained)
    spread = "" if rescaled else f", {_range(means)},"  # the first sentence has two ranges
    return f"Their accuracies{spread} are not shown to differ."


def _more_seeds(families: Families) -> str:
    """Return about how many more seeds would settle what is open, as far as can be said."""
    family = families.trained
    rows = families.rows
    most = seeds_of([row.num_seeds for row in rows])
    open_rows = [place for place in range(1, len(rows)) if rows[place].standing != "worse"]
    if not open_rows or max(row.num_seeds for row in rows) < 2:
        return "One seed says nothing about others: train at least two more."
    likely = [place for place in open_rows if family.may_be_worse[place]]
    who = "the other" if len(open_rows) == 1 else f"the other {len(open_rows)}"
    if not likely:
        return f"Chance alone can make the ECEs of {who}, so more seeds will hardly show a winner."
    needed = [family.more_seeds(place, 0) for place in likely]
    numbers = [math.inf if more is None else more for more in needed]
    more = statistics.median_low(numbers)
    if math.isinf(more):
        return f"To tell {who} from {rows[0].label} takes more seeds than are practical."
    return (
        f"{most[:1].upper()}{most[1:]} cannot tell {who} from {rows[0].label}; about "
        f"{counted(int(more), 'more seed')} would settle "
        f"{'it' if len(open_rows) == 1 else 'half of them'}."
    )


def _alone(row: AnswerRow, families: Families) -> tuple[str, tuple[str, ...]]:
    """Return headline and sentences of one method, with one seed or several."""
    floor = row.floor
    trained = f"{row.label} measures an ECE of {row.trained.mean:.1f}% as trained"
    if row.scaled:
        trained += f" and {row.scaled.mean:.1f}% after {scaler_of(SCALER).long}"
    chance = ""
    if math.isfinite(floor.mean):
        chance = (
            f"A perfectly calibrated model would measure {floor.mean:.1f}% on average and up to "
            f"{floor.high:.1f}% by chance."
        )
    sentences = (f"{trained}; its accuracy is {row.accuracy.mean:.1f}%.", chance)
    if row.num_seeds == 1:
        return "One run: train more seeds before you decide.", sentences
    if _all_calibrated(families.trained):
        return "Its confidence can be used as it is.", sentences
    if families.helped[0]:
        return "Rescale its confidences before you use them.", sentences
    return "Do not trust its confidences yet.", sentences


def _tuned(rows: Sequence[AnswerRow], rule: str) -> tuple[AnswerRow | None, str, tuple[str, ...]]:
    """Return the choice on validation data, and in words its test numbers and no others."""
    scores = {row.label: validation_score(row.results) for row in rows}
    known = [row for row in rows if scores[row.label]]
    if not known:
        return None, "No choice: nothing was measured on validation data.", ()
    chosen = pareto.best(known, lambda row: scores[row.label], rule)
    score = scores[chosen.label]
    assert score is not None
    return (
        chosen,
        f"Use {chosen.label}: chosen on validation.",
        (
            f"Of {len(rows)} variants it is the best on validation data by "
            f"{pareto.rule_of(rule).words} (error {score.error:.1f}%, ECE {score.ece:.1f}%).",
            f"On test data it measures an ECE of {chosen.trained.mean:.1f}% and an accuracy of "
            f"{chosen.accuracy.mean:.1f}%.",
        ),
    )


def _small_print(rows: Sequence[AnswerRow]) -> str:
    """Return what the verdicts rest on."""
    sound = [row for row in rows if row.sound]
    seeds = seeds_of([row.num_seeds for row in sound])
    partial = [f"{row.label} {row.num_seeds} of {row.num_runs}" for row in sound if row.failures]
    if partial:
        seeds += f" ({', '.join(partial)})"
    if len(sound) < 2:
        return f"{seeds}; there is nothing to compare with."
    return (
        f"{seeds}; {ECE.symbol} compared less chance, {ACCURACY.title} as it is, by Tukey's range "
        "with the noise of seeds and test rows."
    )


def _range(means: Sequence[float]) -> str:
    """Return the lowest and the highest of some percentages."""
    low = f"{min(means):.1f}%"
    high = f"{max(means):.1f}%"
    return f"at {low}" if low == high else f"between {low} and {high}"


def _names(rows: Sequence[AnswerRow]) -> str:
    if len(rows) <= FEW:
        return listed([row.label for row in rows], "and")
    return f"{len(rows)} others"
