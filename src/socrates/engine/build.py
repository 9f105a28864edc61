"""From the words of an experiment to data, device, model, method, optimizer and its schedule."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from socrates import data, methods, models
from socrates.contracts import Split, Splits, Stream, Task
from socrates.data.unknown import with_training_strangers
from socrates.engine.events import Tell, to_nobody
from socrates.engine.features import load_for_backbone
from socrates.engine.open_world import rehearsed
from socrates.engine.ranks import strategy_of_many
from socrates.engine.state import State
from socrates.engine.switches import use_switches
from socrates.experiment import Experiment, Optimization
from socrates.predictor.file_format import read_file, tensors_of, weights_hash

META_SEED = 42
WARM_UP = 0.2  # of one cycle


def load_data(
    experiment: Experiment,
    data_root: Path | None,
    device: torch.device | str = "cpu",
    tell: Tell = to_nobody,
) -> Splits:
    """Load the data of an experiment; a frozen backbone computes features of them on a device."""
    if models.is_backbone(experiment.model.name):
        load = partial(load_samples, experiment, data_root)
        return load_for_backbone(experiment, load, data_root, device, tell)
    return load_samples(experiment, data_root)


def load_samples(experiment: Experiment, data_root: Path | None, **options: Any) -> Splits:
    """Load the samples as the data set has them, also where features of them are trained on."""
    part = experiment.dataset
    chosen = {**dict(part.options), **options}
    return data.load(part.name, data_root, experiment.num_train, **chosen)


def make_fabric(accelerator: str, precision: str, devices: int = 1, num_nodes: int = 1) -> Any:
    """Return devices and precision as Fabric; say in one line what this machine does not have."""
    from lightning_fabric import Fabric  # heavy: imported where a run really starts

    use_switches()
    options: Any = {"accelerator": accelerator, "precision": precision}
    options |= {"devices": devices, "num_nodes": num_nodes}
    is_many = devices * num_nodes > 1
    if is_many:
        options["strategy"] = strategy_of_many()
    try:
        return Fabric(**options)
    except Exception as error:  # Fabric raises many kinds
        raise ValueError(
            f"the device {accelerator} with precision {precision} cannot be used here ({error}): "
            f"choose auto or cpu{', or fewer devices' if is_many else ''}"
        ) from error


def build(experiment: Experiment, splits: Splits, fabric: Any, start: Path | None = None) -> State:
    """Return model, method and optimizer on the device, and the training data.

    The method's own share of the training data is held back from them.
    """
    name = experiment.method.name
    epochs = experiment.optimization.epochs
    train = splits.train
    if experiment.unknown_trains:
        check_strangers(experiment, splits)
        train = with_training_strangers(train, splits.unknown)
    task = Task(len(train), splits.num_classes, epochs, experiment.unknown_trains)
    method = methods.build(name, task, **dict(experiment.method.options))
    if experiment.unknown_trains and not method.takes_strangers:
        raise ValueError(
            f"{name} cannot train on images of none of the classes, as only a method with an "
            "unknown column and a loss for it can: choose socrates or sat, or use these images to "
            "teach and certify only"
        )
    if method.first_whole_epoch >= epochs:
        raise ValueError(
            f"{name} would never act: its second phase begins at "
            f"start_epoch={method.first_whole_epoch}, the run has epochs={epochs}: choose a "
            "smaller start_epoch, or more epochs"
        )
    train_split, meta_split = _divided(train, method.meta_share)
    torch.manual_seed(Stream(experiment.seed, 0, "initialisation").number())
    part = experiment.model
    model = models.build(part.name, method.num_outputs, splits.image_shape, **dict(part.options))
    methods.check_model(name, method, model)
    start_from(model, experiment, start)
    if any(parameter.dim() == 4 for parameter in model.parameters()):
        model = model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    model = model.to(fabric.device)
    method = method.to(fabric.device)
    optimizer = make_optimizer(model, experiment.optimization)
    return State(
        experiment, model, method, optimizer, train_split, meta_split, fabric.strategy.precision
    )


def check_strangers(experiment: Experiment, splits: Splits) -> None:
    """Refuse to train on strangers where there are none, or only those of a rehearsal."""
    if splits.unknown is None:
        raise ValueError(
            "there are no images of none of the classes to train on: name a folder of them as the "
            "data's option unknown, or put them in a class folder named unknown"
        )
    if name := rehearsed(experiment):
        raise ValueError(
            f"a rehearsal trains without {name}, whose images are its only strangers: they cannot "
            "train"
        )


def _divided(train: Split, meta_share: float) -> tuple[Split, Split | None]:
    """Return the training data, and the share of them that only the method sees."""
    if not meta_share > 0:
        return train, None
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(META_SEED))
    num_meta = max(1, int(meta_share * len(order)))
    return train.subset(order[num_meta:]), train.subset(order[:num_meta])


def start_from(model: nn.Module, experiment: Experiment, source: Any) -> None:
    """Load the weights of a kept model, all but the head's: the number of classes may differ."""
    if not experiment.start and source is None:
        return
    if source is None:
        raise ValueError(
            f"the run starts from weights with the hash {experiment.start}: pass their file with "
            "start=FILE"
        )
    _, tensors = read_file(source)
    hash_of_source = weights_hash(tensors)
    if hash_of_source != experiment.start:
        raise ValueError(
            f"{source} holds weights with the hash {hash_of_source!r}, and the experiment's field "
            f"start is {experiment.start!r}: restore the weights, or start another run"
        )
    body = _without_head(tensors_of("model", tensors))
    there = {name: tuple(value.shape) for name, value in body.items()}
    here = {name: tuple(value.shape) for name, value in _without_head(model.state_dict()).items()}
    for name in sorted({*there, *here}):
        if there.get(name) != here.get(name):
            raise ValueError(
                f"{source} does not fit: {name} is {there.get(name, 'missing')} there and "
                f"{here.get(name, 'missing')} here; the model, its options, the image size and the "
                "channels must be the same"
            )
    model.load_state_dict(body, strict=False)


def _without_head(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in tensors.items() if not name.startswith("head.")}


def freeze(model: nn.Module, settings: Optimization) -> None:
    """Keep all but the head as it is, batch norm's statistics too, if the backbone's rate is 0."""
    if settings.backbone_factor != 0:
        return
    head: Any = model.head
    head_modules = {*head.modules()}
    for module in model.modules():
        if module not in head_modules and module is not model:
            module.eval()
    head_parameters = {*head.parameters()}
    for parameter in model.parameters():
        parameter.requires_grad_(parameter in head_parameters)


def learning_rate(epoch: float, settings: Optimization) -> float:
    """Return the learning rate after this many epochs, which need not be a whole number.

    >>> [learning_rate(epoch, Optimization()) for epoch in (0, 24.9, 25, 50)]
    [0.1, 0.1, 0.05, 0.025]
    >>> transfer = Optimization(learning_rate=5e-4, milestones=(20, 35, 45))
    >>> [learning_rate(epoch, transfer) for epoch in (19, 20, 49)]
    [0.0005, 0.00025, 6.25e-05]
    >>> cycle = Optimization(epochs=20, recipe="one-cycle")
    >>> [round(learning_rate(epoch, cycle), 4) for epoch in (1, 4, 12, 19.5)]
    [0.025, 0.1, 0.05, 0.0002]
    """
    if settings.recipe == "one-cycle":
        done = epoch / settings.epochs
        rising = done / WARM_UP
        falling = 0.5 + 0.5 * math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP))
        return settings.learning_rate * (rising if done < WARM_UP else falling)
    halvings = epoch // settings.halve_every
    if settings.milestones:
        halvings = sum(epoch >= milestone for milestone in settings.milestones)
    return settings.learning_rate * 0.5**halvings


def make_optimizer(model: nn.Module, settings: Optimization) -> torch.optim.SGD:
    """Return SGD with the head as a group, so that the backbone can learn at another rate."""
    head = getattr(model, "head", None)
    if not isinstance(head, nn.Module):
        if settings.backbone_factor != 1:
            raise ValueError(
                f"{type(model).__name__} has no head: all of it learns at one rate, "
                "backbone_factor=1"
            )
        head = model
    of_head = {*head.parameters()}
    backbone = [parameter for parameter in model.parameters() if parameter not in of_head]
    groups = [(list(head.parameters()), 1.0), (backbone, settings.backbone_factor)]
    return torch.optim.SGD(
        [{"params": parameters, "factor": factor} for parameters, factor in groups if parameters],
        settings.learning_rate,
        settings.momentum,
        weight_decay=settings.weight_decay,
        nesterov=settings.recipe == "one-cycle" and settings.momentum > 0,
    )


def set_rate(optimizer: torch.optim.Optimizer, epoch: float, settings: Optimization) -> float:
    """Set the learning rate of every group after this many epochs; return the head's."""
    rate = learning_rate(epoch, settings)
    joined = 0 < settings.backbone_joins <= epoch
    for group in optimizer.param_groups:
        group["lr"] = rate if joined else rate * group["factor"]
    return rate


def clip_gradients(fabric: Any, model: Any, optimizer: Any, clip_norm: float) -> Tensor:
    """Clip the norm of the gradients; return, on their device, whether it was above `clip_norm`.

    Fabric divides the gradients by the factor of float16's loss first. A norm that is not finite
    does not count as clipped: such a step is left out, or ends the run. The host reads no value.
    """
    norm = fabric.clip_gradients(model, optimizer, max_norm=clip_norm, error_if_nonfinite=False)
    return (norm > clip_norm) & norm.isfinite()


def weight_norm(model: nn.Module) -> Tensor:
    """Return the Euclidean norm of all parameters together, on their device."""
    squares = [parameter.detach().float().square().sum() for parameter in model.parameters()]
    return torch.stack(squares).sum().sqrt()
