"""Newton's method with a line search, for objectives of more than one number, and conjugate gradients for its steps."""

import math
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]

MAX_STEPS = 100
MAX_INNER = 250
# The relative residual of a step where only a gain matters.
LOOSE = 0.3


class Objective(Protocol):
    """A function of theta, its value and gradient, and where that was last called Newton's step and a length."""

    def evaluate(self, theta: Tensor) -> tuple[float, Tensor]: ...
    def direction(self, gradient: Tensor, forcing: float) -> Tensor: ...
    def norm(self, gradient: Tensor) -> float: ...


def minimize(
    objective: Objective, theta: Tensor, tolerance: float, rounding: float = 1e-13, gain: float = 0.0
) -> tuple[Tensor, int, float]:
    """Descends from theta until the gradient is shorter than the tolerance, or no step lowers the value any more.

    A step that promises to lower the value by less than `gain` is the last.
    Returns where that is, after how many steps, and the length of the gradient.
    """
    value, gradient = objective.evaluate(theta)
    for step in range(MAX_STEPS):
        norm = objective.norm(gradient)
        if norm < tolerance:
            return theta, step, norm
        # The best point reached is where `evaluate` was last called, so the direction belongs to it.
        direction = objective.direction(gradient, LOOSE if gain else min(0.1, math.sqrt(norm)))
        expected = float((gradient * direction).sum())
        scale = 1.0
        while True:
            there = theta + scale * direction
            new_value, new_gradient = objective.evaluate(there)
            # Near the minimum a step gains less than the value's rounding: there the gradient decides.
            closer = new_value <= value + rounding * (1 + abs(value)) and objective.norm(new_gradient) < norm
            if closer or new_value <= value + 1e-4 * scale * expected:
                break
            scale /= 2
            if scale < 1e-9:
                return theta, step, norm
        theta, value, gradient = there, new_value, new_gradient
        if -expected < 2 * gain:
            return theta, step + 1, objective.norm(gradient)
    return theta, MAX_STEPS, objective.norm(gradient)


def conjugate_gradients(curvature: Map, precondition: Map, gradient: Tensor, forcing: float) -> Tensor:
    """Solves curvature(direction) = -gradient to a relative residual of `forcing`."""
    direction = torch.zeros_like(gradient)
    residual = -gradient
    scaled = precondition(residual)
    search = scaled
    energy = goal = float((residual * scaled).sum())
    for _ in range(MAX_INNER):
        curved = curvature(search)
        bend = float((search * curved).sum())
        if not bend > 1e-300:
            break
        step = energy / bend
        direction = direction + step * search
        residual = residual - step * curved
        scaled = precondition(residual)
        fresh = float((residual * scaled).sum())
        if not fresh > forcing * forcing * goal:
            break
        search = scaled + (fresh / energy) * search
        energy = fresh
    return direction if bool((direction != 0).any()) else precondition(-gradient)
