"""Say what rows and labels hold: probabilities within a tolerance, or logits; which classes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .open import HALF_DTYPES, Array, ArrayLike, as_numpy, is_missing, row_sums

Classes: TypeAlias = Sequence[Any] | Array

# A softmax in single precision misses 1 by less than this.
ROW_SUM_TOLERANCE = 1e-3
# Rounding may move the sum of a row further. bfloat16 moves it by up to 2^-8, float16 by 2^-11
# and 2^-25 for each of its C classes: 0.02 holds that for C up to half a million, and twice the
# rounding of a softmax computed in half precision throughout.
ROUNDED_TOLERANCE = 2e-2

# This many rows tell at little cost that these are logits.
_GLANCE = 64
_FEW_DECIMALS = range(2, 6)
_FEW_ROWS = 20
_STANDARD = 1e-6  # how near to 0 and 1 the mean and the spread of standardized columns are
_WHOLE = re.compile(r"([+-]?)0*(\d+?)(?:\.0+)?")
_TRUTH = {
    **dict.fromkeys(("0", "false", "no", "neg", "negative"), 0),
    **dict.fromkeys(("1", "true", "yes", "pos", "positive"), 1),
}


def seem_probabilities(rows: Tensor) -> bool:
    """Return whether these rows, passed as logits, are probabilities.

    Two rows or more that are all >= 0 and sum to 1 are hardly logits. Rows of 0 and 1 alone
    may be the logits of a small example.

    >>> seem_probabilities(torch.tensor([[0.9, 0.1], [0.4, 0.6]]))
    True
    >>> seem_probabilities(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    False
    """
    rows = rows.detach().reshape(-1, rows.shape[-1])
    if len(rows) < 2 or rows.shape[1] < 2:
        return False
    tolerance = ROUNDED_TOLERANCE if rows.dtype in HALF_DTYPES else ROW_SUM_TOLERANCE
    for part in (rows[:_GLANCE], rows):
        wide: Any = part.float() if part.dtype in HALF_DTYPES else part
        sum_to_one = (wide.sum(dim=1) - 1).abs() <= tolerance  # NaN does not
        if not bool((sum_to_one & (wide.amin(dim=1) >= 0)).all()):
            return False
    return bool((rows % 1 != 0).any())


def first_bad_row(
    rows: Array, tolerance: float = ROW_SUM_TOLERANCE, whole: bool = True
) -> int | None:
    """Return the first row that is not a row of probabilities, None where all of them are.

    Rows that are not `whole` leave belief in "unknown" out: they may sum to less than 1.

    >>> first_bad_row(np.array([[0.5, 0.5], [0.5, 0.4]]))
    1
    >>> first_bad_row(np.array([[0.5, 0.5], [0.5, 0.4]]), whole=False)
    """
    sums = row_sums(rows)
    lowest = 1 - tolerance if whole else 0.0
    highest = 1 + tolerance
    if not (sums.min() >= lowest and sums.max() <= highest):  # a NaN is neither
        off = np.flatnonzero(~((sums >= lowest) & (sums <= highest)))
        off = off[~were_rounded(rows[off], sums[off])]
        if len(off):
            return int(off[0])
    return int((rows.min(axis=1) < 0).argmax()) if rows.min() < 0 else None


def were_rounded(rows: Array, sums: Array) -> Array:
    """Return which rows miss the sum of 1 by no more than the rounding of their values explains.

    >>> rows = np.array([[0.5, 0.5078125], [0.334, 0.667], [0.5, 0.508123]])
    >>> were_rounded(rows, row_sums(rows))
    array([ True,  True, False])
    """
    return were_half_precision(rows, sums) | were_written_with_few_decimals(rows, sums)


def were_half_precision(rows: Array, sums: Array, tolerance: float = ROUNDED_TOLERANCE) -> Array:
    """Return which rows sum to 1 within 0.02 and hold only values of float16 or of bfloat16."""
    wide = torch.as_tensor(rows)
    near = np.abs(sums - 1) <= tolerance
    exact = [(wide.to(half).to(wide.dtype) == wide).all(dim=1).numpy() for half in HALF_DTYPES]
    return (exact[0] | exact[1]) & near


def were_written_with_few_decimals(
    rows: Array, sums: Array, tolerance: float = ROUNDED_TOLERANCE
) -> Array:
    """Return which rows of d decimals sum to 1 within half a unit of the last for each class.

    No row may miss 1 by more than the tolerance.
    """
    matches = np.zeros(len(rows), np.bool_)
    near = np.flatnonzero(np.abs(sums - 1) <= 1.001 * tolerance)
    wide = rows[near].astype(np.float64)
    epsilon = float(np.finfo(rows.dtype).eps)
    for decimals in _FEW_DECIMALS:
        unit = 10.0**-decimals
        scaled = wide / unit
        off_whole = np.abs(scaled - np.rint(scaled))
        is_whole = np.max(off_whole, axis=1, initial=0) < 2 * epsilon / unit
        allowed = min(tolerance, 0.5 * unit * rows.shape[1])
        matches[near] |= is_whole & (np.abs(sums[near] - 1) <= 1.001 * allowed)
    return matches


def what_is_wrong(values: Array) -> str:
    """Return what keeps this row from being probabilities, and what to do, in words."""
    softmax = "if these are logits, apply softmax, or socrates.metrics.predict(logits)"
    if not np.isfinite(values).all():
        return "holds NaN or infinity, expected probabilities: drop the row or mend the model"
    if values.min() < 0:
        return f"holds {values.min():.6g}, expected values >= 0: {softmax}; else clip"
    with np.errstate(over="ignore"):
        total = f"sums to {values.sum():.6g}, expected 1 within {ROW_SUM_TOLERANCE}"
    return (
        f"{total}, or within {ROUNDED_TOLERANCE} where rounding explains it: {softmax}; "
        f"else divide each row by its sum"
    )


def check_probabilities(probs: Tensor, caller: str) -> None:
    """Raise unless every row is non-negative and sums to 1, within what rounding explains."""
    rows = probs.detach().reshape(-1, probs.shape[-1])
    array: Array = (rows.float() if rows.dtype in HALF_DTYPES else rows).numpy(force=True)
    bad = first_bad_row(array)
    if bad is not None:
        raise ValueError(f"{caller} needs probabilities: row {bad} {what_is_wrong(array[bad])}")


def open_labels(
    labels: ArrayLike,
    num_rows: int,
    num_classes: int,
    classes: Classes | None = None,
    positions: Array | None = None,
) -> Array:
    """Return the class number of each row, (N,) integers from 0 to num_classes - 1.

    Args:
        labels: (num_rows,) class numbers, booleans of two classes, or names of classes.
        num_rows: the number of rows that the labels belong to.
        num_classes: the number of classes.
        classes: the names of the classes in the order of the columns, where labels are names.
        positions: the rows to keep; all of them by default.

    >>> open_labels(["cat", "dog"], 2, 2, classes=["dog", "cat"])
    array([1, 0])
    """
    array = as_numpy(labels, "labels")
    if array.ndim != 1:
        raise ValueError(
            f"labels have shape {array.shape}, expected ({num_rows},): "
            f"take .argmax(1) of one-hot labels, .squeeze(1) of a column"
        )
    if len(array) != num_rows:
        raise ValueError(
            f"{len(array)} labels for {num_rows} rows of probs: expected one label per row"
        )
    had_missing = array.dtype.kind == "f" and bool(np.isnan(array).any())
    if positions is not None:
        array = array[positions]
    if array.dtype.kind in "fO":
        _refuse_missing(array, positions)
    if had_missing and (array == np.rint(array)).all():
        array = array.astype(np.intp)  # only what was missing made them floats
    if classes is not None:
        array = _numbers_of_names(array, class_names(classes, num_classes))
    if array.dtype.kind not in ("iub" if num_classes == 2 else "iu"):
        raise ValueError(
            f"labels have dtype {array.dtype}, expected class numbers: "
            f"convert them to integers, or name the columns with classes=[...]"
        )
    lowest = int(array.min())
    highest = int(array.max())
    if lowest < 0 or highest >= num_classes:
        wrong = lowest if lowest < 0 else highest
        advice = "drop unlabelled samples first"
        if lowest >= 0:
            advice = "do labels start at 0, are all classes in probs?"
        raise ValueError(
            f"labels hold {wrong}, expected 0 to {num_classes - 1} for {num_classes} classes: "
            f"{advice}"
        )
    return array.astype(np.intp, copy=False)


def class_names(classes: Classes, num_classes: int) -> list[Any]:
    """Return the names of the columns, in their order, each once."""
    values: Any = [classes] if isinstance(classes, str) else classes
    if not hasattr(values, "__len__") or isinstance(values, set | frozenset):
        raise ValueError(
            f"classes={values!r}, expected the names in the order of the columns: pass a list"
        )
    names: list[Any] = values.tolist() if hasattr(values, "tolist") else list(values)
    if len(names) != num_classes:
        raise ValueError(
            f"classes holds {len(names)} names for {num_classes} classes: "
            f"expected one for each column of probs, in their order"
        )
    repeated = [name for place, name in enumerate(names) if name in names[:place]]
    if repeated:
        raise ValueError(
            f"classes holds {repeated[0]!r} twice: expected the name of each column once"
        )
    return names


def _refuse_missing(labels: Array, positions: Array | None) -> None:
    """Raise for the first label without a value, by its place as passed in."""
    missing = [place for place, label in enumerate(labels.tolist()) if is_missing(label)]
    if missing:
        place = missing[0] if positions is None else int(positions[missing[0]])
        raise ValueError(f"labels hold no value at position {place}: drop unlabelled samples first")


def number_word(word: str) -> str:
    """Return a whole number without what may be written around it, other words as they are.

    >>> number_word("02"), number_word("2.0"), number_word("two")
    ('2', '2', 'two')
    """
    match = _WHOLE.fullmatch(word)
    return f"{'-' if match[1] == '-' else ''}{match[2]}" if match else word


def truth_of(word: str) -> int | None:
    """Return 1 for a word that means yes, 0 for no, None for others.

    >>> truth_of("TRUE"), truth_of("No"), truth_of("cat")
    (1, 0, None)
    """
    return _TRUTH.get(number_word(word).casefold())


def _numbers_of_names(labels: Array, names: list[Any]) -> Array:
    """Return the place of each label among the names.

    Numbers beside names that are words are class numbers already. A number that is a name is that
    name.
    """
    place: dict[Any, int] = {name: number for number, name in enumerate(names)}
    are_words = all(isinstance(name, str) for name in names)
    if labels.dtype.kind == "b" and are_words:
        return _numbers_of_booleans(labels, names)
    by_word = {number_word(str(name)): number for number, name in enumerate(names)}
    numbered = [name for name in by_word if name.lstrip("-").isdecimal()]
    if labels.dtype.kind in "iu" and are_words and not numbered:
        _refuse_reversed(labels, names)
        return labels
    if len(by_word) == len(names):
        # After the names themselves: 1, 1.0 and "1" are one name.
        place = {
            label: by_word[word]
            for label in {*labels.tolist()}
            if (word := number_word(str(label))) in by_word
        } | place
    try:
        return np.array([place[label] for label in labels.tolist()], np.intp)
    except KeyError as error:
        wrong: Any = error.args[0]
    close = get_close_matches(str(wrong), map(str, names), n=1)
    listed = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
    advice = f"did you mean {close[0]!r}?" if close else f"expected one of {listed}"
    raise ValueError(
        f"labels hold {wrong!r}, which is not among the {len(names)} names in classes: {advice}"
    )


def _numbers_of_booleans(labels: Array, names: list[str]) -> Array:
    """Return the class of true and false among two names that mean these, or raise."""
    meanings = [truth_of(name) for name in names]
    if {*meanings} != {0, 1} or len(names) != 2:
        raise ValueError(
            f"labels are true and false, which classes={names!r} do not say: pass names as labels, "
            "or class numbers"
        )
    return np.where(labels, meanings.index(1), meanings.index(0))


def _refuse_reversed(labels: Array, names: list[str]) -> None:
    """Raise for 0 and 1 beside names that mean the opposite of their places."""
    if [truth_of(name) for name in names] == [1, 0]:
        raise ValueError(
            f"labels are numbers, and classes={names!r}: is 1 the place of {names[1]!r}, or does "
            f"it mean {names[0]!r}? Pass names as labels"
        )


def seem_features(rows: Array, labels: Array) -> str:
    """Return what shows that these rows are features, not the outputs of a classifier.

    Outputs of a model have one column per class, and columns of their own mean and spread.

    >>> seem_features(np.random.default_rng(0).normal(size=(999, 64)), np.arange(999) % 10)
    '64 columns, but no label above 9 among 999'
    """
    count, width = rows.shape
    highest = int(labels.max())
    if count >= 10 * width and width >= 4 * (highest + 1):
        return f"{width} columns, but no label above {highest} among {count}"
    if count < _FEW_ROWS:
        return ""
    spreads = rows.std(axis=0)
    varying = rows[:, spreads > 0]
    if varying.size == 0 or len(np.unique(varying[:, 0])) <= 2:
        return ""
    if (
        np.abs(rows.mean(axis=0)).max() < _STANDARD
        and np.abs(spreads[spreads > 0] - 1).max() < _STANDARD
    ):
        return "every column has mean 0 and standard deviation 1"
    return ""
