"""Failed runs: recognised by themselves or against their siblings, named, and left out of means.

A run has failed if it collapsed, or if its training accuracy ended far below that of its siblings:
by more than 5 points, and by more than 6 robust standard deviations of the siblings. Siblings are
the other seeds of the method if there are two or more, else all other runs of the setting.
docs/statistics.md says how often sound runs are taken for failed ones.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from socrates.experiment import Experiment
from socrates.records import Evaluation
from socrates.records.predictions import Array

from .results import Failure
from .vocabulary import METRICS, USUAL_READING

FEWEST_SIBLINGS = 2
FAR_POINTS = 5.0  # of training accuracy below the median of the siblings
FAR_DEVIATIONS = 6.0  # robust standard deviations of the siblings
LEAST_DEVIATION = 0.5  # points that siblings always count as varying by
ROBUST = 1.4826  # from the median absolute deviation to the standard deviation
CURVES = ("train_accuracy", "val_accuracy")  # the first one that was recorded is judged


class FinishedRun(Protocol):
    """What is looked at in a run."""

    @property
    def directory(self) -> Path: ...
    @property
    def experiment(self) -> Experiment: ...
    @property
    def curves(self) -> Mapping[str, Array]: ...
    @property
    def evaluation(self) -> Evaluation: ...
    @property
    def collapsed(self) -> str | None: ...


def failures_of(groups: Mapping[str, Sequence[FinishedRun]]) -> dict[str, list[Failure]]:
    """Return the failed runs of each method of a setting, by label.

    >>> failures_of({"CE": []})
    {'CE': []}
    """
    deviation = _pooled_deviation(groups)
    everyone = [run for runs in groups.values() for run in runs]
    failed: dict[str, list[Failure]] = {}
    for label, runs in groups.items():
        failed[label] = []
        for run in runs:
            siblings = [other for other in runs if other is not run and not other.collapsed]
            if len(siblings) < FEWEST_SIBLINGS:
                siblings = [one for one in everyone if one is not run and not one.collapsed]
            reason, epoch = run.collapsed, _last_epoch(run)
            if not reason:
                reason, epoch = _far_below(run, siblings, deviation)
            if reason:
                accuracy = run.evaluation.value("none", "test", USUAL_READING, "accuracy")
                accuracy *= METRICS["accuracy"].factor
                seed = run.experiment.seed
                failed[label].append(Failure(label, seed, epoch, reason, accuracy, run.directory))
    return failed


def _far_below(
    run: FinishedRun, siblings: Sequence[FinishedRun], deviation: float
) -> tuple[str, int | None]:
    """Return why a run is far below its siblings and since which epoch; empty if it is not."""
    name = next((curve for curve in CURVES if _known(run, curve)), "")
    others = [100 * one.curves[name] for one in siblings if name and _known(one, name)]
    if len(others) < FEWEST_SIBLINGS:
        return "", None
    own = 100 * run.curves[name]
    ends = np.array([curve[-1] for curve in others])
    median = float(np.median(ends))
    spread = ROBUST * float(np.median(np.abs(ends - median)))
    limit = max(FAR_POINTS, FAR_DEVIATIONS * max(spread, deviation, LEAST_DEVIATION))
    if not median - own[-1] > limit:
        return "", None
    what = "training" if name == CURVES[0] else "validation"
    reason = f"{own[-1]:.0f}% {what} accuracy at the end, its siblings {median:.0f}%"
    if {len(curve) for curve in others} != {len(own)}:
        return reason, None
    behind = np.median(others, axis=0) - own > limit
    sound = np.flatnonzero(~behind)
    return reason, int(sound[-1]) + 2 if len(sound) else 1


def _pooled_deviation(groups: Mapping[str, Sequence[FinishedRun]]) -> float:
    """Return the robust deviation of the last accuracies from the medians of their methods."""
    deviations: list[float] = []
    for runs in groups.values():
        for name in CURVES:
            known = [run for run in runs if not run.collapsed and _known(run, name)]
            if len(known) > 1:
                ends = 100 * np.array([run.curves[name][-1] for run in known])
                deviations += np.abs(ends - np.median(ends)).tolist()
                break
    return ROBUST * float(np.median(deviations)) if deviations else 0.0


def _known(run: FinishedRun, name: str) -> bool:
    curve = run.curves.get(name)
    return curve is not None and len(curve) > 0 and math.isfinite(curve[-1])


def _last_epoch(run: FinishedRun) -> int | None:
    epochs = run.curves.get("epoch")
    return int(epochs[-1]) if epochs is not None and len(epochs) else None
