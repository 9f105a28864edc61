"""The strangers of a run in halves: one teaches its novelty score, one measures and certifies it.

An image is in a half by its hash, so that it never does both. All images of a rehearsed class only
measure.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from socrates.contracts import Split, Splits
from socrates.data.fingerprint import thumbnails_of
from socrates.data.unknown import shares_by_hash
from socrates.engine.open_world import SPLIT, rehearsed
from socrates.engine.strangers import measure_split
from socrates.experiment import Experiment
from socrates.predictor import Predictor
from socrates.records import Run


class DividedStrangers(NamedTuple):
    """Strangers that weigh the novelty score, if any do, and those that only measure it."""

    teach: Split | None
    measure: Split | None

    @property
    def seen(self) -> Tensor | None:
        """Return thumbnails of the images that taught, which cannot certify any more."""
        return None if self.teach is None else thumbnails_of(self.teach)


def divided(experiment: Experiment, splits: Splits) -> DividedStrangers:
    """Divide the strangers of a run in halves; those of a rehearsal teach nothing."""
    strangers: Any = splits.unknown
    if strangers is None:
        return DividedStrangers(None, None)
    if rehearsed(experiment):
        return DividedStrangers(None, strangers)
    teach, measure = shares_by_hash(strangers, 2)
    if not len(teach) or not len(measure):  # one or two images
        return DividedStrangers(None, strangers)
    return DividedStrangers(strangers.subset(teach), strangers.subset(measure))


def keep_strangers(run: Run, predictor: Predictor, strangers: Split) -> None:
    """Write what the model makes of strangers beside the predictions for the test data."""
    logits, novelty = measure_split(predictor.model, predictor.novelty, strangers)
    labels = np.full(len(logits), len(predictor.classes))
    values = None if novelty is None else novelty.numpy()
    epoch = predictor.about.epoch
    run.save_predictions(SPLIT, epoch, logits.numpy(), labels, len(predictor.classes), values)
