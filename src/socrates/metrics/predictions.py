"""Turn logits into predictions; the only place that decides how the unknown column is read.

It imports nothing of ours but arrays/, so that scaling can use it.
"""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from ..arrays.content import seem_probabilities
from ..arrays.open import HALF_DTYPES, Array, ArrayLike, as_tensor, like
from ..arrays.samples import Prediction, Reading

__all__ = ["READINGS", "Prediction", "Reading", "has_unknown", "predict", "probabilities"]

READINGS: dict[Reading, str] = {
    "answer": "unknown is an answer like any other, and never right",
    "abstain": "the most probable known class answers, and belief in unknown is left out of its "
    "confidence",
    "renormalize": "the unknown class is left out, and the known classes share all belief",
    "spread": "belief in unknown is shared equally among the known classes",
}


def has_unknown(logits: Tensor | Array, num_classes: int) -> bool:
    """Return whether the last column is the unknown class, in addition to the known classes.

    >>> import torch
    >>> has_unknown(torch.zeros(5, 4), num_classes=3)
    True
    """
    columns = int(logits.shape[-1])
    if columns not in (num_classes, num_classes + 1):
        raise ValueError(
            f"logits have {columns} columns, expected the {num_classes} known classes, "
            f"or one more for unknown"
        )
    return columns > num_classes


def predict(
    logits: ArrayLike, unknown: Reading | None = None, num_classes: int | None = None
) -> Prediction:
    """Turn logits into probabilities, confidence and predicted class.

    The unknown column is the last one, after the c known classes. If all rows look like
    probabilities, a warning is given, because a second softmax would flatten them.

    | `unknown`     | probabilities                    | predicted class                        |
    |---------------|----------------------------------|----------------------------------------|
    | None          | softmax, without such a column   | argmax over all columns                |
    | "answer"      | softmax over c + 1               | argmax over c + 1; unknown is an       |
    |               |                                  | answer, and never right                |
    | "abstain"     | the first c of the same softmax  | argmax over c; rows sum to less than 1 |
    | "renormalize" | softmax over the c known logits  | argmax over c                          |
    | "spread"      | p_k + p_unknown / c              | argmax over c                          |

    Args:
        logits: (N, C) floating point numbers in any kind of array. For a tensor the result is
            tensors on the same device, and differentiable; otherwise it is numpy arrays. float16
            and bfloat16 are converted to float32. A class masked with -inf has probability 0. Each
            row needs at least one finite entry, for "renormalize" among the known classes.
        unknown: how to read the unknown column, as in the table.
        num_classes: number of known classes. Pass it if there may be no unknown column: then
            `unknown` is ignored for logits that have none.

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
        raise ValueError(
            f"unknown={unknown!r} is not a reading of the unknown class: "
            f"expected None or one of {tuple(READINGS)}"
        )
    tensor = _open_logits(logits, min_columns=1 if unknown is None else 2)  # (N, C) or (N, c + 1)
    if num_classes is not None and not has_unknown(tensor, num_classes):
        unknown = None
    elif num_classes is not None and unknown is None:
        raise ValueError(
            f"the logits have an unknown column: say how to read it, as one of {tuple(READINGS)}"
        )
    if unknown == "renormalize":
        _refuse_undefined(tensor[:, :-1], "logits of the known classes")
    if seem_probabilities(tensor):
        warnings.warn(
            f"predict takes logits, and all {len(tensor)} rows are >= 0 and sum to 1: pass "
            f"probabilities to the metrics as they are; with an unknown column, their logarithms "
            f"to predict",
            stacklevel=2,
        )
    tensor = tensor.float() if tensor.dtype in HALF_DTYPES else tensor
    probs = probabilities(tensor, unknown)
    predicted = probs.argmax(dim=1)
    confidence = probs.gather(1, predicted[:, None]).squeeze(1)
    return Prediction(
        probs=like(probs, logits),
        confidence=like(confidence, logits),
        predicted=like(predicted, logits),
        num_classes=tensor.shape[1] - (unknown is not None),
        logits=tensor,
        unknown=unknown,
    )


def probabilities(logits: Tensor, unknown: Reading | None, logarithm: bool = False) -> Tensor:
    """Return the probabilities of `predict`'s table, or their logarithms.

    The logarithms are exact where a probability rounds to 0.

    >>> import torch
    >>> probabilities(torch.tensor([[0.0, 200.0, 0.0]]), "renormalize", logarithm=True)
    tensor([[-200., 0.]])
    """
    num_known = logits.shape[1] - 1
    if unknown == "renormalize":
        logits = logits[:, :num_known]
    p = logits.log_softmax(dim=1) if logarithm else logits.softmax(dim=1)
    if unknown not in ("abstain", "spread"):
        return p
    p_known = p[:, :num_known]
    p_unknown = p[:, num_known:]
    if unknown == "abstain":
        return p_known
    if logarithm:
        return torch.logaddexp(p_known, p_unknown - math.log(num_known))
    return p_known + p_unknown / num_known


def _open_logits(logits: ArrayLike, min_columns: int) -> Tensor:
    """Return the logits as a checked floating point tensor that shares no memory with an array."""
    tensor = as_tensor(logits, "logits")
    if not isinstance(logits, Tensor):
        tensor = tensor.clone()  # the Prediction keeps them, and the array may be written to
    if not tensor.is_floating_point():
        raise ValueError(
            f"logits have dtype {tensor.dtype}, expected floating point: convert them with .float()"
        )
    if tensor.ndim != 2 or tensor.shape[0] == 0 or tensor.shape[1] < min_columns:
        expected = "one row per sample"
        if min_columns == 2:
            expected = "one unknown column, the last, and at least one known class"
        raise ValueError(
            f"logits have shape {tuple(tensor.shape)}, expected (N, C) with N >= 1, "
            f"C >= {min_columns}: {expected}"
        )
    _refuse_undefined(tensor, "logits")
    return tensor


def _refuse_undefined(tensor: Tensor, name: str) -> None:
    """Raise an error unless the softmax of each row is defined, that is, its maximum is finite."""
    is_defined = torch.isfinite(tensor.detach().amax(dim=1))
    if not bool(is_defined.all()):
        row = int((~is_defined).int().argmax())
        kind = "-infinity alone" if bool((tensor[row] == -torch.inf).all()) else "NaN or infinity"
        raise ValueError(
            f"{name} of row {row} hold {kind}: look for the cause in the model or drop the row"
        )
