"""Conformal prediction sets, LAC and APS: sets of classes with a guaranteed coverage.

    sets = lac(probs, labels, alpha=0.1)(new_probs)  # (N, C) bool

`probs` and `labels` are held-out samples that neither trained nor calibrated the model. If new
samples come from the same distribution, P(label in its set) >= 1 - alpha for any model and any
number n of samples: the threshold is the ceil((n + 1)(1 - alpha))-th smallest score of the labels.
The guarantee holds on average, not for each class or group. With fewer than 1 / alpha - 1 samples
every set holds all classes.
"""

from __future__ import annotations  # numpy.random is loaded only where numbers are drawn

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..arrays.content import Classes
from ..arrays.entries import LabelsLike, ProbsLike, open_probs, open_samples
from ..arrays.open import Array, ArrayLike, check_share, entry_per_row, random_numbers
from ..arrays.samples import Rows

__all__ = ["PredictionSets", "aps", "lac"]

# Maps (n, C) probabilities and n uniform random numbers to (n, C) scores; the lower the score, the
# likelier the class.
ClassScores: TypeAlias = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class PredictionSets:
    """A calibrated threshold. Call it on (N, C) probabilities to get sets as (N, C) booleans.

    Args:
        score: the function whose values are compared with the threshold.
        threshold: a class belongs to the set if its score is at most this; infinite if there were
            too few samples.
        alpha: the largest share of labels outside their sets.
        num_samples: number of samples that calibrated the threshold.
        num_classes: number of classes.
        seed: seed of the random numbers of a randomized score.

    >>> lac([[0.8, 0.2]] * 9, [0] * 9)
    PredictionSets(lac, threshold=0.2, alpha=0.1, num_samples=9)
    """

    score: ClassScores
    threshold: float
    alpha: float
    num_samples: int
    num_classes: int
    seed: int = 0

    def __repr__(self) -> str:
        name = self.score.__name__.strip("_").removesuffix("_scores")
        numbers = (
            f"threshold={self.threshold:.6g}, alpha={self.alpha:g}, num_samples={self.num_samples}"
        )
        return f"PredictionSets({name}, {numbers})"

    def __call__(self, probs: ProbsLike) -> Array:
        """Return the set of each row as (N, C) booleans, where C is the number of known classes."""
        samples = open_probs(probs)
        if samples.num_classes != self.num_classes:
            raise ValueError(
                f"sets for {self.num_classes} classes, probs has {samples.num_classes}: "
                f"pass all columns, one row per sample"
            )
        chunks = _scored_chunks(self.score, samples, self.seed, stream=1)
        return np.concatenate([scores <= self.threshold for scores, _ in chunks])


def lac(
    probs: ProbsLike,
    labels: LabelsLike | None = None,
    alpha: float = 0.1,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> PredictionSets:
    """Return least ambiguous sets, LAC (Sadinle, Lei and Wasserman, 2019).

    A set holds every class whose probability reaches one threshold. No other sets with the same
    coverage are smaller on average. If no class reaches the threshold, the set is empty. This
    happens if the accuracy of the model exceeds 1 - alpha, for samples unlike those that it got
    right.

    Args:
        probs: (N, C) held-out probabilities or (N,) scores of class 1 in any kind of array, or a
            `Prediction`.
        labels: (N,) class numbers, or names with `classes`.
        alpha: the share of labels that may lie outside their sets.
        sample_weight: not supported, because the guarantee needs samples of equal weight.
        classes: names of the classes in the order of the columns, if labels are names.

    Returns:
        Calibrated sets, which are called on the probabilities of new samples.

    >>> probs = [[0.9, 0.1, 0.0], [0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.2, 0.7, 0.1]]
    >>> sets = lac(probs, [0, 0, 1, 1], alpha=0.25)
    >>> sets([[0.45, 0.45, 0.1], [0.39, 0.21, 0.4], [0.34, 0.33, 0.33]])
    array([[ True,  True, False],
           [False, False,  True],
           [False, False, False]])
    """
    samples = open_samples(probs, labels, sample_weight=sample_weight, classes=classes)
    return _calibrate(_lac_scores, samples, alpha)


def aps(
    probs: ProbsLike,
    labels: LabelsLike | None = None,
    alpha: float = 0.1,
    *,
    randomized: bool = False,
    seed: int = 0,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> PredictionSets:
    """Return adaptive prediction sets, APS (Romano, Sesia and Candes, 2020).

    A set holds the most probable classes, and more of them where the model is uncertain. The score
    of a class is the sum of the probabilities larger than its own; ties go to the first class. So a
    set always holds the most probable class, and further ones until the sum exceeds the threshold.
    Compared with `lac`, sets are larger on average, and their coverage varies less between easy and
    difficult samples. If the accuracy of the model exceeds 1 - alpha, every set is the most
    probable class alone, and the coverage is higher than guaranteed.

    Args:
        probs: (N, C) held-out probabilities or (N,) scores of class 1 in any kind of array, or a
            `Prediction`.
        labels: (N,) class numbers, or names with `classes`.
        alpha: the share of labels that may lie outside their sets.
        randomized: add a random share of the class's own probability to its score, as the authors
            do. The coverage then varies even less and is closer to 1 - alpha. But sets are larger
            on average, may be empty, and their last class is random.
        seed: seed of these random numbers, both here and when the sets are called.
        sample_weight: not supported, as in `lac`.
        classes: names of the classes in the order of the columns, if labels are names.

    Returns:
        Calibrated sets, which are called on the probabilities of new samples.

    >>> probs = [[0.9, 0.1, 0.0], [0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.7, 0.2, 0.1]]
    >>> sets = aps(probs, [0, 0, 1, 1], alpha=0.4)
    >>> sets([[0.45, 0.45, 0.1], [0.6, 0.2, 0.2], [0.3, 0.2, 0.5]])
    array([[ True,  True, False],
           [ True, False, False],
           [ True, False,  True]])
    """
    samples = open_samples(probs, labels, sample_weight=sample_weight, classes=classes)
    score = _randomized_aps_scores if randomized else _aps_scores
    return _calibrate(score, samples, alpha, seed)


def _calibrate(score: ClassScores, samples: Rows, alpha: float, seed: int = 0) -> PredictionSets:
    """Return sets whose threshold is the conformal quantile of the scores of the labels."""
    check_share("alpha", alpha, "a share between 0 and 1, such as 0.1 for sets that hold 90%")
    if samples.weight is not None:
        raise ValueError(
            "got weights, expected none: the guarantee needs samples of equal weight: "
            "leave sample_weight out, or draw the rows by their weights first"
        )
    chunks = _scored_chunks(score, samples, seed, stream=0)
    scores = np.concatenate([entry_per_row(of_classes, label) for of_classes, label in chunks])
    # The slack keeps (n + 1)(1 - alpha) from being rounded up where it is a whole number, such as
    # 150 * 0.82.
    rank = math.ceil((len(scores) + 1) * (1 - alpha) - 1e-9)
    threshold = math.inf if rank > len(scores) else float(np.partition(scores, rank - 1)[rank - 1])
    return PredictionSets(score, threshold, alpha, len(scores), samples.num_classes, seed)


def _lac_scores(rows: Array, uniform: Array) -> Array:
    """Return 1 minus each probability."""
    return 1 - rows


def _aps_scores(rows: Array, uniform: Array) -> Array:
    """Return the sum of the probabilities larger than each one."""
    # The sum could include the class itself. But the sums of a confident model are then all within
    # 1e-9 of 1: for a network with 75% accuracy on CIFAR-100, sets at alpha = 0.1 had 60 of the 100
    # classes instead of 4.
    order = np.argsort(-rows, axis=1, kind="stable")
    larger = np.zeros_like(rows)
    larger[:, 1:] = np.cumsum(np.take_along_axis(rows, order[:, :-1], axis=1), axis=1)
    scores = np.empty_like(rows)
    np.put_along_axis(scores, order, larger, axis=1)
    return scores


def _randomized_aps_scores(rows: Array, uniform: Array) -> Array:
    """Return the sum of the larger probabilities plus a random share of the class's own."""
    return _aps_scores(rows, uniform) + uniform[:, None] * rows


def _scored_chunks(
    score: ClassScores, samples: Rows, seed: int, stream: int
) -> Iterator[tuple[Array, Array]]:
    """Yield the scores of all known classes, with the labels, chunk by chunk.

    Calibration and prediction use different streams of random numbers.
    """
    rng = random_numbers(seed, stream)
    for place, chunk in samples.chunks():
        known = chunk[:, : samples.num_classes].astype(np.float64)
        yield score(known, rng.random(len(known))), samples.labels[place]
