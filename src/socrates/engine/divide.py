"""The strangers of a run in halves: one teaches its novelty score, one measures and certifies it.

An image is in a half by its hash, so that it never does both. A third of each half is taken out of
it where strangers train the unknown column. All images of a rehearsed class only measure.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from socrates.contracts import Split, Splits
from socrates.data.fingerprint import thumbnails_of
from socrates.data.unknown import of_training, shares_by_hash
from socrates.engine.open_world import SPLIT, rehearsed
from socrates.engine.strangers import measure_split
from socrates.experiment import Experiment
from socrates.predictor import Predictor
from socrates.records import Run


class DividedStrangers(NamedTuple):
    """Strangers that weigh the novelty score, if any do, and those that only measure it."""

    teach: Split | None
    measure: Split | None
    trained: Split | None = None  # those that trained the unknown column

    @property
    def seen(self) -> Tensor | None:
        """Return thumbnails of the images that taught, which cannot certify any more."""
        used = [thumbnails_of(part) for part in (self.teach, self.trained) if part is not None]
        return torch.cat(used) if used else None


def divided(experiment: Experiment, splits: Splits) -> DividedStrangers:
    """Divide the strangers of a run in halves; those of a rehearsal teach nothing."""
    strangers: Any = splits.unknown
    if strangers is None:
        return DividedStrangers(None, None)
    if rehearsed(experiment):
        return DividedStrangers(None, strangers)
    teach, measure = shares_by_hash(strangers, 2)
    trained = None
    if experiment.unknown_trains:
        trains = of_training(strangers)
        trained = strangers.subset(torch.nonzero(trains).flatten())
        teach = teach[~trains[teach]]
        measure = measure[~trains[measure]]
    if not len(teach) or not len(measure):  # a few images
        rest = strangers if trained is None else strangers.subset(torch.cat([teach, measure]))
        return DividedStrangers(None, rest, trained)
    return DividedStrangers(strangers.subset(teach), strangers.subset(measure), trained)


def keep_strangers(run: Run, predictor: Predictor, strangers: Split) -> None:
    """Write what the model makes of strangers beside the predictions for the test data."""
    logits, novelty = measure_split(predictor.model, predictor.novelty, strangers)
    labels = np.full(len(logits), len(predictor.classes))
    values = None if novelty is None else novelty.numpy()
    epoch = predictor.about.epoch
    run.save_predictions(SPLIT, epoch, logits.numpy(), labels, len(predictor.classes), values)
