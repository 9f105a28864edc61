"""Readout scaling: a temperature and one bias, for models with an unknown column that is read as a uniform belief."""

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from socrates.scaling.inputs import Array, check_fit, check_logits
from socrates.scaling.rowsums import RowSums
from socrates.scaling.scaler import FitReport, Scaler, folded, working
from socrates.scaling.temperature import fit_inverse_temperature

TOLERANCE = 2e-7
MAX_STEPS = 100
# At this bias below the closest call, the unknown column's probability is under 1e-17 for every row.
RULED_OUT = 40.0
# Where the search may start: factors of the known classes' 1 / T, and biases around the two columns' balance.
START_FACTORS = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
START_BIASES = (-12.0, -9.0, -7.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 7.0)
START_ROWS = 2000


class ReadoutScaling(Scaler):
    """Scales logits with an unknown last column to z / T + bias * e_unknown, for the reading `spread`.

    With s = softmax(z / T + bias * e_unknown) over c + 1 columns, class k has probability s_k + s_unknown / c: "I do
    not know" counts as a uniform belief. T and bias minimise the NLL of the known classes. A bias towards -infinity is
    temperature scaling of the known classes; if nothing finite is better, T is that temperature and the bias is the
    finite number that brings s_unknown below 1e-17 on the fit data. Logits that say less than a uniform guess end at a
    very large T, separable ones at a very small T. Before `fit`, T = 1 and bias = 0. Calling returns all c + 1 scaled
    logits, `probs` the c probabilities; the `report` measures the gradient by T and bias.

    >>> logits = torch.tensor([[4.0, 0.0, 1.0], [4.0, 0.0, 3.0], [0.0, 4.0, 1.0], [4.0, 0.0, 5.0]])
    >>> scaler = ReadoutScaling().fit(logits, torch.tensor([0, 0, 1, 1]))
    >>> scaler(logits).shape, scaler.probs(logits).shape
    (torch.Size([4, 3]), torch.Size([4, 2]))
    >>> scaler.report.nll_after < scaler.report.nll_before
    True
    """

    temperature: Tensor
    bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._remember(torch.device("cpu"), temperature=torch.tensor(1.0), bias=torch.tensor(0.0))

    def fit(self, logits: Array, labels: Array) -> "ReadoutScaling":
        """Finds T and bias from held-out logits (N, c + 1) and labels (N,) among the first c columns."""
        z, y = check_fit(logits, labels, "ReadoutScaling", unknown_column=True)
        nll = SpreadNLL(z, y)
        before = nll.at(1.0, 0.0)
        known = fit_inverse_temperature(z[:, :-1], y)
        point, steps = _descend(nll, _start(z, y, known.b))
        if before.value < point.value:  # a descent never ends above its start, but for rounding
            point, steps = _descend(nll, before)
        if known.report.nll_after <= point.value:
            point, steps = nll.without_unknown(known.b), known.report.num_iterations
            if known.warning:
                warnings.warn(f"ReadoutScaling: {known.warning}; T = {1 / known.b:.4g}", stacklevel=2)
        temperature, bias = (torch.tensor(value, dtype=torch.float64) for value in (1 / point.b, point.bias))
        self._remember(z.device, temperature=temperature, bias=bias)
        self.report = FitReport(len(z), steps, point.gradient_norm, before.value, min(before.value, point.value))
        self.columns = z.shape[1]
        return self

    def forward(self, logits: Tensor) -> Tensor:
        """Logits / T with the bias added to the last column, of any leading shape."""
        z = working(check_logits(logits, "ReadoutScaling", self.columns))
        z = z / self.temperature.to(z.dtype)
        return torch.cat([z[..., :-1], z[..., -1:] + self.bias.to(z.dtype)], dim=-1).to(logits.dtype)

    def probs(self, logits: Tensor) -> Tensor:
        """Probabilities of the c known classes, the unknown column's spread evenly among them."""
        s = self(logits).softmax(dim=-1)
        return s[..., :-1] + s[..., -1:] / (s.shape[-1] - 1)

    def fold(self, linear: nn.Linear) -> nn.Linear:
        """A new linear layer whose outputs are already scaled: weight / T, bias / T, and the bias on the last row."""
        shift = torch.zeros(linear.out_features, dtype=torch.float64, device=self.bias.device)
        shift[-1] = self.bias
        return folded(linear, self.columns, "ReadoutScaling", 1 / self.temperature.double(), shift)


@dataclass(frozen=True)
class Point:
    """NLL at (log b, bias) with gradient and second derivatives in those coordinates; b = 1 / T."""

    b: float
    bias: float
    value: float
    gradient: tuple[float, float]
    hessian: tuple[float, float, float]

    @property
    def gradient_norm(self) -> float:
        """Length of the gradient by T and bias."""
        return math.hypot(self.gradient[0] * self.b, self.gradient[1])

    @property
    def converged(self) -> bool:
        """Whether the gradient vanishes, taken by T or by log T."""
        return math.hypot(self.gradient[0] * max(self.b, 1.0), self.gradient[1]) < TOLERANCE


class SpreadNLL:
    """Mean of -log(s_y + s_unknown / c), from the known columns' row sums and two numbers a row."""

    def __init__(self, logits: Tensor, labels: Tensor) -> None:
        self.sums = RowSums(logits[:, :-1])
        self.u_true = self.sums.relative(logits.gather(1, labels[:, None]).squeeze(1))
        self.u_unknown = self.sums.relative(logits[:, -1])
        self.log_c = math.log(logits.shape[1] - 1)
        self.rounding = 1e-13 if self.sums.dtype == torch.float64 else 1e-9

    def at(self, b: float, bias: float) -> Point:
        """Value and derivatives, for one pass over the logits."""
        return self.profile(b, (bias,))[0]

    def profile(self, b: float, biases: tuple[float, ...]) -> list[Point]:
        """The points of several biases, which share the pass over the logits."""
        s0, s1, s2 = self.sums.at(b, 3).near(b, 3)
        mean = s1 / s0
        return [self._point(b, bias, s0.log(), mean, s2 / s0 - mean * mean) for bias in biases]

    def _point(self, b: float, bias: float, log_known: Tensor, mean: Tensor, variance: Tensor) -> Point:
        d, u = self.u_unknown, self.u_true
        v = b * d + bias
        log_all = torch.logaddexp(log_known, v)
        log_true = torch.logaddexp(b * u, v - self.log_c)
        s, r = (v - log_all).exp(), (v - self.log_c - log_true).exp()  # unknown's share: of all, and of the true class
        wide, narrow = s * (1 - s), r * (1 - r)
        by_b = b * float(((1 - s) * mean + s * d - (1 - r) * u - r * d).mean())
        bb = float(((1 - s) * variance + wide * (d - mean).square() - narrow * (d - u).square()).mean())
        cross = float((wide * (d - mean) - narrow * (d - u)).mean())
        gradient = (by_b, float((s - r).mean()))
        hessian = (b * b * bb + by_b, b * cross, float((wide - narrow).mean()))
        return Point(b, bias, float((log_all - log_true).mean()), gradient, hessian)

    def without_unknown(self, b: float) -> Point:
        """The limit of a bias towards -infinity, as a finite bias."""
        return self.at(b, -RULED_OUT - max(0.0, b * float(self.u_unknown.max())))


def _start(logits: Tensor, labels: Tensor, b_known: float) -> Point:
    """The best point of a coarse grid on some rows: the NLL is not convex in both parameters."""
    stride = max(1, len(logits) // START_ROWS)
    nll = SpreadNLL(logits[::stride], labels[::stride])
    candidates: list[Point] = []
    for b in (1.0, *(factor * b_known for factor in START_FACTORS)):
        balance = -b * float(nll.u_unknown.median())
        candidates += nll.profile(b, tuple(balance + bias for bias in START_BIASES))
    return min(candidates, key=lambda point: point.value)


def _descend(nll: SpreadNLL, start: Point) -> tuple[Point, int]:
    """Newton's method with halved steps, from the start's coordinates to a point where the gradient vanishes."""
    point = nll.at(start.b, start.bias)
    for step in range(MAX_STEPS):
        if point.converged:
            return point, step
        by_log_b, by_bias = _newton_step(point)
        new, scale = point, 1.0
        while scale > 1e-8:
            new = nll.at(point.b * math.exp(scale * by_log_b), point.bias + scale * by_bias)
            # Near the minimum a step gains less than the value's rounding: there the gradient decides.
            closer = new.value <= point.value + nll.rounding and new.gradient_norm < point.gradient_norm
            if closer or new.value < point.value - nll.rounding:
                break
            scale /= 2
        else:
            return point, step
        point = new
    return point, MAX_STEPS


def _newton_step(point: Point) -> tuple[float, float]:
    """Newton's step with the curvatures made positive, at most 1.5 in log b and 4 in bias."""
    aa, ab, bb = point.hessian
    half, radius = (aa + bb) / 2, math.hypot((aa - bb) / 2, ab)
    angle = 0.5 * math.atan2(2 * ab, aa - bb)  # of the eigenvector that belongs to half + radius
    cos, sin = math.cos(angle), math.sin(angle)
    first = (cos * point.gradient[0] + sin * point.gradient[1]) / max(abs(half + radius), 1e-12)
    second = (cos * point.gradient[1] - sin * point.gradient[0]) / max(abs(half - radius), 1e-12)
    by_log_b, by_bias = sin * second - cos * first, -sin * first - cos * second
    shrink = min(1.0, 1.5 / max(abs(by_log_b), 1e-300), 4.0 / max(abs(by_bias), 1e-300))
    return shrink * by_log_b, shrink * by_bias
