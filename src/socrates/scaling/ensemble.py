"""Ensemble temperature scaling: the temperature-scaled, the given and the uniform probabilities, mixed."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from socrates.scaling.rowsums import RowSums
from socrates.scaling.scaler import Fit, FitReport, Scaler
from socrates.scaling.temperature import SEPARABLE, fit_inverse_temperature

# Where to look for T, as multiples of that of temperature scaling, and on how many rows.
FACTORS = (1 / 8, 1 / 4, 1 / 2, 1 / 1.4, 1.4, 2.0, 4.0)
COLDEST = 1e-4
COARSE_ROWS = 1000
# On the gradient by T or 1 / T, whichever is steeper, and by the weights.
TOLERANCE = 1e-8
# NLLs that differ by less are the same.
ROUNDING = 1e-9
# Beside this change of b, relative to it, a step is rounding.
SMALLEST_STEP = 1e-11
MAX_PASSES, MAX_STEPS, NUM_CAUTIOUS = 60, 100, 3
# The sets of weights that may be positive.
SUPPORTS = torch.tensor([[0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]])

SURE = "answers are right equally often whatever their confidence, so the NLL falls for ever as T goes to 0"


class EnsembleTemperatureScaling(Scaler):
    """Maps logits z of c classes to log(w1 softmax(z / T) + w2 softmax(z) + w3 / c), the weights w summing to 1.

    Zhang et al. (2020) fit T first and then w; here both together minimise the NLL, which is convex in w and then a
    function of T alone, and which is never above that of temperature scaling, w = (1, 0, 0). The order of the classes
    never changes. The result are log-probabilities. A declared unknown class is a column of both softmax, as in
    temperature scaling, and has no share of w3. The `report` measures the gradient by T and by w, of that what the
    simplex does not hold back. Labels that all have the largest logit are fitted as by temperature scaling, with its
    warning. Where answers are right equally often whatever their confidence, the NLL falls for ever as T goes to 0: T
    stops where the gradient has vanished, or with a warning at 1/10,000 of that of temperature scaling.

    >>> logits = torch.tensor([[9.0, 0.0], [8.0, 0.0], [0.0, 9.0], [8.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.0, 1.0]])
    >>> scaler = EnsembleTemperatureScaling().fit(logits, torch.tensor([0, 0, 1, 1, 0, 0, 1]))
    >>> scaler(logits).exp().sum(dim=1).allclose(torch.ones(7))
    True
    """

    title, short, usual = "ensemble temperature scaling", "ETS", False
    temperature: Tensor
    weights: Tensor  # (3,)
    uniform: Tensor  # (C,) what w3 multiplies

    def __init__(self) -> None:
        super().__init__(temperature=1.0, weights=torch.tensor([1.0, 0.0, 0.0]), uniform=torch.zeros(0))

    def _fit(self, logits: Tensor, labels: Tensor, unknown_class: bool) -> Fit:
        classes = logits.shape[1] - unknown_class
        uniform = pad(torch.full((classes,), 1 / classes, dtype=torch.float64), (0, int(unknown_class)))
        b, scaled, limit = fit_inverse_temperature(logits, labels)
        weights, report = torch.tensor([1.0, 0.0, 0.0]), scaled
        if limit != SEPARABLE:
            # Where a uniform guess is better than any temperature, w3 is that guess.
            start, limit = 1.0 if limit else b, ""
            found, passes = _search(logits, labels, classes, start)
            if found.b >= start / COLDEST:
                limit = f"{SURE}; T = {1 / found.b:.4g}"
            if found.nll <= scaled.nll_after:
                b, weights = found.b, found.weights
                report = FitReport(len(labels), passes, found.gradient, scaled.nll_before, found.nll)
        return {"temperature": 1 / b, "weights": weights, "uniform": uniform}, report, limit

    def transform(self, logits: Tensor) -> Tensor:
        """Log-probabilities."""
        log_w, log_uniform = self.weights.log().to(logits), self.uniform.log().to(logits)
        scaled = (logits / self.temperature.to(logits)).log_softmax(dim=-1) + log_w[0]
        given = logits.log_softmax(dim=-1) + log_w[1]
        return torch.stack([scaled, given, (log_uniform + log_w[2]).expand_as(scaled)]).logsumexp(dim=0)

    def extra_repr(self) -> str:
        """The weights too."""
        weights = ", ".join(f"{float(weight):.3g}" for weight in self.weights)
        return super().extra_repr() if self.columns == 0 else f"weights=({weights}), {super().extra_repr()}"


@dataclass(frozen=True)
class Mixed:
    """The best weights at b = 1 / T: their NLL, its derivative by b, and the length of the gradient by T and w."""

    b: float
    weights: Tensor
    nll: float
    slope: float
    gradient: float


class Mixture:
    """The NLL of the mixture as a function of b alone, the weights being the best for it."""

    def __init__(self, logits: Tensor, labels: Tensor, classes: int) -> None:
        self.sums = RowSums(logits, labels)
        self.log_given = self._log_p(1.0)[0]
        self.log_uniform = torch.full_like(self.log_given, -math.log(classes))
        self.weights = torch.full((3,), 1 / 3, dtype=torch.float64)  # the last ones, where the next search begins

    def _log_p(self, b: float) -> tuple[Tensor, Tensor]:
        """Log-probability of each label at b and its derivative, (N,)."""
        s0, s1 = self.sums.at(b, 2).near(b, 2)
        return b * self.sums.u_true - s0.log(), self.sums.u_true - s1 / s0

    def at(self, b: float) -> Mixed:
        """The best mixture at b."""
        log_p, slope = self._log_p(b)
        parts = torch.stack([log_p, self.log_given, self.log_uniform], dim=1)
        top = parts.amax(dim=1)
        parts = (parts - top[:, None]).exp()
        weights, by_weights = mixing_weights(parts, self.weights)
        self.weights, mixed = weights, parts @ weights
        first = -float((weights[0] * parts[:, 0] / mixed * slope).mean())
        nll = -float((mixed.log() + top).mean())
        return Mixed(b, weights, nll, first, math.hypot(b * b * first, by_weights))


def _search(logits: Tensor, labels: Tensor, classes: int, b: float) -> tuple[Mixed, int]:
    """The best mixture, and the passes over all logits: from the best b of a coarse search the slope's zero nearby."""
    stride = max(1, len(logits) // COARSE_ROWS)
    coarse = Mixture(logits[::stride], labels[::stride], classes)
    lowest = min((coarse.at(b / factor) for factor in FACTORS), key=_nll)
    exact = Mixture(logits, labels, classes)
    start = min(exact.at(b), exact.at(lowest.b), key=_nll)
    here, other, low, high, passes = start, start, 0.0, math.inf, 2
    coldest = b / COLDEST
    while passes < MAX_PASSES and abs(here.slope) * max(1.0, here.b**2) >= TOLERANCE:
        target = min(_target(here, other, low, high), coldest)
        if abs(target - here.b) <= SMALLEST_STEP * here.b:
            break
        new, passes = exact.at(target), passes + 1
        # Beyond a rise, where all weight has left T, the slope is 0 as well.
        if new.nll > here.nll + ROUNDING or (abs(new.slope) > abs(here.slope) and new.nll > here.nll):
            low, high, other = (low, target, new) if target > here.b else (target, high, new)
        else:
            low, high = (here.b, high) if here.slope < 0 else (low, here.b)
            here, other = new, here
    return here, passes


def _target(here: Mixed, other: Mixed, low: float, high: float) -> float:
    """Where the line through two slopes is 0, or if that is uphill or too far, halfway to where it is too far."""
    bend = (here.slope - other.slope) / (here.b - other.b) if here.b != other.b else 0.0
    target = here.b - here.slope / bend if bend > 0 else math.nan
    nearest, farthest = (here.b, min(high, 2 * here.b)) if here.slope < 0 else (max(low, here.b / 2), here.b)
    if nearest < target < farthest:
        return target
    if farthest == high or nearest == low:
        return math.sqrt(nearest * farthest)
    return farthest if here.slope < 0 else nearest


def _nll(mixed: Mixed) -> float:
    return mixed.nll


def mixing_weights(parts: Tensor, start: Tensor) -> tuple[Tensor, float]:
    """The weights on the simplex that maximise the mean log of parts (N, 3) @ weights, and their gradient's length.

    The maximum is that of the mean log - sum of the weights over all weights >= 0: Newton's method, each of whose steps
    is the minimum of a quadratic over these, wherever that is better than expectation-maximisation's.

    >>> parts = torch.tensor([[0.9, 0.1, 0.5], [0.1, 0.9, 0.6]]).double()
    >>> mixing_weights(parts, torch.full((3,), 1 / 3).double())[0]
    tensor([0., 0., 1.], dtype=torch.float64)
    """

    def value(weights: Tensor) -> float:
        return float(weights.sum() - (parts @ weights).log().mean())

    weights, length = 0.9 * start + 0.1 / 3, math.inf
    for step in range(MAX_STEPS):
        ratios = parts / (parts @ weights)[:, None]
        gradient = 1 - ratios.mean(dim=0)
        length = float((weights - (weights - gradient).clamp(min=0)).square().sum().sqrt())
        if length < 0.1 * TOLERANCE:
            break
        # Expectation-maximisation never fails, and soon finds the magnitude of small weights; Newton's step the rest.
        newton = by_shares = weights * (1 - gradient)
        if step >= NUM_CAUTIOUS:
            newton = _least_quadratic(ratios.T @ ratios / len(parts), 2 * gradient - 1)
        weights = newton if value(newton) < value(weights) else by_shares
    return weights / weights.sum(), length


def _least_quadratic(curvature: Tensor, linear: Tensor) -> Tensor:
    """The minimum of x curvature x / 2 + linear x over x >= 0, (3,): on some support it is where the gradient is 0."""
    supports = SUPPORTS.to(curvature)  # (7, 3)
    curvature = curvature + 1e-12 * curvature.diagonal().clamp(min=1e-9).diag()
    parts = supports[:, :, None] * curvature * supports[:, None] + (1 - supports).diag_embed()
    x = -(parts.inverse() @ (supports * linear)[:, :, None]).squeeze(2)
    return x[torch.where((x >= 0).all(dim=1), x @ linear, torch.inf).argmin()].abs()  # 0 instead of -0
