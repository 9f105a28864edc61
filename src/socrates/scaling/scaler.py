"""The base of the scalers: fit, call and probabilities; the report of a fit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from socrates.arrays.content import Classes, check_probabilities, seem_probabilities
from socrates.arrays.open import ArrayLike, like
from socrates.scaling.held_out import (
    LEAST,
    HeldOut,
    columns_of_scores,
    log_probs,
    open_held_out,
    open_values,
    widen,
    zero_floor,
)

# A fit has converged when the gradient of its objective is shorter than this.
CONVERGED = 1e-6


@dataclass(frozen=True)
class FitReport:
    """How a fit went: mean NLL before and after, and the length of the gradient where it ended.

    The gradient is that of the objective which was minimised, in the scaler's parameters: for
    temperature scaling the NLL by T; for readout scaling the NLL of the spread probabilities with
    the prior of T, by T and bias; for vector, matrix and structured scaling the regularised NLL by
    scale or W and bias, or with strength infinity, where only T is fitted, the NLL by T. Where
    these rule out an unknown column, gradient and NLLs are those of the other columns. The other
    scalers say what theirs is.

    >>> FitReport(500, 3, gradient_norm=2e-8, nll_before=0.9, nll_after=0.7).converged
    True
    """

    num_samples: int
    num_iterations: int
    gradient_norm: float
    nll_before: float
    nll_after: float

    @property
    def converged(self) -> bool:
        """Return whether the gradient is below 1e-6."""
        return self.gradient_norm < CONVERGED


# The fitted values by the names of their buffers, the report, and why there is no optimum: an
# empty string where there is one.
Fit: TypeAlias = tuple[dict[str, Tensor | float], FitReport, str]
AnyScaler = TypeVar("AnyScaler", bound="Scaler")


class Scaler(nn.Module):
    """Base of the scalers, which are fitted on held-out logits and then called on new ones.

    A class in `SCALERS` is all that the package knows of a scaler. `title` and `short` are its
    printed names. A scaler that `needs_unknown_class` is only for models whose last column is the
    unknown class. Every study fits and keeps all scalers and evaluates the `usual` ones. Saving
    works for what `__init__` takes and registers. A subclass implements `_fit`, and
    `affine` or `transform`. After `fit`, `report` says how the fit went.

    Logits are tensors, arrays, data frames or lists of shape (N, C), or (N,) logits z of class 1,
    which stand for two columns (0, z). With `from_probs=True` they are probabilities, or (N,)
    scores p of class 1, which stand for (1 - p, p). A probability of 0 counts as `floor`: a tenth
    of the smallest positive probability of the fit, between 1e-37 and 0.001.

    >>> import numpy as np
    >>> from socrates.scaling import SCALERS
    >>> [kind.short for kind in SCALERS.values() if kind.usual]
    ['TS', 'VS', 'MS', 'RS']
    >>> probs = [[0.9, 0.1], [1.0, 0.0], [0.2, 0.8], [0.6, 0.4]]
    >>> scaler = SCALERS["temperature"]().fit(probs, [0, 0, 1, 1], from_probs=True)
    >>> scaler
    TemperatureScaling(temperature=0.7001, columns=2, floor=0.001)
    >>> scaler.probs(probs, from_probs=True).round(2)[0]
    array([0.96, 0.04])
    """

    title: ClassVar[str]
    short: ClassVar[str]
    needs_unknown_class: ClassVar[bool] = False
    usual: ClassVar[bool] = True
    # What the options were that files of earlier versions lack.
    options_before: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **unfitted: Tensor | float) -> None:
        super().__init__()
        self.report: FitReport | None = None
        self.floor = LEAST
        self.takes_scores = False
        self._remember(torch.device("cpu"), 0, unfitted)
        self.register_load_state_dict_pre_hook(_take_saved_shapes)  # pyright: ignore[reportUnknownMemberType]

    def fit(
        self: AnyScaler,
        logits: ArrayLike,
        labels: ArrayLike,
        *,
        unknown_class: bool | None = None,
        from_probs: bool = False,
        sample_weight: ArrayLike | None = None,
        classes: Classes | None = None,
    ) -> AnyScaler:
        """Fit the map to held-out logits and labels, and return the scaler.

        Args:
            logits: (N, C), or (N,) of class 1; probabilities with `from_probs`.
            labels: (N,) class numbers, or names of classes.
            unknown_class: whether the last column is the unknown class, which is never a label;
                by default it is for the scalers that need one.
            from_probs: whether probabilities are passed in; call the scaler with it, too.
            sample_weight: (N,) how often each sample counts, by default once.
            classes: the names of the classes in the order of the columns.
        """
        caller = f"{type(self).__name__}.fit"
        unknown = self.needs_unknown_class if unknown_class is None else unknown_class
        if self.needs_unknown_class and not unknown:
            raise ValueError(
                f"{caller} needs an unknown last column: use TemperatureScaling without one"
            )
        data = open_held_out(
            logits,
            labels,
            caller,
            unknown_class=unknown,
            from_probs=from_probs,
            sample_weight=sample_weight,
            classes=classes,
        )
        floor = LEAST
        if from_probs:
            floor = zero_floor(data.logits)
            data = replace(data, logits=log_probs(data.logits, floor))
        fitted, self.report, limit = self._fit(data)
        self._remember(data.logits.device, data.logits.shape[1], fitted)
        self.floor = floor
        self.takes_scores = data.are_scores
        if not (limit or self.report.converged):
            limit = (
                f"stopped after {self.report.num_iterations} steps at a gradient norm of "
                f"{self.report.gradient_norm:.1e}, above {CONVERGED:.0e}; the fit is usable but "
                "not converged"
            )
        if limit:
            warnings.warn(f"{type(self).__name__}: {limit}", stacklevel=2)
        return self

    def _fit(self, data: HeldOut) -> Fit:
        raise NotImplementedError

    def num_fitted(self, columns: int) -> float:
        """Return how many numbers a fit on this many columns chooses; the fewer, the simpler.

        Of scalers that are equally good the simplest is used. One that does not say comes last.
        """
        return math.inf

    def affine(self) -> tuple[Tensor, Tensor]:
        """Return scale and shift of the fitted map.

        The scale is (), (C,) with one number per column, or a matrix (C, C); the shift () or (C,).
        """
        raise ValueError(
            f"{type(self).__name__} is not an affine map of the logits, which a linear layer could "
            "hold: call the scaler behind the model, nn.Sequential(model, scaler)"
        )

    def forward(self, logits: ArrayLike, *, from_probs: bool = False) -> Any:
        """Return scaled logits: a tensor for a tensor, else a numpy array.

        Any leading shape will do, and the data type is kept. The result is logits also where
        probabilities are passed in; `probs` returns probabilities.
        """
        # The warning is for whoever called the module, beyond two functions of torch.
        values = self._open(logits, from_probs, stacklevel=5)
        return like(self._scale(values, from_probs).to(values.dtype), logits)

    def probs(self, logits: ArrayLike, *, from_probs: bool = False) -> Any:
        """Return scaled probabilities: a tensor for a tensor, else a numpy array.

        They have the columns of the logits, an unknown class included, and each row sums to 1.
        Only `ReadoutScaling` shares out the unknown class, and has the known classes alone.
        `metrics.predict(scaler(logits), unknown=...)` reads an unknown column in other ways.

        >>> from socrates.scaling import TemperatureScaling
        >>> scaler = TemperatureScaling().fit([4.0, 4.0, -4.0, 4.0], [1, 1, 0, 0])
        >>> scaler.probs([4.0, -4.0]).round(2)
        array([[0.25, 0.75],
               [0.75, 0.25]])
        """
        values = self._open(logits, from_probs, stacklevel=3)
        scaled = self._scale(values, from_probs)
        return like(self._read(scaled).to(values.dtype), logits)

    def _read(self, scaled: Tensor) -> Tensor:
        """Return the probabilities of scaled logits."""
        return scaled.softmax(dim=-1)

    def transform(self, logits: Tensor) -> Tensor:
        """Return scaled logits of a float32 or float64 tensor, unchecked: for exported programs."""
        scaled, shift = linear_part(logits, *self.affine())
        return scaled + shift

    def fold(self, linear: nn.Linear) -> nn.Linear:
        """Return a new linear layer whose outputs are already scaled."""
        columns = self._fitted_columns()
        scale, shift = self.affine()  # raises where the map is not affine
        is_linear = isinstance(linear, nn.Linear)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_linear or linear.out_features != columns:
            raise ValueError(
                f"{type(self).__name__}.fold needs the nn.Linear that wrote the {columns} logits "
                f"it was fitted on, got {linear if is_linear else type(linear).__name__}: "
                "pass the model's last linear layer, or call the scaler behind the model, "
                "nn.Sequential(model, scaler)"
            )
        weight = linear.weight.detach()
        bias = weight.new_zeros(columns) if linear.bias is None else linear.bias  # pyright: ignore[reportUnnecessaryComparison]
        layer = nn.Linear(linear.in_features, columns, device=weight.device, dtype=weight.dtype)
        both = torch.cat([weight.T, bias[None]]).double()
        scaled, shift = linear_part(both, scale, shift)
        with torch.no_grad():
            layer.weight.copy_(scaled[:-1].T)
            layer.bias.copy_(scaled[-1] + shift)
        return layer

    def extra_repr(self) -> str:
        """Return the single numbers that were fitted, the number of columns, and the floor."""
        if self.columns == 0:
            return "not fitted"
        parts = [
            f"{name}={float(value):.4g}" for name, value in self.named_buffers() if value.ndim == 0
        ]
        parts.append(f"columns={self.columns}")
        if self.floor != LEAST:
            parts.append(f"floor={self.floor:.4g}")
        return ", ".join(parts)

    def get_extra_state(self) -> Tensor:
        """Return the number of columns, and where they differ from the usual, floor and scores."""
        if self.takes_scores:
            return torch.tensor([self.columns, self.floor, 1.0], dtype=torch.float64)
        if self.floor != LEAST:
            return torch.tensor([self.columns, self.floor], dtype=torch.float64)
        return torch.tensor(self.columns)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore what `get_extra_state` returned."""
        self.columns = int(state.reshape(-1)[0])
        self.floor = LEAST if state.ndim == 0 else float(state[1])
        self.takes_scores = state.numel() > 2 and bool(state[2])

    def _open(self, values: ArrayLike, from_probs: bool, stacklevel: int) -> Tensor:
        """Return logits or probabilities with the columns of the fit, (..., C)."""
        caller = type(self).__name__
        columns = self._fitted_columns()
        opened = open_values(values, from_probs)
        is_one_column = columns == 2 and opened.ndim > 1 and opened.shape[-1] == 1
        if is_one_column or (self.takes_scores and opened.ndim == 1):
            opened = columns_of_scores(opened, from_probs)
        if opened.ndim == 0 or opened.shape[-1] != columns:
            name = "probs" if from_probs else "logits"
            raise ValueError(
                f"{caller} was fitted on {columns} columns, got {name} of shape "
                f"{tuple(opened.shape)}: use the outputs of the same model, or fit again"
            )
        if from_probs and _has_values(opened):
            check_probabilities(opened, caller)
        elif opened.device.type == "cpu" and _has_values(opened) and seem_probabilities(opened):
            # On other devices a look would wait for the device.
            warnings.warn(
                f"{caller} was called on rows that are >= 0 and sum to 1: pass from_probs=True if "
                "they are probabilities",
                stacklevel=stacklevel,
            )
        return opened

    def _scale(self, values: Tensor, from_probs: bool) -> Tensor:
        """Return scaled logits in single precision at least."""
        return self.transform(log_probs(values, self.floor) if from_probs else widen(values))

    def _fitted_columns(self) -> int:
        if self.columns == 0:
            raise ValueError(
                f"{type(self).__name__} is not fitted: call fit(logits, labels) on held-out data, "
                "or load a fit"
            )
        return self.columns

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Scaler:
        # .half() of a whole model must not round what was fitted, or make it infinite; .to(device)
        # moves it.
        def move(fitted: Tensor) -> Tensor:
            return fitted.to(fn(fitted).device)

        return super()._apply(move, recurse)  # pyright: ignore[reportUnknownMemberType]

    def _remember(
        self, device: torch.device, columns: int, values: dict[str, Tensor | float]
    ) -> None:
        # Buffers, not parameters: an optimizer over model.parameters() must not move what was
        # fitted on held-out data. They stay float64, so that rounding does not undo the
        # convergence; a call casts them to the logits' type.
        dtype = torch.float32 if device.type == "mps" else torch.float64
        for name, value in values.items():
            # A clone, because torch.export warns about saving a view.
            self.register_buffer(name, torch.as_tensor(value, device=device, dtype=dtype).clone())
        self.columns = columns  # of the logits it was fitted on; 0 before


def linear_part(logits: Tensor, scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """Return the linear part of an affine map of logits, and its shift, in their precision."""
    scale = scale.to(logits)
    scaled = nn.functional.linear(logits, scale) if scale.ndim == 2 else logits * scale
    return scaled, shift.to(logits)


def _has_values(logits: Tensor) -> bool:
    """Return whether the numbers can be looked at: not in a traced program, nor if it is empty."""
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
        value = saved.get(prefix + name)
        if isinstance(value, Tensor):
            scaler.register_buffer(name, buffer.new_empty(value.shape))
