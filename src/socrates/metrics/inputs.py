"""The door of every metric: probabilities, binary scores or confidences, torch or numpy, in; checked samples out.

Labels are class numbers, booleans of two classes, or the names of classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any, TypedDict

import numpy as np
from typing_extensions import Unpack  # which torch brings

from .arrays import ArrayLike, as_numpy, blanked, in_full, open_floats, open_scores, open_weight
from .predictions import Prediction
from .samples import Array, Samples, Top

ProbsLike = Prediction | ArrayLike
TopLike = ProbsLike | Top
LabelsLike = ArrayLike
Classes = Sequence[Any] | Array


class Entry(TypedDict, total=False):
    """What metrics of the top class take beside probs and labels, or in their place."""

    confidence: ArrayLike | None
    correct: ArrayLike | None
    sample_weight: ArrayLike | None
    classes: Classes | None


class Ranked(TypedDict, total=False):
    """The same for those that have `confidence` among their positional arguments."""

    correct: ArrayLike | None
    sample_weight: ArrayLike | None
    classes: Classes | None


class Shared(TypedDict, total=False):
    """What metrics of whole rows take beside probs and labels."""

    sample_weight: ArrayLike | None
    classes: Classes | None


def keywords_of(entry: type) -> list[Parameter]:
    """The parameters that `**entry: Unpack[...]` stands for."""
    types = {name: getattr(kind, "__forward_arg__", kind) for name, kind in entry.__annotations__.items()}
    return [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in types.items()]


def spell_out(*functions: Any) -> None:
    """Name each keyword that `**entry: Unpack[...]` stands for in the signatures of functions, for `help`."""
    entries = {f"Unpack[{entry.__name__}]": entry for entry in (Entry, Ranked, Shared)}
    for function in functions:
        *own, rest = signature(function).parameters.values()
        parameters = [*own, *keywords_of(entries[rest.annotation])]
        function.__signature__ = signature(function).replace(parameters=parameters)


def open_samples(
    probs: TopLike | None, labels: LabelsLike | None, num_classes: int | None = None, **entry: Unpack[Entry]
) -> Samples:
    """Check kinds, shapes and labels; the values of the rows are checked on the way, as the chunks are read."""
    if is_top(probs, entry):
        raise ValueError("got confidence and correctness alone, expected (N, C) probabilities: this metric reads them")
    refuse_unknown(entry)
    samples = open_probs(probs, entry.get("sample_weight")).leading(num_classes)
    if labels is None:
        raise ValueError("got probs without labels: expected both")
    classes = entry.get("classes")
    samples.names = None if classes is None else _class_names(classes, samples.num_classes)
    samples.labels = _open_labels(labels, samples)
    return samples


def open_probs(probs: TopLike | None, sample_weight: ArrayLike | None = None) -> Samples:
    """The same without labels: they are all 0, and mean nothing."""
    if isinstance(probs, Top):
        raise ValueError("got a Top, expected (N, C) probabilities: confidence and correctness alone do not tell them")
    samples = _of_prediction(probs) if isinstance(probs, Prediction) else _of_array(probs, sample_weight)
    weight = samples.weight = open_weight(sample_weight, len(samples))
    return samples if weight is None or weight.all() else samples.take(np.flatnonzero(weight))


def _of_array(probs: ArrayLike | None, sample_weight: ArrayLike | None) -> Samples:
    """(N, C) rows as they are; (N,) or (N, 1) scores p of class 1 as the two columns (1 - p, p)."""
    array = open_floats(probs, "probs", (1, 2))
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
    prediction = replace(prediction, confidence=confidence, predicted=predicted)
    return Samples(array, np.zeros(len(array), np.intp), prediction.num_classes, prediction)


def open_top(probs: TopLike | None = None, labels: LabelsLike | None = None, **entry: Unpack[Entry]) -> Top:
    """Confidence and correctness: as they are, or of rows and labels."""
    refuse_unknown(entry)
    confidence, correct, weight = entry.get("confidence"), entry.get("correct"), entry.get("sample_weight")
    if confidence is not None or correct is not None:
        _refuse_two_entries(probs, labels)
        if confidence is None or correct is None:
            given, other = ("correct", "confidence") if confidence is None else ("confidence", "correct")
            raise ValueError(f"got {given}= without {other}=: expected both, or (probs, labels)")
        return Top.of(confidence, correct, weight)
    if (labels is None) != isinstance(probs, Top):
        given = "labels beside a Top, which knows what is right" if labels is not None else "probs without labels"
        raise ValueError(f"got {given}: expected (probs, labels), or confidence=... and correct=... alone")
    return probs.weighted(weight) if isinstance(probs, Top) else open_samples(probs, labels, **entry).top()


def open_ranked(probs: TopLike | None = None, labels: LabelsLike | None = None, **entry: Unpack[Entry]) -> Top:
    """Correctness, and the scores to rank by in the place of confidence: any finite numbers will do."""
    confidence, correct, weight = entry.get("confidence"), entry.get("correct"), entry.get("sample_weight")
    if confidence is None:
        return open_top(probs, labels, **entry)
    if correct is not None:
        _refuse_two_entries(probs, labels)
        return Top.ranked(open_scores(confidence, "confidence", weight), correct, weight)
    rest: Entry = {**entry, "confidence": None}
    top = open_top(probs, labels, **rest)
    number = len(top) if weight is None else len(as_numpy(weight, "sample_weight"))
    given = len(open_floats(confidence, "confidence", (1,)))
    if given != number:
        raise ValueError(f"{given} confidences for {number} rows of probs: expected one a row")
    return Top(counted(open_scores(confidence, "confidence", weight), weight), top.correct, top.weight)


def open_event(probs: TopLike | None = None, labels: LabelsLike | None = None, **entry: Unpack[Entry]) -> Top:
    """Forecasts and events: confidence and correctness, or scores of class 1 and whether that is the label."""
    rows: Any = None if isinstance(probs, Prediction) or is_top(probs, entry) else probs
    shape: tuple[int, ...] = rows.shape if hasattr(rows, "shape") else as_numpy(rows, "probs").shape
    if len(shape) == 1 or shape[1:] == (1,):
        samples = open_samples(probs, labels, **entry)
        return Top(np.asarray(samples.probs)[:, 1], samples.labels == 1, samples.weight)
    return open_top(probs, labels, **entry)


def is_top(probs: object, entry: Entry) -> bool:
    """Whether confidence and correctness are all that is given."""
    return isinstance(probs, Top) or entry.get("confidence") is not None or entry.get("correct") is not None


def refuse_unknown(entry: Mapping[str, Any]) -> None:
    """Raise for keywords that no entry has."""
    unknown = entry.keys() - Entry.__annotations__.keys()
    if "groups" in unknown:
        raise TypeError("this takes no groups, for it is no number: call it with the samples of one group")
    if unknown:
        expected = "confidence, correct, sample_weight, classes or an option of its own"
        raise TypeError(f"got an unexpected keyword argument {min(unknown)!r}: expected {expected}")


def _refuse_two_entries(probs: object, labels: object) -> None:
    """Raise where confidence and correctness are given beside what they would be read from."""
    if probs is not None or labels is not None:
        given = "probs" if probs is not None else "labels"
        raise ValueError(f"got {given} beside confidence= and correct=: expected either (probs, labels) or these two")


def counted(values: Array, sample_weight: ArrayLike | None) -> Array:
    """What belongs to the samples of a weight above 0."""
    weight = open_weight(sample_weight, len(values))
    return values if weight is None or weight.all() else values[np.flatnonzero(weight)]


def _open_labels(labels: LabelsLike, samples: Samples) -> Array:
    """Class numbers of the samples, after one label for every row that was given was found."""
    array, num_classes = as_numpy(labels, "labels"), samples.num_classes
    if array.ndim != 1:
        hint = "take .argmax(1) of one-hot labels, .squeeze(1) of a column"
        raise ValueError(f"labels have shape {array.shape}, expected ({samples.num_given},): {hint}")
    if len(array) != samples.num_given:
        raise ValueError(f"{len(array)} labels for {samples.num_given} rows of probs: expected one label a row")
    array = array if samples.positions is None else array[samples.positions]
    array = array if samples.names is None else _numbered(array, samples.names)
    if array.dtype.kind not in ("iub" if num_classes == 2 else "iu"):
        hint = "convert them to integers, or name the columns with classes=[...]"
        raise ValueError(f"labels have dtype {array.dtype}, expected class numbers: {hint}")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= num_classes:
        above = "do labels start at 0, are all classes in probs?"
        wrong, hint = (low, "drop unlabelled samples first") if low < 0 else (high, above)
        raise ValueError(f"labels hold {wrong}, expected 0 to {num_classes - 1} for {num_classes} classes: {hint}")
    return array.astype(np.intp, copy=False)


def _class_names(classes: Classes, num_classes: int) -> list[Any]:
    """The names of the columns, in their order, each once."""
    given: Any = [classes] if isinstance(classes, str) else classes
    if not hasattr(given, "__len__") or isinstance(given, set | frozenset):
        raise ValueError(f"classes={given!r}, expected the names in the order of the columns: pass a list")
    names: list[Any] = given.tolist() if hasattr(given, "tolist") else list(given)
    if len(names) != num_classes:
        given = f"classes holds {len(names)} names for {num_classes} classes"
        raise ValueError(f"{given}: expected one for each column of probs, in their order")
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise ValueError(f"classes holds {twice[0]!r} twice: expected the name of each column once")
    return names


def _numbered(labels: Array, names: list[Any]) -> Array:
    """The place of each label among the names; numbers beside names that are strings are class numbers already."""
    if labels.dtype.kind in "biu" and all(isinstance(name, str) for name in names):
        return labels
    place = {name: number for number, name in enumerate(names)}
    try:
        return np.array([place[label] for label in labels.tolist()], np.intp)
    except KeyError as error:
        wrong: Any = error.args[0]
    close = get_close_matches(str(wrong), map(str, names), n=1)
    listed = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
    hint = f"did you mean {close[0]!r}?" if close else f"expected one of {listed}"
    raise ValueError(f"labels hold {wrong!r}, which is not among the {len(names)} names in classes: {hint}")
