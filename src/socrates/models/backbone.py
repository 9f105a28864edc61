"""A pretrained backbone with a new linear head, to train a classifier on few images in minutes.

The backbone is frozen by default: its features are computed once and cached, and only the head is
trained on them (engine/features.py). The finished model is the whole: backbone and head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..contracts import Classifier
from .sources import Code, Configured, HuggingFace, Source, kept_text

BACKBONE = "backbone"  # the name of the model
CODE = f"{BACKBONE}:"  # how the name begins if the backbone comes from a Python file
# The norm of a row of features, for which the usual learning rate of the head is right.
NORM = 8.0


class BackboneClassifier(Classifier):
    """A backbone that computes features (B, D), and a linear head.

    Features are scaled to the same norm, whatever the backbone's scale is. Inputs are images, or
    rows of features that were computed before and pass through.
    """

    def __init__(
        self, body: nn.Module, num_outputs: int, image_shape: tuple[int, int, int]
    ) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(num_features(body, image_shape), num_outputs)

    def features(self, inputs: Tensor) -> Tensor:
        if inputs.ndim == 2:
            return inputs
        return scaled(self.body(in_color(inputs)))


def scaled(rows: Tensor) -> Tensor:
    """Return a backbone's rows as the features that the head sees: each with the same norm."""
    return NORM * F.normalize(rows.float(), dim=1)


def in_color(images: Tensor) -> Tensor:
    """Return images (B, 3, H, W); gray ones have the same values in each channel."""
    return images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images


class Backbone(BackboneClassifier):
    """A pretrained model of transformers with a new last layer; by default only that is trained.

    Options:
        source: a folder in the Hugging Face format, or a name in the local Hugging Face cache
        weights: the fingerprint that the files of the source must have, or none
        pooling: how its states become features, which its files decide: pooler, token or mean
    """

    def __init__(
        self,
        num_outputs: int,
        image_shape: tuple[int, int, int],
        *,
        source: str = "",
        weights: str = "",
        pooling: str = "",
    ) -> None:
        if source.startswith("{"):
            body = Configured(source, pooling).module()
        else:
            body = _checked(source, weights).module()
        super().__init__(body, num_outputs, image_shape)
        # Its weights are kept with the run, so that no source is needed to load it.
        self.options_when_kept = {"source": kept_text(body.model), "pooling": body.pooling}


def from_code(name: str) -> Callable[..., nn.Module]:
    """Return what builds the model `backbone:FILE.py:FUNCTION`."""
    place = name.removeprefix(CODE)

    def build(
        num_outputs: int, image_shape: tuple[int, int, int], *, weights: str = ""
    ) -> nn.Module:
        """Build a backbone from a Python file with a new last layer, which alone is trained.

        Options:
            weights: the fingerprint that its weights and its file must have, or none
        """
        source = Code(place)
        _check_fingerprint(place, source, weights)
        return BackboneClassifier(source.module(), num_outputs, image_shape)

    return build


def is_backbone(name: str) -> bool:
    """Return whether a model is a pretrained backbone with a new head.

    >>> is_backbone("backbone"), is_backbone("backbone:my.py:features"), is_backbone("resnet20")
    (True, True, False)
    """
    return name == BACKBONE or name.startswith(CODE)


def source_of(name: str, options: Mapping[str, Any]) -> Source:
    """Return where the backbone of a model comes from, by the model's name and options."""
    if name.startswith(CODE):
        return Code(name.removeprefix(CODE))
    return _checked(str(options.get("source", "")), str(options.get("weights", "")))


def _checked(source: str, weights: str) -> HuggingFace:
    """Return the source of that name, if its files have the fingerprint."""
    if not source:
        raise ValueError(
            "the model backbone needs a source: a folder in the Hugging Face format, or a name in "
            "the local Hugging Face cache"
        )
    opened = HuggingFace(source)
    _check_fingerprint(source, opened, weights)
    return opened


def _check_fingerprint(name: str, source: Source, weights: str) -> None:
    if weights and source.fingerprint != weights:
        raise ValueError(
            f"the backbone {name} has the fingerprint {source.fingerprint}, expected {weights}: "
            "its files have changed; restore them, or start another run"
        )


def num_features(body: nn.Module, image_shape: tuple[int, int, int]) -> int:
    """Return how many features a backbone computes of an image."""
    _, height, width = image_shape
    was_training = body.training
    with torch.no_grad():
        try:
            rows = body.eval()(torch.zeros(1, 3, height, width))
        except Exception as error:  # whatever its layers raise
            raise ValueError(
                f"the backbone does not take images of {height} x {width} pixels: {error}"
            ) from error
    body.train(was_training)
    if not isinstance(rows, Tensor) or rows.ndim != 2 or len(rows) != 1:
        shape = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
        raise ValueError(f"a backbone must return features (B, D), one image gave {shape}")
    return rows.shape[1]
