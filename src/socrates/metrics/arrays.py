"""Arrays as users have them: torch or numpy in, checked numpy out, with words for what cannot be read."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt
import torch

from .predictions import Array, refuse_mask

ArrayLike = torch.Tensor | npt.ArrayLike

# Torch shares out 2^15 values or more, and a thread that must be woken for it can take longer than all of the work.
_ONE_THREAD = (1 << 15) - 1

_OTHER_ENTRIES = (
    "pass (N,) scores of class 1 where there are two classes; confidence=..., correct=... where nothing else is known"
)


def open_scores(
    scores: ArrayLike, name: str, sample_weight: ArrayLike | None = None, weight_name: str = "sample_weight"
) -> Array:
    """A 1-D array of finite float32 or float64 scores."""
    array = blanked(in_full(open_floats(scores, name, (1,))), sample_weight, weight_name)
    if not np.isfinite(array).all():
        at = int((~np.isfinite(array)).argmax())
        raise ValueError(f"{name} holds {array[at]} at position {at}, expected finite scores: drop the sample")
    return array


def check_positive(name: str, value: object) -> int:
    """A number of bins, classes or draws: an integer >= 1."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(cast("SupportsIndex", value))
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"{name}={value!r}, expected an integer >= 1")
    return number


def check_share(name: str, value: Any, expected: str, zero: bool = False, one: bool = False) -> None:
    """A number between 0 and 1, or one of these if it may be."""
    try:
        fine = 0 < value < 1 or (zero and value == 0) or (one and value == 1)
    except TypeError:
        fine = False
    if not fine:
        raise ValueError(f"{name}={value!r}, expected {expected}")


def random_numbers(seed: int, *stream: int) -> np.random.Generator:
    """The numbers of a seed, or of one of several streams of it."""
    try:
        return np.random.default_rng([seed, *stream] if stream else seed)
    except (TypeError, ValueError) as error:
        raise ValueError(f"seed={seed!r}, expected an integer >= 0") from error


def picked(chunk: Array, column: Array) -> Array:
    """One entry of each row."""
    width = int(chunk.shape[1])
    return np.ravel(chunk).take(np.arange(0, len(chunk) * width, width) + column)


def open_floats(values: ArrayLike | None, name: str, ndims: tuple[int, ...]) -> torch.Tensor | Array:
    """A numpy view of float32 or float64, or a tensor of float16 or bfloat16, of as many dimensions."""
    if values is None:
        raise ValueError(f"{name} is None, expected floating point numbers: {_OTHER_ENTRIES}")
    if isinstance(values, torch.Tensor) and values.dtype in (torch.float16, torch.bfloat16):
        array = values.detach().cpu().contiguous()
    else:
        array = as_numpy(values, name)
        if array.dtype.kind != "f":
            raise ValueError(f"{name} has dtype {array.dtype}, expected floating point: convert it to float32")
        if array.dtype == np.float16:
            array = torch.as_tensor(np.require(array, np.float16, ["C", "W"]))
    if array.ndim not in ndims or 0 in array.shape:
        expected, hint = ("(N,)", "pass one score a sample") if ndims == (1,) else ("(N, C)", _OTHER_ENTRIES)
        raise ValueError(f"{name} has shape {tuple(array.shape)}, expected {expected}, none of them 0: {hint}")
    return array


def open_weight(weight: ArrayLike | None, num_samples: int, name: str = "sample_weight") -> Array | None:
    """(N,) float64 weights of which some are above 0; None where all are 1, so that those change no bit."""
    if weight is None:
        return None
    array = as_numpy(weight, name)
    if array.shape != (num_samples,):
        given = f"{name} has shape {array.shape}"
        raise ValueError(f"{given}, expected ({num_samples},): pass one weight a sample")
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} has dtype {array.dtype}, expected numbers: convert it to float64")
    array = array.astype(np.float64)
    wrong = ~((array >= 0) & (array < np.inf))
    if wrong.any():
        at = int(wrong.argmax())
        todo = "a weight of 0 leaves a sample out"
        raise ValueError(f"{name} holds {array[at]:.6g} at position {at}, expected finite values >= 0: {todo}")
    with np.errstate(over="ignore"):
        total = float(array.sum())
    if not 0 < total < np.inf:
        todo = "give some sample a weight, and divide huge ones"
        raise ValueError(f"{name} sums to {total:.6g}, expected a finite sum above 0: {todo}")
    return None if (array == 1).all() else array


def blanked(values: Array, sample_weight: ArrayLike | None, name: str = "sample_weight") -> Array:
    """The values, with 0 for those of weight 0: whatever stood there is left out, and need not pass a check."""
    weight = open_weight(sample_weight, len(values), name)
    return values if weight is None or weight.all() else np.where(weight > 0, values, values.dtype.type(0))


def in_full(values: torch.Tensor | Array, space: torch.Tensor | None = None) -> Array:
    """Contiguous and writeable (torch warns else) float32 for half precision and float32, float64 for all others.

    Half precision comes as a contiguous tensor, which torch converts some twenty times as fast as numpy: into `space`,
    if any.
    """
    if isinstance(values, np.ndarray):
        return np.require(values, np.float32 if values.dtype == np.float32 else np.float64, ["C", "W"])
    if values.numel() <= _ONE_THREAD or torch.get_num_threads() == 1:
        return (values.float() if space is None else space[: len(values)].copy_(values)).numpy()
    space = torch.empty(values.shape) if space is None else space[: len(values)]
    for wide, half in zip(*(torch.split(each.view(-1), _ONE_THREAD) for each in (space, values)), strict=True):
        wide.copy_(half)
    return space.numpy()


def row_sums(rows: Array) -> Array:
    """The sum of each row.

    Nothing here calls numpy's BLAS, which is quicker alone, but wakes threads of its own: they go on looking for work,
    and on two cores the forward pass after a metric took twice as long, a metric of half precision fifteen times.

    >>> row_sums(np.array([[0.9, 0.1], [0.5, 0.0]]))
    array([1. , 0.5])
    """
    return np.einsum("ij->i", rows)


def as_numpy(values: ArrayLike, name: str) -> Array:
    """A view where there can be one."""
    if isinstance(values, torch.Tensor):
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy(force=True)
    refuse_mask(values, name)
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} does not form an array ({error}): pass a tensor or an array") from error
