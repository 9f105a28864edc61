"""Accuracy and the two proper scores."""

import math
import warnings

import numpy as np

from .arrays import picked
from .entry import mean_metric, top_metric
from .predictions import probabilities
from .samples import Array, Samples, Top, weighted_mean

# The least probability that `nll` tells from 0, whatever the dtype: scikit-learn's for float64, its epsilon.
CLIP = 2.0**-52


@top_metric
def accuracy(top: Top) -> float:
    """Share of samples whose most probable class is the label; of equal probabilities the first counts.

    Args: as for `ece`.

    >>> accuracy([[0.9, 0.1], [0.6, 0.4]], [0, 1])
    0.5
    """
    return weighted_mean(top.correct, top.weight)


@mean_metric
def nll(samples: Samples) -> Array:
    """Negative log-likelihood, also called log-loss: mean of -log of the label's probability, in nats.

    A probability below 2^-52 (2.2e-16) counts as 2^-52, 36.04 nats, in every dtype, and a warning tells how many are
    exactly 0, for which the true value is infinite. This is scikit-learn's `log_loss` of float64 rows; of float32 rows
    that one clips at 1.2e-7 (15.9 nats) already, and at both ends. What `predict` made of logits is not clipped: there
    the logarithm is taken from the logits themselves, and only a class masked with -inf has probability 0.

    Args:
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`; or (N,) scores of class 1 among two classes.
        labels: (N,) class numbers, booleans where there are two classes, or names with `classes`.
        sample_weight: as for `ece`, like `classes` and `groups`.

    >>> round(nll([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.5108
    >>> from socrates.metrics import predict
    >>> nll(predict([[0.0, 800.0]]), [0])
    800.0
    """
    return nll_of_each(samples, stacklevel=5)


@mean_metric
def brier(samples: Samples) -> Array:
    """Brier score: mean squared distance between the row of probabilities and the one-hot label, from 0 to 2.

    This is the sum over all classes, Brier's own. Of two classes it is twice scikit-learn's `brier_score_loss`, which
    counts class 1 alone.

    Args: as for `nll`.

    >>> round(brier([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.37
    """
    return brier_of_each(samples)


def nll_of_each(samples: Samples, stacklevel: int = 3) -> Array:
    """-log of each label's probability, exact where there are logits, with one warning for those that are 0."""
    with np.errstate(divide="ignore"):
        scores = -np.log(samples.each(picked).astype(np.float64))
    limit, prediction = -math.log(CLIP), samples.prediction
    clipped = np.flatnonzero(scores > limit)
    if prediction is not None and prediction.logits is not None:
        log_p = probabilities(prediction.logits[clipped], prediction.unknown, logarithm=True)
        scores[clipped] = -picked(log_p.double().numpy(force=True), samples.labels[clipped])
        clipped = np.flatnonzero(np.isinf(scores))
    num_zeros = int(np.isinf(scores).sum())
    scores[clipped] = limit
    if num_zeros:
        given = f"{num_zeros} of {len(scores)} rows have probability 0 at their label, whose logarithm is infinite"
        meaning = f"each counts as {CLIP:.2g}, {limit:.2f} nats, so that nll is a lower bound"
        warnings.warn(f"{given}: {meaning}", stacklevel=stacklevel)
    return scores


def brier_of_each(samples: Samples) -> Array:
    """Squared distance of each row to its one-hot label."""

    def squared(chunk: Array, labels: Array) -> Array:
        off = chunk.astype(np.float64)
        np.ravel(off)[np.arange(0, off.size, off.shape[1]) + labels] -= 1  # a third less time than off[row, label]
        return np.einsum("ij,ij->i", off, off)

    return samples.each(squared)
