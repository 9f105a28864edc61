"""Architectures: one file each, and `MODELS` with all of them by name.

Models import contracts and names only. Read mlp.py first; contracts.py says what a `Classifier` is.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import nn

from ..contracts import Method
from ..names import called, find, options_of
from .backbone import BACKBONE, CODE, Backbone, from_code, is_backbone
from .cnn import CNN
from .mlp import MLP
from .released import ReleasedResNet34, ReleasedViT
from .resnet import ResNet20, ResNet34, ResNet110, ResNet110He
from .vgg16 import VGG16
from .vit import ViT
from .vit_transfer import ViTTransfer

__all__ = ["MODELS", "build", "factory", "is_backbone", "options"]

MODELS: dict[str, Callable[..., nn.Module]] = {
    "mlp": MLP,
    "cnn": CNN,
    "resnet20": ResNet20,
    "vgg16": VGG16,
    "resnet110": ResNet110,
    "resnet110_he": ResNet110He,
    "resnet34": ResNet34,
    "vit": ViT,
    "vit_transfer": ViTTransfer,
    "resnet34:released": ReleasedResNet34,
    "vit:released": ReleasedViT,
    BACKBONE: Backbone,
}


def factory(name: str) -> Callable[..., nn.Module]:
    """Return the class or function of that name in `MODELS`, or a plug-in from outside.

    >>> factory("mlp").__name__
    'MLP'
    """
    if name.startswith(CODE):
        return from_code(name)
    return find("model", name, MODELS)


def options(name: str) -> dict[str, Any]:
    """Return the options of the model of that name, with their defaults.

    >>> options("mlp")
    {'width': 128, 'depth': 2}
    """
    return options_of(factory(name), not_options=["num_outputs", "image_shape"])


def build(
    name: str, num_outputs: int, image_shape: tuple[int, int, int], **options: Any
) -> nn.Module:
    """Build the model of that name in `MODELS`, or a plug-in from outside.

    Images are (channels, height, width). A plug-in is called with num_outputs, with image_shape if
    it takes that, and with its options.

    >>> build("mlp", num_outputs=11, image_shape=(1, 8, 8), width=32).head
    Linear(in_features=32, out_features=11, bias=True)
    """
    make = factory(name)
    if num_outputs < 1 or len(image_shape) != 3 or min(image_shape) < 1:
        raise ValueError(
            f"a model needs num_outputs of at least 1 and image_shape (channels, height, width), "
            f"got {num_outputs} and {image_shape}"
        )
    if isinstance(make, type) and issubclass(make, Method):
        raise ValueError(
            f"model {name!r} is a method: a model is a torch module, built from num_outputs"
        )
    sizes: dict[str, Any] = {"num_outputs": num_outputs, "image_shape": tuple(image_shape)}
    parameters = signature(make).parameters.values()
    if not any(each.name == "image_shape" or each.kind is each.VAR_KEYWORD for each in parameters):
        del sizes["image_shape"]
    model = called("model", name, make, options=options, **sizes)
    _check_outputs(name, model, num_outputs, image_shape)
    return model


def _check_outputs(
    name: str, model: object, num_outputs: int, image_shape: tuple[int, int, int]
) -> None:
    """Raise for what does not give one logit per output."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"model {name!r} must be a torch module, got {type(model).__name__}")
    shape = _shape_of_logits(name, model, image_shape)
    if shape != (2, num_outputs):
        raise ValueError(
            f"model {name!r} must give {num_outputs} logits per image, "
            f"two images gave the shape {shape}"
        )


def _shape_of_logits(name: str, model: nn.Module, image_shape: tuple[int, int, int]) -> object:
    """Return the shape of the logits of two images: from the head, or by trying black images."""
    head = getattr(model, "head", None)
    if isinstance(head, nn.Linear) and hasattr(model, "features"):
        return (2, head.out_features)
    try:
        with torch.no_grad():
            shape = tuple(model.eval()(torch.zeros(2, *image_shape)).shape)
    except Exception as error:  # whatever its layers raise
        raise ValueError(
            f"model {name!r} does not take images of shape {image_shape}: {error}"
        ) from error
    model.train()
    return shape
