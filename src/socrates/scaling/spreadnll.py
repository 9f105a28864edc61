"""The NLL that readout scaling minimises, as a function of 1 / T and bias, and its best bias at a given T."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from socrates.scaling.rowsums import RowSums

# On the larger of the gradients by (T, bias) and by (log T, bias).
TOLERANCE = 2e-7
# At this bias below the closest call, the unknown column's probability is under 1e-17 for every row.
RULED_OUT = 40.0
# Where to look for the best bias: around the two columns' balance, and in each of so many blocks of sharp turns.
BALANCES = (-12.0, -9.0, -7.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 7.0)
NUM_BLOCKS = 16
MAX_STEPS = 100


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

    def __init__(self, logits: Tensor, labels: Tensor, exact: bool = False) -> None:
        self.sums = RowSums(logits[:, :-1], exact=exact)
        self.u_true = self.sums.relative(logits.gather(1, labels[:, None]).squeeze(1))
        self.u_unknown = self.sums.relative(logits[:, -1])
        self.log_c = math.log(logits.shape[1] - 1)
        self.rounding = 1e-13 if self.sums.dtype == torch.float64 else 1e-9

    def section(self, b: float) -> "Section":
        """The NLL as a function of the bias alone, for one pass over the logits."""
        return Section(self, b)

    def without_unknown(self, b: float) -> Point:
        """The limit of a bias towards -infinity, as a finite bias."""
        return self.section(b).point(-RULED_OUT - max(0.0, b * float(self.u_unknown.max())))


class Section:
    """The NLL at one b. It is a constant + mean of softplus(bias - open) - softplus(bias - close), two turns a row.

    At `open` the unknown column takes half of a row's probability, at `close` half of its true class's.
    """

    def __init__(self, nll: SpreadNLL, b: float) -> None:
        self.nll, self.b = nll, b
        s0, s1, s2 = nll.sums.at(b, 3).near(b, 3)
        self.log_known, self.mean = s0.log(), s1 / s0
        self.variance = s2 / s0 - self.mean * self.mean
        self.open = self.log_known - b * nll.u_unknown
        self.close = b * nll.u_true + nll.log_c - b * nll.u_unknown

    def point(self, bias: float) -> Point:
        """Value and derivatives at a bias."""
        b, d, u = self.b, self.nll.u_unknown, self.nll.u_true
        v = b * d + bias
        log_all = torch.logaddexp(self.log_known, v)
        log_true = torch.logaddexp(b * u, v - self.nll.log_c)
        # The unknown's share of all and of the true class.
        s, r = (bias - self.open).sigmoid(), (bias - self.close).sigmoid()
        wide, narrow = s * (1 - s), r * (1 - r)
        by_b = b * float(((1 - s) * self.mean + s * d - (1 - r) * u - r * d).mean())
        bb = float(((1 - s) * self.variance + wide * (d - self.mean).square() - narrow * (d - u).square()).mean())
        cross = float((wide * (d - self.mean) - narrow * (d - u)).mean())
        gradient = (by_b, float((s - r).mean()))
        hessian = (b * b * bb + by_b, b * cross, float((wide - narrow).mean()))
        return Point(b, bias, float((log_all - log_true).mean()), gradient, hessian)

    def best(self, num_descents: int = 3, tolerance: float = 1e-13) -> Point:
        """The lowest point over all biases: descents from the lowest candidates, not all in the same place."""
        candidates = self._candidates()
        gap = torch.nn.functional.softplus
        values = [gap(bias - self.open).sub_(gap(bias - self.close)).mean() for bias in candidates]
        found: list[Point] = []
        for index in torch.stack(values).argsort()[: 4 * num_descents]:
            bias = float(candidates[index])
            if len(found) < num_descents and all(abs(bias - other.bias) > 1 for other in found):
                found.append(self.descend(bias, tolerance))
        return min(found, key=lambda point: point.value)

    def _candidates(self) -> Tensor:
        """Biases around the balance, and the lowest turns of the NLL with max(0, x) for softplus, exact as T -> 0."""
        turns, order = torch.cat([self.open, self.close]).sort()
        slopes = torch.where(order < len(self.open), 1.0, -1.0).double().cumsum(0)
        gaps = turns.diff()
        heights = torch.cat([turns.new_zeros(1), (slopes[:-1] * gaps).cumsum(0)])
        blocks = torch.arange(len(turns)).tensor_split(min(NUM_BLOCKS, len(turns)))
        lowest = turns[[int(block[heights[block].argmin()]) for block in blocks]]
        # Amid a flat stretch softplus adds nothing, while it raises a sharp bottom by up to log 2 for each turn there.
        flat = ((slopes[:-1] == 0) & (gaps > 1)).nonzero().squeeze(1)
        flat = flat[heights[flat].argsort()[:NUM_BLOCKS]]
        balance = -self.b * float(self.nll.u_unknown.median())
        around = balance + torch.tensor(BALANCES, dtype=torch.float64)
        return torch.cat([around, lowest - 1, lowest, lowest + 1, turns[flat] + gaps[flat] / 2])

    def descend(self, bias: float, tolerance: float = 1e-13) -> Point:
        """Newton's method with halved steps, in the bias alone."""
        here = self._slope(bias)
        for _ in range(MAX_STEPS):
            value, slope, curve = here
            if abs(slope) < tolerance:
                break
            step = min(max(-slope / max(abs(curve), 1e-300), -4.0), 4.0)
            while abs(step) > 1e-9:
                new = self._slope(bias + step)
                if closer(new[0] - value, self.nll.rounding, abs(new[1]) < abs(slope)):
                    break
                step /= 2
            else:
                break
            bias, here = bias + step, new
        return self.point(bias)

    def _slope(self, bias: float) -> tuple[float, float, float]:
        """Value less the constant, first and second derivative by the bias."""
        opened, closed = bias - self.open, bias - self.close
        value = torch.nn.functional.softplus(opened) - torch.nn.functional.softplus(closed)
        s, r = opened.sigmoid_(), closed.sigmoid_()
        slope = s - r
        return float(value.mean()), float(slope.mean()), float((slope * (1 - s - r)).mean())


def closer(rise: float, rounding: float, flatter: bool) -> bool:
    """Whether a step is worth it; near the minimum it gains less than the value's rounding: the gradient decides."""
    return rise < -rounding or (flatter and rise <= rounding)
