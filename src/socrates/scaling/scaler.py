"""What the scalers share: a module whose fitted numbers are buffers, and the report of a fit."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from socrates.scaling import inputs
from socrates.scaling.inputs import LEAST, Array

# A fit has converged when the gradient of its objective is shorter than this.
CONVERGED = 1e-6


@dataclass(frozen=True)
class FitReport:
    """How a fit went: its mean NLL before and after, and the length of the gradient at the parameters it returned.

    The gradient belongs to the objective that was minimised, in the scaler's own parameters: for temperature scaling
    the NLL by T; for readout scaling the NLL of the spread probabilities by T and bias; for vector, matrix
    and structured scaling the regularised NLL by scale or W and bias, or with strength infinity, when T alone is
    fitted, the NLL by T. Where these rule out an unknown column, gradient and NLLs are those of the other columns. The
    other scalers say what theirs is.

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
    """Base of the scalers: fitted on held-out logits, then a map of logits of any leading shape to better ones.

    `title` and `short` are its printed names. A scaler that `needs_unknown_class` is only for models whose last column
    is the unknown class. Every study fits and keeps all scalers and evaluates the `usual` ones. After `fit`, `report`
    says how the fit went. A scaler is an affine map by `affine`, or overrides `transform`.

    Logits are tensors, arrays or lists. Probabilities go to `fit_probs`, and to a call with `from_probs=True`: their
    logarithms are logits. Of those a 0 counts as `floor`, a tenth of the smallest positive probability that was fitted
    on, from 1e-37 (which it is after a fit on logits) to 0.001.

    >>> from socrates.scaling import SCALERS
    >>> [kind.short for kind in SCALERS.values() if kind.usual]
    ['TS', 'VS', 'MS', 'RS']
    >>> probs = [[0.9, 0.1], [1.0, 0.0], [0.2, 0.8], [0.6, 0.4]]
    >>> scaler = SCALERS["temperature"]().fit_probs(probs, [0, 0, 1, 1])
    >>> scaler
    TemperatureScaling(temperature=0.7001, columns=2, floor=0.001)
    >>> scaler(np.array(probs), from_probs=True).round(2)[0]
    array([-0.15, -3.29])
    """

    title: ClassVar[str]
    short: ClassVar[str]
    needs_unknown_class: ClassVar[bool] = False
    usual: ClassVar[bool] = True

    def __init__(self, **unfitted: Tensor | float) -> None:
        super().__init__()
        self.report: FitReport | None = None
        self.floor = LEAST
        self._remember(torch.device("cpu"), 0, unfitted)
        self.register_load_state_dict_pre_hook(_take_saved_shapes)  # pyright: ignore[reportUnknownMemberType]

    def fit(self: AnyScaler, logits: Array, labels: Array, *, unknown_class: bool | None = None) -> AnyScaler:
        """Finds the map from held-out logits (N, C) and labels (N,).

        `unknown_class` says whether the last column is the unknown class, which is never a label; by default it is for
        the scalers that need one.
        """
        return self._fit_on("logits", logits, labels, unknown_class)

    def fit_probs(self: AnyScaler, probs: Array, labels: Array, *, unknown_class: bool | None = None) -> AnyScaler:
        """The same from probabilities (N, C), which may be 0; call it with `from_probs=True` then."""
        return self._fit_on("probs", probs, labels, unknown_class)

    def _fit_on(
        self: AnyScaler, what: Literal["logits", "probs"], values: Array, labels: Array, unknown_class: bool | None
    ) -> AnyScaler:
        name = f"{type(self).__name__}.{'fit' if what == 'logits' else 'fit_probs'}"
        unknown = self.needs_unknown_class if unknown_class is None else unknown_class
        if self.needs_unknown_class and not unknown:
            raise ValueError(f"{name} needs an unknown last column: use TemperatureScaling without one")
        z, y = inputs.check_fit(values, labels, name, unknown, what)
        floor = inputs.zero_floor(z) if what == "probs" else LEAST
        fitted, self.report, limit = self._fit(inputs.log_probs(z, floor) if what == "probs" else z, y, unknown)
        self._remember(z.device, z.shape[1], fitted)
        self.floor = floor
        if not (limit or self.report.converged):
            limit = (
                f"stopped after {self.report.num_iterations} steps at a gradient norm of "
                f"{self.report.gradient_norm:.1e}, above {CONVERGED:.0e}; the fit is usable but not converged"
            )
        if limit:
            warnings.warn(f"{type(self).__name__}: {limit}", stacklevel=3)
        return self

    def _fit(self, logits: Tensor, labels: Tensor, unknown_class: bool) -> Fit:
        raise NotImplementedError

    def affine(self) -> tuple[Tensor, Tensor]:
        """Scale, () or (C,) by column or (C, C) as a matrix, and shift, () or (C,), of the fitted map."""
        raise ValueError(
            f"{type(self).__name__} is no affine map of the logits, which a linear layer could hold: "
            f"call the scaler behind the model, nn.Sequential(model, scaler)"
        )

    def forward(self, logits: Array, *, from_probs: bool = False) -> Tensor | npt.NDArray[Any]:
        """Scaled logits of the type and shape of the given ones: an array for an array, else a tensor."""
        name = type(self).__name__
        z = inputs.check_logits(logits, name, self._fitted_columns(), "probs" if from_probs else "logits")
        if from_probs and _has_values(z):
            inputs.check_probs(z, name)
        elif (
            z.device.type == "cpu" and _has_values(z) and inputs.seem_probs(z)
        ):  # elsewhere a look would stop the device
            warnings.warn(
                f"{name} was called on rows that are >= 0 and sum to 1: pass from_probs=True if they are probabilities",
                stacklevel=4,  # of whoever called the module
            )
        scaled = self.transform(inputs.log_probs(z, self.floor) if from_probs else inputs.widened(z)).to(z.dtype)
        return scaled.numpy() if isinstance(logits, np.ndarray) else scaled

    def transform(self, logits: Tensor) -> Tensor:
        """The same without a look at the logits: for compiled and exported programs."""
        scaled, shift = self._scaled(logits)
        return scaled + shift

    def fold(self, linear: nn.Linear) -> nn.Linear:
        """A new linear layer whose outputs are already scaled."""
        scaler, columns = type(self).__name__, self._fitted_columns()
        self.affine()  # refuses for those that are not
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
        """What was fitted: single numbers, the number of columns, and after a fit on probabilities their floor."""
        if self.columns == 0:
            return "not fitted"
        numbers = [f"{name}={float(value):.4g}" for name, value in self.named_buffers() if value.ndim == 0]
        floor = [f"floor={self.floor:.4g}"] * (self.floor != LEAST)
        return ", ".join([*numbers, f"columns={self.columns}", *floor])

    def get_extra_state(self) -> Tensor:
        """The number of columns, saved with the buffers; after a fit on probabilities with the floor behind it."""
        columns = torch.tensor(self.columns)
        return columns if self.floor == LEAST else torch.tensor([self.columns, self.floor], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Takes over a saved number of columns, and a floor."""
        self.columns = int(state.reshape(-1)[0])
        self.floor = LEAST if state.ndim == 0 else float(state[1])

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
            # A clone, for torch.export saves a view with a warning.
            self.register_buffer(name, torch.as_tensor(value, device=device, dtype=dtype).clone())
        self.columns = columns  # of the logits it was fitted on; 0 before


def _has_values(logits: Tensor) -> bool:
    """Whether the numbers can be looked at: not where a program is traced, nor where there are none."""
    if torch.compiler.is_compiling() or logits.numel() == 0:
        return False
    try:
        logits.reshape(-1)[0].item()
    except RuntimeError:  # inside vmap, or on a tensor without values
        return False
    return True


def _take_saved_shapes(scaler: nn.Module, saved: dict[str, Any], prefix: str, *_: object) -> None:
    # The number of columns is known only after a fit, so a fresh scaler takes the saved shapes.
    for name, buffer in scaler.named_buffers(recurse=False):
        if isinstance(value := saved.get(prefix + name), Tensor):
            scaler.register_buffer(name, buffer.new_empty(value.shape))
