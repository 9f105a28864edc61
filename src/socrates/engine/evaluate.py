"""Every metric of a run from its saved logits alone: no data, no model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from socrates.metrics import (
    accuracy,
    ada_ece,
    aurc,
    brier,
    cw_ece,
    debiased_ece,
    ece,
    floor,
    mce,
    nll,
    predict,
    smooth_ece,
)
from socrates.metrics.predictions import READINGS
from socrates.records import Evaluation, Predictions, Run
from socrates.scaling import MatrixScaling, ReadoutScaling, TemperatureScaling, VectorScaling

BINNED = {"ece": ece, "mce": mce, "ada_ece": ada_ece, "cw_ece": cw_ece, "debiased_ece": debiased_ece}
UNBINNED = {"accuracy": accuracy, "nll": nll, "brier": brier, "smooth_ece": smooth_ece, "aurc": aurc}
SCALERS: dict[str, Callable[[], Any]] = {
    "none": torch.nn.Identity,
    "temperature": TemperatureScaling,
    "vector": VectorScaling,
    "matrix": MatrixScaling,
    "readout": ReadoutScaling,  # for models with an unknown class only
}


def evaluate(run: Run, epoch: int | None = None) -> Evaluation:
    """Metrics of val and test for each scaler, fitted on val, and each reading of the unknown class.

    Its `parameters[scaler]` are the single numbers that were fitted, such as the temperature. The epoch is the last one
    kept, unless told.
    """
    kept = run.kept_epochs()
    if not kept:
        raise ValueError(f"{run.directory} holds no saved logits yet: train it to a kept epoch first")
    epoch = kept[-1] if epoch is None else epoch
    splits = {name: run.predictions(name, epoch) for name in ("val", "test")}
    num_bins = run.experiment.num_bins
    unknown = has_unknown(splits["val"])
    results: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    parameters: dict[str, dict[str, float]] = {}
    finite = all(np.isfinite(part.logits).all() for part in splits.values())
    for name, make in SCALERS.items():
        if name == "readout" and not unknown:
            continue
        if not finite:
            skipped[name] = "the run diverged: its logits are not finite"
            continue
        try:
            scaler = make()
            scaled = scale(scaler, splits)
        except ValueError as error:
            skipped[name] = str(error)
            continue
        fitted = {key: float(value) for key, value in scaler.named_buffers() if value.numel() == 1}
        parameters |= {name: fitted} if fitted else {}
        readings = READINGS if unknown else (None,)
        results[name] = {
            split: {reading or "plain": metrics(part, reading, num_bins) for reading in readings}
            for split, part in scaled.items()
        }
    return Evaluation(epoch, num_bins, unknown, results, skipped, parameters)


def has_unknown(predictions: Predictions) -> bool:
    """Whether the last column is the unknown class."""
    return predictions.logits.shape[1] > predictions.num_classes


def scale(scaler: Any, splits: dict[str, Predictions]) -> dict[str, Predictions]:
    """The splits with logits scaled by what was fitted on val."""
    if not isinstance(scaler, torch.nn.Identity):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a limit without optimum is a result here, and shows in the numbers
            labels = torch.tensor(splits["val"].labels.astype(np.int64))
            scaler.fit(_tensor(splits["val"].logits), labels, unknown_class=has_unknown(splits["val"]))
    scaled: dict[str, Predictions] = {}
    for name, part in splits.items():
        scaled[name] = part._replace(logits=scaler(_tensor(part.logits)).numpy())
    return scaled


def metrics(part: Predictions, reading: Any, num_bins: int) -> dict[str, float]:
    """Every metric of one split under one reading, and the ECE that a perfectly calibrated model would measure."""
    prediction = predict(_tensor(part.logits), unknown=reading)
    labels = part.labels.astype(np.int64)
    values = {name: metric(prediction, labels) for name, metric in UNBINNED.items()}
    values |= {name: metric(prediction, labels, num_bins) for name, metric in BINNED.items()}
    values["ece_floor"] = floor(partial(ece, num_bins=num_bins), prediction, num_draws=20)
    values["unknown_share"] = float((np.asarray(prediction.predicted) == part.num_classes).mean())
    return values


def _tensor(array: Any) -> Tensor:
    return torch.tensor(np.asarray(array, dtype=np.float32))
