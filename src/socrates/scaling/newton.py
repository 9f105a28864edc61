"""Newton's method with conjugate gradients, for the convex objective of vector and matrix scaling."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from socrates.scaling.objective import AffineNLL

MAX_STEPS = 100
MAX_INNER = 250


@dataclass(frozen=True)
class Minimum:
    """Where the method stopped, after how many steps, with which gradient."""

    theta: Tensor
    num_steps: int
    gradient_norm: float


def minimize(objective: AffineNLL, theta: Tensor, tolerance: float) -> Minimum:
    """Descends from theta until the gradient is shorter than the tolerance, or no step lowers the value any more."""
    value, gradient = objective.evaluate(theta)
    for step in range(MAX_STEPS):
        norm = objective.norm(gradient)
        if norm < tolerance:
            return Minimum(theta, step, norm)
        # The best point reached is where `evaluate` was last called, so the curvature belongs to it.
        direction = _newton_direction(objective, gradient, min(0.1, math.sqrt(norm)))
        expected = float((gradient * direction).sum())
        rounding = 1e-13 * (1 + abs(value))
        scale = 1.0
        while True:
            new_value, new_gradient = objective.evaluate(theta + scale * direction)
            # Near the minimum a step gains less than the value's rounding: there the gradient decides.
            closer = new_value <= value + rounding and objective.norm(new_gradient) < norm
            if closer or new_value <= value + 1e-4 * scale * expected:
                break
            scale /= 2
            if scale < 1e-9:
                return Minimum(theta, step, norm)
        theta, value, gradient = theta + scale * direction, new_value, new_gradient
    return Minimum(theta, MAX_STEPS, objective.norm(gradient))


def _newton_direction(objective: AffineNLL, gradient: Tensor, forcing: float) -> Tensor:
    """Solves curvature * direction = -gradient to a relative residual of `forcing`."""
    direction = torch.zeros_like(gradient)
    residual = -gradient
    scaled = objective.precondition(residual)
    search = scaled
    energy = goal = float((residual * scaled).sum())
    for _ in range(MAX_INNER):
        curved = objective.curvature(search)
        bend = float((search * curved).sum())
        if not bend > 1e-300:
            break
        step = energy / bend
        direction = direction + step * search
        residual = residual - step * curved
        scaled = objective.precondition(residual)
        fresh = float((residual * scaled).sum())
        if not fresh > forcing * forcing * goal:
            break
        search = scaled + (fresh / energy) * search
        energy = fresh
    return direction if bool((direction != 0).any()) else objective.precondition(-gradient)
