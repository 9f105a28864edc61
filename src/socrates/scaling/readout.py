"""Readout scaling: a temperature and one bias, for an unknown column read as a uniform belief."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from socrates.metrics.predictions import probabilities
from socrates.scaling.held_out import HeldOut, mean
from socrates.scaling.newton import minimize
from socrates.scaling.scaler import CONVERGED, Fit, FitReport, Scaler
from socrates.scaling.temperature import HOPELESS, RowSums, fit_inverse_temperature

# T stays between these multiples of the known logits' spread.
COLDEST = 1e-6
HOTTEST = 1e4
# The coarse search: 1 / T in units of the logits' spread, on this many rows or logits at most.
COARSE_FACTORS = tuple(10 ** (k / 5) for k in range(-7, 16))
COARSE_ROWS = 2000
COARSE_ELEMENTS = 2**20
# Descents from the lowest valleys of the coarse search, first on its rows, then on all of them.
NUM_VALLEYS = 4
NUM_DESCENTS = 2
# Where to look for the best bias: around the two columns' balance, and at this many sharp turns.
BALANCES = tuple(range(-13, 14))
NUM_TURNS = 24
# On the larger of the gradients by (T, bias) and by (log T, bias).
TOLERANCE = 1e-8
# At this bias below the closest call, the unknown column's probability is under 1e-17 for every
# row.
RULED_OUT = 40.0
# NLLs that differ by less than this are the same.
SAME = 1e-9

SURE_OR_UNKNOWN = (
    "the unknown column is high wherever the largest known logit is wrong, so the "
    "NLL falls for ever as T goes to 0"
)


class ReadoutScaling(Scaler):
    """Scales logits to z / T + bias * e_unknown, for the reading "spread" of the unknown column.

    The unknown column is the last. With s = softmax(z / T + bias * e_unknown) over c + 1 columns,
    class k has probability s_k + s_unknown / c: "I do not know" counts as a uniform belief. T and
    bias minimise the NLL of the known classes. A bias towards -infinity is temperature scaling of
    the known classes; if nothing finite is better, T is that temperature and the bias is the finite
    number that brings s_unknown below 1e-17 on the fit data. Calling returns all c + 1 scaled
    logits, `probs` the c probabilities; the `report` measures the gradient by T and bias.

    The NLL is not convex: several valleys are descended and the lowest wins. Three limits have no
    optimum and end in a warning. T -> 0 with bias = -k / T: where the unknown column leads by more
    than k in every row whose largest known logit is wrong, and in few others, each row ends either
    sure or wholly unknown, and T stops at a small value where the gradient has vanished. T -> 0
    alone: every label has the largest known logit. T -> infinity: the logits say less than a
    uniform guess. T stays between 1e-6 and 10,000 times the spread of the known logits.

    >>> known = [[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [3.0, 0.0]]
    >>> unknown = [1.0, 3.0, 1.0, 5.0, -9.0]
    >>> logits = torch.tensor([[*row, last] for row, last in zip(known, unknown, strict=True)])
    >>> scaler = ReadoutScaling().fit(logits, torch.tensor([0, 0, 1, 1, 1]))
    >>> scaler(logits).shape, scaler.probs(logits).shape
    (torch.Size([5, 3]), torch.Size([5, 2]))
    >>> scaler.report.nll_after < scaler.report.nll_before
    True
    """

    title = "readout scaling"
    short = "RS"
    needs_unknown_class = True
    temperature: Tensor
    bias: Tensor

    def __init__(self) -> None:
        super().__init__(temperature=1.0, bias=0.0)

    def num_fitted(self, columns: int) -> float:
        """Return 2, temperature and bias."""
        return 2

    def _fit(self, data: HeldOut) -> Fit:
        nll = SpreadNLL(data)
        before, _ = nll.at(1.0, 0.0)
        b_known, known, known_limit = fit_inverse_temperature(data.known)
        # A coarse search, descents from its valleys, then a look at the limits.
        starts = sorted(nll.lowest(b) for b in _valleys(nll, data, b_known))
        point, steps = min(nll.descend(start) for start in starts[:NUM_DESCENTS])
        cold = nll.lowest(nll.high)
        start = min(before, cold)
        if start.value < point.value - SAME:
            point, steps = nll.descend(start)
        converged = nll.at(point.b, point.bias)[1] < CONVERGED
        if not converged and nll.rounding > 1e-12:  # single precision was not enough
            nll = SpreadNLL(data, exact=True)
            point, more_steps = nll.descend(point)
            steps += more_steps
        limit = SURE_OR_UNKNOWN if cold.value <= point.value + SAME else ""
        if known.nll_after <= point.value + SAME:
            point = Point(0.0, b_known, nll.ruled_out(b_known))
            steps = known.num_iterations
            limit = known_limit
        elif point.value >= nll.log_c - SAME:
            point = nll.lowest(nll.low)
            limit = HOPELESS
        point, gradient_norm = nll.at(point.b, point.bias)
        after = min(before.value, point.value)
        report = FitReport(len(data.labels), steps, gradient_norm, before.value, after)
        limit = limit and f"{limit}; T = {1 / point.b:.4g}"
        return {"temperature": 1 / point.b, "bias": point.bias}, report, limit

    def affine(self) -> tuple[Tensor, Tensor]:
        """Return 1 / T, and the bias for the last column."""
        return 1 / self.temperature, pad(self.bias.reshape(1), (self.columns - 1, 0))

    def _read(self, scaled: Tensor) -> Tensor:
        """Return the probabilities of the c known classes, the unknown column's spread evenly."""
        rows = scaled.reshape(-1, scaled.shape[-1])
        return probabilities(rows, "spread").reshape(*scaled.shape[:-1], scaled.shape[-1] - 1)


class Point(NamedTuple):
    """NLL at b = 1 / T and bias; the lowest is the least."""

    value: float
    b: float
    bias: float


class SpreadNLL:
    """Mean of -log(s_y + s_unknown / c) by theta = (b, bias).

    It is computed from the known columns' row sums and two numbers per row. In b = 1 / T the
    valleys that lead to T = 0 are straight: bias = balance - k b.
    """

    def __init__(self, data: HeldOut, exact: bool = False) -> None:
        self.sums = RowSums(data.known, exact)
        unknown = data.logits[:, -1].to(self.sums.dtype)
        self.u_unknown = (unknown - self.sums.top).cpu().double()
        self.log_c = math.log(data.logits.shape[1] - 1)
        self.rounding = 1e-13 if self.sums.dtype == torch.float64 else 1e-9
        b = self.sums.hottest
        spread = math.sqrt(max(self.sums.slope(self.sums.at(b, 2), b).second, 0.0))
        # The smallest and the largest b.
        self.low = min(1.0, 1 / (HOTTEST * spread)) if spread > 0 else 1.0
        self.high = max(1.0, 1 / (COLDEST * spread)) if spread > 0 else 1.0

    def evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        """Return value and gradient at theta, where `direction` and `norm` then are taken."""
        b = min(max(float(theta[0]), self.low), self.high)
        bias = float(theta[1])
        self.b = b
        self.bias = bias
        s0, s1, s2 = self.sums.at(b, 3).near(b, 3)
        log_known = s0.log()
        expected = b * s1 / s0
        variance = b * b * s2 / s0 - expected * expected
        true = b * self.sums.u_true
        unknown = b * self.u_unknown + bias
        value = torch.logaddexp(log_known, unknown) - torch.logaddexp(true, unknown - self.log_c)
        # The unknown's share of all and of the true class.
        s = (unknown - log_known).sigmoid()
        r = (unknown - self.log_c - true).sigmoid()
        wide = s * (1 - s)
        narrow = r * (1 - r)
        over = unknown - expected
        above = unknown - true
        # By a common factor of b and bias, and by the bias: in these a valley is round enough to
        # limit steps.
        by_factor = expected + s * over - true - r * above
        gradient = mean(torch.stack([by_factor, s - r]), self.sums.weight)
        bb = (1 - s) * variance + wide * over.square() - narrow * above.square()
        cross = wide * over - narrow * above
        hessian = mean(torch.stack([bb, cross, cross, wide - narrow]), self.sums.weight).view(2, 2)
        self.step = _step(hessian, gradient, b, bias)
        gradient[0] = (gradient[0] - bias * gradient[1]) / b
        return float(mean(value, self.sums.weight)), gradient

    def direction(self, gradient: Tensor, forcing: float) -> Tensor:
        """Return Newton's step from where the gradient was last computed."""
        return self.step

    def norm(self, gradient: Tensor) -> float:
        """Return the length of the gradient by bias and by T or log T, whichever is steeper."""
        return self._length(gradient, max(self.b, 1.0))

    def _length(self, gradient: Tensor, factor: float) -> float:
        return math.hypot(float(gradient[0]) * self.b * factor, float(gradient[1]))

    def descend(self, start: Point) -> tuple[Point, int]:
        """Return the minimum whose valley holds the start, and the number of steps to it."""
        theta = torch.tensor([start.b, start.bias], dtype=torch.float64)
        theta, steps, _ = minimize(self, theta, max(TOLERANCE, 200 * self.rounding), self.rounding)
        return Point(self.evaluate(theta)[0], self.b, self.bias), steps

    def at(self, b: float, bias: float) -> tuple[Point, float]:
        """Return the point, and the length of the gradient by T and bias there."""
        value, gradient = self.evaluate(torch.tensor([b, bias], dtype=torch.float64))
        return Point(value, b, bias), self._length(gradient, b)

    def lowest(self, b: float) -> Point:
        """Return the lowest point at b among biases around the balance and where the NLL turns.

        As a function of the bias the NLL is a constant + mean of softplus(bias - open) -
        softplus(bias - close): two turns per row, where the unknown column takes half of its
        probability and half of its true class's. With max(0, x) for softplus, exact as T -> 0, the
        minimum is at a turn, or anywhere on a flat stretch between two.
        """
        log_known = self.sums.at(b, 3).near(b, 1)[0].log()
        opening = log_known - b * self.u_unknown
        closing = b * (self.sums.u_true - self.u_unknown) + self.log_c
        turns, order = torch.cat([opening, closing]).sort()
        changes = torch.where(order < len(opening), 1.0, -1.0).double()
        if self.sums.weight is not None:
            share = self.sums.weight / self.sums.weight.sum()
            changes = changes * share[order % len(opening)]
        heights = pad((changes.cumsum(0)[:-1] * turns.diff()).cumsum(0), (1, 0))
        lowest = heights.argsort()[:NUM_TURNS]
        between = (turns[lowest] + turns[(lowest + 1).clamp(max=len(turns) - 1)]) / 2
        around = torch.tensor(BALANCES) - b * self.u_unknown.median()
        biases = torch.cat([around, turns[lowest], between])
        at_once = max(1, COARSE_ELEMENTS // len(opening))
        starts = range(0, len(biases), at_once)
        blocks = (biases[start : start + at_once, None] for start in starts)
        differences = (softplus(block - opening) - softplus(block - closing) for block in blocks)
        values = torch.cat([mean(each, self.sums.weight) for each in differences])
        index = int(values.argmin())
        constant = mean(log_known - b * self.sums.u_true, self.sums.weight)
        return Point(float(values[index] + constant), b, float(biases[index]))

    def ruled_out(self, b: float) -> float:
        """Return a finite bias that is as good as -infinity."""
        return -RULED_OUT - max(0.0, b * float(self.u_unknown.max()))


def _step(hessian: Tensor, gradient: Tensor, b: float, bias: float) -> Tensor:
    """Return Newton's step of (b, bias), downhill also where the NLL is not convex.

    No step by the common factor and the bias is longer than 1.
    """
    curves, basis = cast("tuple[Tensor, Tensor]", torch.linalg.eigh(hessian))  # pyright: ignore[reportUnknownMemberType]
    curves = curves.abs().clamp(min=float(gradient.square().sum().sqrt()) + 1e-300)
    by_factor, by_bias = -basis @ (basis.T @ gradient / curves)
    return torch.stack([b * by_factor, bias * by_factor + by_bias])


def _valleys(nll: SpreadNLL, data: HeldOut, b_known: float) -> list[float]:
    """Return where the NLL's lowest valleys along b are on some of the rows."""
    num_rows, columns = data.logits.shape
    stride = max(1, num_rows // min(COARSE_ROWS, max(256, COARSE_ELEMENTS // columns)))
    coarse = nll if stride == 1 else SpreadNLL(data.take(slice(None, None, stride)))
    unit = nll.low * HOTTEST
    factors = (1.0, b_known, *(factor * unit for factor in COARSE_FACTORS))
    points = [coarse.lowest(b) for b in sorted({min(max(b, nll.low), nll.high) for b in factors})]
    padded = [math.inf, *(point.value for point in points), math.inf]
    # A plateau, which reaches to T = 0, is one valley where it begins.
    around = zip(points, padded, padded[2:], strict=False)
    lowest = [point for point, left, right in around if left - SAME > point.value <= right + SAME]
    return [
        point.b if stride == 1 else coarse.descend(point)[0].b
        for point in sorted(lowest)[:NUM_VALLEYS]
    ]
