"""Check what the losses are called with.

An error says what was given, what was expected and what to do.
"""

from numbers import Real
from typing import Any, cast

import torch
from torch import Tensor

COMMON_MASK_LABEL = 255  # what masks of images hold where there is no class


def is_number(value: object, kind: type = Real) -> bool:
    """Return whether a setting is a number of Python or numpy; booleans and tensors are not."""
    return isinstance(value, kind) and not isinstance(value, bool)


def is_integer(values: Tensor) -> bool:
    """Return whether a tensor holds integers; booleans do not count."""
    return not (values.is_floating_point() or values.is_complex() or values.dtype == torch.bool)


def at_least_single(logits: Tensor) -> Tensor:
    """Return the logits, in single precision if they are half.

    A loss computed in half precision has two or three digits.
    """
    return logits.float() if logits.itemsize < 4 else logits


def vector_norm(rows: Tensor, order: float) -> Tensor:
    """Return the norm of each row; its gradient is 0 for a row of zeros."""
    return cast(Any, torch.linalg).vector_norm(rows, order, dim=1)


def true_class(values: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Return the entry of each row at its label.

    A label outside 0..num_classes-1 raises, on the CPU at no cost.
    """
    try:
        return values[:, :num_classes].gather(1, labels[:, None]).squeeze(1)
    except RuntimeError as error:
        raise label_error(labels, num_classes, values.shape[1]) from error


def check_labels_in_range(values: Tensor, labels: Tensor, num_classes: int) -> None:
    """Raise for labels outside 0..num_classes-1, where that costs nothing."""
    true_class(values, labels, num_classes)


def check_inputs(logits: Tensor, labels: Tensor, name: str, *, unknown: bool) -> Tensor:
    """Return the labels as int64, or raise a ValueError that names what is wrong.

    Good input is judged by shapes and types alone.
    """
    check_tensor(logits, "logits", name)
    check_tensor(labels, "labels", name)
    if logits.dim() != 2 or not logits.is_floating_point() or logits.shape[1] < 1 + unknown:
        columns = "num_classes columns"
        if unknown:
            columns = "num_classes + 1 columns, the unknown class last"
        advice = "a binary problem has two classes, not one"
        if logits.dim() > 2:
            advice = "for pixels use the loss modules, or one row of logits per pixel"
        raise ValueError(
            f"{name} needs floating-point logits of shape (batch, {columns}), "
            f"got {tuple(logits.shape)} of {logits.dtype}: {advice}"
        )
    if labels.shape != logits.shape[:1] or not is_integer(labels):
        raise ValueError(
            f"{name} needs {len(logits)} integer labels, "
            f"one per row of logits {tuple(logits.shape)}, "
            f"got {tuple(labels.shape)} of {labels.dtype}{_advice_on_labels(labels, len(logits))}"
        )
    return labels.to(torch.int64)


def check_pixels(logits: Tensor, labels: Tensor, name: str) -> None:
    """Raise unless there is one label per pixel of logits (N, columns, H, W)."""
    shape = labels.shape
    expected = (logits.shape[0], *logits.shape[2:])
    if shape == expected:
        return
    advice = ""
    if shape == (expected[0], 1, *expected[1:]):
        advice = ": labels.squeeze(1) has the right shape"
    elif shape == logits.shape[:-1]:
        advice = ": the classes must be dimension 1, as in logits.movedim(-1, 1)"
    elif shape == logits.shape:
        rows = labels.movedim(1, -1).flatten(0, -2)
        advice = _advice_on_labels(rows, len(rows))
    raise ValueError(
        f"{name} needs labels of shape {expected} for logits {tuple(logits.shape)}, "
        f"got {tuple(shape)}{advice}"
    )


def check_tensor(value: object, what: str, name: str) -> None:
    """Raise for arrays, lists and numbers where a tensor is expected."""
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{name} needs {what} as a torch tensor, got {type(value).__name__}: "
            f"wrap it in torch.as_tensor"
        )


def check_target(target: Tensor, labels: Tensor) -> None:
    """Raise unless there is one target per label."""
    check_tensor(target, "target", "the loss")
    if target.shape != labels.shape or not target.is_floating_point():
        raise ValueError(
            f"target must hold one float per label {tuple(labels.shape)}, "
            f"got {tuple(target.shape)} of {target.dtype}"
        )


def check_gamma(gamma: float) -> float:
    """Return gamma as a float, or raise if it is negative or not a number."""
    if not is_number(gamma) or not 0 <= gamma < float("inf"):
        raise ValueError(
            f"gamma must be at least 0, got {gamma!r}: "
            f"0 switches the focal term off, the paper uses 1 to 4"
        )
    return float(gamma)


def check_setting(value: float, name: str, above: bool = False) -> float:
    """Return a setting as a float, or raise if it is negative, endless or, for `above`, zero."""
    if not is_number(value) or not 0 <= value < float("inf") or (above and value == 0):
        expected = "above 0" if above else "at least 0"
        raise ValueError(f"{name} must be a number {expected}, got {value!r}")
    return float(value)


def label_error(labels: Tensor, num_classes: int, num_outputs: int) -> ValueError:
    """Return the error for labels that are not all in 0..num_classes-1."""
    lowest = int(labels.min())
    highest = int(labels.max())
    if highest == COMMON_MASK_LABEL:
        advice = f"to leave samples out, make the loss module with ignore_index={highest}"
    elif lowest < 0 and highest < num_classes:
        advice = (
            "a negative number is not a class; the loss modules leave out samples "
            "whose label is their ignore_index"
        )
    elif num_outputs > num_classes:
        advice = (
            f"the model has {num_outputs} outputs, the last is the unknown class, never a label: "
            f"build it with num_classes + 1 outputs; unknown_label=True allows this label for "
            f"samples of none of the classes"
        )
    else:
        advice = f"the model has {num_outputs} outputs, one per class"
    return ValueError(
        f"labels must be in 0..{num_classes - 1}, got values from {lowest} to {highest}: {advice}"
    )


def _advice_on_labels(labels: Tensor, num_rows: int) -> str:
    """Return what to do with labels that are not one class number per row; reads their values."""
    if labels.shape == (num_rows, 1):
        return ": labels.squeeze(1) has the right shape"
    if labels.shape == (num_rows,):
        return ": labels.long() if they are class numbers"
    if labels.dim() != 2 or len(labels) != num_rows or labels.is_complex() or not labels.numel():
        return ""
    values = labels.double()
    if not ((values == 0) | (values == 1)).all():
        return (
            ": soft labels are not supported; for mixup add "
            "lam * loss(logits, labels_a, index_a) and "
            "(1 - lam) * loss(logits, labels_b, index_b), "
            "each label with the index of its own sample "
            '(reduction="none" if lam differs between samples)'
        )
    if (values.sum(dim=1) == 1).all():
        return ": these are one-hot, labels.argmax(1) are the class numbers"
    return (
        ": several classes per sample (multi-label) are not supported, "
        "a softmax has one true class; use BCEWithLogitsLoss"
    )
