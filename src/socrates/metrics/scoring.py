"""Accuracy and the two proper scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from socrates.metrics.inputs import LabelsLike, ProbsLike, Samples, Top, open_samples

Array = npt.NDArray[Any]


def accuracy(probs: ProbsLike, labels: LabelsLike) -> float:
    """Share of samples whose most probable class is the label; of equal probabilities the first counts.

    Args:
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`.
        labels: (N,) class numbers.

    >>> accuracy([[0.9, 0.1], [0.6, 0.4]], [0, 1])
    0.5
    """
    return accuracy_of(open_samples(probs, labels).top())


def nll(probs: ProbsLike, labels: LabelsLike) -> float:
    """Negative log-likelihood: mean of -log of the label's probability, in nats.

    A probability that is 0 counts as the smallest positive number of its dtype (a softmax rounds to 0 only below that),
    so the result is finite, and a lower bound in that case.

    Args: as for `accuracy`.

    >>> round(nll([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.5108
    """
    return float(per_sample(open_samples(probs, labels), nll_of_rows).mean())


def brier(probs: ProbsLike, labels: LabelsLike) -> float:
    """Brier score: mean squared distance between the row of probabilities and the one-hot label, from 0 to 2.

    Args: as for `accuracy`.

    >>> round(brier([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 4)
    0.37
    """
    return float(per_sample(open_samples(probs, labels), brier_of_rows).mean())


def accuracy_of(top: Top) -> float:
    """Share of right answers."""
    return float(top.correct.mean())


def nll_of_rows(chunk: Array, labels: Array, dtype: torch.dtype) -> Array:
    """-log of each row's label probability."""
    at_label = chunk[np.arange(len(chunk)), labels].astype(np.float64)
    return -np.log(np.maximum(at_label, smallest_positive(dtype)))


def brier_of_rows(chunk: Array, labels: Array, dtype: torch.dtype) -> Array:
    """Squared distance of each row to its one-hot label."""
    off = chunk.astype(np.float64)
    off[np.arange(len(chunk)), labels] -= 1
    return np.einsum("ij,ij->i", off, off)


def per_sample(samples: Samples, score: Any) -> Array:
    """A score of each row, in float64."""
    return np.concatenate([score(chunk, samples.labels[rows], samples.dtype) for rows, chunk in samples.chunks()])


def smallest_positive(dtype: torch.dtype) -> float:
    """The smallest positive number of a dtype, subnormal numbers included."""
    limits = torch.finfo(dtype)
    return limits.smallest_normal * limits.eps
