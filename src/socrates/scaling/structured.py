"""Structured scaling: an affine map drawn to temperature scaling as strongly as cross-validation asks for."""

import math
from typing import Literal

import torch
from torch import Tensor

from socrates.scaling.affine import AffineScaling
from socrates.scaling.objective import AffineNLL
from socrates.scaling.path import Path, to_try

# From "temperature scaling itself" to "almost free".
STRENGTHS = (math.inf, 100.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3)
# Standard errors from the best within which the strongest is taken: of few rows the best alone is often too weak.
NEAR_BEST = 0.25
# The held-out NLL may rise on the way to a valley: only from here on a rise is the end.
VALLEY_ABOVE = 0.01
# No fold sees what a weaker penalty does to the samples of a class without labels.
WEAKEST_UNSEEN = 1.0


class StructuredScaling(AffineScaling):
    """Maps logits z to A z + bias with a structured penalty whose strength is cross-validated.

    With T the temperature of temperature scaling, n rows and k classes, the objective is mean NLL +
    d k / n (|diag(T A) - 1|^2 + |bias|^2) + m k (k - 1) / n |off-diagonal of T A|^2, m being the strength and
    d = min(m, 1), or m / 10 where that is larger, so that strength infinity is temperature scaling. Strength 1 is
    structured matrix scaling (Berta et al. 2026, the package probmetrics) without its mixture with a uniform guess.
    With `structure="diagonal"` only the diagonal is fitted, d = m, and strength 1 is structured vector scaling.

    `strength` is a number >= 0 or "cv" (default): infinity and numbers from 100 to 0.001 are tried from strong to weak
    by 5-fold cross-validation on the fit data (1 of the 5 folds beyond 4,194,304 logits), and the strongest within a
    quarter of a standard error of the best is taken; with fewer than ten rows that is infinity. The strength used is in
    `strength`. Where there are no logits, log-probabilities will do. A class without labels keeps row and column of
    temperature scaling and bias 0, and cross-validation then ends at 1. Only an unknown last column, declared by
    `unknown_class=True`, is ruled out: its bias is lowered until its gradient is below 1e-7.

    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    >>> StructuredScaling(strength=1.0).fit(logits, torch.tensor([0, 1, 1, 0, 0]))
    StructuredScaling(structure='full', strength=1, columns=2)
    """

    title, short, usual = "structured scaling", "SS", False
    linear, automatic, given, may_be_none = "weight", "cv", "strength", False
    weight: Tensor

    def __init__(self, strength: Literal["cv"] | float = "cv", structure: Literal["full", "diagonal"] = "full") -> None:
        if structure not in ("full", "diagonal"):
            raise ValueError(f'structure must be "full" or "diagonal", got {structure!r}')
        self.full, self.structure = structure == "full", structure
        super().__init__(strength)

    def _choose(self, objective: AffineNLL) -> tuple[float, Tensor]:
        strengths = to_try(objective, STRENGTHS, WEAKEST_UNSEEN)
        path = Path(objective, strengths, self._penalty, always=sum(s >= VALLEY_ABOVE for s in strengths))
        chosen = next(index for index in range(path.best + 1) if path.close(index, NEAR_BEST))
        return strengths[chosen], path.thetas[chosen]

    def _penalty(self, strength: float, num_rows: int, num_classes: int) -> float | Tensor:
        unit = 2 * num_classes / num_rows
        if not self.full or strength == 0:
            return strength * unit
        penalty = torch.full((num_classes, num_classes + 1), strength * (num_classes - 1) * unit, dtype=torch.float64)
        penalty[:, -1] = max(min(strength, 1.0), strength / 10) * unit
        penalty.diagonal().copy_(penalty[:, -1])
        return penalty

    def extra_repr(self) -> str:
        """The structure, the strength, and what was fitted."""
        strength = f"{self.regularization!r}" if self.strength is None else f"{self.strength:.4g}"
        return f"structure={self.structure!r}, strength={strength}, {super(AffineScaling, self).extra_repr()}"
