"""Every metric of a run from its saved logits alone: no data, no model."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import torch
from torch import Tensor

from socrates import metrics
from socrates.metrics.predictions import Reading
from socrates.records import Evaluation, Run
from socrates.scaling import SCALERS

UNBINNED = (metrics.accuracy, metrics.nll, metrics.brier, metrics.smooth_ece, metrics.aurc)
BINNED = (metrics.ece, metrics.mce, metrics.ada_ece, metrics.cw_ece, metrics.debiased_ece)


def evaluate(run: Run, epoch: int | None = None) -> Evaluation:
    """Metrics of val and test for each scaler, fitted on val, and each reading of the unknown class.

    Its `parameters[scaler]` are the single numbers that were fitted, such as the temperature. The epoch is the last one
    kept, unless told.
    """
    kept = run.kept_epochs()
    if not kept:
        raise ValueError(f"{run.directory} holds no saved logits yet: train it to a kept epoch first")
    epoch = kept[-1] if epoch is None else epoch
    stored = {name: run.predictions(name, epoch) for name in ("val", "test")}
    splits = {name: (torch.tensor(part.logits), torch.tensor(part.labels).long()) for name, part in stored.items()}
    num_bins, num_classes = run.experiment.num_bins, stored["val"].num_classes
    unknown = metrics.has_unknown(splits["val"][0], num_classes)
    readings = tuple(metrics.READINGS) if unknown else (None,)
    usable: dict[str, Any] = {name: make() for name, make in SCALERS.items() if unknown or not make.needs_unknown_class}
    if not all(bool(torch.isfinite(logits).all()) for logits, _ in splits.values()):
        skipped = dict.fromkeys(("none", *usable), "the run diverged: its logits are not finite")
        return Evaluation(epoch, num_bins, unknown, {}, skipped)

    def read(logits: Tensor, labels: Tensor) -> dict[str, dict[str, float]]:
        return {reading or "plain": every_metric(logits, labels, reading, num_bins) for reading in readings}

    results: dict[str, Any] = {"none": {split: read(*labelled) for split, labelled in splits.items()}}
    skipped: dict[str, str] = {}
    parameters: dict[str, dict[str, float]] = {}
    for name, scaler in usable.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a limit without optimum is a result here, and shows in the numbers
                scaler.fit(*splits["val"], unknown_class=unknown)
        except ValueError as error:
            skipped[name] = str(error)
            continue
        numbers = {key: float(value) for key, value in scaler.named_buffers() if value.numel() == 1}
        parameters |= {name: numbers} if numbers else {}
        results[name] = {split: read(scaler(logits), labels) for split, (logits, labels) in splits.items()}
    return Evaluation(epoch, num_bins, unknown, results, skipped, parameters)


def every_metric(logits: Tensor, labels: Tensor, reading: Reading | None, num_bins: int) -> dict[str, float]:
    """Every metric of one split under one reading, and the ECE that a perfectly calibrated model would measure."""
    prediction = metrics.predict(logits, unknown=reading)
    values = {metric.__name__: metric(prediction, labels) for metric in UNBINNED}
    values |= {metric.__name__: metric(prediction, labels, num_bins) for metric in BINNED}
    values["ece_floor"] = metrics.floor(partial(metrics.ece, num_bins=num_bins), prediction, num_draws=20)
    values["unknown_share"] = prediction.unknown_share
    return values
