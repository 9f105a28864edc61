"""Open what scalers are fitted on and called on: logits, probabilities, or scores of class 1."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from socrates.arrays.content import (
    Classes,
    check_probabilities,
    open_labels,
    seem_features,
    seem_probabilities,
)
from socrates.arrays.open import HALF_DTYPES, Array, ArrayLike, as_tensor, open_weight

# Larger differences between logits overflow in the sixth power.
LARGEST_RANGE = 1e40
# The least that a probability of 0 counts as: what float32 holds in full precision.
LEAST = 1e-37
# A zero was rounded to it. It counts as this share of the smallest probability that was not, and
# as MOST at most: of 0.03 to 1, 0.1 gave the least test NLL on real softmax outputs rounded to 3,
# 4 and 6 decimals.
ZERO_SHARE = 0.1
MOST = 1e-3


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Samples to fit on.

    Args:
        logits: (N, C), without gradient; probabilities until the scaler takes their logarithms.
        labels: (N,) int64, on the device of the logits.
        weight: (N,) float64 above 0: how often each sample counts; None where each counts once.
        unknown_class: whether the last column is the unknown class, which is never a label.
        are_scores: whether one score of class 1 per sample was passed in.
    """

    logits: Tensor
    labels: Tensor
    weight: Tensor | None = None
    unknown_class: bool = False
    are_scores: bool = False

    @property
    def known(self) -> HeldOut:
        """Return the samples without their unknown column."""
        if not self.unknown_class:
            return self
        return replace(self, logits=self.logits[:, :-1], unknown_class=False)

    def take(self, rows: Tensor | slice) -> HeldOut:
        """Return the samples of these rows."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, logits=self.logits[rows], labels=self.labels[rows], weight=weight)


def open_held_out(
    values: ArrayLike,
    labels: ArrayLike,
    caller: str,
    *,
    unknown_class: bool = False,
    from_probs: bool = False,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
) -> HeldOut:
    """Return checked samples; a ValueError names the caller. Samples of weight 0 are left out."""
    try:
        rows = open_values(values, from_probs).detach()
        are_scores = rows.ndim == 1 or (rows.ndim == 2 and rows.shape[1] == 1)
        if are_scores:
            rows = columns_of_scores(rows, from_probs)
        if rows.ndim != 2 or len(rows) == 0 or rows.shape[1] < 2 + unknown_class:
            name = "probs" if from_probs else "logits"
            columns = "2 classes and the unknown column" if unknown_class else "2 classes"
            raise ValueError(
                f"{name} have shape {tuple(rows.shape)}, expected (N, C) with at least 1 sample "
                f"and {columns}: pass one row per sample, or (N,) scores of class 1 where there "
                "are two classes"
            )
        weight = open_weight(sample_weight, len(rows))
        kept = None if weight is None or weight.all() else weight.nonzero()[0]
        num_classes = rows.shape[1] - unknown_class
        numbers = open_labels(labels, len(rows), num_classes, classes, kept)
        if kept is not None and weight is not None:
            weight = weight[kept]
            rows = rows[torch.as_tensor(kept, device=rows.device)]
        if from_probs:
            check_probabilities(rows, "from_probs=True")
        else:
            _check_logits(rows)
            _notice_features(rows, numbers, caller)
    except ValueError as error:
        note = " (the last column is the unknown class, never a label)" if unknown_class else ""
        raise ValueError(f"{caller}: {error}{note}") from error
    dtype = torch.float32 if rows.device.type == "mps" else torch.float64
    return HeldOut(
        rows,
        as_tensor(numbers, "labels").to(rows.device, torch.int64),
        None if weight is None else as_tensor(weight, "sample_weight").to(rows.device, dtype),
        unknown_class,
        are_scores,
    )


def _notice_features(rows: Tensor, labels: Array, caller: str) -> None:
    """Warn if rows are the features of a classifier, as in a pipeline without one."""
    reason = seem_features(rows.double().numpy(), labels) if rows.device.type == "cpu" else ""
    if reason:
        warnings.warn(
            f"{caller} got rows that look like features, not like the outputs of a classifier "
            f"({reason}): fit a model first, and pass its logits",
            stacklevel=4,
        )


def refuse_one_class(labels: Tensor, scaler: str) -> None:
    """Raise where all labels are of one class, which leaves a bias without an optimum."""
    if bool((labels == labels[0]).all()):
        raise ValueError(
            f"{scaler}.fit needs labels of at least 2 classes, all {len(labels)} labels are "
            f"{int(labels[0])}: pass more held-out data, or use TemperatureScaling"
        )


def open_values(values: ArrayLike, from_probs: bool) -> Tensor:
    """Return logits or probabilities as a floating-point tensor.

    >>> open_values([[2.0, 1.0]], from_probs=False)
    tensor([[2., 1.]], dtype=torch.float64)
    """
    name = "probs" if from_probs else "logits"
    tensor = as_tensor(values, name)
    if not tensor.is_floating_point():
        advice = ".float()" if isinstance(values, Tensor) else " to numpy with dtype float"
        raise ValueError(
            f"{name} have dtype {tensor.dtype}, expected floating point: convert {name}{advice}"
        )
    return tensor


def columns_of_scores(scores: Tensor, from_probs: bool) -> Tensor:
    """Return the two columns that (N,) or (N, 1) scores of class 1 stand for.

    Probabilities p stand for (1 - p, p), logits z for (0, z).

    >>> columns_of_scores(torch.tensor([0.25, 1.0]), from_probs=True)
    tensor([[0.7500, 0.2500],
            [0.0000, 1.0000]])
    """
    scores = scores.squeeze(-1) if scores.ndim > 1 else scores
    other = 1 - scores if from_probs else torch.zeros_like(scores)
    return torch.stack([other, scores], dim=-1)


def widen(values: Tensor) -> Tensor:
    """Return half precision as single, which fitted numbers and logarithms need."""
    return values.float() if values.dtype in HALF_DTYPES else values


def zero_floor(probs: Tensor) -> float:
    """Return what a probability of exactly 0 counts as: a tenth of the smallest that is not."""
    smallest = float(probs.masked_fill(probs == 0, 1).amin())
    return min(max(ZERO_SHARE * smallest, LEAST), MOST)


def log_probs(probs: Tensor, floor: float) -> Tensor:
    """Return logarithms of probabilities, none below that of the floor."""
    return widen(probs).clamp(min=floor).log()


def mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean over the last axis, of samples, each counted by its weight.

    >>> values = torch.tensor([[1.0, 4.0], [0.0, 2.0]])
    >>> mean(values, None), mean(values, torch.tensor([3.0, 1.0]))
    (tensor([2.5000, 1.0000]), tensor([1.7500, 0.5000]))
    """
    if weight is None:
        return values.mean(dim=-1)
    return values @ (weight / weight.sum()).to(values)


def mean_nll(logits: Tensor, labels: Tensor, weight: Tensor | None) -> float:
    """Return the mean NLL of rows of logits, each counted by its weight."""
    if weight is None:
        return float(cross_entropy(logits, labels))
    return float(mean(cross_entropy(logits, labels, reduction="none"), weight))


def mean_and_error(values: Tensor, weight: Tensor | None) -> tuple[float, float]:
    """Return the mean of independent values (N,) and its standard error.

    Weights do not make samples independent: multiplying all of them changes nothing.

    >>> mean_and_error(torch.tensor([1.0, 2.0, 6.0]), weight=None)
    (3.0, 1.5275...)
    """
    size = len(values)
    average = float(mean(values, weight))
    if weight is None:
        return average, float(values.std()) / math.sqrt(size)
    share = (weight / weight.sum()).to(values)
    squares = ((values - average) * share).square().sum()
    return average, math.sqrt(float(squares) * size / max(size - 1, 1))


def _check_logits(logits: Tensor) -> None:
    low, high = (float(extreme) for extreme in logits.aminmax())
    if not math.isfinite(high - low):  # NaN reaches both
        bad = ~torch.isfinite(logits).all(dim=1)
        raise ValueError(
            f"{int(bad.sum())} of {len(logits)} rows of logits hold NaN or infinity, the first is "
            f"row {int(bad.int().argmax())}: clip infinite logits, e.g. logits.clip(-1e4, 1e4), or "
            "pass probabilities with from_probs=True instead of their logarithms; drop rows with "
            "NaN, or repair what wrote them"
        )
    if high - low > LARGEST_RANGE:
        raise ValueError(
            f"the logits are too large, from {low:.1e} to {high:.1e}: "
            "clip them, e.g. logits.clip(-1e30, 1e30)"
        )
    if seem_probabilities(logits):
        raise ValueError(
            f"expected logits, and all {len(logits)} rows are >= 0 and sum to 1: pass "
            "from_probs=True for probabilities; if these are logits, add 1 to all of them, which "
            "leaves their softmax as it is"
        )
