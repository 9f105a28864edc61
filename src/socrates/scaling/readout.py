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
from socrates.scaling.temperature import RowSums, fit_inverse_temperature

# T stays within this factor of the temperature of the known columns.
WIDEST = 3.0
# The strength of the prior of T, and what the unknown column must gain of the mean NLL, (this many
# rows / n)^2: both were chosen by benchmarks/simulate_readout.py, so that few rows seldom make the
# read-out worse than temperature scaling.
PRIOR_STRENGTH = 5.0
ENOUGH_ROWS = 10.0
# The coarse search: multiples of the known columns' 1 / T, on this many rows or logits at most.
COARSE_FACTORS = tuple(WIDEST ** (k / 5) for k in range(-4, 5))
COARSE_ROWS = 2000
COARSE_ELEMENTS = 2**20
# Descents from the lowest valleys of the coarse search, first on its rows, then on all of them.
NUM_DESCENTS = 2
# Where to look for the best bias: around the two columns' balance, and at some of the turns.
BALANCES = tuple(range(-13, 14))
NUM_TURNS = 25
# Biases times rows that are looked at together.
CHUNK_ELEMENTS = 2**20
# On the larger of the gradients by (T, bias) and by (log T, bias).
TOLERANCE = 1e-8
# At this bias below the closest call, the unknown column's probability is under 1e-17 for every
# row; new rows with heavy tails may have a column that leads by this many times more.
RULED_OUT = 40.0
LARGER_LEAD = 100.0


class ReadoutScaling(Scaler):
    """Scales logits to z / T + bias * e_unknown, for the reading "spread" of the unknown column.

    The unknown column is the last. With s = softmax(z / T + bias * e_unknown) over c + 1 columns,
    class k has probability s_k + s_unknown / c: "I do not know" counts as a uniform belief. A bias
    towards -infinity is temperature scaling of the known classes, with temperature T_known.

    T and bias minimise the NLL of the known classes on n rows, plus -5 / n log(1 - x^2) with
    x = log(T / T_known) / log 3: a prior that keeps T between a third of T_known and three times
    T_known, and that fades as rows are added. The unknown column is used if it lowers this by more
    than (10 / n)^2 in comparison with temperature scaling. Otherwise it is ruled out: T is T_known,
    and the bias is a finite number that brings s_unknown below 1e-17 on the fit data. So it is
    where temperature scaling has no optimum, which ends in a warning. Calling returns all c + 1
    scaled logits, `probs` the c probabilities; the `report` measures the gradient by T and bias.
    Where few rows rule the unknown column out, their NLL may rise above that before the fit. The
    NLL is not convex: several descents are tried and the lowest wins.

    The fit sees known classes only, so it cannot learn what strangers look like: a ruled-out column
    says that the known columns suffice to be calibrated on known classes, nothing else.

    >>> rows = [[2.0, 0.0, 0.0], [2.0, 0.0, -1.0], [0.0, 2.0, 0.0], [2.0, 0.0, 2.0]]
    >>> logits = torch.tensor(rows * 10)
    >>> labels = torch.tensor([0, 0, 1, 1] * 10)  # wrong where the unknown column is high
    >>> scaler = ReadoutScaling().fit(logits, labels)
    >>> scaler(logits).shape, scaler.probs(logits).shape
    (torch.Size([40, 3]), torch.Size([40, 2]))
    >>> from socrates.scaling import TemperatureScaling
    >>> TemperatureScaling().fit(logits[:, :-1], labels).report.nll_after
    0.56...
    >>> scaler.report.nll_after
    0.3...
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
        b_known, known, limit = fit_inverse_temperature(data.known)
        nll = SpreadNLL(data, b_known)
        before = nll.without_prior(1.0, 0.0)
        steps = known.num_iterations
        ruled_out, gradient_norm = nll.at(b_known, nll.ruled_out(b_known))
        point = ruled_out
        if not limit:
            lowest, num_steps, norm = _lowest(nll, data)
            if norm >= CONVERGED and nll.rounding > 1e-12:  # single precision was not enough
                nll = SpreadNLL(data, b_known, exact=True)
                lowest, more_steps, norm = nll.descend(lowest)
                num_steps += more_steps
            if lowest.value < ruled_out.value - (ENOUGH_ROWS / nll.num_samples) ** 2:
                point = lowest
                steps = num_steps
                gradient_norm = norm
        after = nll.without_prior(point.b, point.bias)
        report = FitReport(len(data.labels), steps, gradient_norm, before, after)
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
    """What is minimised at b = 1 / T and bias; the lowest is the least."""

    value: float
    b: float
    bias: float


class SpreadNLL:
    """Mean of -log(s_y + s_unknown / c) by theta = (b, bias), and the prior of b.

    It is computed from the known columns' row sums and two numbers per row.
    """

    def __init__(self, data: HeldOut, b_known: float, exact: bool = False) -> None:
        self.sums = RowSums(data.known, exact)
        weight = self.sums.weight
        self.num_samples = len(data.labels) if weight is None else float(weight.sum())
        self.b_known = b_known
        unknown = data.logits[:, -1].to(self.sums.dtype)
        self.u_unknown = (unknown - self.sums.top).cpu().double()
        self.log_c = math.log(data.logits.shape[1] - 1)
        self.rounding = 1e-13 if self.sums.dtype == torch.float64 else 1e-9

    def evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        """Return value and gradient at theta, where `direction` and `norm` then are taken.

        Where the prior is 0 the value is infinite.
        """
        b = float(theta[0])
        bias = float(theta[1])
        self.b = b
        self.bias = bias
        x = math.log(b / self.b_known) / math.log(WIDEST) if b > 0 else -1.0
        if not abs(x) < 1:
            return math.inf, torch.zeros_like(theta)
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
        # By a common factor 1 + f of b and bias, and by the bias: in these a valley is round enough
        # to limit steps.
        by_factor = expected + s * over - true - r * above
        gradient = mean(torch.stack([by_factor, s - r]), self.sums.weight)
        bb = (1 - s) * variance + wide * over.square() - narrow * above.square()
        cross = wide * over - narrow * above
        hessian = mean(torch.stack([bb, cross, cross, wide - narrow]), self.sums.weight).view(2, 2)
        prior, slope, curve = self._prior(x)
        gradient[0] += slope
        hessian[0, 0] += curve
        self.step = _step(hessian, gradient, b, bias)
        gradient[0] = (gradient[0] - bias * gradient[1]) / b
        return float(mean(value, self.sums.weight)) + prior, gradient

    def _prior(self, x: float) -> tuple[float, float, float]:
        """Return -strength / n log(1 - x^2), and its derivatives by f, where b is b (1 + f)."""
        strength = PRIOR_STRENGTH / self.num_samples
        by_x = 2 * x / (1 - x * x)
        by_x_twice = 2 * (1 + x * x) / (1 - x * x) ** 2
        x_by_f = 1 / math.log(WIDEST)
        slope = by_x * x_by_f
        curve = by_x_twice * x_by_f**2 - slope
        return -strength * math.log1p(-x * x), strength * slope, strength * curve

    def without_prior(self, b: float, bias: float) -> float:
        """Return the mean NLL at any b > 0 and bias."""
        log_known = self.sums.at(b, 3).near(b, 1)[0].log()
        unknown = b * self.u_unknown + bias
        log_true = torch.logaddexp(b * self.sums.u_true, unknown - self.log_c)
        return float(mean(torch.logaddexp(log_known, unknown) - log_true, self.sums.weight))

    def direction(self, gradient: Tensor, forcing: float) -> Tensor:
        """Return Newton's step from where the gradient was last computed."""
        return self.step

    def norm(self, gradient: Tensor) -> float:
        """Return the length of the gradient by bias and by T or log T, whichever is steeper."""
        return self._length(gradient, max(self.b, 1.0))

    def _length(self, gradient: Tensor, factor: float) -> float:
        return math.hypot(float(gradient[0]) * self.b * factor, float(gradient[1]))

    def descend(self, start: Point) -> tuple[Point, int, float]:
        """Return the minimum whose valley holds the start, the steps to it, and the gradient."""
        theta = torch.tensor([start.b, start.bias], dtype=torch.float64)
        theta, steps, _ = minimize(self, theta, max(TOLERANCE, 200 * self.rounding), self.rounding)
        point, gradient_norm = self.at(float(theta[0]), float(theta[1]))
        return point, steps, gradient_norm

    def at(self, b: float, bias: float) -> tuple[Point, float]:
        """Return the point, and the length of the gradient by T and bias there."""
        value, gradient = self.evaluate(torch.tensor([b, bias], dtype=torch.float64))
        return Point(value, b, bias), self._length(gradient, b)

    def lowest(self, b: float) -> Point:
        """Return the lowest point at b among biases around the balance and where the NLL turns.

        As a function of the bias the NLL is a constant + mean of softplus(bias - open) -
        softplus(bias - close): two turns per row, where the unknown column takes half of its
        probability and half of its true class's.
        """
        log_known = self.sums.at(b, 3).near(b, 1)[0].log()
        opening = log_known - b * self.u_unknown
        closing = b * (self.sums.u_true - self.u_unknown) + self.log_c
        turns = torch.cat([opening, closing]).sort().values
        some = torch.linspace(0, len(turns) - 1, NUM_TURNS).long()
        around = torch.tensor(BALANCES) - b * self.u_unknown.median()
        biases = torch.cat([around, turns[some]])
        size = max(1, CHUNK_ELEMENTS // len(opening))
        chunks = [biases[start : start + size, None] for start in range(0, len(biases), size)]
        changes = (softplus(bias - opening) - softplus(bias - closing) for bias in chunks)
        values = torch.cat([mean(each, self.sums.weight) for each in changes])
        index = int(values.argmin())
        constant = mean(log_known - b * self.sums.u_true, self.sums.weight)
        prior, _, _ = self._prior(math.log(b / self.b_known) / math.log(WIDEST))
        return Point(float(values[index] + constant) + prior, b, float(biases[index]))

    def ruled_out(self, b: float) -> float:
        """Return a finite bias that is as good as -infinity, on new rows too."""
        return -RULED_OUT - LARGER_LEAD * max(0.0, b * float(self.u_unknown.max()))


def _step(hessian: Tensor, gradient: Tensor, b: float, bias: float) -> Tensor:
    """Return Newton's step of (b, bias), downhill also where the NLL is not convex.

    No step by the common factor and the bias is longer than 1.
    """
    curves, basis = cast("tuple[Tensor, Tensor]", torch.linalg.eigh(hessian))  # pyright: ignore[reportUnknownMemberType]
    curves = curves.abs().clamp(min=float(gradient.square().sum().sqrt()) + 1e-300)
    by_factor, by_bias = -basis @ (basis.T @ gradient / curves)
    return torch.stack([b * by_factor, bias * by_factor + by_bias])


def _lowest(nll: SpreadNLL, data: HeldOut) -> tuple[Point, int, float]:
    """Return the lowest minimum: a search on some of the rows, then descents on all of them."""
    num_rows, columns = data.logits.shape
    stride = max(1, num_rows // min(COARSE_ROWS, max(256, COARSE_ELEMENTS // columns)))
    some = data.take(slice(None, None, stride))
    coarse = nll if stride == 1 else SpreadNLL(some, nll.b_known)
    points = [coarse.lowest(factor * nll.b_known) for factor in COARSE_FACTORS]
    padded = [math.inf, *(point.value for point in points), math.inf]
    around = zip(points, padded, padded[2:], strict=False)
    valleys = sorted(point for point, left, right in around if left > point.value <= right)
    starts = valleys[:NUM_DESCENTS]
    if stride > 1:
        # The bias is chosen again: few rows do not decide about the unknown column.
        starts = [nll.lowest(coarse.descend(start)[0].b) for start in starts]
    return min(nll.descend(start) for start in starts)
