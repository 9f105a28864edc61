"""Architectures: one file each, and `MODELS` with all of them by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from torch import nn

from ..contracts import Classifier
from ..names import check_options, find, options_of
from .cnn import CNN
from .mlp import MLP
from .resnet34 import ResNet34
from .resnet110 import ResNet110
from .resnet_he import ResNet20, ResNet110He
from .vgg16 import VGG16
from .vit import ViT
from .vit_transfer import ViTTransfer

__all__ = ["MODELS", "build", "options"]

MODELS: dict[str, Callable[..., Classifier]] = {
    "mlp": MLP,
    "cnn": CNN,
    "resnet20": ResNet20,
    "vgg16": VGG16,
    "resnet110": ResNet110,
    "resnet110_he": ResNet110He,
    "resnet34": ResNet34,
    "vit": ViT,
    "vit_transfer": ViTTransfer,
}

OWN = ("num_outputs", "image_shape")  # what a model takes that is not an option


def options(name: str) -> dict[str, Any]:
    """The options of the model of that name, with their defaults.

    >>> options("mlp")
    {'width': 128, 'depth': 2}
    """
    return options_of(find("model", name, MODELS), OWN)


def build(name: str, num_outputs: int, image_shape: tuple[int, int, int], **options: Any) -> Classifier:
    """The model of that name in `MODELS`, or `module:attribute` from outside; images are (channels, height, width).

    >>> build("mlp", num_outputs=11, image_shape=(1, 8, 8), width=32).head
    Linear(in_features=32, out_features=11, bias=True)
    """
    make = find("model", name, MODELS)
    if num_outputs < 1 or len(image_shape) != 3 or min(image_shape) < 1:
        raise ValueError(
            f"a model needs num_outputs of at least 1 and image_shape (channels, height, width), "
            f"got {num_outputs} and {image_shape}"
        )
    check_options("model", name, make, options, own=OWN)
    return _checked(name, make(num_outputs=num_outputs, image_shape=tuple(image_shape), **options), num_outputs)


def _checked(name: str, model: object, num_outputs: int) -> Classifier:
    """The model, if it has the parts of a Classifier and as many outputs as asked for."""
    parts = ("features", "head", "num_features")
    missing = [part for part in parts if not hasattr(model, part)]
    if not isinstance(model, nn.Module) or missing:
        raise ValueError(
            f"model {name!r} must give a socrates.contracts.Classifier, or a torch module with {', '.join(parts)}: "
            f"got {type(model).__name__}{' without ' + ', '.join(missing) if missing else ''}"
        )
    head = model.head
    shape = (model.num_features, num_outputs)
    if not isinstance(head, nn.Linear) or (head.in_features, head.out_features) != shape:
        raise ValueError(f"model {name!r} must have a head torch.nn.Linear{shape}, got {head}")
    return cast(Classifier, model)
