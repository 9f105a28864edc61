"""Labels as users have them: class numbers, booleans of two classes, or the names of classes."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from .arrays import Array, ArrayLike, as_numpy

LabelsLike = ArrayLike
Classes = Sequence[Any] | Array


def open_labels(labels: LabelsLike, num_samples: int, num_classes: int, classes: Classes | None, kept: Any) -> Array:
    """Class numbers of the rows at `kept`, after one label for every row was found."""
    array = as_numpy(labels, "labels")
    if array.ndim != 1:
        hint = "take .argmax(1) of one-hot labels, .squeeze(1) of a column"
        raise ValueError(f"labels have shape {array.shape}, expected ({num_samples},): {hint}")
    if len(array) != num_samples:
        raise ValueError(f"{len(array)} labels for {num_samples} rows of probs: expected one label a row")
    array = array if kept is None else array[kept]
    if classes is not None:
        array = _numbered(array, _names(classes, num_classes))
    if array.dtype.kind not in ("iub" if num_classes == 2 else "iu"):
        hint = "convert them to integers, or name the columns with classes=[...]"
        raise ValueError(f"labels have dtype {array.dtype}, expected class numbers: {hint}")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= num_classes:
        above = "do labels start at 0, are all classes in probs?"
        wrong, hint = (low, "drop unlabelled samples first") if low < 0 else (high, above)
        raise ValueError(f"labels hold {wrong}, expected 0 to {num_classes - 1} for {num_classes} classes: {hint}")
    return array.astype(np.intp, copy=False)


def _names(classes: Classes, num_classes: int) -> list[Any]:
    """The names of the columns, in their order, each once."""
    names: list[Any] = [classes] if isinstance(classes, str) else list(classes)
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
    hint = f"did you mean {close[0]!r}?" if close else f"expected one of {_listed(names)}"
    raise ValueError(f"labels hold {wrong!r}, which is not among the {len(names)} names in classes: {hint}")


def _listed(names: list[Any]) -> str:
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
