"""What an experiment names, made: data, device, model, method and optimizer."""

from pathlib import Path
from typing import Any

import torch

from socrates import data, methods, models
from socrates.contracts import Splits, Stream, Task
from socrates.engine.guard import enough_memory
from socrates.engine.keep import start_from
from socrates.engine.launch import strategy_of_many
from socrates.engine.optim import make_optimizer
from socrates.engine.state import State
from socrates.experiment import Experiment

META_SEED = 42


def load_data(experiment: Experiment, data_root: Path | None) -> Splits:
    """The data of an experiment."""
    part = experiment.dataset
    with enough_memory(f"the data set {part.name}", "take fewer or smaller images"):
        return data.load(part.name, data_root, experiment.num_train, **dict(part.options))


def make_fabric(accelerator: str, precision: str, devices: int = 1, num_nodes: int = 1) -> Any:
    """Devices and precision; what this machine has not is an error in one line."""
    from lightning_fabric import Fabric  # heavy: imported where a run really starts

    many: Any = {"strategy": strategy_of_many()} if devices * num_nodes > 1 else {}
    how: Any = {"accelerator": accelerator, "devices": devices, "num_nodes": num_nodes, "precision": precision}
    try:
        return Fabric(**how, **many)
    except Exception as error:  # Fabric raises many kinds
        raise ValueError(
            f"the device {accelerator} with precision {precision} cannot be used here ({error}): choose auto or cpu"
            f"{', or fewer devices' if many else ''}"
        ) from error


def build(experiment: Experiment, splits: Splits, fabric: Any, start: Path | None = None) -> State:
    """Model, method and optimizer on the device, and the training data with the method's own share held back."""
    name, epochs = experiment.method.name, experiment.optimization.epochs
    task = Task(len(splits.train), splits.num_classes, epochs)
    method = methods.build(name, task, **dict(experiment.method.options))
    if method.first_whole_epoch >= epochs:
        raise ValueError(
            f"{name} would never act: its second phase starts after {method.first_whole_epoch} epochs, the run has "
            f"{epochs}: give a smaller --start-epoch, or more --epochs"
        )
    train_split, meta_split = splits.train, None
    if method.meta_share > 0:
        order = torch.randperm(len(splits.train), generator=torch.Generator().manual_seed(META_SEED))
        num_meta = max(1, int(method.meta_share * len(order)))
        train_split, meta_split = splits.train.subset(order[num_meta:]), splits.train.subset(order[:num_meta])
    torch.manual_seed(Stream(experiment.seed, 0, "initialisation").number())
    part = experiment.model
    model = models.build(part.name, method.num_outputs, splits.image_shape, **dict(part.options))
    methods.check_model(name, method, model)
    start_from(model, experiment, start)
    if any(parameter.dim() == 4 for parameter in model.parameters()):
        model = model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    model, method = model.to(fabric.device), method.to(fabric.device)
    optimizer = make_optimizer(model, experiment.optimization)
    return State(experiment, model, method, optimizer, train_split, meta_split, fabric.strategy.precision)
