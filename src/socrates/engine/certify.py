"""Certificates by folders of images: labeled ones, and strangers."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from socrates.abstention import Certificate
from socrates.data.folder import class_names
from socrates.data.unreadable import UnreadableImage, describe
from socrates.engine.predict import batches, find_images, labelled_logits
from socrates.metrics import Prediction
from socrates.predictor import NOT_NEW, Predictor
from socrates.predictor.certifying import certify_predictions, uncertified


def certify_by_folders(
    predictor: Predictor,
    labeled: Path,
    risk: float,
    delta: float,
    strangers: Path | None = None,
    share: float | None = None,
) -> Certificate:
    """Certify a predictor by labeled images and, if given, a folder of strangers."""
    with uncertified(predictor):
        logits, labels, *novelty = labelled_logits(predictor, labeled)
        known = predictor.prediction(logits, *novelty)
        others = None if strangers is None else predict_strangers(predictor, strangers)
    return certify_predictions(
        predictor,
        known,
        labels,
        risk,
        delta,
        strangers=others,
        share=share,
        source="" if strangers is None else str(strangers),
    )


def predict_strangers(predictor: Predictor, folder: Path) -> Prediction:
    """Return what a predictor says of images of none of its classes, which must be new to it."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder: expected images of none of the classes")
    if names := sorted(set(class_names(folder)) & set(predictor.classes)):
        raise ValueError(
            f"{folder} has a sub-folder {names[0]!r}, which is one of the model's classes: "
            "strangers are images of none of them"
        )
    unreadable: dict[Path, UnreadableImage] = {}
    parts: list[Prediction] = []
    for paths, images in batches(find_images([folder]), predictor.about, unreadable):
        if known := predictor.seen_rows(images):
            raise ValueError(f"{folder}: {paths[known[0]]} and {len(known) - 1} more {NOT_NEW}")
        parts.append(predictor.predict(images, len(images)))
    if unreadable:
        raise ValueError(f"{folder}: {describe(unreadable, folder)}")
    return joined(parts)


def joined(parts: list[Prediction]) -> Prediction:
    """Return the predictions of several batches as one."""

    def together(name: str) -> Tensor | None:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else torch.cat([torch.as_tensor(one) for one in values])

    probs = together("probs")
    confidence = together("confidence")
    predicted = together("predicted")
    assert probs is not None
    assert confidence is not None
    assert predicted is not None
    return Prediction(
        probs,
        confidence,
        predicted,
        parts[0].num_classes,
        answered=together("answered"),
        novelty=together("novelty"),
    )
