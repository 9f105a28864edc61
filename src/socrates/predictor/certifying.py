"""Certificates of a predictor: whose they are, how they are made, and when they are dropped."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..abstention import Certificate, Scope, Threshold, certify
from ..arrays.content import open_labels
from ..arrays.open import ArrayLike, as_tensor
from ..metrics.predictions import Prediction
from .file_format import contents, model_file, read_file, tensors_of

if TYPE_CHECKING:
    from .predictor import Predictor

NO_PROMISE = "none: no share of wrong answers is promised"
# What a model is called and where it comes from does not change its answers.
NOT_IDENTITY = ("certificate", "facts", "run", "epoch", "scalers")


def identity(predictor: Predictor, weights: Mapping[str, Tensor] | None = None) -> str:
    """Return 16 hexadecimal digits of all that decides a predictor's scores.

    These are the weights, the scaler that is applied, the reading, the classes and the preparation.
    `weights` are those of its model by default. Half precision counts as what it is when loaded.
    """
    about = dataclasses.asdict(predictor.about)
    described = {key: value for key, value in about.items() if key not in NOT_IDENTITY}
    described["kept scaler"] = about["scalers"].get(predictor.about.scaler)
    tensors = predictor.state_dict()
    if weights is not None:
        tensors |= {f"model.{key}": value for key, value in weights.items()}
    applied = ("scalers.", f"scalers.{predictor.about.scaler}.")
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    counted = {
        key: _in_full(value)
        for key, value in tensors.items()
        if not key.startswith(applied[0]) or key.startswith(applied[1])
    }
    for content in contents(counted):
        digest.update(content)
    return digest.hexdigest()[:16]


def _in_full(value: Tensor) -> Tensor:
    """Return a tensor on the CPU, floating point in at least single precision."""
    value = value.detach().cpu()
    return value.float() if value.is_floating_point() and value.itemsize < 4 else value


def valid_certificate(
    predictor: Predictor, weights: Mapping[str, Tensor] | None = None
) -> Certificate | None:
    """Return the certificate, or None and a warning if it was made for another model.

    `weights` are those of the model by default; `save` passes what it writes.
    """
    certificate = predictor.certificate
    if certificate is None or certificate.model == identity(predictor, weights):
        return certificate
    is_half = any(value.dtype == torch.float16 for value in (weights or {}).values())
    others = "other weights, or another scaler, reading or preparation"
    warn_dropped("weights in full precision" if is_half else others, stacklevel=4)
    return None


def keep_valid(predictor: Predictor) -> None:
    """Drop a certificate that was made for another model, with a warning of one line."""
    certificate = valid_certificate(predictor)
    predictor.about = dataclasses.replace(predictor.about, certificate=certificate)


def drop(predictor: Predictor, made_for: str) -> None:
    """Drop the certificate of a predictor, if it has one, with a warning that says why."""
    if predictor.certificate is not None:
        predictor.about = dataclasses.replace(predictor.about, certificate=None)
        warn_dropped(made_for, stacklevel=4)


def warn_dropped(made_for: str, stacklevel: int) -> None:
    """Say in one line that a certificate does not hold, and why."""
    warnings.warn(
        f"the certificate was made for {made_for}, and is dropped: no share of wrong answers is "
        "promised until it is certified again",
        stacklevel=stacklevel,
    )


def accepted(
    certificate: Certificate,
    classes: Sequence[str],
    confidence: Tensor,
    predicted: Tensor,
    novelty: Tensor | None = None,
) -> Tensor:
    """Return which samples a certificate answers: sure enough and, if it says so, not too strange.

    Classes without a threshold, and the unknown class, are never answered.
    """
    if certificate.kind == "group":
        raise ValueError(
            "this certificate has a threshold for each group, and a predictor knows no groups: "
            "certify it again"
        )
    rows = {row.name: row for row in certificate.thresholds}
    by_class = [rows.get("" if certificate.kind == "overall" else name) for name in classes]
    values = [None if row is None else row.value for row in by_class]
    lowest = torch.tensor([math.inf if value is None else value for value in [*values, None]])
    answered = confidence >= lowest.to(predicted.device)[predicted]
    limits = [None if row is None else row.novelty for row in by_class]
    if limits == [None] * len(limits):
        return answered
    if novelty is None:  # not measured, so not known to be familiar
        return torch.zeros_like(answered)
    highest = torch.tensor([math.inf if limit is None else limit for limit in [*limits, None]])
    return answered & (novelty <= highest.to(predicted.device)[predicted])


@contextmanager
def uncertified(predictor: Predictor) -> Iterator[None]:
    """Let a predictor answer as it would without a certificate, for a while."""
    about = predictor.about
    predictor.about = dataclasses.replace(about, certificate=None)
    try:
        yield
    finally:
        predictor.about = about


def certify_predictions(
    predictor: Predictor,
    known: Prediction,
    labels: ArrayLike,
    risk: float,
    delta: float = 0.1,
    *,
    thresholds: Sequence[float] | None = None,
    strangers: Prediction | None = None,
    share: float | None = None,
    source: str = "",
) -> Certificate:
    """Certify a predictor by what it predicts, without a certificate, of labeled samples.

    What it declines on its own is accepted at no threshold. With strangers, and a novelty for all,
    each threshold t also declines a novelty above 1 - t, because novelty tells strangers apart and
    confidence does not. The predictor keeps the certificate.
    """
    by_novelty = (
        strangers is not None and strangers.novelty is not None and known.novelty is not None
    )
    predicted = torch.as_tensor(known.predicted)
    numbers = open_labels(labels, len(known), len(predictor.classes), predictor.classes)
    true_class = as_tensor(numbers, "labels").to(predicted.device)
    may_answer = torch.as_tensor(known.answered).to(predicted.device)
    correct = (predicted == true_class) & may_answer
    confidence = scores(known, by_novelty)
    if strangers is None:
        # What is declined at any threshold is no answer that could be right or wrong.
        if not bool(may_answer.any()):
            raise ValueError("nothing can be certified: every sample is declined as it is")
        confidence = confidence[may_answer]
        correct = correct[may_answer]
    certificate = certify(
        confidence,
        correct,
        risk,
        delta,
        thresholds=thresholds,
        strangers=None if strangers is None else scores(strangers, by_novelty),
        share=share,
    )
    is_image = predictor.about.preparation is not None
    scope = Scope(
        "images" if is_image else "samples",
        predictor.classes,
        certificate.scope.share,
        source if strangers is not None else "",
    )
    rows = tuple(
        _single_precision(dataclasses.replace(row, num_samples=len(known)), by_novelty)
        for row in certificate.thresholds
    )
    certificate = dataclasses.replace(
        certificate, scope=scope, thresholds=rows, model=identity(predictor)
    )
    predictor.about = dataclasses.replace(predictor.about, certificate=certificate)
    return certificate


def scores(prediction: Prediction, by_novelty: bool = False) -> Tensor:
    """Return the confidence of each sample, 0 where the predictor itself declines.

    With `by_novelty` it is at most 1 - novelty.
    """
    values = torch.as_tensor(prediction.confidence).double()
    if by_novelty:
        values = values.minimum(1 - torch.as_tensor(prediction.novelty).double())
    return values.clamp_min(0) * torch.as_tensor(prediction.answered)


def _single_precision(row: Threshold, by_novelty: bool) -> Threshold:
    """Return a threshold in the precision of what it is compared with."""
    if row.value is None:
        return row
    limit = -rounded_up(row.value - 1) if by_novelty else None
    return dataclasses.replace(row, value=rounded_up(row.value), novelty=limit)


def rounded_up(threshold: float) -> float:
    """Round a threshold up to single precision, which confidences have.

    >>> rounded_up(0.5), rounded_up(0.9) >= 0.9
    (0.5, True)
    """
    nearest = np.float32(threshold)
    if float(nearest) < threshold:
        nearest = np.nextafter(nearest, np.float32(np.inf))
    return float(nearest)


def keep_with_model(predictor: Predictor, path: Path) -> Path | None:
    """Write the certificate into the file of the model it was made for, and return its path.

    If the file holds another model, or one with another scaler or reading, nothing is written.
    """
    from .loading import load

    file = model_file(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = load(file, model=copy.deepcopy(predictor.model))
    certificate = predictor.certificate
    if certificate is None or certificate.model != identity(kept):
        return None
    kept.about = dataclasses.replace(kept.about, certificate=certificate)
    weights = tensors_of("model", read_file(file)[1]).values()
    is_half = any(value.dtype == torch.float16 for value in weights)
    return kept.save(file, weights="half" if is_half else "full")
