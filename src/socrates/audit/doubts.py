"""Refuse a reading of a whole file that cannot be right, or that another one beats by far."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from socrates.arrays.open import Array

from .class_names import alphabetical
from .faults import FAULTS, NEGATIVE, NO_LABEL, OTHER_LABEL, RANGE, SUM
from .layout import Layout
from .measure import Measurement
from .predictions import PredictionFile
from .read.columns import FEW_ODD, FEW_PERCENT, MISSING_WORDS

FAR_BETTER = 0.2  # of the accuracy
BETTER = 0.1  # where this reading is no better than chance
MANY_ROWS = 20  # that chance does not sort
SOME_ROWS = 20_000
SURE = 0.001  # the largest p-value of a sign test


def refuse_misunderstood(file: PredictionFile, total: Measurement) -> None:
    """Raise if it is not some rows that are wrong, but what was understood of the file."""
    if not total.num_read:
        weight = " of a weight above 0" if file.layout.weight else ""
        raise ValueError(f"{file.path} holds no rows{weight}: nothing to measure")
    _refuse_percent(file, total)
    _refuse_shifted_labels(file, total)
    _refuse_other_score(file, total)
    _refuse_missing_class(file, total)
    _refuse_mostly_bad(file, total)
    _refuse_other_labels(file, total)
    _refuse_other_values(file, total)
    _refuse_sorted(file, total)
    _refuse_beaten(file, total)


def _refuse_percent(file: PredictionFile, total: Measurement) -> None:
    """Raise if a probability lies between 1 and 100."""
    if total.percents:
        column = file.layout.columns[0]
        raise ValueError(
            f"{total.percents} of {total.num_read} rows of {file.path} hold a number outside 0 to "
            f"1 in {column}, up to 100: are they percentages? Divide {column} by 100"
        )


def _refuse_shifted_labels(file: PredictionFile, total: Measurement) -> None:
    """Raise if no label is of the first class, and one is beyond the last or before the first."""
    classes = file.layout.classes
    if not classes or total.meter.state()["class_bins"][2, 0].any():
        return
    odd = next((label for label in (str(len(classes)), "-1") if total.others[label]), None)
    if odd is None:
        return
    places = [place for place in total.bad.first if repr(odd) in place[1]]
    where = f", and {total.bad.unit} {places[0][0]} {places[0][1]}" if places else ""
    names = [str(number + (odd != "-1")) for number in range(min(3, len(classes)))]
    raise ValueError(
        f"no label of {file.path} is {classes[0]}, and {total.others[odd]} are {odd!r}{where}: do "
        f"labels count from 1, or are they -1 and 1? Count them from 0, or name the classes in the "
        f"order of the columns, classes={names}"
    )


def _refuse_other_score(file: PredictionFile, total: Measurement) -> None:
    """Raise if the labels beside a score of class 1 are often of other classes."""
    layout = file.layout
    others = total.bad.reasons[OTHER_LABEL]
    if layout.is_score and 10 * others > total.num_read:
        raise ValueError(
            f"{others} of {total.num_read} labels of {file.path} are neither "
            f"{' nor '.join(layout.classes)}, read as {layout.words}: pass both names, "
            "classes=['NEGATIVE', 'POSITIVE'], or say kind='confidence' with "
            f"columns={list(layout.columns)} if it is the confidence in an answer"
        )


def _refuse_missing_class(file: PredictionFile, total: Measurement) -> None:
    """Raise if a class is called None, no label is, and labels are missing: null may be the class.

    Where some labels have that name, the missing ones are missing.
    """
    missing = total.bad.reasons[NO_LABEL]
    counts = total.meter.state()["class_bins"][2] if file.layout.classes else ()
    for name, count in zip(file.layout.classes, counts, strict=False):
        if missing and name in MISSING_WORDS and not count.any():
            raise ValueError(
                f"{missing} of {total.num_read} rows of {file.path} have no label, and none has "
                f"the label {name!r}, which is a class: write the name of that class in its rows, "
                "or drop the rows that have no label"
            )


def _refuse_mostly_bad(file: PredictionFile, total: Measurement) -> None:
    """Raise if more than half of the rows are bad."""
    bad = total.bad
    if 2 * bad.count <= total.num_read:
        return
    fault, count = bad.reasons.most_common(1)[0]
    line, reason = bad.first[0]
    advice = FAULTS[fault]
    if fault == OTHER_LABEL and file.layout.correct:
        advice = f"expected 1 and 0, or true and false in {file.layout.correct}"
    raise ValueError(
        f"{bad.count} of {total.num_read} rows of {file.path} are bad, read as "
        f"{file.layout.words}. The reason for {count} of them: each {fault} (the first of all, "
        f"{bad.unit} {line}, {reason}): {advice}"
    )


def _refuse_other_labels(file: PredictionFile, total: Measurement) -> None:
    """Raise if more than a few percent of the labels are none of the classes."""
    others = total.bad.reasons[OTHER_LABEL]
    if others <= max(1, FEW_PERCENT * total.num_read):
        return
    classes = file.layout.classes
    shown = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
    labels = ", ".join(repr(label) for label, _ in total.others.most_common(3))
    raise ValueError(
        f"{others} of {total.num_read} labels of {file.path} are none of the classes ({shown}), "
        f"such as {labels}: pass the names of the classes in the order of the columns, "
        "classes=['FIRST', 'SECOND'], or name the columns, columns=['FIRST', 'SECOND']"
    )


def _refuse_other_values(file: PredictionFile, total: Measurement) -> None:
    """Raise if more than a few percent of the rows are numbers, but no probabilities."""
    reasons = total.bad.reasons
    fault = max((SUM, NEGATIVE, RANGE), key=reasons.__getitem__)
    if reasons[fault] <= max(FEW_ODD, FEW_PERCENT * total.num_read):
        return
    line, reason = total.bad.first[0]
    advice = "write more digits, or divide each row by its sum" if fault == SUM else FAULTS[fault]
    raise ValueError(
        f"{reasons[fault]} of {total.num_read} rows of {file.path} are no probabilities, read as "
        f"{file.layout.words}: each {fault} (the first bad row, {total.bad.unit} {line}, "
        f"{reason}), so what is left would be of another kind: {advice}"
    )


def _refuse_sorted(file: PredictionFile, total: Measurement) -> None:
    """Raise if the values of each row fall from the first to the last, far from calibrated.

    A model of a common first class may always believe in it, but then it is about as often right.
    """
    layout = file.layout
    count = len(layout.classes)
    is_named = layout.has_named_classes or not layout.names.are_numbers
    if layout.kind == "confidence" or is_named or count < 3 or total.num_rows < MANY_ROWS:
        return
    parts = total.reservoir.kept
    if not all((np.diff(part.values[:, :count], axis=1) <= 0).all() for part in parts):
        return
    if total.meter.compute()["ece"] > BETTER:
        raise ValueError(
            f"the values of each row of {file.path} fall from the first class to the last, read "
            f"as {layout.words}: were they sorted, as topk and sort return them? Write them in the "
            f"order of the classes; if they are, name these, classes={[*layout.classes[:3]]}"
        )


def _refuse_beaten(file: PredictionFile, total: Measurement) -> None:
    """Raise if labels that mean other classes make the predictions right far more often."""
    layout = file.layout
    if layout.kind == "confidence" or layout.has_named_classes or not total.num_rows:
        return
    predicted, labels = _some_rows(total)
    right = predicted == labels
    is_poor = _mean_by_class(right, labels) <= 1 / len(layout.classes) >= right.mean()
    best = max(
        ((predicted == numbers[labels], words) for words, numbers in _other_readings(layout)),
        key=lambda reading: reading[0].mean(),
        default=None,
    )
    if best is None:
        return
    other, words = best
    gain = float(other.mean() - right.mean())
    is_far = gain >= FAR_BETTER or (
        is_poor and (gain >= BETTER or other.mean() >= 3 * right.mean())
    )
    if is_far and _is_sure(int((other & ~right).sum()), int((right & ~other).sum())):
        raise ValueError(
            f"{file.path}, read as {layout.words}: {right.mean():.1%} of the answers are right, "
            f"but {other.mean():.1%} if {words}. Name the classes in the order of the columns, as "
            f"the labels call them, classes={[*layout.classes[:3]]}"
        )


def _some_rows(total: Measurement) -> tuple[Array, Array]:
    """Return the answers and labels of some rows from all over the file."""
    count = len(total.layout.classes)
    parts = total.reservoir.kept
    step = 1 + sum(map(len, parts)) // SOME_ROWS
    answers = [part.values[::step, :count].argmax(axis=1) for part in parts]
    return np.concatenate(answers), np.concatenate([part.labels[::step] for part in parts])


def _other_readings(layout: Layout) -> Iterator[tuple[str, Array]]:
    """Yield what else labels may mean: in words, and the class of each number (-1 if none)."""
    count = len(layout.classes)
    names = layout.names
    if layout.mode == "meaning" and not layout.is_score:
        return
    if layout.mode == "name" and not names.are_numbers and not layout.is_score:
        return
    classes = np.arange(count)
    if not names.are_numbers and count > 2:
        yield (
            "labels number the names in alphabetical order",
            np.array(alphabetical(layout.classes)),
        )
    yield "the classes are reversed", classes[::-1]
    yield "labels count from 1 (shifted by one)", classes - 1
    yield "labels are shifted by one", np.where(classes + 1 < count, classes + 1, -1)
    if names.are_numbers and count > 10:
        order = sorted(range(count), key=str)
        yield "the columns are in the order of text (0, 1, 10, 2, ...)", np.argsort(order)
        yield "the labels are in the order of text (0, 1, 10, 2, ...)", np.array(order)


def _mean_by_class(right: Array, labels: Array) -> float:
    """Return the mean over the classes of the share that is right, which no rare class escapes."""
    counts = np.bincount(labels)
    shares = np.bincount(labels, right)[counts > 0] / counts[counts > 0]
    return float(shares.mean())


def _is_sure(wins: int, losses: int) -> bool:
    """Return whether chance would hardly give this many more wins than losses (a sign test)."""
    total = wins + losses
    if total > 1000:
        return wins - losses > 4 * math.sqrt(total)
    tail = sum(math.comb(total, count) for count in range(wins, total + 1))
    return tail <= SURE * 2**total
