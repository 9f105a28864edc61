"""The numbers of a run's strangers, from the predictions that it keeps.

A run has strangers if its data have: images of none of its classes, or of a class that it was
trained without, to rehearse that it meets one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from socrates.data.unknown import UNKNOWN, of_training, shares_by_hash
from socrates.experiment import Experiment
from socrates.metrics import predict
from socrates.metrics.ood import auroc
from socrates.metrics.open_world import measure_open_world
from socrates.metrics.predictions import Reading
from socrates.predictor.description import usual_reading
from socrates.predictor.strangeness import STRANGE
from socrates.records import Run
from socrates.records.predictions import Predictions

SPLIT = UNKNOWN  # the name of the file of predictions that strangers have


def rehearsed(experiment: Experiment) -> str:
    """Return the class that a run was trained without, "" if there is none."""
    return str(dict(experiment.dataset.options).get("rehearse", "") or "")


def source_of(experiment: Experiment) -> str:
    """Return where the strangers of a run come from: a folder, or the class unknown of its data."""
    return str(dict(experiment.dataset.options).get("unknown") or UNKNOWN)


def kept_strangers(run: Run, epoch: int) -> Predictions | None:
    """Return what a run keeps of its strangers at an epoch, None if it has none."""
    if not run.predictions_path(SPLIT, epoch).is_file():
        return None
    return run.predictions(SPLIT, epoch)


def measure_strangers(run: Run, epoch: int) -> dict[str, dict[str, float]]:
    """Return the numbers of a run's strangers by score, {} if it has none.

    The scores are the confidence as trained and, if it was measured, the familiarity 1 - novelty.
    `counts` has the numbers of images, and the shares that are answered without a certificate:
    what is not too strange.
    """
    strangers = kept_strangers(run, epoch)
    if strangers is None:
        return {}
    known = run.predictions("test", epoch)
    unknown_class = known.logits.shape[1] > known.num_classes
    _, reading = usual_reading(unknown_class)
    confidence, correct = _confidence(known, reading)
    of_strangers, _ = _confidence(strangers, reading)
    numbers = {"confidence": measure_open_world(confidence, correct, of_strangers)}
    counts: dict[str, float] = {"strangers": len(of_strangers), "known": len(confidence)}
    if known.novelty is not None and strangers.novelty is not None:
        numbers["novelty"] = measure_open_world(-known.novelty, correct, -strangers.novelty)
        counts["strangers_answered"] = float((strangers.novelty <= STRANGE).mean())
        counts["known_answered"] = float((known.novelty <= STRANGE).mean())
    return {**numbers, "counts": counts}


def compare_training(trained: Run, control: Run, strangers: Any) -> dict[str, dict[str, float]]:
    """Return accuracy and AUROC of a run that strangers trained, and of its control.

    The control is the same run without. `strangers` are those of the data; both runs are measured
    by those that neither of them learned from.
    """
    _, measured = shares_by_hash(strangers, 2)
    new = ~of_training(strangers)[measured].numpy()
    rows = {"with": np.ones(int(new.sum()), dtype=bool), "without": new}
    numbers: dict[str, dict[str, float]] = {}
    for name, run in (("with", trained), ("without", control)):
        epoch = run.chosen_epoch()
        known = run.predictions("test", epoch)
        others = run.predictions(SPLIT, epoch)
        if len(others.labels) != len(rows[name]):
            raise ValueError(
                f"{run.directory} kept {len(others.labels)} strangers, expected "
                f"{len(rows[name])} of these data: too few of them, or they have changed"
            )
        _, reading = usual_reading(True)
        confidence, correct = _confidence(known, reading)
        of_strangers, _ = _confidence(others, reading)
        values = {"accuracy": float(correct.mean()), "strangers": float(new.sum())}
        values["confidence"] = auroc(confidence, of_strangers[rows[name]])
        if known.novelty is not None and others.novelty is not None:
            values["novelty"] = auroc(-known.novelty, -others.novelty[rows[name]])
        unknown, of_unknown = (
            torch.tensor(kept.logits).double().softmax(dim=1)[:, -1].numpy()
            for kept in (known, others)
        )
        values["unknown column"] = auroc(-unknown, -of_unknown[rows[name]])
        numbers[name] = values
    return numbers


def _confidence(kept: Predictions, reading: Reading | None) -> tuple[Any, Any]:
    """Return the confidence as trained, and whether each answer is correct."""
    prediction = predict(torch.tensor(kept.logits), unknown=reading)
    correct = np.asarray(prediction.predicted) == kept.labels
    return np.asarray(prediction.confidence), correct
