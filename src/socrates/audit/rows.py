"""The rows that are judged, in the forms that metrics and scalers take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from socrates import metrics
from socrates.metrics import GroupGap, Prediction, Top
from socrates.metrics.predictions import Reading

from .measure import Measured

Array = NDArray[Any]
TINY = 1e-30  # the probability of what has none, for logarithms
WRONG_OR_RIGHT = ("wrong", "right")


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """N rows: logits (N, C), of probabilities their logarithms, and labels (N,).

    Where only confidence and correctness are known, the two classes are wrong and right, and `top` is about the second
    of them, whichever is larger. `reading` is that of an unknown last column, None where there is none.
    """

    logits: Array
    labels: Array
    classes: tuple[str, ...]
    reading: Reading | None
    of_confidence: bool
    weight: Array | None
    positions: Array
    groups: Mapping[str, Array]

    @classmethod
    def of(cls, measured: Measured) -> JudgedRows:
        """The sample of a measured file."""
        rows, layout = measured.sample, measured.layout
        of_confidence = layout.kind == "confidence"
        values = np.stack([1 - rows.values, rows.values], axis=1) if of_confidence else rows.values
        logits = values if layout.kind == "logits" else np.log(np.maximum(values, TINY))
        labels = rows.labels.astype(np.int64)
        classes = WRONG_OR_RIGHT if of_confidence else layout.classes
        return cls(logits, labels, classes, measured.reading, of_confidence, rows.weight, rows.positions, rows.groups)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def has_unknown(self) -> bool:
        """Whether the last column is belief in unknown."""
        return self.reading is not None

    def take(self, index: Any) -> JudgedRows:
        """The rows at these positions."""
        weight = None if self.weight is None else self.weight[index]
        groups = {name: of[index] for name, of in self.groups.items()}
        rows = (self.logits[index], self.labels[index], self.classes, self.reading, self.of_confidence)
        return JudgedRows(*rows, weight, self.positions[index], groups)

    def prediction(self, logits: Any = None) -> Prediction:
        """What its logits say, or others of the same rows."""
        return metrics.predict(self.logits if logits is None else logits, self.reading)

    def top(self, logits: Any = None) -> Top:
        """Confidence and correctness by its logits, or by others of the same rows."""
        prediction = self.prediction(logits)
        if self.of_confidence:
            confidence, correct = np.asarray(prediction.probs)[:, 1], self.labels == 1
        else:
            confidence, correct = prediction.confidence, np.asarray(prediction.predicted) == self.labels
        return Top.of(confidence, correct, self.weight)

    def worst_classes(self) -> tuple[GroupGap, ...]:
        """How far the confidence in each class is off, the surest first; none where answers are unknown or weighted."""
        if self.of_confidence or self.weight is not None:
            return ()
        return tuple(metrics.worst_classes(self.prediction(), self.labels, classes=self.classes))
