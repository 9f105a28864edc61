"""The shell of every loss: which samples count, how much, and how they become one number."""

from numbers import Integral
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from .inputs import check_inputs, check_pixels, check_tensor, is_number
from .torch_internals import is_on_host

Reduction = Literal["mean", "sum", "none"]

# What `repr` leaves out.
_DEFAULTS = {
    "ignore_index": -100,
    "label_smoothing": 0.0,
    "reduction": "mean",
    "process_group": "auto",
    "unknown_label": False,
}


class LossRows(NamedTuple):
    """A batch as a loss takes it, one row per label.

    `counts` is None where every row counts alike.
    """

    logits: Tensor  # (B, outputs)
    labels: Tensor  # (B,), 0 where the row does not count
    counts: Tensor | None  # (B,) booleans
    shape: torch.Size  # of the labels as they were passed in


class LossModule(nn.Module):
    """Do what every loss does around its formula, with the options of `nn.CrossEntropyLoss`.

    Args:
        weight: (C,) floats, the weight of each known class; a mean divides by the sum of the
            samples' weights.
        ignore_index: the label of samples that do not count. If none is left, the loss is 0 with a
            gradient of 0.
        label_smoothing: the share of a label that is spread evenly over the classes; for focal loss
            and Brier loss.
        reduction: "mean", "sum" or "none".
    """

    unknown: ClassVar[bool] = False  # whether the last logit column is the unknown class
    smooths: ClassVar[bool] = False  # whether it takes label_smoothing
    weight: Tensor | None

    def __init__(
        self,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
        if not is_number(ignore_index, Integral):
            raise ValueError(f"ignore_index must be an integer, got {ignore_index!r}")
        if not is_number(label_smoothing) or not 0 <= label_smoothing <= 1:
            raise ValueError(f"label_smoothing must be in [0, 1], got {label_smoothing!r}")
        if label_smoothing and not self.smooths:
            raise ValueError(
                f"{name} takes no label_smoothing, it has one true class: "
                f"use FocalLoss or BrierLoss"
            )
        if weight is not None:
            _check_class_weights(weight, name)
        self.ignore_index = int(ignore_index)
        self.label_smoothing = float(label_smoothing)
        self.reduction: Reduction = reduction
        self.register_buffer("weight", weight, persistent=False)

    def flatten(self, logits: Tensor, labels: Tensor) -> LossRows:
        """Check the batch and return it with one row per label.

        The pixels of (N, C, H, W) logits are samples of their own.
        """
        name = type(self).__name__
        shape = getattr(labels, "shape", torch.Size())
        if getattr(logits, "ndim", 2) > 2 and shape:
            check_pixels(logits, labels, name)
            logits = logits.movedim(1, -1).flatten(0, -2)
            labels = labels.flatten()
        labels = check_inputs(logits, labels, name, unknown=self.unknown)
        self._check_number_of_weights(logits)
        if self.weight is None and self._none_is_ignored(labels):
            return LossRows(logits, labels, None, shape)
        counts = labels != self.ignore_index
        return LossRows(logits, labels.masked_fill(~counts, 0), counts, shape)

    def sample_weights(self, rows: LossRows, dtype: torch.dtype) -> Tensor | None:
        """Return how much each row counts; None where every row counts alike."""
        if rows.counts is None:
            return None
        counts = rows.counts.to(dtype)
        return counts if self.weight is None else counts * self.weight.to(dtype)[rows.labels]

    def reduce(self, loss: Tensor, rows: LossRows, unweighted: Tensor | float = 0.0) -> Tensor:
        """Return the batch's loss from one value per sample.

        `unweighted` is a part of it that no label's weight multiplies.
        """
        weight = self.sample_weights(rows, loss.dtype)
        total = None
        if rows.counts is not None and weight is not None:
            loss = (loss * weight + unweighted).masked_fill(~rows.counts, 0.0)
            total = weight.sum()
        elif self.label_smoothing:
            loss = loss + unweighted
        if self.reduction == "none":
            return loss.reshape(rows.shape)
        if self.reduction == "sum":
            return loss.sum()
        if total is None:
            return loss.mean()
        return loss.sum() / total.masked_fill(total == 0, 1.0)

    def extra_repr(self) -> str:
        shown = {
            name: value
            for name, value in vars(self).items()
            if name[0] != "_" and name != "training" and not isinstance(value, Tensor)
            if _DEFAULTS.get(name) != value
        }
        if self.weight is not None:
            shown["weight"] = self.weight.tolist()  # pyright: ignore[reportUnknownMemberType]
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())

    def _check_number_of_weights(self, logits: Tensor) -> None:
        if self.weight is None or len(self.weight) == logits.shape[1] - self.unknown:
            return
        classes = "classes"
        if self.unknown:
            classes = "classes and unknown, which has no weight: pass one per known class"
        raise ValueError(
            f"{type(self).__name__} has {len(self.weight)} weights "
            f"for logits {tuple(logits.shape)} of {classes}"
        )

    def _none_is_ignored(self, labels: Tensor) -> bool:
        """Return whether it is known at no cost that every sample counts."""
        if not len(labels) or not is_on_host(labels):
            return False
        return bool((labels.numpy() != self.ignore_index).all())


def _check_class_weights(weight: Tensor, name: str) -> None:
    check_tensor(weight, "weight", name)
    if weight.dim() != 1 or not weight.is_floating_point():
        raise ValueError(
            f"weight must be one float per known class, got {tuple(weight.shape)}, {weight.dtype}"
        )
    if not (weight.is_meta or bool((weight.isfinite() & (weight >= 0)).all())):
        raise ValueError(
            f"weight must be finite and at least 0, got {weight}: 0 leaves a class out"
        )
