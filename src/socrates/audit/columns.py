"""What the columns of a file of predictions mean, by their names, and the words that say so.

| content                     | columns (CSV, Parquet, JSONL) or arrays (NPZ)                                         |
|-----------------------------|---------------------------------------------------------------------------------------|
| the true class              | label, labels, y, y_true, target, targets, true, true_label, true_class               |
| probabilities of each class | p0, p1, ...; also p_0, prob_0, proba_0, softmax_0, prob_cat; or called as the classes |
| logits of each class        | logit_0, logit0, logits_cat, z0, z_0, ...                                             |
| either, as a list in a row  | probs, prob, p, proba, probabilities, softmax, scores, y_prob, y_score                |
|                             | or logits, logit, z                                                                   |
| one number, of class 1      | the same names, score, p1, p_1 or prob_1                                              |
| confidence alone            | confidence, conf or max_prob, with correct or is_correct, or with the true class and  |
|                             | pred_label, predicted_label, pred, predicted, prediction or y_pred                    |
| belief in "unknown"         | unknown, idk, abstain, alone or after p_, prob_, logit_; or the last column, if told  |
| weights of the rows         | sample_weight, or the column that is told                                             |

Names are read in any case of letters. Labels are names of classes or numbers, which count from 0 unless the columns
count from 1. Columns that are called as the classes are must sum to 1 in each row; else their names have to be told.
A list of another name is taken if nothing else is found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from socrates.metrics.predictions import Array

from .table import MISSING, Coded

Kind = Literal["probabilities", "logits", "confidence"]
KINDS = ("probabilities", "logits", "confidence")
LABEL = ("label", "labels", "y", "y_true", "target", "targets", "true", "true_label", "true_class")
PREDICTED = ("pred_label", "predicted_label", "pred", "predicted", "prediction", "y_pred")
CORRECT = ("correct", "is_correct")
CONFIDENCE = ("confidence", "conf", "max_prob")
UNKNOWN = ("unknown", "idk", "abstain")
WEIGHT = ("sample_weight",)
PROBABILITIES = ("probs", "prob", "p", "proba", "probabilities", "softmax", "scores", "score", "y_prob", "y_score")
VALUES: dict[Kind, tuple[str, ...]] = {  # of all classes in one column, or of class 1 alone
    "probabilities": PROBABILITIES,
    "logits": ("logits", "logit", "z"),
}
OF_A_CLASS: dict[Kind, re.Pattern[str]] = {
    "probabilities": re.compile(r"(?:p|probs?|proba|probability|softmax)(?:[_ .-]?(\d+)|[_ .-](.+))", re.IGNORECASE),
    "logits": re.compile(r"(?:logits?|z)(?:[_ .-]?(\d+)|[_ .-](.+))", re.IGNORECASE),
}
NO_CLASS = -2  # the number of a label that is none of the classes


@dataclass(frozen=True)
class Layout:
    """What a file holds, and in which columns.

    Args:
        kind: "probabilities", "logits", or "confidence" (with correctness, of predictions of which no more is known).
        classes: the names of the classes, in the order of the columns; empty for "confidence".
        unknown: whether belief in "unknown" stands behind the classes.
        columns: the columns of the values; of class 1 alone where `is_score`, one column of lists where `is_matrix`.
        label: the column of the true class; None where the labels come from a file of their own.
        predicted: the column of the predicted class, of "confidence" with labels.
        correct: the column of correctness, of "confidence" without.
        groups: columns whose values are looked at one by one.
        weight: the column of the weights of the rows.
    """

    kind: Kind
    columns: tuple[str, ...]
    classes: tuple[str, ...] = ()
    unknown: bool = False
    label: str | None = None
    predicted: str | None = None
    correct: str | None = None
    groups: tuple[str, ...] = ()
    weight: str | None = None
    is_matrix: bool = False
    is_score: bool = False

    @property
    def words(self) -> str:
        """One sentence that says what was understood.

        >>> Layout("probabilities", ("p0", "p1", "p2"), ("0", "1", "2"), label="y").words
        'probabilities of 3 classes (p0 to p2), labels in y'
        >>> Layout("confidence", ("confidence",), label="true_label", predicted="pred_label").words
        'confidence (confidence) of predictions that are correct where pred_label is true_label'
        """
        first, last = self.columns[0], self.columns[-1]
        place = first if len(self.columns) == 1 else f"{first}{' to ' if len(self.columns) > 2 else ', '}{last}"
        labels = f"labels in {self.label}" if self.label else "labels of their own file"
        if self.kind == "confidence":
            where = f"{self.predicted} is {self.label or 'the label'}" if self.predicted else f"{self.correct} says so"
            said = f"confidence ({place}) of predictions that are correct where {where}"
        elif self.is_score:
            score = "the probability" if self.kind == "probabilities" else "the logit"
            said = f"{score} of class {self.classes[1]} of two ({place}), {labels}"
        else:
            known = f"{len(self.classes)} classes" + (" and of unknown, the last column" if self.unknown else "")
            said = f"{self.kind} of {known} ({place}), {labels}"
        said += f", weights in {self.weight}" if self.weight else ""
        return said + (f", groups by {', '.join(self.groups)}" if self.groups else "")

    @property
    def carried(self) -> tuple[str, ...]:
        """The groups; with them the answers, where these stand beside confidence and nothing else tells them."""
        return tuple(dict.fromkeys((*self.groups, self.predicted))) if self.predicted else self.groups

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of a class by its name, and by its position where the names are not numbers themselves."""
        named = {name: place for place, name in enumerate(self.classes)}
        if all(name.isdecimal() for name in self.classes):
            return named
        return {str(place): place for place in range(len(self.classes))} | named

    def class_numbers(self, labels: Coded) -> Array:
        """The class of each label, `MISSING` where there is none, `NO_CLASS` where it is none of the classes.

        >>> pets = Layout("probabilities", ("cat", "dog"), ("cat", "dog"))
        >>> pets.class_numbers(Coded.of(["dog", 0, None, "bird", True]))
        array([ 1,  0, -1, -2,  1])
        """
        answers = {"false": 0, "no": 0, "true": 1, "yes": 1} if len(self.classes) == 2 else {}
        numbers = [self.numbers.get(name, answers.get(name.lower(), NO_CLASS)) for name in labels.names]
        return np.array([*numbers, MISSING])[labels.codes]
