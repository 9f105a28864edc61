"""What the scalers share: a module whose fitted numbers are buffers, and the report of a fit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

# A fit has converged when the gradient of its objective is shorter than this.
CONVERGED = 1e-6


@dataclass(frozen=True)
class FitReport:
    """How a fit went: its mean NLL before and after, and the length of the gradient at the parameters it returned.

    The gradient belongs to the objective that was minimised, in the scaler's own parameters: for temperature scaling
    the NLL by T; for readout scaling the NLL of the spread probabilities by T and bias; for vector scaling the NLL by
    scale and bias of all columns; for matrix scaling the regularised NLL by W and bias, or with strength infinity, when
    T alone is fitted, the NLL of the classes that occur by T.

    >>> FitReport(num_samples=500, num_iterations=3, gradient_norm=2e-8, nll_before=0.9, nll_after=0.7).converged
    True
    """

    num_samples: int
    num_iterations: int
    gradient_norm: float
    nll_before: float
    nll_after: float

    @property
    def converged(self) -> bool:
        """Whether the gradient is below 1e-6."""
        return self.gradient_norm < CONVERGED


class Scaler(nn.Module):
    """Base of the scalers: before `fit` it is the identity, after it `report` says how the fit went."""

    def __init__(self) -> None:
        super().__init__()
        self.report: FitReport | None = None
        self.columns = 0  # of the logits it was fitted on; 0 before, when any number is accepted

    def get_extra_state(self) -> Tensor:
        """The number of columns, saved with the buffers."""
        return torch.tensor(self.columns)

    def set_extra_state(self, state: Tensor) -> None:
        """Takes over a saved number of columns."""
        self.columns = int(state)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Scaler":
        # .half() of a whole model must not round what was fitted, or make it infinite; .to(device) moves it.
        before = dict(self.named_buffers(recurse=False))
        super()._apply(fn, recurse)  # pyright: ignore[reportUnknownMemberType]
        for name, after in list(self.named_buffers(recurse=False)):
            if after.dtype != before[name].dtype:
                self.register_buffer(name, before[name].to(after.device))
        return self

    def _remember(self, device: torch.device, **values: Tensor) -> None:
        # Buffers, not parameters: an optimizer over model.parameters() must not move what was fitted on held-out data.
        # They stay float64, so that rounding does not undo the convergence; a call casts them to the logits' type.
        dtype = torch.float32 if device.type == "mps" else torch.float64
        for name, value in values.items():
            self.register_buffer(name, value.to(device=device, dtype=dtype))

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        # The number of columns is known only after a fit, so a fresh scaler takes the saved shapes.
        for name, buffer in self.named_buffers(recurse=False):
            saved = state_dict.get(prefix + name)
            if isinstance(saved, Tensor) and saved.shape != buffer.shape:
                self.register_buffer(name, buffer.new_empty(saved.shape))
        super()._load_from_state_dict(  # pyright: ignore[reportUnknownMemberType]
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


def working(logits: Tensor) -> Tensor:
    """The logits in at least float32: half precision would round the fitted numbers."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def folded(linear: nn.Linear, columns: int, scaler: str, scale: Tensor, shift: Tensor | None) -> nn.Linear:
    """A new linear layer that computes scale * linear(x) + shift; scale () or (C,) by row, or (C, C) as a matrix."""
    if not isinstance(linear, nn.Linear):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"{scaler}.fold needs the nn.Linear that wrote the logits, got {type(linear).__name__}: "
            f"pass the model's last linear layer, or call the scaler behind the model, nn.Sequential(model, scaler)"
        )
    if columns and linear.out_features != columns:
        raise ValueError(
            f"{scaler} was fitted on {columns} columns, the linear layer has out_features={linear.out_features}: "
            f"fold into the layer that wrote the logits"
        )
    weight = linear.weight.detach().double()
    bias = None if linear.bias is None else linear.bias.detach().double()  # pyright: ignore[reportUnnecessaryComparison]
    scale = scale.to(weight)
    weight = scale @ weight if scale.ndim == 2 else scale.reshape(-1, 1) * weight
    if bias is not None:
        bias = scale @ bias if scale.ndim == 2 else scale * bias
    if shift is not None:
        bias = shift.to(weight) + (0 if bias is None else bias)
    layer = nn.Linear(linear.in_features, linear.out_features, bias=bias is not None)
    layer = layer.to(device=linear.weight.device, dtype=linear.weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer
