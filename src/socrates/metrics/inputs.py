"""The door of every metric: probabilities, binary scores or confidences, torch or numpy, in; checked samples out."""

from __future__ import annotations

from typing import cast

import numpy as np

from .arrays import ArrayLike, as_numpy, blanked, in_full, open_floats, open_scores, open_weight
from .labels import Classes, LabelsLike, open_labels
from .predictions import Prediction
from .samples import Array, Samples, Top

ProbsLike = Prediction | ArrayLike
TopLike = ProbsLike | Top

ROWS_NEEDED = "got confidence and correctness alone, expected (N, C) probabilities: this metric reads them"


def open_samples(
    probs: TopLike | None,
    labels: LabelsLike | None,
    num_classes: int | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Samples:
    """Check kinds, shapes and labels; the values of the rows are checked on the way, as the chunks are read."""
    samples = open_probs(probs, sample_weight).leading(num_classes)
    if labels is None:
        raise ValueError("got probs without labels: expected both")
    samples.labels = open_labels(labels, samples.num_given, samples.num_classes, classes, samples.positions)
    return samples


def open_probs(probs: TopLike | None, sample_weight: ArrayLike | None = None) -> Samples:
    """The same without labels: they are all 0, and mean nothing."""
    if isinstance(probs, Top):
        raise ValueError(ROWS_NEEDED)
    samples = _of_prediction(probs) if isinstance(probs, Prediction) else _of_array(probs, sample_weight)
    if sample_weight is None:
        return samples
    weight = samples.weight = open_weight(sample_weight, len(samples))
    return samples if weight is None or weight.all() else samples.take(np.flatnonzero(weight))


def _of_array(probs: ArrayLike | None, sample_weight: ArrayLike | None) -> Samples:
    """(N, C) rows as they are; (N,) or (N, 1) scores p of class 1 as the two columns (1 - p, p)."""
    array = open_floats(cast("ArrayLike", probs), "probs", (1, 2))
    if array.ndim == 1 or array.shape[1] == 1:
        score = blanked(in_full(array if array.ndim == 1 else array[:, 0]), sample_weight)
        wrong = ~((score >= 0) & (score <= 1))
        if wrong.any():
            at = int(wrong.argmax())
            given = f"probs holds {score[at]:.6g} at position {at}, expected scores of class 1 from 0 to 1"
            raise ValueError(f"{given}: if these are logits, apply sigmoid; drop what is not finite")
        array = np.stack([1 - score, score], axis=1)
    return Samples(array, np.zeros(len(array), np.intp), array.shape[1])


def _of_prediction(prediction: Prediction) -> Samples:
    array = open_floats(prediction.probs, "probs of the Prediction", (2,))
    confidence = open_scores(prediction.confidence, "confidence of the Prediction")
    predicted = as_numpy(prediction.predicted, "predicted of the Prediction")
    if not len(array) == len(confidence) == len(predicted):
        lengths = f"{len(array)}, {len(confidence)} and {len(predicted)}"
        raise ValueError(f"the Prediction holds {lengths} probs, confidences and classes: make it with predict(logits)")
    labels = np.zeros(len(array), np.intp)
    return Samples(array, labels, prediction.num_classes, (confidence, predicted), prediction)


def open_top(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Top:
    """Confidence and correctness: as they are, or of rows and labels."""
    if confidence is not None or correct is not None:
        refuse_two_entries(probs, labels)
        if confidence is None or correct is None:
            given, other = ("correct", "confidence") if confidence is None else ("confidence", "correct")
            raise ValueError(f"got {given}= without {other}=: expected both, or (probs, labels)")
        return Top.of(confidence, correct, sample_weight)
    if (labels is None) != isinstance(probs, Top):
        given = "labels beside a Top, which knows what is right" if labels is not None else "probs without labels"
        raise ValueError(f"got {given}: expected (probs, labels), or confidence=... and correct=... alone")
    if isinstance(probs, Top):
        return probs.weighted(sample_weight)
    return open_samples(probs, labels, sample_weight=sample_weight, classes=classes).top()


def refuse_two_entries(probs: object, labels: object) -> None:
    """Raise where confidence and correctness are given beside what they would be read from."""
    if probs is not None or labels is not None:
        given = "probs" if probs is not None else "labels"
        raise ValueError(f"got {given} beside confidence= and correct=: expected either (probs, labels) or these two")


def counted(values: Array, sample_weight: ArrayLike | None) -> Array:
    """What belongs to the samples of a weight above 0."""
    weight = open_weight(sample_weight, len(values))
    return values if weight is None or weight.all() else values[np.flatnonzero(weight)]
