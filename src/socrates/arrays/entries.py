"""Turn the inputs of a metric into samples, and compute the metric of all samples or of each group.

Inputs are probabilities with labels, scores of class 1 with labels, or confidence and correctness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from torch import Tensor

from .content import Classes, class_names, open_labels
from .open import (
    Array,
    ArrayLike,
    as_numpy,
    check_positive,
    full_precision,
    is_missing,
    open_floats,
    open_scores,
    open_weight,
    without_weightless,
    zero_weightless,
)
from .samples import Prediction, Rows, Samples, SamplesView, Top

ProbsLike: TypeAlias = Prediction | ArrayLike | Samples | SamplesView
TopLike: TypeAlias = ProbsLike | Top
LabelsLike: TypeAlias = ArrayLike
Groups: TypeAlias = ArrayLike
# What a metric returns: a float, or a GroupTable where groups are given. It is Any for type
# checkers, so that callers without groups may compare it with numbers.
Value: TypeAlias = Any
SamplesOrTop = TypeVar("SamplesOrTop", Samples | SamplesView, Top)
Function = TypeVar("Function", bound=Callable[..., Any])


def reads(opener: Callable[..., Rows | Top]) -> Callable[[Function], Function]:
    """Record the function that opens the inputs of a metric as `metric.opener`.

    `bootstrap` and `floor` use it to open samples once, and then call the metric with resamples of
    them. A metric without it is called with plain arrays. The metric itself is not changed.
    """

    def mark(metric: Function) -> Function:
        metric.__dict__["opener"] = opener
        return metric

    return mark


def open_samples(
    probs: TopLike | None,
    labels: LabelsLike | None,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    num_classes: int | None = None,
) -> Rows:
    """Check kinds, shapes and labels; the values are checked on the way, as chunks are read.

    Confidence and correctness are refused: rows cannot be read from them.
    """
    if isinstance(probs, Samples | SamplesView):
        _refuse_beside_samples(labels, sample_weight)
        return probs
    if isinstance(probs, Top) or confidence is not None or correct is not None:
        raise ValueError(
            "got confidence and correctness alone, expected (N, C) probabilities: "
            "this metric reads them"
        )
    samples = open_probs(probs, sample_weight)
    if num_classes is not None:
        if check_positive("num_classes", num_classes) > samples.num_classes:
            raise ValueError(
                f"num_classes={num_classes}, expected at most the {samples.num_classes} classes "
                f"of probs"
            )
        samples = replace(samples, num_classes=num_classes)
    if labels is None:
        raise ValueError("got probs without labels: expected both")
    if classes is not None:
        samples.names = class_names(classes, samples.num_classes)
    samples.labels = open_labels(
        labels, samples.num_given, samples.num_classes, samples.names, samples.positions
    )
    return samples


def open_probs(probs: TopLike | None, sample_weight: ArrayLike | None = None) -> Samples:
    """Open rows without labels; the labels of the result are 0, and have no meaning.

    (N,) or (N, 1) scores p of class 1 are opened as columns (1 - p, p).
    """
    if isinstance(probs, Top):
        raise ValueError(
            "got a Top, expected (N, C) probabilities, which confidence and correctness do not hold"
        )
    if isinstance(probs, Samples | SamplesView):
        _refuse_beside_samples(None, sample_weight)
        return probs if isinstance(probs, Samples) else probs.source.take(probs.index)
    if isinstance(probs, Prediction):
        samples = _of_prediction(probs, sample_weight)
    else:
        array = open_floats(probs, "probs", (1, 2))
        if array.ndim == 1 or array.shape[1] == 1:
            scores = _scores_of_class_1(array, sample_weight)
            array = np.stack([1 - scores, scores], axis=1)
        samples = Samples(array, np.zeros(len(array), np.intp), int(array.shape[1]))
    if sample_weight is None:
        return samples
    samples.weight = open_weight(sample_weight, len(samples))
    if samples.weight is None or samples.weight.all():
        return samples
    return samples.take(np.flatnonzero(samples.weight))


def open_top(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Top:
    """Open confidence and correctness, or compute them from probabilities and labels."""
    if confidence is not None or correct is not None:
        _refuse_two_entries(probs, labels)
        if confidence is None or correct is None:
            present = "correct" if confidence is None else "confidence"
            missing = "confidence" if confidence is None else "correct"
            raise ValueError(
                f"got {present}= without {missing}=: expected both, or (probs, labels)"
            )
        return Top.of(confidence, correct, sample_weight)
    if isinstance(probs, Top):
        if labels is not None:
            raise ValueError(
                "got labels beside a Top, which already holds what is correct: "
                "expected (probs, labels), or confidence=... and correct=... alone"
            )
        return probs.weighted(sample_weight)
    if labels is None and not isinstance(probs, Samples | SamplesView):
        raise ValueError(
            "got probs without labels: "
            "expected (probs, labels), or confidence=... and correct=... alone"
        )
    return open_samples(probs, labels, sample_weight=sample_weight, classes=classes).top()


def open_ranked(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Top:
    """Open correctness with the scores to rank by, which may be any finite numbers."""
    if confidence is None:
        return open_top(probs, labels, None, correct, sample_weight, classes)
    if correct is not None:
        _refuse_two_entries(probs, labels)
        scores = open_scores(confidence, "confidence", sample_weight)
        return Top.ranked(scores, correct, sample_weight)
    top = open_top(probs, labels, sample_weight=sample_weight, classes=classes)
    num_scores = len(open_floats(confidence, "confidence", (1,)))
    num_rows = len(top) if sample_weight is None else len(as_numpy(sample_weight, "sample_weight"))
    if num_scores != num_rows:
        raise ValueError(
            f"{num_scores} confidences for {num_rows} rows of probs: expected one per row"
        )
    scores = open_scores(confidence, "confidence", sample_weight)
    return Top(without_weightless(scores, sample_weight), top.correct, top.weight)


def open_event(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> Top:
    """Open forecasts of an event, and whether it happened.

    For scores of class 1, the event is that the label is class 1. Otherwise it is that the
    prediction is correct.
    """
    if confidence is None and correct is None and _are_scores_of_class_1(probs):
        samples = open_samples(probs, labels, sample_weight=sample_weight, classes=classes)
        assert isinstance(samples, Samples)
        return Top(np.asarray(samples.probs)[:, 1], samples.labels == 1, samples.weight)
    return open_top(probs, labels, confidence, correct, sample_weight, classes)


class GroupTable(dict[Any, float]):
    """The value of a metric for each group, in the order of their names; it prints as a table.

    Args:
        metric: name of the metric, the title of its column.
        values: the value of each group.
        counts: number of samples of each group, which `table.counts` gives back.

    >>> from socrates.metrics import accuracy
    >>> probs = [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]
    >>> table = accuracy(probs, [0, 1, 1], groups=["old", "old", "new"])
    >>> table
    group  count  accuracy
    new        1  1.0000
    old        2  0.5000
    >>> table["old"], table.counts["old"]
    (0.5, 2)
    """

    def __init__(self, metric: str, values: dict[Any, float], counts: dict[Any, int]) -> None:
        super().__init__(values)
        self.metric = metric
        self.counts = counts

    def __repr__(self) -> str:
        width = max(5, *(len(str(group)) for group in self))
        lines = [f"{'group':{width}}  count  {self.metric}"]
        for group, value in self.items():
            lines.append(f"{group!s:{width}}  {self.counts[group]:5}  {value:.4f}")
        return "\n".join(lines)


def by_group(
    metric: str,
    measure: Callable[[SamplesOrTop], float],
    samples: SamplesOrTop,
    groups: Groups | None,
    sample_weight: ArrayLike | None = None,
) -> Value:
    """Measure all samples, or where groups are given the samples of each group.

    Args:
        metric: name of the metric, for the table.
        measure: the metric as a function of opened samples.
        samples: the samples; those of weight 0 have been left out.
        groups: the group of each sample as passed in, or None.
        sample_weight: the weights as passed in, which say what was left out.
    """
    if groups is None:
        return measure(samples)
    names, place = named_groups(groups, len(samples), sample_weight)
    ends = np.cumsum(np.bincount(place))[:-1]
    members = np.split(np.argsort(place, kind="stable"), ends)
    values: dict[Any, float] = {}
    counts: dict[Any, int] = {}
    for name, index in zip(names, members, strict=True):
        values[name] = measure(samples.view(index))
        counts[name] = len(index)
    return GroupTable(metric, values, counts)


def named_groups(
    groups: Groups, num_samples: int, sample_weight: ArrayLike | None = None
) -> tuple[list[Any], Array]:
    """Return the names of the groups in order, and each sample's place among them."""
    names = as_numpy(groups, "groups")
    if names.ndim != 1:
        raise ValueError(
            f"groups has shape {names.shape}, expected (N,): pass the name of one group per sample"
        )
    names = without_weightless(names, sample_weight)
    if len(names) != num_samples:
        raise ValueError(f"{len(names)} groups for {num_samples} samples: expected one per sample")
    if names.dtype == object:
        missing = [place for place, name in enumerate(names.tolist()) if is_missing(name)]
        if missing:
            raise ValueError(
                f"groups holds {len(missing)} missing values, the first at position {missing[0]}: "
                f"drop those samples, or give them a group"
            )
        names = names.astype(np.str_)
    unique, place = np.unique(names, return_inverse=True)
    return unique.tolist(), place


def _scores_of_class_1(values: Tensor | Array, sample_weight: ArrayLike | None) -> Array:
    """Return scores from 0 to 1, or raise; what weighs nothing may be anything."""
    if values.ndim == 2 and bool((values == 1).all()):
        raise ValueError(
            f"probs has shape {tuple(values.shape)} and holds 1 alone, as the softmax of one "
            f"output does: pass the probability of each class, or (N,) scores of class 1"
        )
    scores = zero_weightless(np.ravel(full_precision(values)), sample_weight)
    wrong = ~((scores >= 0) & (scores <= 1))
    if wrong.any():
        position = int(wrong.argmax())
        raise ValueError(
            f"probs holds {scores[position]:.6g} at position {position}, "
            f"expected scores of class 1 from 0 to 1: "
            f"if these are logits, apply sigmoid; drop what is not finite"
        )
    return scores


def _of_prediction(prediction: Prediction, sample_weight: ArrayLike | None) -> Samples:
    """Open the rows of a Prediction, which knows their confidence and answers."""
    array = open_floats(prediction.probs, "probs of the Prediction", (2,))
    confidence = open_scores(prediction.confidence, "confidence of the Prediction", sample_weight)
    predicted = as_numpy(prediction.predicted, "predicted of the Prediction")
    if not len(array) == len(confidence) == len(predicted):
        lengths = f"{len(array)}, {len(confidence)} and {len(predicted)}"
        raise ValueError(
            f"the Prediction holds {lengths} probs, confidences and classes: "
            f"make it with predict(logits)"
        )
    prediction = replace(prediction, confidence=confidence, predicted=predicted)
    return Samples(array, np.zeros(len(array), np.intp), prediction.num_classes, prediction)


def _are_scores_of_class_1(probs: TopLike | None) -> bool:
    """Return whether these are (N,) or (N, 1) scores."""
    if probs is None or isinstance(probs, Prediction | Samples | SamplesView | Top):
        return False
    array = as_numpy(probs, "probs")
    return array.ndim == 1 or array.shape[1:] == (1,)


def _refuse_two_entries(probs: object, labels: object) -> None:
    """Raise an error if probs or labels are passed together with confidence and correctness."""
    if probs is not None or labels is not None:
        present = "probs" if probs is not None else "labels"
        raise ValueError(
            f"got {present} beside confidence= and correct=: "
            f"expected either (probs, labels) or these two"
        )


def _refuse_beside_samples(labels: object, sample_weight: object) -> None:
    """Raise an error if labels or weights are passed together with samples that hold both."""
    for name, value in (("labels", labels), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(f"got {name} beside samples that are open: pass it to open_samples")
