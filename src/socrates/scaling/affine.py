"""Vector, matrix and structured scaling: affine maps, drawn to temperature scaling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from socrates.scaling.folds import RegularizationPath
from socrates.scaling.held_out import HeldOut, refuse_one_class, widen
from socrates.scaling.newton import AffineNLL, chunks, minimize
from socrates.scaling.scaler import CONVERGED, Fit, FitReport, Scaler, linear_part
from socrates.scaling.temperature import fit_inverse_temperature

# NLLs of temperature scaling are summed in float32.
ROUNDING = 1e-6
# The share of the gradient that an unknown column may keep once it is ruled out.
RULED_OUT = 0.1 * CONVERGED

# The strength of vector scaling, in classes per sample: twice the ridge of structured vector
# scaling in probmetrics.
VECTOR_STRENGTH = 4.0

# From temperature scaling itself to an almost free matrix, in half decades.
MATRIX_STRENGTHS = (
    math.inf,
    *(1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6),
)
# No fold sees what a weaker penalty does to the samples of a class without labels, however many
# rows there are.
MATRIX_UNSEEN = 0.03

STRUCTURED_STRENGTHS = (math.inf, 100.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3)
STRUCTURED_UNSEEN = 1.0
# Standard errors from the best within which the strongest is taken: with few rows the best alone
# is often too weak.
NEAR_BEST = 0.25
# The held-out NLL may rise on the way to a valley: only below this strength a rise is the end.
VALLEY_ABOVE = 0.01

SEPARABLE = (
    "the labels can be separated without error, so the NLL falls for ever as the scales grow"
)


# What an affine map reads: the log-softmax of the logits, or the logits as they are.
Input: TypeAlias = Literal["log-softmax", "logits"]


class AffineScaling(Scaler):
    """Maps z to A z + bias, with the least NLL + 1/2 sum of penalty * (T A - I, bias)^2.

    `on` says what z is. On the "log-softmax" of the logits, a constant added to a row changes
    nothing, so that logits and probabilities of one model give the same scaler. On the "logits" as
    they are, such a constant counts, and a linear layer can hold the map.
    """

    full: bool  # whether A is a matrix, or one number per column
    linear: ClassVar[str]  # the name of A among the buffers
    automatic: ClassVar[str]  # the word for the strength that `_choose` finds
    bias: Tensor
    options_before: ClassVar[Mapping[str, Any]] = {"on": "logits"}

    def __init__(self, regularization: str | float | None, on: Input) -> None:
        unfitted = torch.ones((0, 0) if self.full else (0,))
        super().__init__(**{self.linear: unfitted, "bias": torch.zeros(0)})
        if isinstance(regularization, np.number):
            regularization = float(regularization)
        is_strength = isinstance(regularization, (int, float)) and regularization >= 0
        if not (is_strength or regularization in (None, self.automatic)):
            raise ValueError(
                f'{type(self).__name__}: the strength must be "{self.automatic}", a number >= 0, '
                f"or None for no penalty, got {regularization!r}"
            )
        if on not in ("log-softmax", "logits"):
            raise ValueError(
                f'{type(self).__name__}: on must be "log-softmax" or "logits", got {on!r}'
            )
        self.regularization = regularization
        self.on: Input = on
        self.unknown_class = False  # whether the last column of the fit was the unknown class
        self.strength: float | None = None

    def _choose(self, objective: AffineNLL) -> tuple[float, Tensor]:
        """Return the automatic strength, and a theta near its minimum."""
        raise NotImplementedError

    def _penalty(self, strength: float, num_samples: float, num_classes: int) -> float | Tensor:
        """Return the penalty of a strength below infinity: one number, or one for each of theta."""
        return strength

    def affine(self) -> tuple[Tensor, Tensor]:
        """Return A and the bias, where they are those of the logits."""
        if self.on != "logits":
            raise ValueError(
                f"{type(self).__name__} is an affine map of log-probabilities, which a linear "
                'layer cannot hold: fit it with on="logits", or call the scaler behind the model, '
                "nn.Sequential(model, scaler)"
            )
        return self.get_buffer(self.linear), self.bias

    def transform(self, logits: Tensor) -> Tensor:
        """Return A z + bias."""
        z = self._input(logits, self.unknown_class)
        scaled, shift = linear_part(z, self.get_buffer(self.linear), self.bias)
        return scaled + shift

    def _input(self, logits: Tensor, unknown_class: bool) -> Tensor:
        """Return z: the logits, or their log-softmax over the known classes."""
        if self.on == "logits":
            return logits
        if not unknown_class:
            return widen(logits).log_softmax(dim=-1)
        known = widen(logits)[..., :-1]
        centred = logits - known.amax(dim=-1, keepdim=True)
        return centred - centred[..., :-1].logsumexp(dim=-1, keepdim=True)

    def get_extra_state(self) -> Tensor:
        """Return columns, floor and scores, and on the log-softmax whether one column is unknown.

        States of earlier versions, which read the logits, have no fourth number.
        """
        if self.on == "logits":
            return super().get_extra_state()
        numbers = [self.columns, self.floor, self.takes_scores, self.unknown_class]
        return torch.tensor(numbers, dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore what `get_extra_state` returned."""
        super().set_extra_state(state)
        self.on = "log-softmax" if state.numel() > 3 else "logits"
        self.unknown_class = state.numel() > 3 and bool(state[3])

    def num_fitted(self, columns: int) -> float:
        """Return the size of A and the bias."""
        return columns * (columns + 1 if self.full else 2)

    def _fit(self, data: HeldOut) -> Fit:
        data = replace(data, logits=self._input(data.logits, data.unknown_class))
        labels = data.labels
        refuse_one_class(labels, type(self).__name__)
        b, report, no_temperature = fit_inverse_temperature(data.known)
        objective = AffineNLL(data.known, b, self.full)
        if isinstance(self.regularization, str):
            strength, start = self._choose(objective)
        else:
            strength = float(self.regularization or 0)
            start = objective.centre
        theta = objective.centre
        if strength < math.inf:  # otherwise nothing is left to fit beside the temperature
            penalty = self._penalty(strength, objective.num_samples, len(objective.centre))
            objective.set_penalty(penalty)
            fitted, steps, gradient_norm = minimize(objective, start, 0.5 * CONVERGED)
            before = report.nll_before
            after = objective.nll(fitted)
            # It is worse than temperature scaling only where a class without labels is likely.
            if after > report.nll_after + ROUNDING:
                strength = math.inf
            else:
                theta = fitted
                report = FitReport(len(labels), steps, gradient_norm, before, min(after, before))
        self.strength = strength
        self.unknown_class = data.unknown_class
        limit = SEPARABLE if is_separable(report, data.weight) else ""
        # A penalty ends what the scales gain by growing, but not the temperature that they are
        # drawn to.
        if self.strength == math.inf or (limit and self.strength):
            limit = no_temperature
        on_logits = theta * objective.units
        scale = on_logits[:, :-1].squeeze(1)
        bias = on_logits[:, -1]
        if data.unknown_class:
            unknown_bias = _unknown_bias(data.logits, objective, theta)
            bias = torch.cat([bias, bias.new_tensor([unknown_bias])])
            scale = pad(scale, (0, 1) * scale.ndim)
            scale[(-1,) * scale.ndim] = b
        limit = limit and f"{limit}; pass more held-out data"
        return {self.linear: scale, "bias": bias}, report, limit

    def extra_repr(self) -> str:
        """Return the regularisation, and what was fitted."""
        strength = "" if self.strength is None else f"strength={self.strength:.4g}, "
        return f"regularization={self.regularization!r}, {strength}{self._input_repr()}"

    def _input_repr(self) -> str:
        """Return what is read unless it is the usual, and what every scaler shows."""
        on = "on='logits', " if self.on == "logits" else ""
        return f"{on}{super().extra_repr()}"


def is_separable(report: FitReport, weight: Tensor | None) -> bool:
    """Return whether the NLL leaves no label a probability below one half.

    A sum of -log p below log 2 does: then doubling all logits is better.
    """
    count = report.num_samples if weight is None else float(weight.sum() / weight.min())
    return report.nll_after * count < math.log(2)


def _unknown_bias(logits: Tensor, objective: AffineNLL, theta: Tensor) -> float:
    """Return the bias that rules out the last column, never above 0.

    The NLL has no minimum in the bias of a column that is never a label: it falls for ever towards
    -infinity. The bias stops where that column's share of the gradient has fallen below the
    tolerance.
    """
    log_shares: list[Tensor] = []
    for rows in chunks(logits):
        z = logits[rows].double()
        odds = objective.b * z[:, -1] - objective.outputs(z[:, :-1], theta).logsumexp(dim=1)
        log_shares.append(odds + 0.5 * (1 + z.square().sum(dim=1)).log())
    each = torch.cat(log_shares)
    if objective.multiple is not None:
        each = each + objective.multiple.log()
    share = each.logsumexp(dim=0) - math.log(len(logits))
    return min(0.0, math.log(RULED_OUT) - float(share))


class VectorScaling(AffineScaling):
    """Maps z to scale * z + bias, one pair per column, with the least regularised NLL.

    z is the log-softmax of the logits, or with `on="logits"` the logits as they are, as in Guo et
    al. (2017).
    The objective is mean NLL + strength / 2 * (|T scale - 1|^2 + |bias|^2), T being the temperature
    of temperature scaling, which is strength infinity. `regularization` is a strength >= 0, None
    for no penalty, with which few samples per class let the scales grow without bound, or
    "structured" (default): 4 classes / samples, twice the ridge of structured vector scaling as in
    probmetrics. The strength used is in `strength`. The biases sum to 0 over the classes that
    occur; a class without labels keeps temperature scaling's scale and bias 0. Only an unknown last
    column, declared by `unknown_class=True`, is ruled out: its bias is lowered until its gradient
    is below 1e-7.

    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    >>> VectorScaling(regularization=0.1).fit(logits, torch.tensor([0, 1, 1, 0, 0]))
    VectorScaling(regularization=0.1, strength=0.1, columns=2)
    """

    title = "vector scaling"
    short = "VS"
    full = False
    linear = "scale"
    automatic = "structured"
    scale: Tensor

    def __init__(
        self,
        regularization: Literal["structured"] | float | None = "structured",
        *,
        on: Input = "log-softmax",
    ) -> None:
        super().__init__(regularization, on)

    def _choose(self, objective: AffineNLL) -> tuple[float, Tensor]:
        num_classes = objective.logits.shape[1]
        return VECTOR_STRENGTH * num_classes / objective.num_samples, objective.centre


class MatrixScaling(AffineScaling):
    """Maps z to W z + bias with the least regularised NLL.

    z is the log-softmax of the logits, or with `on="logits"` the logits as they are, as in Guo et
    al. (2017).
    The objective is mean NLL + strength / 2 * (|T W - I|^2 + |bias|^2), T being the temperature of
    temperature scaling: off-diagonal and intercept regularisation (ODIR, Kull et al. 2019) that
    also holds the diagonal, so that strength infinity is temperature scaling. `regularization` is a
    strength >= 0, None for no penalty, or "cv" (default): 5-fold cross-validation on the fit data
    over infinity and half decades from 1 to 1e-6, taking the largest strength within one standard
    error of the best, and infinity within three, so that scarce data end in temperature scaling.
    The strength used is in `strength`. A class without labels keeps row and column of temperature
    scaling and bias 0, and cross-validation then ends at 0.03. Only an unknown last column,
    declared by `unknown_class=True`, is ruled out: its bias is lowered until its gradient is below
    1e-7.

    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    >>> MatrixScaling(regularization=0.1).fit(logits, torch.tensor([0, 1, 1, 0, 0]))
    MatrixScaling(regularization=0.1, strength=0.1, columns=2)
    """

    title = "matrix scaling"
    short = "MS"
    full = True
    linear = "weight"
    automatic = "cv"
    weight: Tensor

    def __init__(
        self, regularization: Literal["cv"] | float | None = "cv", *, on: Input = "log-softmax"
    ) -> None:
        super().__init__(regularization, on)

    def _choose(self, objective: AffineNLL) -> tuple[float, Tensor]:
        path = RegularizationPath(objective, MATRIX_STRENGTHS, self._penalty, MATRIX_UNSEEN)
        # Temperature scaling is replaced only where that is surely better.
        chosen = 0 if path.close(0, num_errors=3.0) else path.strongest()
        return path.strengths[chosen], path.thetas[chosen]


class StructuredScaling(AffineScaling):
    """Maps z to A z + bias with a structured penalty whose strength is cross-validated.

    z is the log-softmax of the logits, or with `on="logits"` the logits as they are.
    With T the temperature of temperature scaling, n samples and k classes, the objective is mean
    NLL + d k / n (|diag(T A) - 1|^2 + |bias|^2) + m k (k - 1) / n |off-diagonal of T A|^2, m being
    the strength and d = min(m, 1), or m / 10 where that is larger, so that strength infinity is
    temperature scaling. Strength 1 has the penalty of structured matrix scaling (Berta et al. 2026,
    the package probmetrics), which reads the log-softmax of z / T instead, and mixes the result
    with a uniform guess; docs/scalers.md has how far the two differ. With `structure="diagonal"`
    only the diagonal is fitted, d = m, and strength 1 has that of structured vector scaling.

    `strength` is a number >= 0, None for no penalty, or "cv" (default): infinity and numbers from
    100 to 0.001 are tried from strong to weak by 5-fold cross-validation on the fit data (1 of the
    5 folds beyond 4,194,304 logits), and the strongest within a quarter of a standard error of the
    best is taken;
    with fewer than ten rows that is infinity. The strength used is in `strength`. A class without
    labels keeps row and column of temperature
    scaling and bias 0, and cross-validation then ends at 1. Only an unknown last column, declared
    by `unknown_class=True`, is ruled out: its bias is lowered until its gradient is below 1e-7.

    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    >>> StructuredScaling(strength=1.0).fit(logits, torch.tensor([0, 1, 1, 0, 0]))
    StructuredScaling(structure='full', strength=1, columns=2)
    """

    title = "structured scaling"
    short = "SS"
    usual = False
    linear = "weight"
    automatic = "cv"
    weight: Tensor

    def __init__(
        self,
        strength: Literal["cv"] | float | None = "cv",
        structure: Literal["full", "diagonal"] = "full",
        *,
        on: Input = "log-softmax",
    ) -> None:
        if structure not in ("full", "diagonal"):
            raise ValueError(f'structure must be "full" or "diagonal", got {structure!r}')
        self.structure = structure
        self.full = structure == "full"
        super().__init__(strength, on)

    def _choose(self, objective: AffineNLL) -> tuple[float, Tensor]:
        path = RegularizationPath(
            objective, STRUCTURED_STRENGTHS, self._penalty, STRUCTURED_UNSEEN, VALLEY_ABOVE
        )
        chosen = path.strongest(NEAR_BEST)
        return path.strengths[chosen], path.thetas[chosen]

    def _penalty(self, strength: float, num_samples: float, num_classes: int) -> float | Tensor:
        unit = 2 * num_classes / num_samples
        if not self.full or strength == 0:
            return strength * unit
        off_diagonal = strength * (num_classes - 1) * unit
        shape = (num_classes, num_classes + 1)
        penalty = torch.full(shape, off_diagonal, dtype=torch.float64)
        penalty[:, -1] = max(min(strength, 1.0), strength / 10) * unit
        penalty.diagonal().copy_(penalty[:, -1])
        return penalty

    def extra_repr(self) -> str:
        """Return the structure, the strength, and what was fitted."""
        strength = f"{self.regularization!r}" if self.strength is None else f"{self.strength:.4g}"
        return f"structure={self.structure!r}, strength={strength}, {self._input_repr()}"
