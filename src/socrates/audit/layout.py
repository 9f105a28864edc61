"""How the columns of a file of predictions are recognized by their names.

| content                     | columns (CSV, Parquet, JSON) or arrays (NPZ)                      |
|-----------------------------|-------------------------------------------------------------------|
| the true class              | label, labels, y, y_true, y_test, target, targets, true, truth,   |
|                             | gt, ground_truth, gold, actual, class, obs, true_label, ...; one  |
|                             | per row, or one-hot (a list, or label_0, label_1, ...)            |
| probabilities of each class | p0, p1, ...; prob_0, proba_cat, softmax_0; any other prefix with  |
|                             | a number or a class, or the name of the class alone, where rows   |
|                             | sum to 1                                                          |
| logits of each class        | logit_0, logit0, logits_cat, z0, z_0, log_prob_0, ...             |
| either, as a list per row   | probs, prob, p, proba, probabilities, softmax, scores, y_prob,    |
|                             | y_score, y_pred, preds, predictions or logits, logit, z           |
| either, by name in each row | {"cat": 0.9, ...} or [{"label": "cat", "score": 0.9}, ...]        |
| one number, of class 1      | the same names, score, p1, prob_1, or prob_yes                    |
| confidence alone            | confidence, conf or max_prob, with correct or is_correct, or with |
|                             | the true class and pred_label, predicted_label, pred, predicted,  |
|                             | prediction or y_pred                                              |
| the class "unknown"         | unknown, idk, abstain, alone or after p_, prob_, logit_; or the   |
|                             | last column, with unknown=True                                    |
| weights of the rows         | sample_weight, or the column passed as weight                     |

Upper and lower case do not matter. Labels are class names, or numbers where the columns have other
names than numbers. The number in the name of a column is its class, whatever the order of the
columns. Lists count from 0. Columns named after the classes must sum to 1 in each row; otherwise
their names must be passed. A list of another name is used if nothing else fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from .class_names import ClassNames, LabelMode

ContentKind = Literal["probabilities", "logits", "confidence"]
KINDS = ("probabilities", "logits", "confidence")
LABEL = (
    "label",
    "labels",
    "y",
    "y_true",
    "target",
    "targets",
    "true",
    "true_label",
    "true_labels",
    "true_class",
    "y_test",
    "y_val",
    "ytrue",
    "ytest",
    "truelabel",
    "trueclass",
    "truth",
    "gt",
    "ground_truth",
    "groundtruth",
    "gold",
    "gold_label",
    "label_id",
    "label_ids",
    "actual",
    "actual_label",
    "obs",
    "class",
    "classes",
)
PREDICTED = (
    "pred_label",
    "predicted_label",
    "predicted_class",
    "prediction_label",
    "pred_class",
    "pred",
    "preds",
    "predicted",
    "prediction",
    "predictions",
    "y_pred",
    "ypred",
    "y_hat",
    "yhat",
)
ID = (
    "id",
    "ids",
    "sample_id",
    "image_id",
    "row_id",
    "uid",
    "uuid",
    "key",
    "index",
    "idx",
    "file",
    "filename",
    "file_name",
    "path",
    "filepath",
    "image",
    "name",
)
UNNAMED_INDEX = ("", "unnamed: 0", "__index_level_0__")
CORRECT = ("correct", "is_correct")
CONFIDENCE = ("confidence", "conf", "max_prob", "prediction_score")
BINARY = ("0", "1")
UNKNOWN = ("unknown", "idk", "abstain")
WEIGHT = ("sample_weight",)
PROBABILITIES = (
    "probs",
    "prob",
    "p",
    "proba",
    "probabilities",
    "softmax",
    "scores",
    "score",
    "y_prob",
    "y_probs",
    "y_proba",
    "y_score",
    "y_scores",
    "y_pred_proba",
    "y_pred_prob",
    "pred_proba",
    "pred_prob",
    "pred_probs",
    "probability",
)
VALUES: dict[ContentKind, tuple[str, ...]] = {  # of all classes in one column, or of class 1 alone
    "probabilities": PROBABILITIES,
    "logits": ("logits", "logit", "z", "log_probs", "logprobs", "log_softmax", "rawprediction"),
}
OF_A_CLASS: dict[ContentKind, re.Pattern[str]] = {
    "probabilities": re.compile(
        r"(?:p|probs?|proba|probability|softmax)(?:[_ .-]?(\d+)|[_ .-](.+))", re.IGNORECASE
    ),
    "logits": re.compile(
        r"(?:logits?|z|log[_.-]?probs?|log[_.-]?softmax)(?:[_ .-]?(\d+)|[_ .-](.+))", re.IGNORECASE
    ),
}


def first_named(names: Iterable[str], words: Sequence[str]) -> str | None:
    """Return the column with the first of these names that exists; upper and lower case are equal.

    >>> first_named(["id", "Y", "Label"], LABEL)
    'Label'
    """
    by_lower_case = {name.lower(): name for name in reversed(list(names))}
    return next((by_lower_case[word] for word in words if word in by_lower_case), None)


def class_of(column: str) -> str:
    """Return the class that a column is named after.

    >>> class_of("p3"), class_of("prob_cat"), class_of("cat")
    ('3', 'cat', 'cat')
    """
    for pattern in OF_A_CLASS.values():
        if match := pattern.fullmatch(column):
            return str(int(match[1])) if match[1] else match[2]
    return column


@dataclass(frozen=True)
class Layout:
    """What a file holds, and in which columns.

    Args:
        kind: "probabilities", "logits", or "confidence" in answers of which no more is known than
            whether they are correct.
        columns: the columns of the values; of class 1 alone if `is_score`, one column of lists if
            `is_matrix`.
        classes: the names of the classes, in the order of the columns; empty for "confidence".
        unknown: whether belief in "unknown" follows the classes.
        label: the column of the true class; None if the labels are in a file of their own.
        predicted: the column of the predicted class, for "confidence" with labels.
        correct: the column of correctness, for "confidence" without labels.
        groups: columns whose values are looked at one by one.
        weight: the column of the weights of the rows.
        one_hot: the columns of labels where each class has one, or one column of lists.
        other_labels: columns that may be labels, too, and have to agree.
        mode: how labels mean classes.
        has_named_classes: whether the user named the classes.
    """

    kind: ContentKind
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
    one_hot: tuple[str, ...] = ()
    other_labels: tuple[str, ...] = ()
    mode: LabelMode = "name"
    has_named_classes: bool = False

    @property
    def words(self) -> str:
        """Say in one sentence what was understood.

        >>> Layout("probabilities", ("p0", "p1", "p2"), ("0", "1", "2"), label="y").words
        'probabilities of 3 classes (p0 to p2), labels in y'
        >>> Layout("confidence", ("confidence",), label="true_label", predicted="pred_label").words
        'confidence (confidence) of predictions that are correct where pred_label is true_label'
        """
        sentence = self._confidence_words() if self.kind == "confidence" else self._class_words()
        if self.weight:
            sentence += f", weights in {self.weight}"
        if self.groups:
            sentence += f", groups by {', '.join(self.groups)}"
        return sentence

    def _confidence_words(self) -> str:
        condition = f"{self.correct} says so"
        if self.predicted:
            condition = f"{self.predicted} is {self.label or 'the label'}"
        return f"confidence ({self.columns[0]}) of predictions that are correct where {condition}"

    def _class_words(self) -> str:
        columns = ", ".join(self.columns)
        if len(self.columns) > 2:
            columns = f"{self.columns[0]} to {self.columns[-1]}"
        label = self.label or ", ".join(self.one_hot)
        labels = f"labels in {label}" if label else "labels of their own file"
        if self.is_score:
            score = "the probability" if self.kind == "probabilities" else "the logit"
            return f"{score} of class {self.classes[1]} of two ({columns}), {labels}"
        unknown = " and of unknown, the last column" if self.unknown else ""
        return f"{self.kind} of {len(self.classes)} classes{unknown} ({columns}), {labels}"

    @property
    def carried(self) -> tuple[str, ...]:
        """Return the columns that are kept as words: groups, and answers beside confidence."""
        if self.predicted is None or self.predicted in self.groups:
            return self.groups
        return (*self.groups, self.predicted)

    @cached_property
    def names(self) -> ClassNames:
        """Return the names of the classes, and those of their columns."""
        has_heads = len(self.columns) >= len(self.classes) > 0 and not self.has_named_classes
        return ClassNames(self.classes, self.columns[: len(self.classes)] if has_heads else ())

    def number(self, word: str) -> int | None:
        """Return the class that a label means, None if it is none of the classes."""
        return self.names.number(word, self.mode)
