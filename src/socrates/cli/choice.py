"""What `socrates train DATASET` chooses if the model or the method is not named, and why.

The choice depends on the data alone, not on the speed of the machine at this moment: the same
command must name the same run, to continue it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from socrates import data, methods, models
from socrates.data.folder import list_folder, median_side
from socrates.data.npz import npz_side
from socrates.engine.studies.forecast import model_size
from socrates.experiment import Part
from socrates.models.backbone import BACKBONE, CODE, source_of
from socrates.optimization import one_cycle

METHOD = "socrates"
MINUTES = 15
# A core does about 40 billion floating-point operations of these models in a second.
BUDGET = MINUTES * 60 * 40e9
SIZES = (32, 48, 64, 96, 128)  # pixels
NETWORKS = ("resnet20", "cnn")  # the better one first


@dataclass(frozen=True)
class Choice:
    """The parts of an experiment by name, their options that were chosen, and the reasons."""

    names: dict[str, str]
    options: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    reasons: tuple[str, ...] = ()


def choose(dataset: str, model: str, method: str, backbone: str | None) -> Choice:
    """Return the parts that were named, and a choice for those that were not.

    A single word after the data set may also be the method.
    """
    if model in methods.METHODS and model not in models.MODELS and not method:
        model, method = "", model
    options: dict[str, dict[str, Any]] = {}
    reasons: list[str] = []
    if backbone is not None:
        name, options["model"] = _with_backbone(model, backbone)
        reasons.append(
            f"model backbone: {backbone} stays as it is; its features of the images are computed "
            "once, and a linear layer is trained on them"
        )
    elif model:
        name = model
    else:
        name, size, reason = _network(dataset)
        options["dataset"] = {"image_size": size} if size else {}
        reasons.append(reason)
    if not method:
        method = METHOD
        reasons.append(
            f"method {METHOD}: it also learns when to doubt; another one may be named, such as ce"
        )
    return Choice({"dataset": dataset, "model": name, "method": method}, options, tuple(reasons))


def _with_backbone(model: str, backbone: str) -> tuple[str, dict[str, Any]]:
    """Return the model's name and options for a folder, a cached name, or FILE.py:FUNCTION."""
    if model not in ("", BACKBONE):
        raise ValueError(
            f"--backbone brings the model along: leave {model!r} out, or leave --backbone out"
        )
    if ".py:" in backbone:
        name, options = f"{CODE}{backbone}", {}
    else:
        name, options = BACKBONE, {"source": backbone}
    return name, {**options, "weights": _fingerprint(name, backbone)}


@cache
def _fingerprint(name: str, source: str) -> str:
    return source_of(name, {"source": source}).fingerprint


@cache
def _network(dataset: str) -> tuple[str, int | None, str]:
    """Return a small network, the size of its images if it is to be set, and the reason."""
    if dataset == "digits":
        return "mlp", None, "model mlp: it is enough for digits of 8 x 8 pixels"
    num_images, side = _images_of(dataset)
    settings = one_cycle(num_images)
    seen = settings.epochs * num_images
    sizes = [size for size in SIZES if size <= side] or [min(side, SIZES[0])]
    for network in NETWORKS:
        for size in reversed(sizes):
            flops = seen * model_size(Part(network), (3, size, size), 10)[2]
            if flops <= BUDGET:
                return network, size, _reason(network, size, side, num_images)
    network, size = NETWORKS[-1], sizes[0]
    return network, size, f"model {network} at {size} x {size} pixels: the smallest there is"


def _reason(network: str, size: int, side: int, num_images: int) -> str:
    larger = "" if size == side else f", from about {side}"
    return (
        f"model {network} at {size} x {size} pixels{larger}: what {num_images:,} training images "
        f"allow in about {MINUTES} minutes of one core; a pretrained model (--backbone FOLDER) "
        "usually takes less time and is more accurate"
    )


def _images_of(dataset: str) -> tuple[int, int]:
    """Return the number of training images, and the length of their shorter side."""
    if dataset in data.DATASETS:
        entry = data.DATASETS[dataset]
        return entry.sizes[0], min(entry.image_shape[1:])
    kind, _, path = dataset.partition(":")
    place = Path(path).expanduser()
    if kind == "folder":
        side = median_side(list_folder(place).parts["train"][0])
    elif kind == "npz":
        side = npz_side(place)
    else:
        data.factory(dataset)  # explains a name that does not exist
        raise ValueError(f"name a model and a method for {dataset}: only images have usual ones")
    num_images = data.num_training_images(dataset)
    return num_images or 1, side
