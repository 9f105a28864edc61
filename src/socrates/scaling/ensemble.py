"""Ensemble temperature scaling: the temperature-scaled, the given and the uniform probabilities, mixed."""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from socrates.scaling.inputs import LEAST
from socrates.scaling.newton import minimize
from socrates.scaling.rowsums import RowSums
from socrates.scaling.scaler import Fit, FitReport, Scaler
from socrates.scaling.temperature import SEPARABLE, fit_inverse_temperature

# Where to look for T, as multiples of that of temperature scaling, and on how many rows.
FACTORS = (1 / 8, 1 / 4, 1 / 2, 1 / 1.4, 1.0, 1.4, 2.0, 4.0)
COLDEST = 1e-4
COARSE_ROWS = 1000
# On the gradient by T or 1 / T, whichever is steeper, and by the weights; some rows need no more than their error.
TOLERANCE, COARSE = 1e-8, 1e-3
# NLLs that differ by less are the same.
ROUNDING = 1e-9
# The longest step of log T.
LONGEST = math.log(2)
MAX_STEPS, NUM_CAUTIOUS = 100, 3
# The sets of weights that may be positive.
SUPPORTS = torch.tensor([[0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]])

SURE = "answers are right equally often whatever their confidence, so the NLL falls for ever as T goes to 0"


class EnsembleTemperatureScaling(Scaler):
    """Maps logits z of c classes to log(w1 softmax(z / T) + w2 softmax(z) + w3 / c), the weights w summing to 1.

    Zhang et al. (2020) fit T first and then w; here both together minimise the NLL, which is convex in w and then a
    function of T alone, and which is never above that of temperature scaling, w = (1, 0, 0). The order of the classes
    never changes. The result are log-probabilities. A declared unknown class is a column of both softmax, as in
    temperature scaling, and its share of w3 is 1e-37, so that no logarithm is infinite. The `report` measures the
    gradient by T and by w, of that what the simplex does not hold back. Labels that all have the largest logit are
    fitted as by temperature scaling, with its warning. Where answers are right equally often whatever their confidence,
    the NLL falls for ever as T goes to 0: T stops where the gradient has vanished, or with a warning at 1/10,000 of
    that of temperature scaling.

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
        uniform = pad(torch.full((classes,), 1 / classes, dtype=torch.float64), (0, int(unknown_class)), value=LEAST)
        b, scaled, limit = fit_inverse_temperature(logits, labels)
        weights, report = torch.tensor([1.0, 0.0, 0.0]), scaled
        if limit != SEPARABLE:
            # Where a uniform guess is better than any temperature, w3 is that guess.
            start, limit = 1.0 if limit else b, ""
            found, steps = _search(logits, labels, classes, start)
            if found.b == found.coldest:
                limit = f"{SURE}; T = {1 / found.b:.4g}"
            if found.nll <= scaled.nll_after:
                b, weights = found.b, found.weights
                gradient_norm = math.hypot(found.b * found.slope, found.by_weights)
                report = FitReport(len(labels), steps, gradient_norm, scaled.nll_before, found.nll)
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


class Mixture:
    """The NLL of the mixture as a function of log b alone, b = 1 / T, the weights being the best for it."""

    def __init__(self, logits: Tensor, labels: Tensor, classes: int, b: float) -> None:
        self.sums, self.coldest = RowSums(logits, labels), b / COLDEST
        self.log_given = self._log_p(1.0)[0]
        self.log_uniform = torch.full_like(self.log_given, -math.log(classes))
        self.weights = torch.full((3,), 1 / 3, dtype=torch.float64)  # the last ones, where the next search begins
        self.b = self.slope = self.bend = 0.0  # nowhere yet

    def _log_p(self, b: float) -> tuple[Tensor, Tensor]:
        """Log-probability of each label at b and its derivative, (N,)."""
        s0, s1 = self.sums.at(b, 2).near(b, 2)
        return b * self.sums.u_true - s0.log(), self.sums.u_true - s1 / s0

    def evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        """Value and gradient at theta = log b, where `direction` and `norm` then are taken."""
        other_b, other_slope = self.b, self.slope
        self.b = min(math.exp(theta), self.coldest)
        log_p, by_b = self._log_p(self.b)
        parts = torch.stack([log_p, self.log_given, self.log_uniform], dim=1)
        top = parts.amax(dim=1)
        parts = (parts - top[:, None]).exp()
        self.weights, self.by_weights = mixing_weights(parts, self.weights)
        mixed = parts @ self.weights
        self.nll = -float((mixed.log() + top).mean())
        self.slope = -self.b * float((self.weights[0] * parts[:, 0] / mixed * by_b).mean())
        if other_b not in (0.0, self.b):
            self.bend = (self.slope - other_slope) / math.log(self.b / other_b)
        return self.nll, torch.full_like(theta, self.slope)

    def direction(self, gradient: Tensor, forcing: float) -> Tensor:
        """To where the line through the last two slopes is 0, or if it falls, downhill; not too far."""
        return (-gradient / max(self.bend, 1e-300)).clamp(-LONGEST, LONGEST)

    def norm(self, gradient: Tensor) -> float:
        """Size of the derivative by T or 1 / T, whichever is steeper; 0 at the coldest b that is allowed."""
        held = self.b == self.coldest and self.slope < 0
        return 0.0 if held else abs(float(gradient)) * max(1 / self.b, self.b)


def _search(logits: Tensor, labels: Tensor, classes: int, b: float) -> tuple[Mixture, int]:
    """The best mixture, where it was last evaluated, and the steps to it from the best one on some of the rows."""
    stride = max(1, len(logits) // COARSE_ROWS)
    coarse = Mixture(logits[::stride], labels[::stride], classes, b)
    starts = [torch.tensor(b / factor, dtype=torch.float64).log() for factor in FACTORS]
    nlls = [coarse.evaluate(start)[0] for start in starts]
    theta, _, _ = minimize(coarse, starts[nlls.index(min(nlls))], COARSE, ROUNDING)
    exact = Mixture(logits, labels, classes, b)
    exact.bend = coarse.bend
    theta, steps, _ = minimize(exact, theta, TOLERANCE, ROUNDING)
    exact.evaluate(theta)
    return exact, steps


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
