"""What a run will cost, before it is started: samples, steps, and parameters moved in each."""

import math
from functools import cache
from typing import NamedTuple

import torch

from socrates import data, methods, models
from socrates.contracts import Task
from socrates.experiment import Experiment, Part

VIT_BASE = 85_798_656  # parameters of ViT-B/16 without its last layer, and its features: known without its weights
VIT_BASE_FEATURES = 768


class Cost(NamedTuple):
    """Images seen, steps of the optimizer, and trained parameters."""

    samples: int
    steps: int
    parameters: int


def cost(experiment: Experiment) -> Cost:
    """The cost of training a run on a data set that has a name.

    >>> cost(Experiment(Part("digits"), Part("mlp"), Part("ce"), num_train=200))
    Cost(samples=60000, steps=600, parameters=26122)
    """
    name = experiment.dataset.name
    if name not in data.DATASETS:
        raise ValueError(f"the size of {name!r} is not known before it is read: choose from {', '.join(data.DATASETS)}")
    held_back, unknown = _needs(experiment.method)
    available = experiment.num_train or data.DATASETS[name].sizes[0]
    images = available - int(held_back * available)
    settings = experiment.optimization
    parameters = _parameters(experiment.model, experiment.dataset, unknown)
    return Cost(settings.epochs * images, settings.epochs * math.ceil(images / settings.batch_size), parameters)


@cache
def _needs(method: Part) -> tuple[float, bool]:
    built = methods.build(method.name, Task(num_samples=1, num_classes=2), **dict(method.options))
    return built.meta_share, built.unknown_class


@cache
def _parameters(model: Part, dataset: Part, unknown: bool) -> int:
    entry = data.DATASETS[dataset.name]
    outputs = entry.num_classes + int(unknown)
    if model.name == "vit_transfer":
        return VIT_BASE + (VIT_BASE_FEATURES + 1) * outputs
    channels, side, _ = entry.image_shape
    side = dict(dataset.options).get("image_size") or side
    with torch.device("meta"):
        built = models.build(model.name, outputs, (channels, int(side), int(side)), **dict(model.options))
    return sum(parameter.numel() for parameter in built.parameters())
