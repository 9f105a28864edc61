"""Device and precision of a model's weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a model's parameters, the CPU if it has none."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def dtype_of(model: nn.Module) -> torch.dtype:
    """Return the precision of a model's parameters, the usual one if it has none."""
    dtypes = (value.dtype for value in model.parameters() if value.is_floating_point())
    return next(dtypes, torch.get_default_dtype())


def half(key: str, value: Tensor) -> Tensor:
    """Return weights of the model in half precision, and all else as it is."""
    if not key.startswith("model.") or not value.is_floating_point():
        return value
    if not bool(torch.isfinite(value.half()).all() | ~torch.isfinite(value).all()):
        raise ValueError(f"{key} has weights beyond what half precision holds: keep them in full")
    return value.half()
