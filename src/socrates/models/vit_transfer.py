"""A pretrained vision transformer with a new last layer, for transfer learning.

Needs the package transformers.
"""

import json
from typing import Any

from torch import Tensor, nn

from ..contracts import Classifier
from .sources import weights_fingerprint

REVISION = "3f49326eb077187dfe1c2a2bb15fbd74e6ab91e3"  # of google/vit-base-patch16-224


class ViTTransfer(Classifier):
    """A pretrained ViT-B/16 with a new last layer, nothing frozen.

    `source` is a local folder or a hub id.

    Options:
        source: the pretrained model: a local folder or a hub id; or the text of a config.json, for
            one without weights
        revision: the commit of a hub id, so that everyone starts from the same weights; folders
            have none

    `pretrained_weights` is a fingerprint of the weights that it started from, which a run records.
    """

    pretrained_size = 224  # images are resized to this unless image_size says otherwise

    def __init__(
        self,
        num_outputs: int,
        image_shape: tuple[int, int, int],
        *,
        source: str = "google/vit-base-patch16-224",
        revision: str = REVISION,
    ) -> None:
        super().__init__()
        self.body = pretrained = _pretrained(source, revision)
        is_config = source.startswith("{")
        self.pretrained_weights = "" if is_config else weights_fingerprint(pretrained)
        config = pretrained.config
        expected = (config.num_channels, config.image_size, config.image_size)
        if tuple(image_shape) != expected:
            raise ValueError(
                f"vit_transfer: {source} takes images of shape {expected}, got {tuple(image_shape)}"
            )
        # Its weights are kept with the run, so that no source is needed to load it.
        self.options_when_kept = {"source": config.to_json_string()}
        self.head = nn.Linear(config.hidden_size, num_outputs)
        nn.init.normal_(self.head.weight, 0.0, 0.02)
        nn.init.zeros_(self.head.bias)

    def features(self, inputs: Tensor) -> Tensor:
        return self.body(pixel_values=inputs).last_hidden_state[:, 0]


def _pretrained(source: str, revision: str) -> Any:
    try:
        from transformers import ViTConfig, ViTModel
    except ImportError as error:
        raise ImportError(
            "vit_transfer needs the package transformers: pip install transformers"
        ) from error
    try:
        if source.startswith("{"):
            return ViTModel(ViTConfig(**json.loads(source)), add_pooling_layer=False)
        body = ViTModel.from_pretrained(source, revision=revision, add_pooling_layer=False)
        return body.float().train()
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(
            f"vit_transfer cannot read a model from source={source!r}, revision={revision!r} "
            f"({error}): "
            f"pass a folder that holds config.json and the weights, "
            f"or a hub id with a network connection"
        ) from error
