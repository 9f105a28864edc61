"""OPEN_WORLD: the metrics of a classifier that also meets strangers, inputs of none of its classes.

Each takes scores, higher for what is safer to answer, of known samples, whether the answer to each
of these is correct, and the scores of strangers. Evaluations, cards and audits loop over them.
"""

from __future__ import annotations

import numpy as np

from ..arrays.open import ArrayLike, as_numpy
from .ood import auroc, fpr_at_tpr, unknown_answered
from .registry import Metric
from .selective import aurc


def open_auroc(known: ArrayLike, correct: ArrayLike, unknown: ArrayLike) -> float:
    """Return the AUROC of known samples against strangers; `correct` is not read."""
    return auroc(known, unknown)


def open_fpr95(known: ArrayLike, correct: ArrayLike, unknown: ArrayLike) -> float:
    """Return the FPR95 of strangers; `correct` is not read."""
    return fpr_at_tpr(known, unknown)


def open_aurc(known: ArrayLike, correct: ArrayLike, unknown: ArrayLike) -> float:
    """Return the AURC of known samples and strangers together: every answer to these is wrong.

    >>> open_aurc([0.9, 0.8], [1, 1], [0.1, 0.2])
    0.2083...
    """
    scores = np.concatenate([as_numpy(known, "known"), as_numpy(unknown, "unknown")])
    is_correct = np.zeros(len(scores), dtype=bool)
    is_correct[: len(as_numpy(known, "known"))] = as_numpy(correct, "correct")
    return float(aurc(confidence=scores, correct=is_correct))


# In the order in which they are shown.
OPEN_WORLD: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "open_auroc",
            "AUROC",
            "area under the ROC curve, known against strangers",
            "probability that a known sample looks safer than a stranger",
            open_auroc,
            larger_is_better=True,
        ),
        Metric(
            "open_fpr95",
            "FPR95",
            "strangers kept with 95% of the known samples",
            "share of strangers above the threshold that keeps 95% of the known samples",
            open_fpr95,
        ),
        Metric(
            "open_ua90",
            "UA90",
            "strangers answered with 90% of the right answers",
            "share of strangers above the threshold that keeps 90% of the right answers",
            unknown_answered,
        ),
        Metric(
            "open_aurc",
            "AURC with strangers",
            "area under the risk-coverage curve, strangers included",
            "mean error if the least safe answers are withheld; an answer to a stranger is wrong",
            open_aurc,
        ),
    )
}


def measure_open_world(
    known: ArrayLike, correct: ArrayLike, unknown: ArrayLike
) -> dict[str, float]:
    """Return the metrics of OPEN_WORLD by name; there is no UA90 where no answer is right.

    >>> values = measure_open_world([0.9, 0.8, 0.4], [1, 1, 0], [0.5, 0.4])
    >>> values["open_auroc"], values["open_ua90"]
    (0.75, 0.0)
    """
    values: dict[str, float] = {}
    for name, metric in OPEN_WORLD.items():
        if name == "open_ua90" and not as_numpy(correct, "correct").any():
            continue
        values[name] = float(metric.function(known, correct, unknown))
    return values
