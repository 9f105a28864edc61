"""Telling known from unknown by a score: the known class is the positive one, and known samples score higher."""

from typing import Any

import numpy as np

from .arrays import Array, ArrayLike, check_share, open_scores, open_weight
from .samples import weighted_mean

Weights = tuple[ArrayLike | None, ArrayLike | None]


def auroc(known: ArrayLike, unknown: ArrayLike, *, sample_weight: Weights | None = None) -> float:
    """Chance that a known sample scores above an unknown one; equal scores count one half.

    Args:
        known: (N,) scores of in-distribution samples, such as confidences.
        unknown: (M,) scores of out-of-distribution samples.
        sample_weight: the weights of both, (N,) and (M,), each as for `ece`, or None.

    >>> auroc(known=[0.9, 0.8, 0.4], unknown=[0.5, 0.4])
    0.75
    >>> auroc(known=[0.9, 0.8, 0.4], unknown=[0.5, 0.4], sample_weight=([1, 1, 0], None))
    1.0
    """
    (positives, _, reached), (negatives, weight, _) = _both(known, unknown, sample_weight)
    below = reached[np.searchsorted(positives, negatives, side="left")]
    up_to = reached[np.searchsorted(positives, negatives, side="right")]
    return 1 - weighted_mean(below + up_to, weight) / (2 * float(reached[-1]))


def aupr(known: ArrayLike, unknown: ArrayLike, *, sample_weight: Weights | None = None) -> float:
    """Average precision of calling a sample known; equal scores are called together.

    Args: as for `auroc`.

    >>> round(aupr(known=[0.9, 0.8, 0.4], unknown=[0.5, 0.4]), 4)
    0.8667
    """
    (positives, weight, reached), (negatives, _, others) = _both(known, unknown, sample_weight)
    known_called = reached[-1] - reached[np.searchsorted(positives, positives, side="left")]
    unknown_called = others[-1] - others[np.searchsorted(negatives, positives, side="left")]
    return weighted_mean(known_called / (known_called + unknown_called), weight)


def fpr_at_tpr(
    known: ArrayLike, unknown: ArrayLike, tpr: float = 0.95, *, sample_weight: Weights | None = None
) -> float:
    """Share of unknown samples called known at the highest threshold that calls at least `tpr` of the known ones known.

    Args:
        known: (N,) scores of in-distribution samples.
        unknown: (M,) scores of out-of-distribution samples.
        tpr: share of known samples to be called known, above 0 and up to 1.
        sample_weight: as for `auroc`.

    >>> fpr_at_tpr(known=[0.9, 0.8, 0.4], unknown=[0.5, 0.4], tpr=0.6)
    0.0
    """
    check_share("tpr", tpr, "a share above 0 and up to 1", one=True)
    (positives, _, reached), (negatives, weight, _) = _both(known, unknown, sample_weight)
    # A slack far below 1 / N keeps a share such as 0.95 from failing by rounding.
    enough = np.flatnonzero(1 - reached[:-1] / reached[-1] >= tpr - 1e-12)
    return weighted_mean(negatives >= positives[enough[-1]], weight)


def _both(
    known: ArrayLike, unknown: ArrayLike, sample_weight: Weights | None
) -> tuple[tuple[Array, Array | None, Array], tuple[Array, Array | None, Array]]:
    weights: Any = (None, None) if sample_weight is None else sample_weight
    if not hasattr(weights, "__len__") or len(weights) != 2:
        given = f"has length {len(weights)}" if hasattr(weights, "__len__") else f"is {weights!r}"
        raise ValueError(f"sample_weight {given}, expected the pair (weights of known, of unknown)")
    return _ranked(known, "known", weights[0]), _ranked(unknown, "unknown", weights[1])


def _ranked(scores: ArrayLike, name: str, sample_weight: ArrayLike | None) -> tuple[Array, Array | None, Array]:
    """The scores in rising order, their weights, and the weight of those before each, with that of all at the end."""
    weight_name = f"sample_weight of {name}"
    array = open_scores(scores, name, sample_weight, weight_name).astype(np.float64)
    weight = open_weight(sample_weight, len(array), weight_name)
    order = np.argsort(array) if weight is None else np.flatnonzero(weight)[np.argsort(array[weight > 0])]
    ranked = None if weight is None else weight[order]
    counts = np.ones(len(order)) if ranked is None else ranked
    return array[order], ranked, np.concatenate([[0.0], np.cumsum(counts)])
