"""What the unknown column means: the one place that turns logits into probabilities, confidence and answers."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]
Reading = Literal["answer", "abstain", "renormalize", "spread"]
READINGS: dict[Reading, str] = {
    "answer": "unknown is an answer like any other, and never right",
    "abstain": "the most probable known class answers, and belief in unknown is left out of its confidence",
    "renormalize": "the unknown class is left out, and the known classes share all belief",
    "spread": "belief in unknown is shared equally among the known classes",
}
# A softmax in single precision, or one read from few digits, misses 1 by less than this.
ROW_SUM_TOLERANCE = 1e-3
# Rounding to bfloat16 moves a row's sum by up to 2^-8, to float16 by 2^-11 and 2^-25 for each of its C classes: 0.02
# holds that for C up to half a million, and twice the rounding of a softmax computed in half precision throughout.
HALF_TOLERANCE = 2e-2
GLANCE = 64  # rows that tell at little cost that these are logits


@dataclass(frozen=True, eq=False)
class Prediction:
    """Probabilities, confidence and predicted class of N samples, as `predict` reads them.

    Every metric takes it in the place of `probs`. It unpacks into its three arrays.

    Args:
        probs: (N, C) probabilities; the rows sum to less than 1 where belief in "unknown" is left out.
        confidence: (N,) probability of the predicted class.
        predicted: (N,) predicted class; `num_classes` stands for unknown.
        num_classes: number of known classes, the leading columns of `probs`.
        logits: (N, C) logits that `predict` read: from them `nll` is exact where a probability rounds to 0.
        unknown: the reading of these logits.
        answered: (N,) whether the sample is answered, where somebody decided that; see `socrates.abstention`.

    >>> import torch
    >>> probs, confidence, predicted = predict(torch.tensor([[0.0, 0.0, 2.0]]), unknown="renormalize")
    >>> probs, predicted
    (tensor([[0.5000, 0.5000]]), tensor([0]))
    """

    probs: torch.Tensor | Array
    confidence: torch.Tensor | Array
    predicted: torch.Tensor | Array
    num_classes: int
    logits: torch.Tensor | None = None
    unknown: Reading | None = None
    answered: torch.Tensor | Array | None = None

    def __iter__(self) -> Iterator[torch.Tensor | Array]:
        return iter((self.probs, self.confidence, self.predicted))

    def __len__(self) -> int:
        return len(self.predicted)

    @property
    def unknown_share(self) -> float:
        """Share of samples whose answer is unknown; 0 unless the reading is "answer".

        >>> predict([[0.0, 0.0, 2.0], [3.0, 0.0, 2.0]], unknown="answer").unknown_share
        0.5
        """
        return float((torch.as_tensor(self.predicted) == self.num_classes).double().mean())


def has_unknown(logits: torch.Tensor | Array, num_classes: int) -> bool:
    """Whether the last column is the unknown class: there is one more than there are known classes.

    >>> import torch
    >>> has_unknown(torch.zeros(5, 4), num_classes=3)
    True
    """
    columns = int(logits.shape[-1])
    if columns not in (num_classes, num_classes + 1):
        expected = f"the {num_classes} known classes, or one more for unknown"
        raise ValueError(f"logits have {columns} columns, expected {expected}")
    return columns > num_classes


def predict(
    logits: torch.Tensor | npt.ArrayLike, unknown: Reading | None = None, num_classes: int | None = None
) -> Prediction:
    """Turn logits into probabilities, confidence and predicted class under one reading of the unknown column.

    The unknown column is the last one; c known classes stand before it. Rows that all look like probabilities get a
    warning, as a second softmax would flatten them.

    | `unknown`     | probabilities                    | predicted class                                       |
    |---------------|----------------------------------|-------------------------------------------------------|
    | None          | softmax; there is no such column | argmax over all columns                               |
    | "answer"      | softmax over c + 1               | argmax over c + 1: unknown is an answer, never right  |
    | "abstain"     | the first c of the same softmax  | argmax over c; rows sum to less than 1                |
    | "renormalize" | softmax over the c known logits  | argmax over c                                         |
    | "spread"      | p_k + p_unknown / c              | argmax over c                                         |

    Args:
        logits: (N, C) floating point, torch or numpy; the result is of the same kind, on the same device, and
            differentiable. float16 and bfloat16 are read in float32. A class masked with -inf has probability 0; one
            entry of each row must be finite, with "renormalize" one of a known class.
        unknown: the reading.
        num_classes: number of known classes, where it is not certain that there is an unknown column: without one the
            reading is None, whatever was asked for.

    >>> import torch
    >>> logits = torch.tensor([[2.0, 1.0, 3.0]])
    >>> predict(logits, unknown="answer").predicted
    tensor([2])
    >>> predict(logits, unknown="abstain").confidence
    tensor([0.2447])
    >>> predict(logits, unknown="abstain", num_classes=3).confidence
    tensor([0.6652])
    """
    if unknown is not None and unknown not in READINGS:
        known = tuple(READINGS)
        raise ValueError(f"unknown={unknown!r} is no reading of the unknown class: expected None or one of {known}")
    tensor = _checked_logits(logits, least=1 if unknown is None else 2)  # (N, C) or (N, c + 1)
    if num_classes is not None:
        column = has_unknown(tensor, num_classes)
        if column and unknown is None:
            raise ValueError(f"the logits have an unknown column: say how to read it, as one of {tuple(READINGS)}")
        unknown = unknown if column else None
    if unknown == "renormalize":
        _refuse_infinite(tensor[:, :-1], "logits of the known classes")
    if _are_probabilities(tensor.detach(), half=getattr(getattr(logits, "dtype", None), "itemsize", 8) < 4):
        given = f"predict takes logits, and all {len(tensor)} rows are >= 0 and sum to 1"
        todo = "pass probabilities to the metrics as they are; with an unknown column, their logarithms to predict"
        warnings.warn(f"{given}: {todo}", stacklevel=2)
    probs = probabilities(tensor, unknown)
    predicted = probs.argmax(dim=1)
    confidence = probs.gather(1, predicted[:, None]).squeeze(1)
    num_known = tensor.shape[1] - (unknown is not None)
    if isinstance(logits, torch.Tensor):
        return Prediction(probs, confidence, predicted, num_known, tensor, unknown)
    return Prediction(probs.numpy(), confidence.numpy(), predicted.numpy(), num_known, tensor, unknown)


def probabilities(logits: torch.Tensor, unknown: Reading | None, logarithm: bool = False) -> torch.Tensor:
    """The probabilities of `predict`'s table, or their logarithms, which are exact where a probability rounds to 0.

    >>> import torch
    >>> probabilities(torch.tensor([[0.0, 200.0, 0.0]]), "renormalize", logarithm=True)
    tensor([[-200., 0.]])
    """
    num_known = logits.shape[1] - 1
    if unknown == "renormalize":
        logits = logits[:, :num_known]
    p = logits.log_softmax(dim=1) if logarithm else logits.softmax(dim=1)
    if unknown == "abstain":
        return p[:, :num_known]
    if unknown == "spread":
        known, rest = p[:, :num_known], p[:, num_known:]
        return torch.logaddexp(known, rest - math.log(num_known)) if logarithm else known + rest / num_known
    return p


def refuse_mask(values: object, name: str) -> None:
    """Raise for a numpy array with masked entries: reading them would ignore the mask."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} holds masked entries, whose values mean nothing: drop those rows, or fill them")


def _checked_logits(logits: torch.Tensor | npt.ArrayLike, least: int) -> torch.Tensor:
    """The logits as a float32 or float64 tensor, or a ValueError that says what is wrong with them."""
    if isinstance(logits, torch.Tensor):
        tensor = logits
    else:
        refuse_mask(logits, "logits")
        try:
            array = np.asarray(logits)
            kind = np.float64 if array.dtype.type is np.longdouble else array.dtype.type
            # torch takes neither a foreign byte order nor negative strides: the copy has none.
            tensor = torch.as_tensor(np.array(array, kind, order="C"))
        except (TypeError, ValueError) as error:
            raise ValueError(f"logits do not form a numeric array ({error}): pass an (N, C) tensor or array") from error
    if not tensor.is_floating_point():
        raise ValueError(f"logits have dtype {tensor.dtype}, expected floating point: convert them with .float()")
    if tensor.ndim != 2 or tensor.shape[0] == 0 or tensor.shape[1] < least:
        why = "one unknown column, the last, and at least one known class" if least == 2 else "one row a sample"
        raise ValueError(f"logits have shape {tuple(tensor.shape)}, expected (N, C) with N >= 1, C >= {least}: {why}")
    tensor = tensor.float() if tensor.itemsize < 4 else tensor
    _refuse_infinite(tensor, "logits")
    return tensor


def _are_probabilities(tensor: torch.Tensor, half: bool) -> bool:
    """Whether two rows or more are all >= 0 and sum to 1; of 0 and 1 alone they may be logits of a small example."""
    if len(tensor) < 2 or tensor.shape[1] < 2:
        return False
    off = HALF_TOLERANCE if half else ROW_SUM_TOLERANCE
    for rows in (tensor[:GLANCE], tensor):
        if not bool(((rows.amin(dim=1) >= 0) & ((rows.sum(dim=1) - 1).abs() <= off)).all()):
            return False
    return bool((tensor % 1 != 0).any())


def _refuse_infinite(tensor: torch.Tensor, name: str) -> None:
    """Raise unless the softmax of each row is defined: its maximum is finite. NaN is a maximum, too."""
    fine = torch.isfinite(tensor.detach().amax(dim=1))
    if not bool(fine.all()):
        row = int((~fine).int().argmax())
        kind = "-infinity alone" if bool((tensor[row] == -torch.inf).all()) else "NaN or infinity"
        raise ValueError(f"{name} of row {row} hold {kind}: look for the cause in the model or drop the row")
