"""Ensemble temperature scaling: a mixture of scaled, original and uniform probabilities."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from socrates.scaling.held_out import LEAST, HeldOut, mean
from socrates.scaling.newton import minimize
from socrates.scaling.scaler import Fit, FitReport, Scaler
from socrates.scaling.temperature import SEPARABLE, RowSums, fit_inverse_temperature

# Where to look for T, as multiples of that of temperature scaling, and on how many rows.
FACTORS = (1 / 8, 1 / 4, 1 / 2, 1 / 1.4, 1.0, 1.4, 2.0, 4.0)
COLDEST = 1e-4
COARSE_ROWS = 1000
# On the gradient by T or 1 / T, whichever is steeper, and by the weights; a sample of the rows
# needs no more than its sampling error.
TOLERANCE = 1e-8
COARSE_TOLERANCE = 1e-3
# NLLs that differ by less are the same.
ROUNDING = 1e-9
# The longest step of log T.
LONGEST = math.log(2)
MAX_STEPS = 100
NUM_CAUTIOUS = 3
# The sets of weights that may be positive.
SUPPORTS = torch.tensor(list(itertools.product((0, 1), repeat=3))[1:])
# The weights of temperature scaling alone.
TEMPERATURE_ALONE = torch.tensor([1.0, 0.0, 0.0])

SURE = (
    "answers are right equally often whatever their confidence, so the NLL falls for ever as "
    "T goes to 0"
)


class EnsembleTemperatureScaling(Scaler):
    """Maps logits z of c classes to log(w1 softmax(z / T) + w2 softmax(z) + w3 / c).

    The weights w are not negative and sum to 1. Zhang et al. (2020) fit T first and then w; here
    both together minimise the NLL, which is convex in w and then a function of T alone, and which
    is never above that of temperature scaling, w = (1, 0, 0). The order of the classes never
    changes. Returns log-probabilities. A declared unknown class is a column of both softmax, as in
    temperature scaling, and its share of w3 is 1e-37, so that no logarithm is infinite. The
    `report` measures the gradient by T and by w, without what the simplex holds back. Labels that
    all have the largest logit are fitted as by temperature scaling, with its warning. Where answers
    are right equally often whatever their confidence, the NLL falls for ever as T goes to 0: T
    stops where the gradient has vanished, or with a warning at 1/10,000 of that of temperature
    scaling.

    >>> logits = torch.tensor([-9.0, -8.0, 9.0, -8.0, -1.0, -0.5, 1.0])  # of class 1
    >>> scaler = EnsembleTemperatureScaling().fit(logits, torch.tensor([0, 0, 1, 1, 0, 0, 1]))
    >>> scaler(logits).exp().sum(dim=1).allclose(torch.ones(7))
    True
    """

    title = "ensemble temperature scaling"
    short = "ETS"
    usual = False
    temperature: Tensor
    weights: Tensor  # (3,)
    uniform: Tensor  # (C,) what w3 multiplies

    def __init__(self) -> None:
        super().__init__(temperature=1.0, weights=TEMPERATURE_ALONE, uniform=torch.zeros(0))

    def num_fitted(self, columns: int) -> float:
        """Return 3, the temperature and two of the three weights."""
        return 3

    def _fit(self, data: HeldOut) -> Fit:
        num_classes = data.logits.shape[1] - data.unknown_class
        known = torch.full((num_classes,), 1 / num_classes, dtype=torch.float64)
        uniform = pad(known, (0, int(data.unknown_class)), value=LEAST)
        b, report, limit = fit_inverse_temperature(data)
        weights = TEMPERATURE_ALONE
        if limit != SEPARABLE:
            # Where a uniform guess is better than any temperature, w3 is that guess.
            start = 1.0 if limit else b
            mixture, steps = _search(data, num_classes, start)
            at_limit = mixture.b == mixture.coldest
            limit = f"{SURE}; T = {1 / mixture.b:.4g}" if at_limit else ""
            if mixture.nll <= report.nll_after:
                b = mixture.b
                weights = mixture.weights
                gradient_norm = math.hypot(b * mixture.slope, mixture.by_weights)
                before = report.nll_before
                report = FitReport(len(data.labels), steps, gradient_norm, before, mixture.nll)
        return {"temperature": 1 / b, "weights": weights, "uniform": uniform}, report, limit

    def transform(self, logits: Tensor) -> Tensor:
        """Return the calibrated log-probabilities of these logits."""
        log_w = self.weights.log().to(logits)
        log_uniform = self.uniform.log().to(logits)
        scaled = (logits / self.temperature.to(logits)).log_softmax(dim=-1) + log_w[0]
        original = logits.log_softmax(dim=-1) + log_w[1]
        uniform = (log_uniform + log_w[2]).expand_as(scaled)
        return torch.stack([scaled, original, uniform]).logsumexp(dim=0)

    def extra_repr(self) -> str:
        """Return the weights, and what every scaler shows."""
        if self.columns == 0:
            return super().extra_repr()
        weights = ", ".join(f"{float(weight):.3g}" for weight in self.weights)
        return f"weights=({weights}), {super().extra_repr()}"


class Mixture:
    """The NLL of the mixture as a function of log b alone, b = 1 / T, with the best weights."""

    def __init__(self, data: HeldOut, num_classes: int, b: float) -> None:
        self.sums = RowSums(data)
        self.coldest = b / COLDEST
        self.log_original = self._log_p(1.0)[0]
        self.log_uniform = torch.full_like(self.log_original, -math.log(num_classes))
        # The last weights, where the next search begins.
        self.weights = torch.full((3,), 1 / 3, dtype=torch.float64)
        self.b = self.slope = self.bend = 0.0  # not evaluated yet

    def _log_p(self, b: float) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each label at b and its derivative, (N,)."""
        s0, s1 = self.sums.at(b, 2).near(b, 2)
        return b * self.sums.u_true - s0.log(), self.sums.u_true - s1 / s0

    def evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        """Return value and gradient at theta = log b, where `direction` and `norm` are taken."""
        previous_b = self.b
        previous_slope = self.slope
        self.b = min(math.exp(theta), self.coldest)
        log_p, by_b = self._log_p(self.b)
        parts = torch.stack([log_p, self.log_original, self.log_uniform], dim=1)
        top = parts.amax(dim=1)
        parts = (parts - top[:, None]).exp()
        self.weights, self.by_weights = mixing_weights(parts, self.weights, self.sums.weight)
        mixed = parts @ self.weights
        self.nll = -float(mean(mixed.log() + top, self.sums.weight))
        by_b = self.weights[0] * parts[:, 0] / mixed * by_b
        self.slope = -self.b * float(mean(by_b, self.sums.weight))
        if previous_b not in (0.0, self.b):
            self.bend = (self.slope - previous_slope) / math.log(self.b / previous_b)
        return self.nll, torch.full_like(theta, self.slope)

    def direction(self, gradient: Tensor, forcing: float) -> Tensor:
        """Return the step to the zero of the line through the last two slopes, of bounded length.

        Where that line falls, the step goes downhill.
        """
        return (-gradient / max(self.bend, 1e-300)).clamp(-LONGEST, LONGEST)

    def norm(self, gradient: Tensor) -> float:
        """Return the derivative by T or 1 / T, whichever is steeper; 0 at the coldest b allowed."""
        held = self.b == self.coldest and self.slope < 0
        return 0.0 if held else abs(float(gradient)) * max(1 / self.b, self.b)


def _search(data: HeldOut, num_classes: int, b: float) -> tuple[Mixture, int]:
    """Return the best mixture, where it was last evaluated, and the number of steps to it.

    The search starts from the best one on some of the rows.
    """
    some = slice(None, None, max(1, len(data.labels) // COARSE_ROWS))
    coarse = Mixture(data.take(some), num_classes, b)
    starts = [torch.tensor(b / factor, dtype=torch.float64).log() for factor in FACTORS]
    nlls = [coarse.evaluate(start)[0] for start in starts]
    theta, _, _ = minimize(coarse, starts[nlls.index(min(nlls))], COARSE_TOLERANCE, ROUNDING)
    exact = Mixture(data, num_classes, b)
    exact.bend = coarse.bend
    theta, steps, _ = minimize(exact, theta, TOLERANCE, ROUNDING)
    exact.evaluate(theta)
    return exact, steps


def mixing_weights(
    parts: Tensor, start: Tensor, weight: Tensor | None = None
) -> tuple[Tensor, float]:
    """Maximise the mean log of parts (N, 3) @ weights over the simplex.

    Returns the weights and the length of their gradient. The maximum is that of the mean log - sum
    of the weights over all weights >= 0: Newton's method, each of whose steps is the minimum of a
    quadratic over these, wherever that is better than the step of expectation-maximisation.

    >>> parts = torch.tensor([[0.9, 0.1, 0.5], [0.1, 0.9, 0.6]]).double()
    >>> mixing_weights(parts, torch.full((3,), 1 / 3).double())[0]
    tensor([0., 0., 1.], dtype=torch.float64)
    """

    def value(weights: Tensor) -> float:
        return float(weights.sum() - mean((parts @ weights).log(), weight))

    weights = 0.9 * start + 0.1 / 3
    length = math.inf
    for step in range(MAX_STEPS):
        ratios = parts / (parts @ weights)[:, None]
        gradient = 1 - mean(ratios.T, weight)
        length = float((weights - (weights - gradient).clamp(min=0)).square().sum().sqrt())
        if length < 0.1 * TOLERANCE:
            break
        # Expectation-maximisation never fails, and soon finds the magnitude of small weights;
        # Newton's method does the rest.
        by_shares = weights * (1 - gradient)
        newton = by_shares
        if step >= NUM_CAUTIOUS:
            moments = ratios.T @ ratios / len(ratios)
            if weight is not None:
                moments = (ratios * (weight / weight.sum())[:, None]).T @ ratios
            newton = _least_quadratic(moments, 2 * gradient - 1)
        weights = newton if value(newton) < value(weights) else by_shares
    return weights / weights.sum(), length


def _least_quadratic(curvature: Tensor, linear: Tensor) -> Tensor:
    """Return the minimum of x curvature x / 2 + linear x over x >= 0, (3,).

    On some support it is where the gradient is 0.
    """
    supports = SUPPORTS.to(curvature)  # (7, 3)
    curvature = curvature + 1e-12 * curvature.diagonal().clamp(min=1e-9).diag()
    parts = supports[:, :, None] * curvature * supports[:, None] + (1 - supports).diag_embed()
    x = -(parts.inverse() @ (supports * linear)[:, :, None]).squeeze(2)
    values = torch.where((x >= 0).all(dim=1), x @ linear, torch.inf)
    return x[values.argmin()].abs()  # 0 instead of -0
