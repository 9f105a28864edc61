"""The rows that are judged, in the forms that metrics and scalers take."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from socrates import metrics
from socrates.metrics import GroupGap, Prediction, Top
from socrates.metrics.inputs import open_top
from socrates.metrics.predictions import Array, Reading
from socrates.metrics.scoring import CLIP
from socrates.scaling import Scaler

from .columns import Layout
from .measure import Measured, predictions
from .sample import Sample


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgedRows(Sample):
    """A sample of N rows: probabilities or logits (N, C), and labels (N,).

    Where only confidence and correctness are known, the two columns are the probabilities of wrong and right, and `top`
    is about the second of them, whichever is larger. `reading` is that of an unknown last column, None without one.
    """

    layout: Layout
    reading: Reading | None
    num_bins: int  # of the ECE

    @classmethod
    def of(cls, measured: Measured) -> JudgedRows:
        """The sample of a measured file."""
        rows, layout = measured.sample, measured.layout
        values = np.stack([1 - rows.values, rows.values], axis=1) if layout.kind == "confidence" else rows.values
        values = _finite(values) if layout.kind == "logits" else values
        groups = {name: rows.groups[name] for name in measured.groups}
        judged = values, rows.labels.astype(np.int64), rows.positions, groups, rows.weight
        return cls(*judged, layout=layout, reading=measured.reading, num_bins=measured.meter.num_bins)

    @property
    def of_confidence(self) -> bool:
        """Whether confidence and correctness are all that is known."""
        return self.layout.kind == "confidence"

    @property
    def has_unknown(self) -> bool:
        """Whether the last column is belief in unknown."""
        return self.reading is not None

    @property
    def from_probs(self) -> bool:
        """Whether scalers are given probabilities."""
        return self.layout.kind != "logits"

    def prediction(self, scaler: Scaler | None = None) -> Prediction | Array:
        """What the rows say, as they are or scaled."""
        if scaler is not None:
            return metrics.predict(scaler(self.values, from_probs=self.from_probs), self.reading)
        return self.values if self.of_confidence else predictions(self.values, self.layout, self.reading)

    def top(self, scaler: Scaler | None = None) -> Top:
        """Confidence and correctness of the rows, as they are or scaled."""
        said = self.prediction(scaler)
        if not self.of_confidence:
            return open_top(said, self.labels, sample_weight=self.weight)
        probs = np.asarray(said.probs if isinstance(said, Prediction) else said)
        return Top.of(probs[:, 1], self.labels == 1, self.weight)

    def ece(self, scaler: Scaler | None = None) -> float:
        """The calibration error of the rows, as they are or scaled."""
        return metrics.ece(self.top(scaler), num_bins=self.num_bins)

    def worst_classes(self) -> tuple[GroupGap, ...]:
        """How far the confidence in each class is off, the surest first; none where answers are unknown or weighted."""
        if self.of_confidence or self.weight is not None:
            return ()
        return tuple(metrics.worst_classes(self.prediction(), self.labels, classes=self.layout.classes))


def _finite(logits: Array) -> Array:
    """Logits with a number in place of the -infinity that masks a class."""
    if np.isfinite(logits).all():
        return logits
    return np.where(np.isneginf(logits), logits.max(axis=1, keepdims=True) + math.log(CLIP), logits)
