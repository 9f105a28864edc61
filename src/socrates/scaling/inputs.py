"""What every scaler accepts, checked once at the door."""

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array: TypeAlias = Tensor | npt.ArrayLike

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_fit(logits: Array, labels: Array, scaler: str, unknown_class: bool) -> tuple[Tensor, Tensor]:
    """Logits (N, C) without gradient and int64 labels (N,) on their device, or a ValueError that says what is wrong."""
    z = check_logits(logits, f"{scaler}.fit").detach()
    if z.ndim != 2 or z.shape[0] == 0 or z.shape[1] < 2 + unknown_class:
        columns = "at least 2 classes and the unknown column" if unknown_class else "at least 2 columns"
        raise ValueError(
            f"{scaler}.fit needs logits of shape (samples, columns) with at least 1 sample and {columns}, "
            f"got {tuple(z.shape)}: pass one row of raw model outputs for each sample"
        )
    y = _tensor(labels, "labels", f"{scaler}.fit")
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        advice = _advice(labels, "labels", "int")
        raise ValueError(f"{scaler}.fit needs integer class labels, got {y.dtype}: convert them, e.g. {advice}")
    if y.shape != z.shape[:1]:
        raise ValueError(
            f"{scaler}.fit needs one label a row, shape ({len(z)},), got {tuple(y.shape)}: "
            f"pass class indices, not one-hot rows"
        )
    y = y.to(device=z.device, dtype=torch.int64)
    num_classes = z.shape[1] - unknown_class
    if int(y.min()) < 0 or int(y.max()) >= num_classes:
        hint = "the last column is the unknown class and is never a label" if unknown_class else "check their encoding"
        raise ValueError(
            f"{scaler}.fit needs labels from 0 to {num_classes - 1}, got {int(y.min())} to {int(y.max())}: {hint}"
        )
    if not all(math.isfinite(extreme) for extreme in z.aminmax()):  # NaN reaches both
        bad = ~torch.isfinite(z).all(dim=1)
        raise ValueError(
            f"{scaler}.fit needs finite logits, {int(bad.sum())} of {len(z)} rows hold NaN or infinity, "
            f"the first is row {int(bad.int().argmax())}: clip infinite logits, e.g. logits.clip(-1e4, 1e4), or "
            f"probabilities at 1e-12 before their logarithm; drop rows with NaN or repair the model that wrote them"
        )
    return z, y


def check_logits(logits: Array, scaler: str, columns: int = 0) -> Tensor:
    """The logits as a tensor if they are floating point and, for columns > 0, have that many columns."""
    z = _tensor(logits, "logits", scaler)
    if z.dtype not in FLOATS:
        advice = _advice(logits, "logits", "float")
        raise ValueError(f"{scaler} needs floating-point logits, got {z.dtype}: pass raw outputs, e.g. {advice}")
    if columns and (z.ndim == 0 or z.shape[-1] != columns):
        raise ValueError(
            f"{scaler} was fitted on {columns} columns, got logits of shape {tuple(z.shape)}: "
            f"use the outputs of the same model, or fit again"
        )
    return z


def _tensor(values: Array, name: str, scaler: str) -> Tensor:
    if isinstance(values, Tensor):
        return values
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{scaler} got {name} with a mask, which it does not read: drop the masked rows first")
    try:
        array: npt.NDArray[Any] = np.asarray(values)
        # Torch warns about arrays that it may not write to, and cannot read reversed or byte-swapped ones.
        return torch.as_tensor(np.require(array, array.dtype.type, ["C", "W"]))
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists, words, tensors that numpy cannot read
        raise ValueError(
            f"{scaler}: {name} of type {type(values).__name__} do not form an array of numbers ({error}): "
            f"pass a tensor, an array or a list of numbers"
        ) from error


def _advice(values: Array, name: str, kind: str) -> str:
    """How to convert such values, by what they are."""
    if isinstance(values, Tensor):
        return f"{name}.{'long' if kind == 'int' else kind}()"
    return f"{name}.astype({kind})" if isinstance(values, np.ndarray) else f"numpy.array({name}, dtype={kind})"
