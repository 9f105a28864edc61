"""Accuracy, and two proper scores: negative log-likelihood and Brier score."""

from __future__ import annotations

import math
import warnings

import numpy as np

from ..arrays.content import Classes
from ..arrays.entries import (
    Groups,
    LabelsLike,
    ProbsLike,
    TopLike,
    Value,
    by_group,
    open_samples,
    open_top,
    reads,
)
from ..arrays.open import Array, ArrayLike, entry_per_row, weighted_mean
from ..arrays.samples import Rows, Samples, Top
from .predictions import probabilities

# Smaller probabilities count as this one in `nll`, for every dtype. It is the float64 epsilon, as
# in scikit-learn's log_loss of float64 rows.
CLIP = 2.0**-52


@reads(open_top)
def accuracy(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    groups: Groups | None = None,
) -> Value:
    """Return the share of samples whose most probable class is the label.

    Ties go to the first class.

    Args: as for `ece`.

    >>> accuracy([[0.9, 0.1], [0.6, 0.4]], [0, 1])
    0.5
    """
    top = open_top(probs, labels, confidence, correct, sample_weight, classes)

    def measure(part: Top) -> float:
        return weighted_mean(part.correct, part.weight)

    return by_group("accuracy", measure, top, groups, sample_weight)


@reads(open_samples)
def nll(
    probs: ProbsLike,
    labels: LabelsLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    groups: Groups | None = None,
) -> Value:
    """Return the negative log-likelihood, also called log-loss, in nats.

    It is the mean of -log of the label's probability. A probability below 2^-52 (2.2e-16) counts as
    2^-52, which is 36.04 nats, in every dtype. A warning gives the number of probabilities that are
    exactly 0, for which the true value is infinite. For float64 this equals scikit-learn's
    `log_loss`; for float32, scikit-learn clips at 1.2e-7 (15.9 nats), and at both ends. A
    `Prediction` that `predict` made from logits is not clipped: its logarithms are computed from
    the logits, and only a class masked with -inf has probability 0.

    Args:
        probs: (N, C) probabilities in any kind of array, or a `Prediction`; for two classes also
            (N,) scores of class 1.
        labels: (N,) class numbers, booleans if there are two classes, or names with `classes`.
        sample_weight: as for `ece`.
        classes: as for `ece`.
        groups: as for `ece`.

    >>> round(nll([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.5108
    >>> from socrates.metrics import predict
    >>> nll(predict([[0.0, 800.0]]), [0])
    800.0
    """
    samples = open_samples(probs, labels, sample_weight=sample_weight, classes=classes)

    def measure(part: Rows) -> float:
        return weighted_mean(part.cached(nll_per_row), part.weight)

    return by_group("nll", measure, samples, groups, sample_weight)


@reads(open_samples)
def brier(
    probs: ProbsLike,
    labels: LabelsLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    groups: Groups | None = None,
) -> Value:
    """Return the Brier score: the mean squared distance of the rows to the one-hot labels.

    This is Brier's original definition (1950), a sum over all classes, and lies between 0 and 2.
    For two classes it is twice scikit-learn's `brier_score_loss`, which counts class 1 only.

    Args: as for `nll`.

    >>> round(brier([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.37
    """
    samples = open_samples(probs, labels, sample_weight=sample_weight, classes=classes)

    def measure(part: Rows) -> float:
        return weighted_mean(part.cached(brier_per_row), part.weight)

    return by_group("brier", measure, samples, groups, sample_weight)


def nll_per_row(samples: Samples, stacklevel: int = 6) -> Array:
    """Return -log of each label's probability, computed from the logits if there are any.

    One warning gives the number of labels with probability 0. Its default `stacklevel` names the
    line that called `nll`.
    """
    limit = -math.log(CLIP)
    with np.errstate(divide="ignore"):
        # Rounding may take a probability above 1, and no score below 0.
        scores = np.maximum(-np.log(samples.map_rows(entry_per_row).astype(np.float64)), 0.0)
    clipped = np.flatnonzero(scores > limit)
    prediction = samples.prediction
    if prediction is not None and prediction.logits is not None:
        log_p = probabilities(prediction.logits[clipped], prediction.unknown, logarithm=True)
        scores[clipped] = -entry_per_row(log_p.double().numpy(force=True), samples.labels[clipped])
        clipped = np.flatnonzero(np.isinf(scores))
    num_zeros = int(np.isinf(scores).sum())
    scores[clipped] = limit
    if num_zeros:
        warnings.warn(
            f"{num_zeros} of {len(scores)} rows have probability 0 at their label, whose logarithm "
            f"is infinite: each counts as {CLIP:.2g}, {limit:.2f} nats, so nll is a lower "
            f"bound",
            stacklevel=stacklevel,
        )
    return scores


def brier_per_row(samples: Samples) -> Array:
    """Return the squared distance of each row to its one-hot label."""

    def squared_distance(chunk: Array, labels: Array) -> Array:
        difference = chunk.astype(np.float64)
        width = int(difference.shape[1])
        # A third less time than difference[row, label].
        np.ravel(difference)[np.arange(0, difference.size, width) + labels] -= 1
        return np.einsum("ij,ij->i", difference, difference)

    return samples.map_rows(squared_distance)
