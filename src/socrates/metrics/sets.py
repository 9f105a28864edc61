"""Conformal prediction sets: the classes that the label is one of with a promised probability, LAC and APS.

    sets = lac(probs, labels, alpha=0.1)(new_probs)  # (N, C) bool

`probs` and `labels` are held-out samples that neither trained nor calibrated the model. If new samples are drawn like
them, P(label in its set) >= 1 - alpha over both, whatever the model and however few the samples: the threshold is the
ceil((n + 1)(1 - alpha))-th smallest score of the n labels. It is a promise on average, not for each class or group, and
with fewer than 1 / alpha - 1 samples it takes all classes.
"""

from __future__ import annotations  # numpy.random is loaded only where numbers are drawn

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .arrays import Array, check_share, picked, random_numbers
from .inputs import LabelsLike, ProbsLike, Shared, Unpack, open_probs, open_samples
from .samples import Samples

__all__ = ["PredictionSets", "aps", "lac"]

# From (n, C) rows and n uniform numbers to the scores of all classes; the lower the score, the likelier the class.
Score = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class PredictionSets:
    """A calibrated threshold: called with (N, C) probabilities, it gives the (N, C) booleans of their sets.

    Args:
        score: what is compared with the threshold.
        threshold: a class belongs to the set if its score is at most this; infinite if the samples were too few.
        alpha: the greatest share of labels outside of their sets.
        num_samples: number of samples that the threshold was made of.
        num_classes: number of their classes.
        seed: of the uniform numbers of a randomised score.

    >>> lac([[0.8, 0.2]] * 9, [0] * 9)
    PredictionSets(lac, threshold=0.2, alpha=0.1, num_samples=9)
    """

    score: Score
    threshold: float
    alpha: float
    num_samples: int
    num_classes: int
    seed: int = 0

    def __repr__(self) -> str:
        name = self.score.__name__.strip("_").removesuffix("_scores")
        given = f"threshold={self.threshold:.6g}, alpha={self.alpha:g}, num_samples={self.num_samples}"
        return f"PredictionSets({name}, {given})"

    def __call__(self, probs: ProbsLike) -> Array:
        """The sets of these rows: (N, C) booleans, C the number of known classes."""
        samples = open_probs(probs)
        if samples.num_classes != self.num_classes:
            given = f"sets for {self.num_classes} classes, probs has {samples.num_classes}"
            raise ValueError(f"{given}: pass all columns, one row a sample")
        return np.concatenate([scores <= self.threshold for scores, _ in _scored(self.score, samples, self.seed, 1)])


def lac(probs: ProbsLike, labels: LabelsLike, alpha: float = 0.1, **shared: Unpack[Shared]) -> PredictionSets:
    """Least ambiguous sets (Sadinle, Lei and Wasserman, 2019): all classes whose probability reaches one threshold.

    No sets that are as likely to hold the label are smaller on average. Where no class reaches the threshold the set is
    empty, as happens with a model that is right more often than 1 - alpha: such a sample is unlike the held-out ones
    that the model got right.

    Args:
        probs: (N, C) held-out probabilities or (N,) scores of class 1, torch or numpy, or a `Prediction`.
        labels: (N,) class numbers.
        alpha: the share of labels that may lie outside of their sets.
        classes: names of the columns, where labels are names.
        sample_weight: refused, for the promise counts samples that are drawn alike.

    >>> sets = lac([[0.9, 0.1, 0.0], [0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.2, 0.7, 0.1]], [0, 0, 1, 1], alpha=0.25)
    >>> sets([[0.45, 0.45, 0.1], [0.39, 0.21, 0.4], [0.34, 0.33, 0.33]])
    array([[ True,  True, False],
           [False, False,  True],
           [False, False, False]])
    """
    return _calibrated(_lac_scores, open_samples(probs, labels, **shared), alpha)


def aps(
    probs: ProbsLike,
    labels: LabelsLike,
    alpha: float = 0.1,
    *,
    randomized: bool = False,
    seed: int = 0,
    **shared: Unpack[Shared],
) -> PredictionSets:
    """Adaptive sets (Romano, Sesia and Candes, 2020): the likeliest classes, more of them where the model is unsure.

    A class's score is the sum of the probabilities larger than its own (of equal ones the first class counts first), so
    that a set always holds the likeliest class, and goes on until the sum has passed the threshold. Compared with
    `lac`, sets are larger on average, and hold the label more evenly often. If the likeliest class alone is right more
    often than 1 - alpha, it is the set, and holds the label more often than promised.

    Args:
        probs: (N, C) held-out probabilities or (N,) scores of class 1, torch or numpy, or a `Prediction`.
        labels: (N,) class numbers.
        alpha: the share of labels that may lie outside of their sets.
        randomized: add a random part of the class's own probability to its score, as the authors do: evener still, and
            1 - alpha more exactly, but larger on average, chance decides about the last class, and sets may be empty.
        seed: of that chance, here and where the sets are made.
        classes: names of the columns, where labels are names.
        sample_weight: refused, as by `lac`.

    >>> sets = aps([[0.9, 0.1, 0.0], [0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.7, 0.2, 0.1]], [0, 0, 1, 1], alpha=0.4)
    >>> sets([[0.45, 0.45, 0.1], [0.6, 0.2, 0.2], [0.3, 0.2, 0.5]])
    array([[ True,  True, False],
           [ True, False, False],
           [ True, False,  True]])
    """
    score = _randomized_aps_scores if randomized else _aps_scores
    return _calibrated(score, open_samples(probs, labels, **shared), alpha, seed)


def _calibrated(score: Score, samples: Samples, alpha: float, seed: int = 0) -> PredictionSets:
    check_share("alpha", alpha, "a share between 0 and 1, such as 0.1 for sets that hold 90 %")
    if samples.weight is not None:
        todo = "leave sample_weight out, or draw the rows by their weights first"
        raise ValueError(f"got weights, expected none: the promise counts samples that are drawn alike: {todo}")
    scores = np.concatenate([picked(every, label) for every, label in _scored(score, samples, seed, 0)])
    # The slack keeps (n + 1)(1 - alpha) from being rounded up where it is a whole number, such as 150 * 0.82.
    rank = math.ceil((len(scores) + 1) * (1 - alpha) - 1e-9)
    threshold = math.inf if rank > len(scores) else float(np.partition(scores, rank - 1)[rank - 1])
    return PredictionSets(score, threshold, alpha, len(scores), samples.num_classes, seed)


def _lac_scores(rows: Array, uniform: Array) -> Array:
    return 1 - rows


def _aps_scores(rows: Array, uniform: Array) -> Array:
    # The sum up to and with a class itself would do as well, but a sure model's sums are all 1 to within 1e-9: for a
    # network with 75 % accuracy on CIFAR-100, 60 of 100 classes at alpha = 0.1 in place of 4.
    order = np.argsort(-rows, axis=1, kind="stable")
    larger = np.zeros_like(rows)
    larger[:, 1:] = np.cumsum(np.take_along_axis(rows, order[:, :-1], axis=1), axis=1)
    scores = np.empty_like(rows)
    np.put_along_axis(scores, order, larger, axis=1)
    return scores


def _randomized_aps_scores(rows: Array, uniform: Array) -> Array:
    return _aps_scores(rows, uniform) + uniform[:, None] * rows


def _scored(score: Score, samples: Samples, seed: int, stream: int) -> Iterator[tuple[Array, Array]]:
    """The scores of all known classes, with the labels, by chunks; sets have a stream of chance apart from scores'."""
    rng = random_numbers(seed, stream)
    for rows, chunk in samples.chunks():
        known = chunk[:, : samples.num_classes].astype(np.float64)
        yield score(known, rng.random(len(known))), samples.labels[rows]
