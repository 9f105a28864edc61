"""What the scalers share: a module whose fitted numbers are buffers, and the report of a fit."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from socrates.scaling.inputs import Array, check_fit, check_logits

# A fit has converged when the gradient of its objective is shorter than this.
CONVERGED = 1e-6


@dataclass(frozen=True)
class FitReport:
    """How a fit went: its mean NLL before and after, and the length of the gradient at the parameters it returned.

    The gradient belongs to the objective that was minimised, in the scaler's own parameters: for temperature scaling
    the NLL by T; for readout scaling the NLL of the spread probabilities by T and bias; for vector and matrix scaling
    the regularised NLL by scale or W and bias, or with strength infinity, when T alone is fitted, the NLL by T. Where
    vector and matrix scaling rule out an unknown column, gradient and NLLs are those of the other columns.

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


# What was fitted by its buffer's name, how that went, and why there is no optimum, empty if there is one.
Fit: TypeAlias = tuple[dict[str, Tensor | float], FitReport, str]
AnyScaler = TypeVar("AnyScaler", bound="Scaler")


class Scaler(nn.Module):
    """Base of the scalers: fitted on held-out logits, then an affine map of logits of any leading shape.

    `title` and `short` are its printed names. A scaler that `needs_unknown_class` is only for models whose last column
    is the unknown class. After `fit`, `report` says how the fit went.

    >>> from socrates.scaling import SCALERS
    >>> [kind.short for kind in SCALERS.values()], [kind.title for kind in SCALERS.values() if kind.needs_unknown_class]
    (['TS', 'VS', 'MS', 'RS', 'SS'], ['readout scaling'])
    """

    title: ClassVar[str]
    short: ClassVar[str]
    needs_unknown_class: ClassVar[bool] = False

    def __init__(self, **unfitted: Tensor | float) -> None:
        super().__init__()
        self.report: FitReport | None = None
        self._remember(torch.device("cpu"), 0, unfitted)
        self.register_load_state_dict_pre_hook(_take_saved_shapes)  # pyright: ignore[reportUnknownMemberType]

    def fit(self: AnyScaler, logits: Array, labels: Array, *, unknown_class: bool | None = None) -> AnyScaler:
        """Finds the map from held-out logits (N, C) and labels (N,).

        `unknown_class` says whether the last column is the unknown class, which is never a label; by default it is for
        the scalers that need one.
        """
        name = type(self).__name__
        unknown = self.needs_unknown_class if unknown_class is None else unknown_class
        if self.needs_unknown_class and not unknown:
            raise ValueError(f"{name}.fit needs an unknown last column: use TemperatureScaling without one")
        z, y = check_fit(logits, labels, name, unknown)
        fitted, self.report, limit = self._fit(z, y, unknown)
        self._remember(z.device, z.shape[1], fitted)
        if not (limit or self.report.converged):
            limit = (
                f"stopped after {self.report.num_iterations} steps at a gradient norm of "
                f"{self.report.gradient_norm:.1e}, above {CONVERGED:.0e}; the fit is usable but not converged"
            )
        if limit:
            warnings.warn(f"{name}: {limit}", stacklevel=2)
        return self

    def _fit(self, logits: Tensor, labels: Tensor, unknown_class: bool) -> Fit:
        raise NotImplementedError

    def affine(self) -> tuple[Tensor, Tensor]:
        """Scale, () or (C,) by column or (C, C) as a matrix, and shift, () or (C,), of the fitted map."""
        raise NotImplementedError

    def forward(self, logits: Array) -> Tensor:
        """Scaled logits, a tensor of the type and shape of the given ones."""
        z = check_logits(logits, type(self).__name__, self._fitted_columns())
        # Half precision would round the fitted numbers.
        wide = z.float() if z.dtype in (torch.float16, torch.bfloat16) else z
        return self.transform(wide).to(z.dtype)

    def transform(self, logits: Tensor) -> Tensor:
        """The same without a look at the logits: for compiled and exported programs."""
        scaled, shift = self._scaled(logits)
        return scaled + shift

    def fold(self, linear: nn.Linear) -> nn.Linear:
        """A new linear layer whose outputs are already scaled."""
        scaler, columns = type(self).__name__, self._fitted_columns()
        is_linear = isinstance(linear, nn.Linear)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_linear or linear.out_features != columns:
            raise ValueError(
                f"{scaler}.fold needs the nn.Linear that wrote the {columns} logits it was fitted on, got "
                f"{linear if is_linear else type(linear).__name__}: "
                f"pass the model's last linear layer, or call the scaler behind the model, nn.Sequential(model, scaler)"
            )
        old = linear.weight.detach()
        bias = old.new_zeros(columns) if linear.bias is None else linear.bias  # pyright: ignore[reportUnnecessaryComparison]
        layer = nn.Linear(linear.in_features, columns, device=old.device, dtype=old.dtype)
        scaled, shift = self._scaled(torch.cat([old.T, bias[None]]).double())
        with torch.no_grad():
            layer.weight.copy_(scaled[:-1].T)
            layer.bias.copy_(scaled[-1] + shift)
        return layer

    def _scaled(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The linear part of the map, and its shift, in the precision of z."""
        scale, shift = (part.to(z) for part in self.affine())
        return nn.functional.linear(z, scale) if scale.ndim == 2 else z * scale, shift

    def extra_repr(self) -> str:
        """What was fitted: single numbers, and the number of columns."""
        if self.columns == 0:
            return "not fitted"
        numbers = [f"{name}={float(value):.4g}" for name, value in self.named_buffers() if value.ndim == 0]
        return ", ".join([*numbers, f"columns={self.columns}"])

    def get_extra_state(self) -> Tensor:
        """The number of columns, saved with the buffers."""
        return torch.tensor(self.columns)

    def set_extra_state(self, state: Tensor) -> None:
        """Takes over a saved number of columns."""
        self.columns = int(state)

    def _fitted_columns(self) -> int:
        if self.columns == 0:
            raise ValueError(
                f"{type(self).__name__} is not fitted: call fit(logits, labels) on held-out data, or load a fit"
            )
        return self.columns

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Scaler":
        # .half() of a whole model must not round what was fitted, or make it infinite; .to(device) moves it.
        def moved(fitted: Tensor) -> Tensor:
            return fitted.to(fn(fitted).device)

        return super()._apply(moved, recurse)  # pyright: ignore[reportUnknownMemberType]

    def _remember(self, device: torch.device, columns: int, values: dict[str, Tensor | float]) -> None:
        # Buffers, not parameters: an optimizer over model.parameters() must not move what was fitted on held-out data.
        # They stay float64, so that rounding does not undo the convergence; a call casts them to the logits' type.
        dtype = torch.float32 if device.type == "mps" else torch.float64
        for name, value in values.items():
            self.register_buffer(name, torch.as_tensor(value, device=device, dtype=dtype))
        self.columns = columns  # of the logits it was fitted on; 0 before


def _take_saved_shapes(scaler: nn.Module, saved: dict[str, Any], prefix: str, *_: object) -> None:
    # The number of columns is known only after a fit, so a fresh scaler takes the saved shapes.
    for name, buffer in scaler.named_buffers(recurse=False):
        if isinstance(value := saved.get(prefix + name), Tensor):
            scaler.register_buffer(name, buffer.new_empty(value.shape))
