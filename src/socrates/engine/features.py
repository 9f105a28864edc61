"""The data of a run whose model is a pretrained backbone: its images, or their cached features."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from socrates import data
from socrates.contracts import Splits
from socrates.data.features import FeatureCache, feature_file, normalized_as, with_features
from socrates.engine.events import Embedded, Tell
from socrates.experiment import Experiment
from socrates.models.backbone import in_color, scaled, source_of
from socrates.models.sources import Source


def load_for_backbone(
    experiment: Experiment,
    load: Callable[..., Splits],
    data_root: Path | None,
    device: torch.device | str,
    tell: Tell,
) -> Splits:
    """Load data in the size and with the mean and deviation that the backbone expects.

    While it is frozen, the samples are its features. A backbone that learns, or one that starts
    from the weights of another run, gets the images.
    """
    part = experiment.model
    source = source_of(part.name, dict(part.options))
    options: dict[str, Any] = {}
    name = experiment.dataset.name
    chosen_size = dict(experiment.dataset.options).get("image_size")
    if chosen_size is None and "image_size" in data.options(name):
        options["image_size"] = source.images.size
    splits = normalized_as(load(**options), source.images.mean, source.images.std)
    if experiment.optimization.backbone_factor != 0 or experiment.start:
        return splits
    path = feature_file(data.data_root(data_root), source.fingerprint, name)
    parts = (splits.train, splits.val, splits.test, splits.unknown)
    total = sum(len(part) for part in parts if part is not None)
    embed = Embedding(source, device)
    return with_features(splits, embed, FeatureCache(path), Progress(total, tell), scaled)


class Embedding:
    """Rows of features of images by a backbone, which is loaded when the first are asked for."""

    def __init__(self, source: Source, device: torch.device | str) -> None:
        self.source = source
        self.device = device
        self.model: Any = None

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        if self.model is None:
            model = self.source.module().eval().to(self.device)
            self.model = model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        images = in_color(images.to(self.device))
        return self.model(images.contiguous(memory_format=torch.channels_last))


class Progress:
    """Count the images whose features are known, and report it."""

    def __init__(self, total: int, tell: Tell) -> None:
        self.total = total
        self.tell = tell
        self.done = 0
        self.computed = 0
        self.start = time.monotonic()

    def __call__(self, done: int, computed: int) -> None:
        self.done += done
        self.computed += computed
        seconds = time.monotonic() - self.start
        self.tell(Embedded(self.done, self.total, self.computed, seconds))
