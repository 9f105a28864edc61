"""Certificates by folders of images: labeled ones, and strangers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from socrates.abstention import Certificate
from socrates.data.folder import class_names, list_images
from socrates.data.unreadable import UnreadableImage, describe, unsupported
from socrates.engine.open_world import kept_strangers, rehearsed, source_of
from socrates.engine.predict import batches, find_images, printable
from socrates.metrics import Prediction
from socrates.predictor import NOT_NEW, Predictor, new_rows
from socrates.predictor.certifying import certify_predictions, uncertified
from socrates.predictor.seen import MOST_SEEN
from socrates.records import Run


def certify_by_folders(
    predictor: Predictor,
    labeled: Path,
    risk: float,
    delta: float,
    strangers: Path | Run | None = None,
    share: float | None = None,
) -> Certificate:
    """Certify a predictor by labeled images and, if given, strangers.

    These are the images of a folder, or those that the predictor's own run kept for this.
    """
    with uncertified(predictor):
        logits, labels, novelty = labelled_logits(predictor, labeled)
        known = predictor.prediction(logits, novelty)
        others = None
        source = ""
        if isinstance(strangers, Run):
            others = own_strangers(predictor, strangers)
            source = source_of(strangers.experiment)
        elif strangers is not None:
            others = predict_strangers(predictor, strangers)
            source = str(strangers)
    return certify_predictions(
        predictor,
        known,
        labels,
        risk,
        delta,
        strangers=others,
        share=share,
        source=source,
    )


def labelled_logits(predictor: Predictor, folder: Path) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return logits, labels and, if it is measured, novelty of a folder of one folder per class.

    Its images must be new to the model: a few that are not are left out, more are refused.
    """
    if not folder.is_dir():
        raise ValueError(
            f"{folder} is not a folder: expected labeled images, one sub-folder per class"
        )
    names = class_names(folder)
    if not names or set(names) - set(predictor.classes):
        raise ValueError(
            f"{folder} has the sub-folders {names}, expected some of the model's classes "
            f"{predictor.classes}"
        )
    refuse_training_folder(folder, str(predictor.about.facts.get("dataset", "")))
    left_out: list[Path] = []
    files, positions = list_images(folder, names, left_out)
    labels_of_folders = [predictor.classes.index(name) for name in names]
    label_of = {
        file: labels_of_folders[position] for file, position in zip(files, positions, strict=True)
    }
    unreadable = {path: unsupported(path) for path in left_out}
    measured = measure_new(predictor, folder, files.tolist(), unreadable)
    labels = torch.tensor([label_of[path] for path in measured.paths])
    return measured.logits, labels, measured.novelty


def predict_strangers(predictor: Predictor, folder: Path) -> Prediction:
    """Return what a predictor says of images of none of its classes, which must be new to it."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder: expected images of none of the classes")
    if names := sorted(set(class_names(folder)) & set(predictor.classes)):
        raise ValueError(
            f"{folder} has a sub-folder {names[0]!r}, which is one of the model's classes: "
            "strangers are images of none of them"
        )
    # Half of a folder that taught the model what is strange cannot certify: it is left out.
    measured = measure_new(predictor, folder, find_images([folder]), {}, most_seen=1.0)
    if not measured.paths:
        raise ValueError(f"{folder} has no image that is new to the model: {NOT_NEW}")
    return predictor.prediction(measured.logits, measured.novelty)


def own_strangers(predictor: Predictor, run: Run) -> Prediction:
    """Return what a predictor says of the strangers that its run kept, which taught it nothing."""
    kept = kept_strangers(run, predictor.about.epoch)
    if kept is None or predictor.about.run != run.identity.run:
        raise ValueError(
            f"{run.directory} has no strangers of this model: pass a folder of images of none of "
            "the classes"
        )
    if name := rehearsed(run.experiment):
        raise ValueError(
            f"the strangers of {run.directory} are images of {name}, a class that it rehearses to "
            "meet: pass a folder of the strangers that it will meet"
        )
    return predictor.prediction(torch.tensor(kept.logits), kept.novelty)


class Measured(NamedTuple):
    """The files that are new to a model, with their logits and, if it is measured, novelty."""

    paths: list[Path]
    logits: Tensor
    novelty: Tensor | None


def measure_new(
    predictor: Predictor,
    folder: Path,
    files: Sequence[Path],
    unreadable: dict[Path, UnreadableImage],
    most_seen: float = MOST_SEEN,
) -> Measured:
    """Return what a model makes of the files of a folder, without those that it was trained on.

    More of these than a share `most_seen` are refused.
    """
    paths: list[Path] = []
    pictures: list[Tensor] = []
    logits: list[Tensor] = []
    novelty: list[Tensor] = []
    for names, images in batches(files, predictor.about, unreadable):
        paths += names
        pictures.append(predictor.thumbnails(images))
        outputs, strangeness = predictor.measure(images, len(images))
        logits.append(outputs)
        if strangeness is not None:
            novelty.append(strangeness)
    if unreadable:
        raise ValueError(f"{folder}: {describe(unreadable, folder)}")
    names = [printable(path) for path in paths]
    rows = new_rows(torch.cat(pictures), predictor.seen, names, most_seen)
    kept = rows.to(logits[0].device)
    return Measured(
        [paths[row] for row in rows.tolist()],
        torch.cat(logits)[kept],
        torch.cat(novelty)[kept] if novelty else None,
    )


def refuse_training_folder(folder: Path, dataset: str) -> None:
    """Refuse a folder that trained the model, chose its epoch or fitted its scaler.

    Its test folder did none of these.
    """
    kind, _, path = dataset.partition(":")
    if kind != "folder":
        return
    place = folder.resolve()
    trained = Path(path).expanduser().resolve()
    is_test = (trained / "train").is_dir() and place.is_relative_to(trained / "test")
    if place.is_relative_to(trained) and not is_test:
        raise ValueError(f"{folder} belongs to the images that {NOT_NEW}")
