"""Choose the best candidate by its scores on validation data and the Pareto rule, and say why."""

import math
import operator
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from socrates import pareto
from socrates.engine.studies.candidates import Candidate
from socrates.records import Run

MEAN = operator.attrgetter("mean")
AXES = ("error", "ECE")


class ValidationScore(NamedTuple):
    """Validation error, ECE and class-wise ECE, as fractions of 1."""

    error: float
    ece: float
    cw_ece: float


@dataclass(frozen=True)
class CandidateResult:
    """A candidate with the score of each seed, or with the reasons why it is not ranked."""

    candidate: Candidate
    scores: tuple[ValidationScore, ...]
    problems: tuple[str, ...] = ()
    failed: bool = False  # whether a run did not end; a collapsed run did

    @property
    def ranked(self) -> bool:
        """Return whether the candidate takes part in the choice.

        A collapsed one does not: the low ECE of a constant predictor means nothing, and its error
        would stretch the axis.
        """
        return not self.problems and bool(self.scores)

    @property
    def mean(self) -> ValidationScore:
        """Return the mean over the seeds."""
        return self._over_seeds(statistics.mean)

    @property
    def std(self) -> ValidationScore:
        """Return the standard deviation over the seeds (n - 1), NaN for one seed."""
        return self._over_seeds(
            lambda values: statistics.stdev(values) if len(values) > 1 else math.nan
        )

    def _over_seeds(self, summarize: Callable[[Sequence[float]], float]) -> ValidationScore:
        scores = self.scores or [ValidationScore(math.nan, math.nan, math.nan)]
        return ValidationScore(*(summarize(values) for values in zip(*scores, strict=True)))


@dataclass(frozen=True)
class Choice:
    """The Pareto front by rising error, the best of it (None if nothing is ranked), and why."""

    front: tuple[CandidateResult, ...]
    best: CandidateResult | None
    why: str


def score_of(run: Run) -> ValidationScore | str:
    """Return the validation score of the last epoch, or the reason why there is none.

    Test data are never looked at. Records that were lost are an error.
    """
    last = run.epochs_until(run.experiment.optimization.epochs)[-1]
    if last.collapsed:
        return f"collapsed: {last.collapsed}"
    score = ValidationScore(
        1 - last.value("val_accuracy"), last.value("val_ece"), last.value("val_cw_ece")
    )
    if not all(map(math.isfinite, score)):
        return "diverged: its validation metrics are not finite"
    return score


def choose(results: Sequence[CandidateResult], rule: str = "l1") -> Choice:
    """Choose the point of the front nearest to the origin by a rule of `pareto.RULES`.

    Ties go by class-wise ECE.
    """
    ranked = [result for result in results if result.ranked]
    if not ranked:
        why = f"No choice: all of the {len(results)} candidates collapsed or failed."
        return Choice((), None, why)
    front = pareto.front(ranked, key=MEAN)
    best = pareto.best(ranked, MEAN, rule)
    num_left_out = len(results) - len(ranked)
    left_out = f" ({num_left_out} more not ranked: a run collapsed or failed)"
    noun = "candidate" if len(ranked) == 1 else "candidates"
    verb = "is" if len(front) == 1 else "are"
    why = (
        f"Of {len(ranked)} {noun}{left_out if num_left_out else ''}, {len(front)} {verb} on the "
        f"Pareto front. {_reason(ranked, best, rule)}"
    )
    return Choice(tuple(front), best, why)


def _reason(ranked: Sequence[CandidateResult], best: CandidateResult, rule: str) -> str:
    """Say why the best candidate is the best, and how far the runner-up is."""
    name = best.candidate.label
    if len(ranked) == 1:
        return f"{name} is the only one that can be chosen."
    distances = pareto.distances(ranked, MEAN, rule)
    distance = {id(result): d for result, d in zip(ranked, distances, strict=True)}
    others = [result for result in ranked if result is not best]
    tied = [result for result in pareto.ties(ranked, MEAN, rule) if result is not best]
    second = min(others, key=lambda result: distance[id(result)])
    reason = f"{name} is nearest to the origin"
    if tied:
        second = min(tied, key=lambda result: result.mean.cw_ece)
        reason = (
            f"{len(tied) + 1} tie for the nearest to the origin, {name} is first by CW-ECE "
            f"({best.mean.cw_ece:.2%} against {second.mean.cw_ece:.2%})"
        )
    return (
        f"{reason} (at {distance[id(best)]:.4f}, the runner-up {second.candidate.label} at "
        f"{distance[id(second)]:.4f}, by rule {rule}: {pareto.rule_of(rule).words}). "
        f"{_gap(best, second)}"
    )


def _gap(best: CandidateResult, second: CandidateResult) -> str:
    """Return how far the best is from the runner-up; what the seeds show of it, a report says."""
    gaps = [best.mean.error - second.mean.error, best.mean.ece - second.mean.ece]
    points = [f"{100 * gap:+.2f} points of {axis}" for gap, axis in zip(gaps, AXES, strict=True)]
    return f"It differs from the runner-up by {' and '.join(points)}."
