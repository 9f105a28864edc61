"""SGD and the schedules of its rate, as pure functions of the epoch."""

import math

import torch
from torch import nn

from socrates.experiment import Optimization

WARM_UP = 0.2  # of one cycle


def learning_rate(epoch: float, settings: Optimization) -> float:
    """The rate after so many epochs, which need not be whole: halved every so many or at milestones, or one cycle.

    >>> [learning_rate(epoch, Optimization()) for epoch in (0, 24.9, 25, 50)]
    [0.1, 0.1, 0.05, 0.025]
    >>> transfer = Optimization(learning_rate=5e-4, milestones=(20, 35, 45))
    >>> [learning_rate(epoch, transfer) for epoch in (19, 20, 49)]
    [0.0005, 0.00025, 6.25e-05]
    >>> [round(learning_rate(epoch, Optimization(epochs=20, recipe="one-cycle")), 4) for epoch in (1, 4, 12, 19.5)]
    [0.025, 0.1, 0.05, 0.0002]
    """
    if settings.recipe == "one-cycle":
        done = epoch / settings.epochs
        falling = 0.5 + 0.5 * math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP))
        return settings.learning_rate * (done / WARM_UP if done < WARM_UP else falling)
    passed = sum(epoch >= milestone for milestone in settings.milestones)
    halvings = passed if settings.milestones else epoch // settings.halve_every
    return settings.learning_rate * 0.5**halvings


def make_optimizer(model: nn.Module, settings: Optimization) -> torch.optim.SGD:
    """SGD with the head in a group of its own, so that a backbone can learn at another rate."""
    head = getattr(model, "head", None)
    if not isinstance(head, nn.Module):
        if settings.backbone_factor != 1:
            raise ValueError(f"{type(model).__name__} has no head: all of it learns at one rate, backbone_factor=1")
        head = model
    last = set(head.parameters())
    backbone = [parameter for parameter in model.parameters() if parameter not in last]
    groups = [(list(head.parameters()), 1.0), (backbone, settings.backbone_factor)]
    used = [{"params": parameters, "factor": factor} for parameters, factor in groups if parameters]
    nesterov = settings.recipe == "one-cycle" and settings.momentum > 0
    rate, momentum, decay = settings.learning_rate, settings.momentum, settings.weight_decay
    return torch.optim.SGD(used, rate, momentum, weight_decay=decay, nesterov=nesterov)


def set_rate(optimizer: torch.optim.Optimizer, epoch: float, settings: Optimization) -> float:
    """Give every group its rate after so many epochs; returns the head's."""
    rate = learning_rate(epoch, settings)
    for group in optimizer.param_groups:
        group["lr"] = rate * group["factor"]
    return rate


def weight_norm(model: nn.Module) -> torch.Tensor:
    """Euclidean length of all parameters together, on their device."""
    return torch.stack([parameter.detach().float().square().sum() for parameter in model.parameters()]).sum().sqrt()
