"""Open arrays of any kind: torch, numpy, pandas, polars, anything with `__array__`, and lists.

Also the weights of samples, the scores that they weigh, and plain options: counts, shares, seeds.
"""

from __future__ import annotations  # numpy.random is loaded only where numbers are drawn

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array: TypeAlias = npt.NDArray[Any]
ArrayLike: TypeAlias = Tensor | npt.ArrayLike

HALF_DTYPES = (torch.float16, torch.bfloat16)

# Torch splits work over threads from 2^15 values on. Waking a thread can take longer than
# converting the values does.
_ONE_THREAD = (1 << 15) - 1

_NUMBERS = (bool, int, float, np.number, np.bool_)

_OTHER_ENTRIES = (
    "pass (N,) scores of class 1 where there are two classes; "
    "confidence=..., correct=... where nothing else is known"
)


def as_numpy(values: ArrayLike, name: str) -> Array:
    """Return the values as a numpy array, without a copy where that is possible.

    Missing values of pandas and polars become NaN among numbers; a column of lists becomes a
    matrix.

    >>> as_numpy([[0.9, 0.1]], "probs")
    array([[0.9, 0.1]])
    """
    if isinstance(values, Tensor):
        readable = values.float() if values.dtype == torch.bfloat16 else values
        return readable.numpy(force=True)
    if np.ma.is_masked(values):
        raise ValueError(
            f"{name} holds masked entries, whose values mean nothing: drop those rows, or fill them"
        )
    try:
        if isinstance(values, list | tuple) and values and isinstance(values[0], Tensor):
            return as_numpy(torch.stack(list(cast("Sequence[Tensor]", values))), name)
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{name} does not form an array ({error}): pass a tensor, an array or a list"
        ) from error
    return _of_objects(array, name) if array.dtype == object else array


def as_tensor(values: ArrayLike, name: str) -> Tensor:
    """Return the values as a tensor, without a copy where that is possible.

    >>> as_tensor([[2.0, 1.0]], "logits")
    tensor([[2., 1.]], dtype=torch.float64)
    """
    if isinstance(values, Tensor):
        return values
    array = as_numpy(values, name)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} has dtype {array.dtype}, expected numbers: pass an array of numbers"
        )
    if array.dtype.type is np.longdouble:
        array = array.astype(np.float64)
    return _shared_with_torch(array)


def like(result: Tensor, values: object) -> Any:
    """Return the result in the kind of the given values: a tensor for a tensor, else numpy."""
    return result if isinstance(values, Tensor) else result.numpy(force=True)


def open_floats(values: ArrayLike | None, name: str, ndims: tuple[int, ...]) -> Tensor | Array:
    """Return floating-point values with one of these numbers of dimensions, none of length 0.

    float32 and float64 come as a numpy view; float16 and bfloat16 as a contiguous tensor, because
    torch converts those some twenty times faster than numpy (see `full_precision`).
    """
    if values is None:
        raise ValueError(f"{name} is None, expected floating point numbers: {_OTHER_ENTRIES}")
    if isinstance(values, Tensor) and values.dtype in HALF_DTYPES:
        array = values.detach().cpu().contiguous()
    else:
        array = as_numpy(values, name)
        if array.dtype.kind != "f":
            raise ValueError(
                f"{name} has dtype {array.dtype}, expected floating point: convert it to float32"
            )
        if array.dtype == np.float16:
            array = _shared_with_torch(array)
    if array.ndim not in ndims or 0 in array.shape:
        one_per_sample = ndims == (1,)
        expected = "(N,)" if one_per_sample else "(N, C)"
        advice = "pass one score per sample" if one_per_sample else _OTHER_ENTRIES
        shape = tuple(array.shape)
        raise ValueError(f"{name} has shape {shape}, expected {expected}, none of them 0: {advice}")
    return array


def full_precision(values: Tensor | Array, space: Tensor | None = None) -> Array:
    """Return contiguous, writeable float32 for half and single precision, float64 for the rest.

    Half precision comes as a contiguous tensor and is converted into `space` where that is given.
    """
    if isinstance(values, np.ndarray):
        dtype = np.float32 if values.dtype == np.float32 else np.float64
        return np.require(values, dtype, ["C", "W"])
    if space is None:
        space = torch.empty(values.shape)
    target = space[: len(values)]
    if values.numel() <= _ONE_THREAD or torch.get_num_threads() == 1:
        return target.copy_(values).numpy()
    halves = torch.split(values.view(-1), _ONE_THREAD)
    for wide, half in zip(torch.split(target.view(-1), _ONE_THREAD), halves, strict=True):
        wide.copy_(half)
    return target.numpy()


def row_sums(rows: Array) -> Array:
    """Return the sum of each row.

    Nothing here calls numpy's BLAS. Alone it is quicker, but it wakes threads of its own that go
    on looking for work: on two cores the forward pass after a metric took twice as long, and a
    metric of half precision fifteen times.

    >>> row_sums(np.array([[0.9, 0.1], [0.5, 0.0]]))
    array([1. , 0.5])
    """
    return np.einsum("ij->i", rows)


def entry_per_row(rows: Array, column: Array) -> Array:
    """Return one entry of each row: that of the given column.

    >>> entry_per_row(np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([1, 0]))
    array([0.1, 0.5])
    """
    width = int(rows.shape[1])
    return np.ravel(rows).take(np.arange(0, len(rows) * width, width) + column)


def _shared_with_torch(array: Array) -> Tensor:
    """Return a tensor of the same memory, or of a copy where torch cannot read it.

    Torch warns about arrays that it may not write to, and reads no reversed or byte-swapped ones.
    """
    array = np.require(array, array.dtype.type, ["C", "W"])
    if any(stride < 0 for stride in array.strides):  # a single reversed row counts as contiguous
        array = np.array(array)
    return torch.as_tensor(array)


def _of_objects(array: Array, name: str) -> Array:
    """Return an array of Python objects as numbers or rows of numbers where it holds those."""
    entries: list[Any] = array.ravel().tolist()
    if all(isinstance(entry, _NUMBERS) for entry in entries):
        return np.reshape(np.array(entries), array.shape)
    if all(isinstance(entry, _NUMBERS) or is_missing(entry) for entry in entries):
        numbers = [np.nan if is_missing(entry) else float(entry) for entry in entries]
        return np.reshape(np.array(numbers), array.shape)
    is_one_column = array.ndim == 1 or array.shape[1:] == (1,)
    if is_one_column and any(isinstance(entry, list | tuple | np.ndarray) for entry in entries):
        return _stack(entries, name)
    return array


def _stack(entries: list[Any], name: str) -> Array:
    """Return a column of lists, as pandas and polars have them, as a matrix."""
    missing = [place for place, entry in enumerate(entries) if is_missing(entry)]
    if missing:
        raise ValueError(
            f"{name} holds no value at position {missing[0]}: drop the row, or fill it"
        )
    try:
        return np.stack([np.asarray(entry) for entry in entries])
    except ValueError as error:
        raise ValueError(
            f"{name} holds rows of different lengths ({error}): pass one value per class"
        ) from error


def is_missing(entry: Any) -> bool:
    """Return whether an entry stands for no value: None, NaN, or pandas' NA and NaT.

    >>> is_missing(None), is_missing(float("nan")), is_missing("nan")
    (True, True, False)
    """
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(entry, float) and entry != entry


def open_weight(
    weight: ArrayLike | None, num_samples: int, name: str = "sample_weight"
) -> Array | None:
    """Return (N,) float64 weights, some above 0; None where all are 1, so those change no bit."""
    if weight is None:
        return None
    array = as_numpy(weight, name)
    if array.shape != (num_samples,):
        raise ValueError(
            f"{name} has shape {array.shape}, expected ({num_samples},): pass one weight per sample"
        )
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} has dtype {array.dtype}, expected numbers: convert it to float64")
    array = array.astype(np.float64)
    wrong = ~((array >= 0) & (array < np.inf))
    if wrong.any():
        position = int(wrong.argmax())
        raise ValueError(
            f"{name} holds {array[position]:.6g} at position {position}, "
            f"expected finite values >= 0: a weight of 0 leaves a sample out"
        )
    with np.errstate(over="ignore"):
        total = float(array.sum())
    if not 0 < total < np.inf:
        raise ValueError(
            f"{name} sums to {total:.6g}, expected a finite sum above 0: "
            f"give some sample a weight, and divide huge ones"
        )
    return None if (array == 1).all() else array


def without_weightless(values: Array, sample_weight: ArrayLike | None) -> Array:
    """Return the values of the samples whose weight is above 0."""
    weight = open_weight(sample_weight, len(values))
    return values if weight is None or weight.all() else values[np.flatnonzero(weight)]


def zero_weightless(
    values: Array, sample_weight: ArrayLike | None, name: str = "sample_weight"
) -> Array:
    """Return the values with 0 at samples of weight 0, so that those need not pass a check."""
    weight = open_weight(sample_weight, len(values), name)
    if weight is None or weight.all():
        return values
    return np.where(weight > 0, values, values.dtype.type(0))


def weighted_mean(values: Array, weight: Array | None) -> float:
    """Return the mean of the values, each counted as often as its weight says."""
    return float(values.mean() if weight is None else (values * weight).sum() / weight.sum())


def open_scores(
    scores: ArrayLike,
    name: str,
    sample_weight: ArrayLike | None = None,
    weight_name: str = "sample_weight",
) -> Array:
    """Return a 1-D array of finite float32 or float64 scores."""
    array = full_precision(open_floats(scores, name, (1,)))
    array = zero_weightless(array, sample_weight, weight_name)
    if not np.isfinite(array).all():
        position = int((~np.isfinite(array)).argmax())
        raise ValueError(
            f"{name} holds {array[position]} at position {position}, "
            f"expected finite scores: drop the sample"
        )
    return array


def check_positive(name: str, value: object) -> int:
    """Return a number of bins, classes or draws as an integer of at least 1.

    >>> check_positive("num_bins", 15)
    15
    """
    try:
        number = 0 if isinstance(value, bool) else operator.index(cast("SupportsIndex", value))
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"{name}={value!r}, expected an integer >= 1")
    return number


def check_share(
    name: str, value: Any, expected: str, *, allow_0: bool = False, allow_1: bool = False
) -> None:
    """Raise unless the value lies between 0 and 1, or at an end that is allowed."""
    try:
        is_share = 0 < value < 1 or (allow_0 and value == 0) or (allow_1 and value == 1)
    except TypeError:
        is_share = False
    if not is_share:
        raise ValueError(f"{name}={value!r}, expected {expected}")


def random_numbers(seed: int, *stream: int) -> np.random.Generator:
    """Return the random generator of a seed, or of one of several streams of it."""
    try:
        return np.random.default_rng([seed, *stream] if stream else seed)
    except (TypeError, ValueError) as error:
        raise ValueError(f"seed={seed!r}, expected an integer >= 0") from error
