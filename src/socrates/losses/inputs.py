"""The checks that the losses share: an error says what was given, what was expected and what to do."""

from collections.abc import Callable
from numbers import Real
from typing import Any, cast

import torch
from torch import Tensor

USUAL_MASK = 255  # what masks of images have where there is no class
_internals = cast(Any, torch._C)  # pyright: ignore[reportPrivateUsage]
is_transformed: Callable[[], bool] = _internals._are_functorch_transforms_active  # torch.func: grad, vmap, jvp, ...
is_wrapped: Callable[[Tensor], bool] = _internals._functorch.is_functorch_wrapped_tensor  # torch.func may write it
backward_at_work: Callable[[], int] = _internals._current_graph_task_id  # -1 outside of a backward pass
_is_traced: Callable[[], bool] = cast(Any, torch.jit).is_tracing


def is_number(value: object, kind: type = Real) -> bool:
    """Whether a setting is a number, Python's or numpy's; truth values and tensors are none."""
    return isinstance(value, kind) and not isinstance(value, bool)


def is_integer(values: Tensor) -> bool:
    """Whether a tensor holds integers; truth values are none."""
    return not (values.is_floating_point() or values.is_complex() or values.dtype == torch.bool)


def is_on_host(values: Tensor) -> bool:
    """Whether values can be read at no cost: a plain tensor on the CPU that nothing traces or transforms."""
    followed = torch.compiler.is_compiling() or _is_traced() or is_transformed()
    return values.is_cpu and type(values) is Tensor and not followed


def at_least_single(logits: Tensor) -> Tensor:
    """The logits, in single precision if they are half: a loss of half-precision numbers has two or three digits."""
    return logits.float() if logits.itemsize < 4 else logits


def true_class(values: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """The entry of each row at its label; a label outside 0..num_classes-1 raises, on the CPU at no cost."""
    try:
        return values[:, :num_classes].gather(1, labels[:, None]).squeeze(1)
    except RuntimeError as error:
        raise label_error(labels, num_classes, values.shape[1]) from error


def check_inputs(logits: Tensor, labels: Tensor, name: str, *, unknown: bool) -> Tensor:
    """Labels as int64, or a ValueError that names what is wrong; good input is judged by shapes and types only."""
    check_tensor(logits, "logits", name)
    check_tensor(labels, "labels", name)
    if logits.dim() != 2 or not logits.is_floating_point() or logits.shape[1] < 1 + unknown:
        columns = "num_classes + 1 columns, the unknown class last" if unknown else "num_classes columns"
        given, advice = f"{tuple(logits.shape)} of {logits.dtype}", "a problem of yes or no has two classes, not one"
        if logits.dim() > 2:
            advice = "for pixels use the loss modules, or one row of logits a pixel"
        raise ValueError(f"{name} needs floating-point logits of shape (batch, {columns}), got {given}: {advice}")
    if labels.shape != logits.shape[:1] or not is_integer(labels):
        expected = f"{len(logits)} integer labels, one per row of logits {tuple(logits.shape)}"
        given = f"{tuple(labels.shape)} of {labels.dtype}{_advice_on_labels(labels, len(logits))}"
        raise ValueError(f"{name} needs {expected}, got {given}")
    return labels.to(torch.int64)


def check_pixels(logits: Tensor, labels: Tensor, name: str) -> None:
    """Refuse labels whose shape is not that of the pixels of logits (N, columns, H, W), or of a sequence's elements."""
    given, expected = labels.shape, (logits.shape[0], *logits.shape[2:])
    if given == expected:
        return
    advice = ""
    if given == (expected[0], 1, *expected[1:]):
        advice = ": labels.squeeze(1) has the right shape"
    elif given == logits.shape[:-1]:
        advice = ": the classes must be dimension 1, as in logits.movedim(-1, 1)"
    elif given == logits.shape:
        rows = labels.movedim(1, -1).flatten(0, -2)
        advice = _advice_on_labels(rows, len(rows))
    shapes = f"labels of shape {expected} for logits {tuple(logits.shape)}, got {tuple(given)}"
    raise ValueError(f"{name} needs {shapes}{advice}")


def check_tensor(value: object, what: str, name: str) -> None:
    """Refuse arrays, lists and numbers in the place of a tensor."""
    if not isinstance(value, Tensor):
        given = type(value).__name__
        raise ValueError(f"{name} needs {what} as a torch tensor, got {given}: wrap it in torch.as_tensor")


def check_target(target: Tensor, labels: Tensor) -> None:
    """Refuse targets that are not one number per label."""
    check_tensor(target, "target", "the loss")
    if target.shape != labels.shape or not target.is_floating_point():
        expected = f"one float per label {tuple(labels.shape)}"
        raise ValueError(f"target must hold {expected}, got {tuple(target.shape)} of {target.dtype}")


def check_gamma(gamma: float) -> float:
    """Refuse a gamma that is negative or not a number."""
    if not is_number(gamma) or not 0 <= gamma < float("inf"):
        raise ValueError(f"gamma must be at least 0, got {gamma!r}: 0 is no focal term, the paper uses 1 to 4")
    return float(gamma)


def _advice_on_labels(labels: Tensor, num_rows: int) -> str:
    """What to do with labels that are not one class number per row; reads their values."""
    if labels.shape == (num_rows, 1):
        return ": labels.squeeze(1) has the right shape"
    if labels.shape == (num_rows,):
        return ": labels.long() if they are class numbers"
    if labels.dim() != 2 or len(labels) != num_rows or labels.is_complex() or not labels.numel():
        return ""
    values = labels.double()
    if not ((values == 0) | (values == 1)).all():
        mixup = "lam * loss(logits, labels_a, index_a) and (1 - lam) * loss(logits, labels_b, index_b)"
        indices = 'each label with the index of its own sample (reduction="none" if lam differs between samples)'
        return f": soft labels are not supported; for mixup add {mixup}, {indices}"
    if (values.sum(dim=1) == 1).all():
        return ": these are one-hot, labels.argmax(1) are the class numbers"
    return ": several classes a sample (multi-label) are not supported, the softmax knows one; use BCEWithLogitsLoss"


def label_error(labels: Tensor, num_classes: int, num_outputs: int) -> ValueError:
    """The error for labels that are not all in 0..num_classes-1."""
    low, high = int(labels.min()), int(labels.max())
    advice = f"the model has {num_outputs} outputs, "
    if low < 0 and high < num_classes:
        advice = "a negative number is no class; the loss modules leave out the one they are given as ignore_index"
    elif num_outputs > num_classes:
        advice += "the last is the unknown class, never a label: build it with num_classes + 1 outputs"
    else:
        advice += "one per class"
    if high == USUAL_MASK:
        advice = f"a label of samples to leave out is given to the loss modules, ignore_index={high}"
    return ValueError(f"labels must be in 0..{num_classes - 1}, got values from {low} to {high}: {advice}")
