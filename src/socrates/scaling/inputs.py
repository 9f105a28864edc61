"""What every scaler accepts, checked once at the door."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array: TypeAlias = Tensor | npt.ArrayLike

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
NOT_LABELS = (*FLOATS, torch.bool, torch.complex32, torch.complex64, torch.complex128)


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
    if y.dtype in NOT_LABELS:
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
        raise ValueError(
            f"{scaler}.fit needs labels from 0 to {num_classes - 1}, got {int(y.min())} to {int(y.max())}: "
            + (
                "the last column is the unknown class and is never a label"
                if unknown_class
                else "check the label encoding"
            )
        )
    _check_finite(z, scaler)
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
    try:
        array: npt.NDArray[Any] = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; tensors that numpy cannot read
        raise ValueError(f"{scaler}: the {name} do not form an array ({error}): pass a tensor") from error
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:  # torch can hold these, but not count with them
        array = array.astype(np.int64)
    try:
        # Torch warns about arrays that it may not write to, and cannot read reversed or byte-swapped ones.
        ready = array.flags.writeable and array.flags.c_contiguous and array.dtype.isnative
        return torch.as_tensor(array if ready else array.astype(array.dtype.type, order="C"))
    except TypeError as error:
        raise ValueError(
            f"{scaler} cannot use {name} of type {type(values).__name__} and numpy type {array.dtype}: "
            f"pass a tensor, an array or a list of numbers"
        ) from error


def _advice(values: Array, name: str, kind: str) -> str:
    """How to convert such values, by what they are."""
    if isinstance(values, Tensor):
        return f"{name}.{'long' if kind == 'int' else kind}()"
    return f"{name}.astype({kind})" if isinstance(values, np.ndarray) else f"numpy.array({name}, dtype={kind})"


def _check_finite(logits: Tensor, scaler: str) -> None:
    # A NaN or an infinity always reaches the sum; the slow look at each element is only for a sum that is not finite.
    wide = torch.float32 if logits.dtype in (torch.float16, torch.bfloat16) else logits.dtype
    if bool(torch.isfinite(logits.sum(dtype=wide))):
        return
    bad = ~torch.isfinite(logits).all(dim=1)
    if bool(bad.any()):
        raise ValueError(
            f"{scaler}.fit needs finite logits, {int(bad.sum())} of {len(logits)} rows hold NaN or infinity, "
            f"the first is row {int(bad.int().argmax())}: clip infinite logits, e.g. logits.clip(-1e4, 1e4), or "
            f"probabilities at 1e-12 before their logarithm; drop rows with NaN or repair the model that wrote them"
        )
