"""What every scaler accepts, checked once at the door."""

import math
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array: TypeAlias = Tensor | npt.ArrayLike

# Differences beyond this overflow in the sixth power.
LARGEST = 1e40
HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32, torch.float64)
# How far the sum of a row of probabilities may be from 1: half precision and few decimals round.
ROUNDED = 2e-2
# The same for rows that nobody called probabilities, unless they are in half precision.
EXACT = 1e-3
# Rows that are looked at before all of them are.
GLANCE = 8
# The least value of a zero among probabilities: what float32 holds in full precision.
LEAST = 1e-37
# A zero was rounded to it, so it counts as this share of the smallest probability that was not, and never for more
# than MOST: of 0.03 to 1, 0.1 gave the least test NLL on real softmax outputs rounded to 3, 4 and 6 decimals.
ZERO, MOST = 0.1, 1e-3


def check_fit(
    values: Array, labels: Array, where: str, unknown_class: bool, what: Literal["logits", "probs"] = "logits"
) -> tuple[Tensor, Tensor]:
    """Logits or probabilities (N, C) without gradient and int64 labels (N,) on their device.

    `where` is the call that errors name: a ValueError says what is wrong.
    """
    z = check_logits(values, where, what=what).detach()
    if z.ndim != 2 or z.shape[0] == 0 or z.shape[1] < 2 + unknown_class:
        columns = "at least 2 classes and the unknown column" if unknown_class else "at least 2 columns"
        row = "raw model outputs" if what == "logits" else "probabilities"
        raise ValueError(
            f"{where} needs {what} of shape (samples, columns) with at least 1 sample and {columns}, "
            f"got {tuple(z.shape)}: pass one row of {row} for each sample"
        )
    y = _tensor(labels, "labels", where)
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        advice = _advice(labels, "labels", "int")
        raise ValueError(f"{where} needs integer class labels, got {y.dtype}: convert them, e.g. {advice}")
    if y.shape != z.shape[:1]:
        raise ValueError(
            f"{where} needs one label a row, shape ({len(z)},), got {tuple(y.shape)}: "
            f"pass one class index a row, not one-hot rows"
        )
    y = y.to(device=z.device, dtype=torch.int64)
    num_classes = z.shape[1] - unknown_class
    if int(y.min()) < 0 or int(y.max()) >= num_classes:
        hint = "the last column is the unknown class and is never a label" if unknown_class else "check their encoding"
        raise ValueError(
            f"{where} needs labels from 0 to {num_classes - 1}, got {int(y.min())} to {int(y.max())}: {hint}"
        )
    if what == "probs":
        check_probs(z, where)
        return z, y
    low, high = (float(extreme) for extreme in z.aminmax())
    if not math.isfinite(high - low):  # NaN reaches both
        bad = ~torch.isfinite(z).all(dim=1)
        raise ValueError(
            f"{where} needs finite logits, {int(bad.sum())} of {len(z)} rows hold NaN or infinity, "
            f"the first is row {int(bad.int().argmax())}: clip infinite logits, e.g. logits.clip(-1e4, 1e4), or pass "
            f"probabilities to fit_probs instead of their logarithms; drop rows with NaN or repair what wrote them"
        )
    if high - low > LARGEST:
        raise ValueError(
            f"{where}: the logits are too large, from {low:.1e} to {high:.1e}: clip them, e.g. logits.clip(-1e30, 1e30)"
        )
    if seem_probs(z):
        raise ValueError(
            f"{where} needs logits, and all {len(z)} rows are >= 0 and sum to 1: pass probabilities to fit_probs, or "
            f"pass from_probs=True to best; if these are logits, add 1 to all of them, which no softmax notices"
        )
    return z, y


def check_logits(logits: Array, where: str, columns: int = 0, what: str = "logits") -> Tensor:
    """The logits as a tensor if they are floating point and, for columns > 0, have that many columns."""
    z = _tensor(logits, what, where)
    if z.dtype not in FLOATS:
        advice = _advice(logits, what, "float")
        raise ValueError(f"{where} needs floating-point {what}, got {z.dtype}: convert them, e.g. {advice}")
    if columns and (z.ndim == 0 or z.shape[-1] != columns):
        raise ValueError(
            f"{where} was fitted on {columns} columns, got {what} of shape {tuple(z.shape)}: "
            f"use the outputs of the same model, or fit again"
        )
    return z


def check_probs(probs: Tensor, where: str) -> None:
    """Refuses rows that are no probabilities: of each, none may be negative and the sum must be 1 within 0.02."""
    rows = probs.detach().reshape(-1, probs.shape[-1])
    wrong = ~_sum_to_one(rows, ROUNDED)
    if bool(wrong.any()):
        first = int(wrong.int().argmax())
        raise ValueError(
            f"{where} needs probabilities, {int(wrong.sum())} of {len(rows)} rows are none, the first is row {first}: "
            f"its least value is {float(rows[first].min()):.4g}, its sum {float(rows[first].double().sum()):.4g}, "
            f"expected 0 or more and 1 within {ROUNDED}; pass raw model outputs as logits, or divide rows by their sum"
        )


def seem_probs(logits: Tensor) -> bool:
    """Whether these rows, two or more, are non-negative and sum to 1, as no logits do by chance."""
    rows = logits.detach().reshape(-1, logits.shape[-1])
    tolerance = ROUNDED if logits.dtype in HALVES else EXACT
    return len(rows) > 1 and all(bool(_sum_to_one(some, tolerance).all()) for some in (rows[:GLANCE], rows))


def _sum_to_one(rows: Tensor, tolerance: float) -> Tensor:
    """Of each row (N, C) whether it holds nothing negative and sums to 1; NaN fails both."""
    return (rows.amin(dim=1) >= 0) & ((widened(rows).sum(dim=1) - 1).abs() <= tolerance)


def widened(values: Tensor) -> Tensor:
    """Half precision as single, which fitted numbers and logarithms need."""
    return values.float() if values.dtype in HALVES else values


def zero_floor(probs: Tensor) -> float:
    """What a probability of exactly 0 counts as: a tenth of the smallest that is not."""
    smallest = float(probs.masked_fill(probs == 0, 1).amin())
    return min(max(ZERO * smallest, LEAST), MOST)


def log_probs(probs: Tensor, floor: float) -> Tensor:
    """Logarithms of probabilities, none below that of the floor; half precision becomes single."""
    return widened(probs).clamp(min=floor).log()


def _tensor(values: Array, name: str, where: str) -> Tensor:
    if isinstance(values, Tensor):
        return values
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{where} got {name} with a mask, which it does not read: drop the masked rows first")
    try:
        array: npt.NDArray[Any] = np.asarray(values)
        # Torch warns about arrays that it may not write to, and cannot read reversed or byte-swapped ones.
        return torch.as_tensor(np.require(array, array.dtype.type, ["C", "W"]))
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists, words, tensors that numpy cannot read
        raise ValueError(
            f"{where}: {name} of type {type(values).__name__} do not form an array of numbers ({error}): "
            f"pass a tensor, an array or a list of numbers"
        ) from error


def _advice(values: Array, name: str, kind: str) -> str:
    """How to convert such values, by what they are."""
    if isinstance(values, Tensor):
        return f"{name}.{'long' if kind == 'int' else kind}()"
    return f"{name}.astype({kind})" if isinstance(values, np.ndarray) else f"numpy.array({name}, dtype={kind})"
