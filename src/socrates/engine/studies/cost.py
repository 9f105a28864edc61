"""What a run will cost, before it is started: samples, steps and parameters, FLOPs by torch's counter, and disk."""

import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from socrates import data, methods, models
from socrates.contracts import Task
from socrates.data.download import nothing_downloaded
from socrates.experiment import Experiment, Part
from socrates.predictor import Weights

# ViT-B/16, layer by layer, so that its size is known without its weights.
VIT_BASE = Part("vit", patch=16, dim=768, depth=12, heads=12, mlp_ratio=4.0)
# Passes forward in each whole step besides the training step itself: of the encoder of keys, of the meta batch.
MORE_PASSES = {"ccl_sc": 1, "mc": 1}
COUNTED = 2  # images: with one, batch norm has no statistics


class Sizes(NamedTuple):
    """Of a data set: images to train, validate and test with, their shape, and the classes."""

    train: int
    val: int
    test: int
    image_shape: tuple[int, int, int]
    num_classes: int


class Cost(NamedTuple):
    """Images seen, steps of the optimizer, and trained parameters."""

    samples: int
    steps: int
    parameters: int


class Flops(NamedTuple):
    """Of one image, a multiplication with an addition counted as two: a pass forward, and forward and back."""

    forward: float
    both: float


class Disk(NamedTuple):
    """Bytes: what a finished run keeps, at most, and what its checkpoints take until then."""

    kept: int
    meanwhile: int


def sizes_of(experiment: Experiment, data_root: Path | None = None) -> Sizes:
    """The sizes of the data of an experiment: known for those with a name, the others are read.

    >>> sizes_of(Experiment(Part("cifar100", image_size=224), Part("vgg16"), Part("ce"), num_train=500))
    Sizes(train=500, val=5000, test=10000, image_shape=(3, 224, 224), num_classes=100)
    """
    sizes = _sizes(experiment.dataset, data_root)
    return sizes._replace(train=experiment.num_train or sizes.train)


@cache
def _sizes(dataset: Part, data_root: Path | None) -> Sizes:
    options: dict[str, Any] = dict(dataset.options)
    if dataset.name in data.DATASETS:
        entry = data.DATASETS[dataset.name]
        channels, side, _ = entry.image_shape
        side = int(options.get("image_size") or side)
        return Sizes(*entry.sizes, (channels, side, side), entry.num_classes)
    with nothing_downloaded():
        found = data.load(dataset.name, data_root, **options)
    return Sizes(len(found.train), len(found.val), len(found.test), found.image_shape, found.num_classes)


def cost(experiment: Experiment, sizes: Sizes | None = None) -> Cost:
    """The cost of training a run; the sizes are those of its data, unless given.

    >>> cost(Experiment(Part("digits"), Part("mlp"), Part("ce"), num_train=200))
    Cost(samples=60000, steps=600, parameters=26122)
    """
    sizes = sizes or sizes_of(experiment)
    needs = needs_of(experiment)
    images = sizes.train - int(needs.held_back * sizes.train)
    settings = experiment.optimization
    parameters = _parameters(experiment.model, sizes.image_shape, sizes.num_classes + int(needs.unknown))
    return Cost(settings.epochs * images, settings.epochs * math.ceil(images / settings.batch_size), parameters)


def training_flops(experiment: Experiment, sizes: Sizes | None = None) -> float:
    """Of all training steps: the model forward and back, and what the method asks of it besides.

    The loss itself and the optimizer are not counted: they are small beside the model, unless that is tiny.

    >>> run = Experiment(Part("digits"), Part("mlp"), Part("ce"), num_train=200)
    >>> training_flops(run) / cost(run).samples == flops(run).both
    True
    """
    samples, one, needs = cost(experiment, sizes).samples, flops(experiment, sizes), needs_of(experiment)
    more = MORE_PASSES.get(experiment.method.name, 0) * (1 - needs.first_whole_epoch / experiment.optimization.epochs)
    return samples * (one.both + more * one.forward)


def evaluation_flops(experiment: Experiment, sizes: Sizes | None = None) -> float:
    """Of the validation images after each epoch, and the test images at each kept one."""
    found = sizes or sizes_of(experiment)
    images = experiment.optimization.epochs * found.val + kept_epochs(experiment) * found.test
    return images * flops(experiment, sizes).forward


def kept_epochs(experiment: Experiment) -> int:
    """At how many epochs logits are kept: every so many, and the last.

    >>> kept_epochs(Experiment(Part("digits"), Part("mlp"), Part("ce"), keep_every=25))
    12
    """
    return -(-experiment.optimization.epochs // experiment.keep_every)


def disk(experiment: Experiment, keep_weights: Weights = "none", sizes: Sizes | None = None) -> Disk:
    """What a run writes: logits (before they are compressed), its weights if they are kept, and checkpoints.

    >>> disk(Experiment(Part("digits"), Part("mlp"), Part("ce"), keep_every=300))
    Disk(kept=65868, meanwhile=662928)
    """
    found, needs = sizes or sizes_of(experiment), needs_of(experiment)
    parameters = cost(experiment, sizes).parameters
    columns = found.num_classes + int(needs.unknown) + 1  # of float32, and a label
    logits = 4 * (found.val + found.test) * columns * kept_epochs(experiment)
    weights = {"full": 4, "half": 2, "none": 0}[keep_weights] * parameters
    copies = 2 + (experiment.method.name == "ccl_sc")  # weights and momentum, and the encoder of keys
    gathered = 4 * found.train * (columns - 1)  # the training logits of an epoch that is stopped
    return Disk(logits + weights, 3 * (4 * copies * parameters + gathered))  # two checkpoints, and one being written


class Needs(NamedTuple):
    """What a method asks for."""

    held_back: float  # share of the training images
    unknown: bool  # whether there is an output more
    first_whole_epoch: int


@cache
def needs_of(experiment: Experiment) -> Needs:
    """What the method of an experiment asks for."""
    task = Task(num_samples=1, num_classes=2, epochs=experiment.optimization.epochs)
    built = methods.build(experiment.method.name, task, **dict(experiment.method.options))
    return Needs(built.meta_share, built.unknown_class, built.first_whole_epoch)


def flops(experiment: Experiment, sizes: Sizes | None = None) -> Flops:
    """The FLOPs of the model on one image, counted by torch; nothing is computed.

    >>> flops(Experiment(Part("digits"), Part("mlp", width=4, depth=1), Part("ce")))
    Flops(forward=592.0, both=1264.0)
    """
    found = sizes or sizes_of(experiment)
    return _flops(experiment.model, found.image_shape, found.num_classes)


def feature_width(experiment: Experiment) -> int:
    """How many numbers the last layer of the model is given: the appendix's Mdim.

    >>> feature_width(Experiment(Part("digits"), Part("mlp", width=32), Part("ccl_sc")))
    32
    """
    found = sizes_of(experiment)
    model: Any = _built(experiment.model, found.image_shape, found.num_classes)
    return model.head.in_features


@cache
def _flops(model: Part, image_shape: tuple[int, int, int], outputs: int) -> Flops:
    built = _built(model, image_shape, outputs)
    device = next(built.parameters()).device
    with FlopCounterMode(display=False) as counter:
        logits = built(torch.zeros(COUNTED, *image_shape, device=device))
        forward = counter.get_total_flops()
        logits.sum().backward()
    return Flops(forward / COUNTED, counter.get_total_flops() / COUNTED)


@cache
def _parameters(model: Part, image_shape: tuple[int, int, int], outputs: int) -> int:
    return sum(parameter.numel() for parameter in _built(model, image_shape, outputs).parameters())


def _built(model: Part, image_shape: tuple[int, int, int], outputs: int) -> nn.Module:
    """The model without its numbers, where it can be built so."""
    model = VIT_BASE if model.name == "vit_transfer" else model
    try:
        with torch.device("meta"):
            return models.build(model.name, outputs, image_shape, **dict(model.options))
    except (RuntimeError, ValueError):  # a model from outside may look at its own numbers
        return models.build(model.name, outputs, image_shape, **dict(model.options))
