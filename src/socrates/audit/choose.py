"""Choose between files: by the proper score after scaling and by accuracy, never by the raw ECE.

A scaler takes seconds to fit and can mend the calibration of any file, so a file is not worse for
what a scaler mends. What remains is how good its probabilities are after scaling (the NLL on rows
that no scaler was fitted on) and how often it is right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from socrates.report.words import counted, listed

from .answer import AuditAnswer, share
from .compare import (
    Contender,
    FileDifference,
    accuracy_differences,
    failing_files,
    scaled_differences,
)
from .judge import Judgement

FEW = 3  # names that a sentence has room for
Compare = Callable[[Sequence[Contender], int], list[FileDifference]]


@dataclass(frozen=True)
class Ranking:
    """The file with the best value of a metric, and how the others differ from it."""

    best: str
    differences: tuple[FileDifference, ...]

    @property
    def behind(self) -> set[str]:
        """Return the files that the rows show to be worse than the best."""
        return {found.label for found in self.differences if found.words == "worse"}


@dataclass(frozen=True)
class FileChoice:
    """Which files to use: those that the rows do not show to be worse by either number.

    `nll` is None where a file has only confidence and correctness. `failing` are the files that
    fail their own calibration tests, corrected for their number.
    """

    labels: tuple[str, ...]
    accuracy: Ranking
    nll: Ranking | None
    failing: frozenset[str]

    @property
    def rankings(self) -> list[Ranking]:
        """Return the rankings that the choice was made by."""
        return [self.accuracy] if self.nll is None else [self.accuracy, self.nll]

    @property
    def use(self) -> list[str]:
        """Return the files to use; none if the two numbers contradict each other."""
        behind: set[str] = set().union(*(ranking.behind for ranking in self.rankings))
        return [label for label in self.labels if label not in behind]


def choose_file(files: Sequence[Contender]) -> FileChoice:
    """Return which of at least two files to use, judged on the rows that all of them have."""
    has_nll = bool(scaled_differences(files))
    return FileChoice(
        labels=tuple(file.label for file in files),
        accuracy=ranking_of(files, accuracy_differences, sign=1),
        nll=ranking_of(files, scaled_differences, sign=-1) if has_nll else None,
        failing=frozenset(failing_files(files)),
    )


def ranking_of(files: Sequence[Contender], compare: Compare, sign: int) -> Ranking:
    """Return the file that is best on these rows, and how the others differ from it.

    `sign` is 1 if more is better, -1 if less is.
    """
    to_first = [0.0, *(sign * found.value for found in compare(files, 0))]
    best = max(range(len(files)), key=lambda place: to_first[place])
    return Ranking(files[best].label, tuple(compare(files, best)))


def answer_of_several(
    choice: FileChoice, files: Sequence[Judgement], differences: Sequence[FileDifference]
) -> AuditAnswer:
    """Return the decision between files, and what it rests on."""
    sentences = [calibration_words(choice, files), after_scaling(files)]
    evidence = [
        reasons(choice, len(files[0].sample)),
        better_calibrated(differences, files),
        coverage_words(files),
    ]
    rescaled = {judged.label for judged in files if judged.recalibrated.scaler is not None}
    return AuditAnswer(
        headline(choice, rescaled), tuple(filter(None, sentences)), tuple(filter(None, evidence))
    )


def headline(choice: FileChoice, rescaled: Collection[str] = ()) -> str:
    """Say which file to use, in a few words; after scaling if it needs that and has a scaler."""
    use = choice.use
    labels = choice.labels
    if len(use) == 0 and choice.nll is not None:
        return f"Use {choice.nll.best} for its confidence, {choice.accuracy.best} for its answers."
    if len(use) == len(labels):
        either = "either" if len(labels) == 2 else "any of them"
        scaled = ", rescaled" if choice.failing and choice.failing <= {*rescaled} else ""
        return f"Use {either}{scaled}: none is shown to be better."
    if len(use) > FEW:
        return f"Use one of {len(use)} of the {len(labels)} files: the others are worse."
    if len(use) > 1:
        behind = [label for label in labels if label not in use]
        others = behind[0] if len(behind) == 1 else "the others"
        verb = "is" if len(behind) == 1 else "are"
        return f"Use {listed(use, 'or')}: {others} {verb} worse."
    scaled = ", rescaled" if use[0] in choice.failing and use[0] in rescaled else ""
    return f"Use {use[0]}{scaled}: {advantage(choice)}."


def advantage(choice: FileChoice) -> str:
    """Say in what the only file to use is better than the others."""
    parts: list[str] = []
    is_sharper = choice.nll is not None and bool(choice.nll.behind)
    if choice.accuracy.behind:
        points = ""
        if len(choice.labels) == 2:
            points = f"{100 * abs(choice.accuracy.differences[0].value):.1f} points "
        parts.append(f"it is {points}more accurate")
    if is_sharper:
        parts.append("after scaling its probabilities are better")
    return " and ".join(parts)


def reasons(choice: FileChoice, num_rows: int) -> str:
    """Give the numbers of the choice: of each metric the best file, and the next one."""
    rows = counted(num_rows, "row")
    words: list[str] = []
    if not any(ranking.behind for ranking in choice.rankings):
        compared = "accuracy" if choice.nll is None else "accuracy and NLL after scaling"
        words.append(f"{rows} show no difference in {compared}")
    for ranking in choice.rankings:
        nearest = min(ranking.differences, key=lambda found: abs(found.value), default=None)
        if nearest is not None:
            words.append(_difference_words(ranking.best, nearest))
    return f"{'; '.join(words)}."


def _difference_words(best: str, difference: FileDifference) -> str:
    low, high = sorted((abs(difference.low), abs(difference.high)))
    low = -low if difference.low <= 0 <= difference.high else low
    if difference.metric == "accuracy":
        size = f"accuracy {100 * abs(difference.value):.1f} points above that of"
        interval = f"{100 * low:.1f} to {100 * high:.1f}"
    else:
        size = f"NLL after scaling {abs(difference.value):.3f} below that of"
        interval = f"{low:.3f} to {high:.3f}"
    shown = "" if difference.words == "worse" else f", {difference.words}"
    return f"{best} has an {size} {difference.label} (95% interval {interval}{shown})"


def calibration_words(choice: FileChoice, files: Sequence[Judgement]) -> str:
    """Say which files fail their own calibration tests as they are."""
    failing = [judged for judged in files if judged.label in choice.failing]
    errors = listed_shares([judged.values["ece"] for judged in files])
    if len(failing) == len(files):
        who = "Neither" if len(files) == 2 else "None of them"
        return f"{who} is calibrated as it is: the ECEs are {errors}."
    if not failing:
        who = "Both" if len(files) == 2 else f"All {len(files)}"
        return f"{who} pass their own calibration tests: the ECEs are {errors}."
    names = [judged.label for judged in failing]
    who = listed(names, "and") if len(names) <= FEW else f"{len(names)} of {len(files)} files"
    verb = "is" if len(names) == 1 else "are"
    others = "the other passes its test" if len(files) == 2 else "the others pass their tests"
    return f"{who} {verb} not calibrated as it is, {others}: the ECEs are {errors}."


def after_scaling(files: Sequence[Judgement]) -> str:
    """Say what the scalers to use leave of the ECEs, on rows that they were not fitted on."""
    if all(judged.recalibrated.winner == "none" for judged in files):
        return ""
    errors = listed_shares([judged.recalibrated.after["ece"] for judged in files])
    return f"After scaling they are {errors}, on the half of the rows that no scaler was fitted on."


def listed_shares(values: Sequence[float]) -> str:
    """Return a few shares one by one, or the range of many.

    >>> listed_shares([0.078, 0.124]), listed_shares([0.01, 0.03, 0.02, 0.04])
    ('7.8% and 12.4%', '1.0% to 4.0%')
    """
    if len(values) > FEW:
        return f"{share(min(values))} to {share(max(values))}"
    return listed([share(value) for value in values], "and")


def better_calibrated(differences: Sequence[FileDifference], files: Sequence[Judgement]) -> str:
    """Say that a file is better calibrated as it is, if the rows show it."""
    if len(files) != 2:
        return ""
    for difference in differences:
        if difference.metric == "ece" and difference.words in ("better", "worse"):
            better = difference.label if difference.value < 0 else difference.reference
            low, high = sorted((abs(difference.low), abs(difference.high)))
            return (
                f"As they are, {better} is better calibrated: its calibration error less chance is "
                f"{100 * abs(difference.value):.1f} points lower (95% interval {100 * low:.1f} to "
                f"{100 * high:.1f})."
            )
    return ""


def coverage_words(files: Sequence[Judgement]) -> str:
    """Say which share of the rows each file can answer at the risk that was asked for."""
    certified = [judged for judged in files if judged.certificate is not None]
    if len(certified) < len(files) or len(files) > FEW:
        return ""
    risk = certified[0].certificate.risk if certified[0].certificate else 0.0
    shares = [
        f"{judged.label} can answer {share(judged.certificate.coverage)} of the rows"
        for judged in certified
        if judged.certificate is not None
    ]
    return f"If at most {100 * risk:g}% of the answers may be wrong, {listed(shares, 'and')}."
