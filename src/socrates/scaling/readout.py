"""Readout scaling: a temperature and one bias, for models with an unknown column that is read as a uniform belief."""

import math
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from socrates.scaling.inputs import Array
from socrates.scaling.newton import minimize
from socrates.scaling.rowsums import RowSums
from socrates.scaling.scaler import CONVERGED, Fit, FitReport, Scaler
from socrates.scaling.temperature import HOPELESS, fit_inverse_temperature

# T stays between these multiples of the known logits' spread.
COLDEST, HOTTEST = 1e-6, 1e4
# The coarse search: 1 / T in units of the logits' spread, on so many rows or logits at most.
COARSE_FACTORS = tuple(10 ** (k / 5) for k in range(-7, 16))
COARSE_ROWS, COARSE_ELEMENTS = 2000, 2**20
# Descents from the lowest valleys of the coarse search, first on its rows, then on all of them.
NUM_VALLEYS, NUM_DESCENTS = 4, 2
# Where to look for the best bias: around the two columns' balance, and at so many sharp turns.
BALANCES = tuple(range(-13, 14))
NUM_TURNS = 24
# On the larger of the gradients by (T, bias) and by (log T, bias).
TOLERANCE = 1e-8
# At this bias below the closest call, the unknown column's probability is under 1e-17 for every row.
RULED_OUT = 40.0
# NLLs that differ by less than this are the same.
SAME = 1e-9

SURE_OR_UNKNOWN = (
    "the unknown column is high wherever the largest known logit is wrong, so the NLL falls for ever as T goes to 0"
)


class ReadoutScaling(Scaler):
    """Scales logits with an unknown last column to z / T + bias * e_unknown, for the reading `spread`.

    With s = softmax(z / T + bias * e_unknown) over c + 1 columns, class k has probability s_k + s_unknown / c: "I do
    not know" counts as a uniform belief. T and bias minimise the NLL of the known classes. A bias towards -infinity is
    temperature scaling of the known classes; if nothing finite is better, T is that temperature and the bias is the
    finite number that brings s_unknown below 1e-17 on the fit data. Calling returns all c + 1 scaled logits, `probs`
    the c probabilities; the `report` measures the gradient by T and bias.

    The NLL is not convex: several valleys are descended and the lowest wins. Three limits have no optimum and end in a
    warning. T -> 0 with bias = -k / T: where the unknown column leads by more than k in every row whose largest known
    logit is wrong, and in few others, each row ends either sure or wholly unknown, and T stops at a small value where
    the gradient has vanished. T -> 0 alone: every label has the largest known logit. T -> infinity: the logits say less
    than a uniform guess. T stays between 1e-6 and 10,000 times the spread of the known logits.

    >>> logits = torch.tensor([[4.0, 0.0, 1.0], [4.0, 0.0, 3.0], [0.0, 4.0, 1.0], [4.0, 0.0, 5.0], [3.0, 0.0, -9.0]])
    >>> scaler = ReadoutScaling().fit(logits, torch.tensor([0, 0, 1, 1, 1]))
    >>> scaler(logits).shape, scaler.probs(logits).shape
    (torch.Size([5, 3]), torch.Size([5, 2]))
    >>> scaler.report.nll_after < scaler.report.nll_before
    True
    """

    title, short = "readout scaling", "RS"
    needs_unknown_class = True
    temperature: Tensor
    bias: Tensor

    def __init__(self) -> None:
        super().__init__(temperature=1.0, bias=0.0)

    def _fit(self, logits: Tensor, labels: Tensor, unknown_class: bool) -> Fit:
        # A coarse search, descents from its valleys, then a look at the limits.
        nll = SpreadNLL(logits, labels)
        before, _ = nll.at(1.0, 0.0)
        b_known, known, known_limit = fit_inverse_temperature(logits[:, :-1], labels)
        starts = sorted(nll.lowest(b) for b in _valleys(nll, logits, labels, b_known))
        cold = nll.lowest(nll.high)
        point, steps = min(nll.descend(start) for start in starts[:NUM_DESCENTS])
        start = min(before, cold)
        if start.value < point.value - SAME:
            point, steps = nll.descend(start)
        if nll.at(point.b, point.bias)[1] >= CONVERGED and nll.rounding > 1e-12:  # single precision was not enough
            nll = SpreadNLL(logits, labels, exact=True)
            point, more = nll.descend(point)
            steps += more
        limit = SURE_OR_UNKNOWN if cold.value <= point.value + SAME else ""
        if known.nll_after <= point.value + SAME:
            point, steps, limit = Point(0.0, b_known, nll.ruled_out(b_known)), known.num_iterations, known_limit
        elif point.value >= nll.log_c - SAME:
            point, limit = nll.lowest(nll.low), HOPELESS
        point, gradient_norm = nll.at(point.b, point.bias)
        after = min(before.value, point.value)
        report = FitReport(len(logits), steps, gradient_norm, before.value, after)
        return {"temperature": 1 / point.b, "bias": point.bias}, report, limit and f"{limit}; T = {1 / point.b:.4g}"

    def affine(self) -> tuple[Tensor, Tensor]:
        """1 / T, and the bias for the last column."""
        return 1 / self.temperature, pad(self.bias.reshape(1), (self.columns - 1, 0))

    def probs(self, logits: Array) -> Tensor | npt.NDArray[Any]:
        """Probabilities of the c known classes, the unknown column's spread evenly among them."""
        s = torch.as_tensor(self(logits)).softmax(dim=-1)
        spread = s[..., :-1] + s[..., -1:] / (s.shape[-1] - 1)
        return spread.numpy() if isinstance(logits, np.ndarray) else spread


class Point(NamedTuple):
    """NLL at b = 1 / T and bias; the lowest is the least."""

    value: float
    b: float
    bias: float


class SpreadNLL:
    """Mean of -log(s_y + s_unknown / c) by theta = (b, bias), from the known columns' row sums and two numbers a row.

    In b = 1 / T the valleys that lead to T = 0 are straight: bias = balance - k b.
    """

    def __init__(self, logits: Tensor, labels: Tensor, exact: bool = False) -> None:
        self.sums = RowSums(logits[:, :-1], labels, exact)
        self.u_unknown = self.sums.relative(logits[:, -1])
        self.log_c = math.log(logits.shape[1] - 1)
        self.rounding = 1e-13 if self.sums.dtype == torch.float64 else 1e-9
        b = self.sums.hottest
        spread = math.sqrt(max(self.sums.slope(self.sums.at(b, 2), b).second, 0.0))
        # Smallest and largest b.
        self.low, self.high = (
            (min(1.0, 1 / (HOTTEST * spread)), max(1.0, 1 / (COLDEST * spread))) if spread > 0 else (1.0, 1.0)
        )

    def evaluate(self, theta: Tensor) -> tuple[float, Tensor]:
        """Value and gradient at theta, where `direction` and `norm` then are taken."""
        self.b, self.bias = b, bias = min(max(float(theta[0]), self.low), self.high), float(theta[1])
        s0, s1, s2 = self.sums.at(b, 3).near(b, 3)
        log_known, mean = s0.log(), b * s1 / s0
        variance = b * b * s2 / s0 - mean * mean
        true, unknown = b * self.sums.u_true, b * self.u_unknown + bias
        value = torch.logaddexp(log_known, unknown) - torch.logaddexp(true, unknown - self.log_c)
        # The unknown's share of all and of the true class.
        s, r = (unknown - log_known).sigmoid(), (unknown - self.log_c - true).sigmoid()
        wide, narrow, over, above = s * (1 - s), r * (1 - r), unknown - mean, unknown - true
        # By a common factor of b and bias, and by the bias: in these a valley is round enough to limit steps.
        gradient = torch.stack([mean + s * over - true - r * above, s - r]).mean(dim=1)
        bb = (1 - s) * variance + wide * over.square() - narrow * above.square()
        cross = wide * over - narrow * above
        hessian = torch.stack([bb, cross, cross, wide - narrow]).mean(dim=1).view(2, 2)
        curves, basis = cast("tuple[Tensor, Tensor]", torch.linalg.eigh(hessian))  # pyright: ignore[reportUnknownMemberType]
        # Downhill where the NLL is not convex, and no step that is longer than 1.
        curves = curves.abs().clamp(min=float(gradient.square().sum().sqrt()) + 1e-300)
        by_factor, by_bias = -basis @ (basis.T @ gradient / curves)
        self.step = torch.stack([b * by_factor, bias * by_factor + by_bias])
        gradient[0] = (gradient[0] - bias * gradient[1]) / b
        return float(value.mean()), gradient

    def direction(self, gradient: Tensor, forcing: float) -> Tensor:
        """Newton's step, from the gradient that was last found."""
        return self.step

    def norm(self, gradient: Tensor) -> float:
        """Length of the gradient by bias and by T or log T, whichever is steeper."""
        return self._length(gradient, max(self.b, 1.0))

    def _length(self, gradient: Tensor, factor: float) -> float:
        return math.hypot(float(gradient[0]) * self.b * factor, float(gradient[1]))

    def descend(self, start: Point) -> tuple[Point, int]:
        """The minimum whose valley holds the start, and the steps to it."""
        theta = torch.tensor([start.b, start.bias], dtype=torch.float64)
        theta, steps, _ = minimize(self, theta, max(TOLERANCE, 200 * self.rounding), self.rounding)
        return Point(self.evaluate(theta)[0], self.b, self.bias), steps

    def at(self, b: float, bias: float) -> tuple[Point, float]:
        """The point, and the length of the gradient by T and bias there."""
        value, gradient = self.evaluate(torch.tensor([b, bias], dtype=torch.float64))
        return Point(value, b, bias), self._length(gradient, b)

    def lowest(self, b: float) -> Point:
        """The lowest point at b among biases around the balance and where the NLL turns.

        As a function of the bias it is a constant + mean of softplus(bias - open) - softplus(bias - close): two turns a
        row, where the unknown column takes half of its probability and half of its true class's. With max(0, x) for
        softplus, exact as T -> 0, the minimum is at a turn, or anywhere on a flat stretch between two.
        """
        log_known = self.sums.at(b, 3).near(b, 1)[0].log()
        opening = log_known - b * self.u_unknown
        closing = b * (self.sums.u_true - self.u_unknown) + self.log_c
        turns, order = torch.cat([opening, closing]).sort()
        slopes = torch.where(order < len(opening), 1.0, -1.0).double().cumsum(0)
        heights = pad((slopes[:-1] * turns.diff()).cumsum(0), (1, 0))
        lowest = heights.argsort()[:NUM_TURNS]
        between = (turns[lowest] + turns[(lowest + 1).clamp(max=len(turns) - 1)]) / 2
        around = torch.tensor(BALANCES) - b * self.u_unknown.median()
        biases = torch.cat([around, turns[lowest], between])
        values = torch.stack([(softplus(bias - opening) - softplus(bias - closing)).mean() for bias in biases])
        index = int(values.argmin())
        return Point(float(values[index] + (log_known - b * self.sums.u_true).mean()), b, float(biases[index]))

    def ruled_out(self, b: float) -> float:
        """A finite bias that is as good as -infinity."""
        return -RULED_OUT - max(0.0, b * float(self.u_unknown.max()))


def _valleys(nll: SpreadNLL, logits: Tensor, labels: Tensor, b_known: float) -> list[float]:
    """Where the NLL's lowest valleys along b are on some of the rows."""
    rows = min(COARSE_ROWS, max(256, COARSE_ELEMENTS // logits.shape[1]))
    stride = max(1, len(logits) // rows)
    coarse = SpreadNLL(logits[::stride], labels[::stride]) if stride > 1 else nll
    unit = nll.low * HOTTEST
    tried = {min(max(b, nll.low), nll.high) for b in (1.0, b_known, *(factor * unit for factor in COARSE_FACTORS))}
    points = [coarse.lowest(b) for b in sorted(tried)]
    padded = [math.inf, *(point.value for point in points), math.inf]
    # A plateau, which reaches to T = 0, is one valley where it begins.
    around = zip(points, padded, padded[2:], strict=False)
    lowest = [point for point, left, right in around if left - SAME > point.value <= right + SAME]
    return [point.b if stride == 1 else coarse.descend(point)[0].b for point in sorted(lowest)[:NUM_VALLEYS]]
