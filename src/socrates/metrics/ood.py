"""Out-of-distribution detection: how well a score separates known samples from unknown ones.

Known samples, from the training distribution, are the positive class: they should score higher.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..arrays.open import (
    Array,
    ArrayLike,
    as_numpy,
    check_share,
    open_scores,
    open_weight,
    weighted_mean,
)

WeightPair: TypeAlias = tuple[ArrayLike | None, ArrayLike | None]


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Scores in ascending order, with their weights.

    Args:
        scores: (N,) the scores.
        weight: (N,) the weight of each score, or None if all are equal.
        below: (N + 1,) total weight of the scores before each position; the last entry is that of
            all scores.
    """

    scores: Array
    weight: Array | None
    below: Array

    @property
    def total(self) -> float:
        """Return the total weight of all scores."""
        return float(self.below[-1])

    def weight_below(self, thresholds: Array) -> Array:
        """Return the total weight of the scores less than each threshold."""
        return self.below[np.searchsorted(self.scores, thresholds, side="left")]

    def weight_up_to(self, thresholds: Array) -> Array:
        """Return the total weight of the scores less than or equal to each threshold."""
        return self.below[np.searchsorted(self.scores, thresholds, side="right")]


def auroc(
    known: ArrayLike, unknown: ArrayLike, *, sample_weight: WeightPair | None = None
) -> float:
    """Return the area under the ROC curve: the probability that a known sample scores higher.

    It compares a random known sample with a random unknown one. Ties count one half.

    Args:
        known: (N,) scores of in-distribution samples, such as confidences.
        unknown: (M,) scores of out-of-distribution samples.
        sample_weight: a pair of weights, (N,) and (M,), each as for `ece` or None.

    >>> auroc(known=[0.9, 0.8, 0.4], unknown=[0.5, 0.4])
    0.75
    >>> auroc(known=[0.9, 0.8, 0.4], unknown=[0.5, 0.4], sample_weight=([1, 1, 0], None))
    1.0
    """
    positives, negatives = _open_both(known, unknown, sample_weight)
    below = positives.weight_below(negatives.scores)
    up_to = positives.weight_up_to(negatives.scores)
    return 1 - weighted_mean(below + up_to, negatives.weight) / (2 * positives.total)


def aupr(known: ArrayLike, unknown: ArrayLike, *, sample_weight: WeightPair | None = None) -> float:
    """Return the area under the precision-recall curve, as average precision.

    Known samples are the positive class. Samples of equal score share one threshold.

    Args: as for `auroc`.

    >>> round(aupr(known=[0.9, 0.8, 0.4], unknown=[0.5, 0.4]), 4)
    0.8667
    """
    positives, negatives = _open_both(known, unknown, sample_weight)
    true_positives = positives.total - positives.weight_below(positives.scores)
    false_positives = negatives.total - negatives.weight_below(positives.scores)
    precision = true_positives / (true_positives + false_positives)
    return weighted_mean(precision, positives.weight)


def fpr_at_tpr(
    known: ArrayLike,
    unknown: ArrayLike,
    tpr: float = 0.95,
    *,
    sample_weight: WeightPair | None = None,
) -> float:
    """Return the false positive rate at a given true positive rate, by default FPR95.

    The threshold is the highest one that accepts at least the share `tpr` of the known samples. The
    result is the share of unknown samples that it accepts, too.

    Args:
        known: (N,) scores of in-distribution samples.
        unknown: (M,) scores of out-of-distribution samples.
        tpr: share of known samples to accept, above 0 and up to 1.
        sample_weight: as for `auroc`.

    >>> fpr_at_tpr(known=[0.9, 0.8, 0.4], unknown=[0.5, 0.4], tpr=0.6)
    0.0
    """
    check_share("tpr", tpr, "a share above 0 and up to 1", allow_1=True)
    positives, negatives = _open_both(known, unknown, sample_weight)
    share_accepted = 1 - positives.below[:-1] / positives.total
    # The tolerance is far below 1 / N, and keeps a share such as 0.95 from failing by rounding.
    is_enough = np.flatnonzero(share_accepted >= tpr - 1e-12)
    threshold = positives.scores[is_enough[-1]]
    return weighted_mean(negatives.scores >= threshold, negatives.weight)


def unknown_answered(
    known: ArrayLike,
    correct: ArrayLike,
    unknown: ArrayLike,
    kept: float = 0.9,
    *,
    sample_weight: WeightPair | None = None,
) -> float:
    """Return the share of unknown samples that are answered, by default UA90.

    The threshold is the highest one that still answers the share `kept` of those known samples
    whose answer is correct: the price of declining, as a user feels it.

    Args:
        known: (N,) scores of in-distribution samples, higher for safer answers.
        correct: (N,) whether the answer to each of them is correct.
        unknown: (M,) scores of out-of-distribution samples.
        kept: share of the correct answers to keep, above 0 and up to 1.
        sample_weight: as for `auroc`.

    >>> unknown_answered([0.9, 0.8, 0.4, 0.1], [1, 1, 0, 0], unknown=[0.85, 0.5], kept=1.0)
    0.5
    """
    check_share("kept", kept, "a share above 0 and up to 1", allow_1=True)
    is_correct = np.asarray(as_numpy(correct, "correct"))
    scores = as_numpy(known, "known")
    if is_correct.shape != scores.shape or not np.isin(is_correct, (0, 1)).all():
        raise ValueError(
            f"correct must hold True or False for each of the {len(scores)} known scores, got the "
            f"shape {is_correct.shape}"
        )
    if not is_correct.any():
        raise ValueError("no answer is correct: there is no threshold that keeps correct answers")
    mask = is_correct.astype(bool)
    weight, others = sample_weight or (None, None)
    of_correct = None if weight is None else as_numpy(weight, "sample_weight")[mask]
    return fpr_at_tpr(scores[mask], unknown, kept, sample_weight=(of_correct, others))


def _open_both(
    known: ArrayLike, unknown: ArrayLike, sample_weight: WeightPair | None
) -> tuple[_Ranked, _Ranked]:
    """Open and sort the scores of the known samples and of the unknown ones."""
    weights: Any = (None, None) if sample_weight is None else sample_weight
    if not hasattr(weights, "__len__") or len(weights) != 2:
        is_what = f"has length {len(weights)}" if hasattr(weights, "__len__") else f"is {weights!r}"
        raise ValueError(
            f"sample_weight {is_what}, expected the pair (weights of known, of unknown)"
        )
    return _open(known, "known", weights[0]), _open(unknown, "unknown", weights[1])


def _open(scores: ArrayLike, name: str, sample_weight: ArrayLike | None) -> _Ranked:
    """Open the scores and their weights, and sort them; scores of weight 0 are left out."""
    weight_name = f"sample_weight of {name}"
    array = open_scores(scores, name, sample_weight, weight_name).astype(np.float64)
    weight = open_weight(sample_weight, len(array), weight_name)
    if weight is None:
        order = np.argsort(array)
        return _Ranked(array[order], weight=None, below=np.arange(len(array) + 1.0))
    order = np.flatnonzero(weight)[np.argsort(array[weight > 0])]
    below = np.concatenate([[0.0], np.cumsum(weight[order])])
    return _Ranked(array[order], weight[order], below)
