"""The shell of every loss: which samples count, how much, and how their values become one number."""

from numbers import Integral
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from .inputs import check_inputs, check_pixels, check_tensor, is_number, is_on_host

Reduction = Literal["mean", "sum", "none"]


class Rows(NamedTuple):
    """A batch as a loss takes it, one row per label; `counts` is None where every row counts alike."""

    logits: Tensor  # (B, outputs)
    labels: Tensor  # (B,), 0 where the row does not count
    counts: Tensor | None  # (B,) truth values
    shape: torch.Size  # of the labels as they were given


class LossModule(nn.Module):
    """What every loss module does before and after its formula, with the options of `nn.CrossEntropyLoss`.

    Args:
        weight: (C,) floats, the weight of each known class; a mean divides by the sum of the samples' weights.
        ignore_index: the label of samples that do not count. If none is left, the loss is 0 with a gradient of 0.
        label_smoothing: the share of a label that is spread evenly over the classes; for focal loss and Brier loss.
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
            raise ValueError(f"{name} takes no label_smoothing, it has one true class: FocalLoss and BrierLoss do")
        if weight is not None:
            check_tensor(weight, "weight", name)
            if weight.dim() != 1 or not weight.is_floating_point():
                raise ValueError(f"weight must be one float per known class, got {tuple(weight.shape)}, {weight.dtype}")
            if not (weight.is_meta or bool((weight.isfinite() & (weight >= 0)).all())):
                raise ValueError(f"weight must be finite and at least 0, got {weight}: 0 leaves a class out")
        self.ignore_index, self.label_smoothing, self.reduction = int(ignore_index), float(label_smoothing), reduction
        self.register_buffer("weight", weight, persistent=False)

    def rows(self, logits: Tensor, labels: Tensor) -> Rows:
        """The batch, checked, with one row per label: the pixels of (N, C, H, W) logits are samples of their own."""
        name, shape, weight = type(self).__name__, getattr(labels, "shape", torch.Size()), self.weight
        if getattr(logits, "ndim", 2) > 2 and shape:
            check_pixels(logits, labels, name)
            logits, labels = logits.movedim(1, -1).flatten(0, -2), labels.flatten()
        labels = check_inputs(logits, labels, name, unknown=self.unknown)
        if weight is not None and len(weight) != logits.shape[1] - self.unknown:
            classes = "classes and unknown, which has no weight" if self.unknown else "classes"
            raise ValueError(f"{name} has {len(weight)} weights for logits {tuple(logits.shape)} of {classes}")
        if weight is None and len(labels) and is_on_host(labels) and (labels.numpy() != self.ignore_index).all():
            return Rows(logits, labels, None, shape)
        counts = labels != self.ignore_index
        return Rows(logits, labels.masked_fill(~counts, 0), counts, shape)

    def extra_repr(self) -> str:
        usual = {"training": self.training, "ignore_index": -100, "label_smoothing": 0.0, "reduction": "mean"}
        usual["process_group"] = "auto"
        own = {name: value for name, value in vars(self).items() if name[0] != "_" and usual.get(name) != value}
        return ", ".join(f"{name}={value!r}" for name, value in own.items())

    def weights(self, rows: Rows, dtype: torch.dtype) -> Tensor | None:
        """How much each row counts; None where every row counts alike."""
        if rows.counts is None:
            return None
        return rows.counts.to(dtype) * (1 if self.weight is None else self.weight.to(dtype)[rows.labels])

    def reduce(self, loss: Tensor, rows: Rows, even: Tensor | float = 0.0) -> Tensor:
        """The batch's loss from one value per sample; `even` is a part of it that no label's weight multiplies."""
        weight = self.weights(rows, loss.dtype)
        if rows.counts is None or weight is None:
            loss, total = loss + even if self.label_smoothing else loss, None
        else:
            loss, total = (loss * weight + even).masked_fill(~rows.counts, 0.0), weight.sum()
        if self.reduction == "none":
            return loss.reshape(rows.shape)
        if self.reduction == "sum" or total is None:
            return loss.sum() if self.reduction == "sum" else loss.mean()
        return loss.sum() / total.masked_fill(total == 0, 1.0)
