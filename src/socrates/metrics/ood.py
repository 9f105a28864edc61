"""Telling known from unknown by a score: the known class is the positive one, and known samples score higher."""

import math

import numpy as np

from .arrays import Array, ArrayLike, open_scores


def auroc(known: ArrayLike, unknown: ArrayLike) -> float:
    """Chance that a known sample scores above an unknown one; equal scores count one half.

    Args:
        known: (N,) scores of in-distribution samples, such as confidences.
        unknown: (M,) scores of out-of-distribution samples.

    >>> auroc(known=[0.9, 0.8, 0.4], unknown=[0.5, 0.4])
    0.75
    """
    positives, negatives = _sorted(known, "known"), _sorted(unknown, "unknown")
    below = np.searchsorted(positives, negatives, side="left").sum(dtype=np.float64)
    up_to = np.searchsorted(positives, negatives, side="right").sum(dtype=np.float64)
    return float(1 - (below + up_to) / (2 * len(positives) * len(negatives)))


def aupr(known: ArrayLike, unknown: ArrayLike) -> float:
    """Average precision of calling a sample known; equal scores are called together.

    Args: as for `auroc`.

    >>> round(aupr(known=[0.9, 0.8, 0.4], unknown=[0.5, 0.4]), 4)
    0.8667
    """
    positives, negatives = _sorted(known, "known"), _sorted(unknown, "unknown")
    known_called = len(positives) - np.searchsorted(positives, positives, side="left")
    unknown_called = len(negatives) - np.searchsorted(negatives, positives, side="left")
    return float((known_called / (known_called + unknown_called)).mean())


def fpr_at_tpr(known: ArrayLike, unknown: ArrayLike, tpr: float = 0.95) -> float:
    """Share of unknown samples called known at the highest threshold that calls at least `tpr` of the known ones known.

    Args:
        known: (N,) scores of in-distribution samples.
        unknown: (M,) scores of out-of-distribution samples.
        tpr: share of known samples to be called known, above 0 and up to 1.

    >>> fpr_at_tpr(known=[0.9, 0.8, 0.4], unknown=[0.5, 0.4], tpr=0.6)
    0.0
    """
    if not 0 < tpr <= 1:
        raise ValueError(f"tpr={tpr!r}, expected a share above 0 and up to 1")
    positives, negatives = _sorted(known, "known"), _sorted(unknown, "unknown")
    needed = math.ceil(tpr * len(positives))
    if (needed - 1) / len(positives) >= tpr:  # the product was rounded up past a whole number
        needed -= 1
    threshold = float(positives[-needed])
    return float(np.mean(negatives >= threshold))


def _sorted(scores: ArrayLike, name: str) -> Array:
    return np.sort(open_scores(scores, name).astype(np.float64))
