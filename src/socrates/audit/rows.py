"""The rows that are judged, in the forms that metrics and scalers take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from socrates import metrics
from socrates.metrics import GroupGap, Prediction, Top
from socrates.metrics.predictions import Array, Reading
from socrates.metrics.scoring import CLIP

from .measure import Measured

WRONG_OR_RIGHT = ("wrong", "right")


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """N rows: logits (N, C), of probabilities their logarithms, and labels (N,).

    Where only confidence and correctness are known, the two classes are wrong and right, and `top` is about the second
    of them, whichever is larger. `reading` is that of an unknown last column, None where there is none. What has no
    probability has as much as the metrics count for it, so that all logits are finite.
    """

    logits: Array
    labels: Array
    classes: tuple[str, ...]
    reading: Reading | None
    of_confidence: bool
    weight: Array | None
    positions: Array
    groups: Mapping[str, Array]
    num_bins: int  # of the ECE

    @classmethod
    def of(cls, measured: Measured) -> JudgedRows:
        """The sample of a measured file."""
        rows, layout = measured.sample, measured.layout
        of_confidence = layout.kind == "confidence"
        values = np.stack([1 - rows.values, rows.values], axis=1) if of_confidence else rows.values
        logits = _finite(values) if layout.kind == "logits" else np.log(np.maximum(values, CLIP))
        labels = rows.labels.astype(np.int64)
        classes = WRONG_OR_RIGHT if of_confidence else layout.classes
        judged = (logits, labels, classes, measured.reading, of_confidence, rows.weight, rows.positions, rows.groups)
        return cls(*judged, measured.meter.num_bins)

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
        rows = {name: getattr(self, name)[index] for name in ("logits", "labels", "positions")}
        return replace(self, **rows, weight=weight, groups=groups)

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

    def ece(self, logits: Any = None) -> float:
        """The calibration error by its logits, or by others of the same rows."""
        return metrics.ece(self.top(logits), num_bins=self.num_bins)

    def worst_classes(self) -> tuple[GroupGap, ...]:
        """How far the confidence in each class is off, the surest first; none where answers are unknown or weighted."""
        if self.of_confidence or self.weight is not None:
            return ()
        return tuple(metrics.worst_classes(self.prediction(), self.labels, classes=self.classes))


def _finite(logits: Array) -> Array:
    """Logits with a number in place of the -infinity that masks a class."""
    if np.isfinite(logits).all():
        return logits
    return np.where(np.isneginf(logits), logits.max(axis=1, keepdims=True) + math.log(CLIP), logits)
