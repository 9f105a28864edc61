"""Which candidate is best: scores on validation data, the Pareto rule, and why, from the numbers."""

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


class Score(NamedTuple):
    """Validation error, ECE and class-wise ECE, as shares."""

    error: float
    ece: float
    cw_ece: float


@dataclass(frozen=True)
class Result:
    """A candidate with the score of each seed, and why it is not ranked, if it is not."""

    candidate: Candidate
    scores: tuple[Score, ...]
    problems: tuple[str, ...] = ()
    failed: bool = False  # a run did not end; a collapsed one did

    @property
    def ranked(self) -> bool:
        """Whether it takes part: a constant predictor's low ECE means nothing, and its error would stretch the axis."""
        return not self.problems and bool(self.scores)

    @property
    def mean(self) -> Score:
        """Over the seeds."""
        return self._over_seeds(statistics.mean)

    @property
    def std(self) -> Score:
        """Over the seeds, with n - 1; NaN for one seed."""
        return self._over_seeds(lambda values: statistics.stdev(values) if len(values) > 1 else math.nan)

    def _over_seeds(self, of: Callable[[Sequence[float]], float]) -> Score:
        return Score(*map(of, zip(*(self.scores or [(math.nan,) * 3]), strict=True)))


@dataclass(frozen=True)
class Choice:
    """The Pareto front by rising error, the best of it, and why; no best if nothing can be ranked."""

    front: tuple[Result, ...]
    best: Result | None
    why: str


def score_of(run: Run) -> Score | str:
    """The validation score of the last epoch, or why there is none; test data are never looked at."""
    records = run.epochs()
    if not records:
        return "has no record of its epochs"
    last = records[-1]
    if last.collapsed:
        return f"collapsed: {last.collapsed}"
    score = Score(1 - last.value("val_accuracy"), last.value("val_ece"), last.value("val_cw_ece"))
    return score if all(map(math.isfinite, score)) else "diverged: its validation metrics are not finite"


def choose(results: Sequence[Result], rule: str = "l1") -> Choice:
    """The point of the front nearest to the origin by a rule of `pareto.RULES`; ties by CW-ECE."""
    ranked = [result for result in results if result.ranked]
    if not ranked:
        return Choice((), None, f"No choice: all of the {len(results)} candidates collapsed or failed.")
    front, best = pareto.front(ranked, key=MEAN), pareto.best(ranked, MEAN, rule)
    left_out = len(results) - len(ranked)
    out = f" ({left_out} more not ranked: a run collapsed or failed)" if left_out else ""
    noun, verb = "candidate" if len(ranked) == 1 else "candidates", "is" if len(front) == 1 else "are"
    why = f"Of {len(ranked)} {noun}{out}, {len(front)} {verb} on the Pareto front. {_why(ranked, front, best, rule)}"
    return Choice(tuple(front), best, why)


def _why(ranked: Sequence[Result], front: Sequence[Result], best: Result, rule: str) -> str:
    name = best.candidate.label
    if len(ranked) == 1:
        return f"{name} is the only one that can be chosen."
    distance = dict(zip(map(id, ranked), pareto.distances(ranked, MEAN, rule), strict=True))
    tied = pareto.ties(ranked, MEAN, rule)
    rivals = [result for result in (front if len(front) > 1 else ranked) if result is not best]
    second = min(rivals, key=lambda result: distance[id(result)])
    if len(front) == 1:
        reason = f"{name} has the lowest error and the lowest ECE"
    elif len(tied) == 1:
        reason = f"{name} is nearest to the origin"
    else:
        second = min((result for result in tied if result is not best), key=lambda result: result.mean.cw_ece)
        ours, theirs = best.mean.cw_ece, second.mean.cw_ece
        by = f"its CW-ECE ({100 * ours:.2f} % against {100 * theirs:.2f} %)"
        by = by if ours != theirs else "its lower error, or else its earlier place, since their CW-ECE is equal too"
        reason = f"{len(tied)} tie for the nearest to the origin, and {name} is chosen by {by}"
    where = f"at {distance[id(best)]:.4f}, the runner-up {second.candidate.label} at {distance[id(second)]:.4f}"
    return f"{reason} ({where}, by rule {rule}: {pareto.rule_of(rule).words}). {sentence_noise(best, second)}"


def sentence_noise(best: Result, second: Result) -> str:
    """How the gap to the runner-up compares with the standard deviation over the seeds."""
    gaps = [ours - theirs for ours, theirs in zip(best.mean[:2], second.mean[:2], strict=True)]
    words = " and ".join(f"{100 * gap:+.2f} points of {axis}" for gap, axis in zip(gaps, AXES, strict=True))
    if len(best.scores) < 2 or len(second.scores) < 2:
        return f"It differs from the runner-up by {words}; with one seed nobody knows whether that is noise."
    noise = [max(pair) for pair in zip(best.std[:2], second.std[:2], strict=True)]
    beyond = [axis for axis, gap, std in zip(AXES, gaps, noise, strict=True) if abs(gap) > std]
    verdict = f"only the gap in {beyond[0]} exceeds it" if beyond else "so the two cannot be told apart by these seeds"
    verdict = "both gaps exceed it" if len(beyond) == 2 else verdict
    stds = " and ".join(f"{100 * std:.2f}" for std in noise)
    return f"It differs from the runner-up by {words}, where the std over seeds is {stds}: {verdict}."
