"""Readout scaling: a temperature and one bias, for models with an unknown column that is read as a uniform belief."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from socrates.scaling.inputs import Array, check_fit
from socrates.scaling.rowsums import RowSums, slope
from socrates.scaling.scaler import CONVERGED, FitReport, Scaler
from socrates.scaling.temperature import HOPELESS, fit_inverse_temperature

# T stays between these multiples of the known logits' spread.
COLDEST, HOTTEST = 1e-6, 1e4
# The coarse search: 1 / T in units of the logits' spread, on so many rows or logits at most.
COARSE_FACTORS = tuple(10 ** (k / 5) for k in range(-7, 16))
KNOWN_FACTORS = (0.7, 1.0, 1.4)
COARSE_ROWS, COARSE_ELEMENTS = 2000, 2**20
# Descents from the lowest valleys of the coarse search, first on its rows, then on all of them.
NUM_VALLEYS, NUM_DESCENTS = 4, 2
# Valleys that are higher than the lowest by more than the error of so few rows are left out.
IN_DOUBT = 0.05
# Where to look for the best bias: around the two columns' balance, and in each of so many blocks of sharp turns.
BALANCES = (-12.0, -9.0, -7.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 7.0)
NUM_BLOCKS = 16
# On the larger of the gradients by (T, bias) and by (log T, bias), and on the one by bias alone.
TOLERANCE, BIAS_TOLERANCE = 2e-7, 1e-13
MAX_STEPS = 100
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
        super().__init__()
        self._remember(torch.device("cpu"), 0, temperature=torch.tensor(1.0), bias=torch.tensor(0.0))

    def fit(self, logits: Array, labels: Array, *, unknown_class: bool = True) -> "ReadoutScaling":
        """Finds T and bias from held-out logits (N, c + 1) and labels (N,) among the first c columns."""
        if not unknown_class:
            raise ValueError("ReadoutScaling.fit needs an unknown last column: use TemperatureScaling without one")
        z, y = check_fit(logits, labels, "ReadoutScaling", unknown_class)
        point, self.report, warning = fit_readout(z, y)
        if warning:
            warnings.warn(f"ReadoutScaling: {warning}; T = {1 / point.b:.4g}", stacklevel=2)
        temperature, bias = (torch.tensor(value, dtype=torch.float64) for value in (1 / point.b, point.bias))
        self._remember(z.device, z.shape[1], temperature=temperature, bias=bias)
        return self

    def affine(self) -> tuple[Tensor, Tensor]:
        """1 / T, and the bias for the last column."""
        return 1 / self.temperature, pad(self.bias.reshape(1), (self.columns - 1, 0))

    def probs(self, logits: Array) -> Tensor:
        """Probabilities of the c known classes, the unknown column's spread evenly among them."""
        s = self(logits).softmax(dim=-1)
        return s[..., :-1] + s[..., -1:] / (s.shape[-1] - 1)


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
    def steepness(self) -> float:
        """Length of the gradient by bias and by T or log T, whichever is steeper."""
        return math.hypot(self.gradient[0] * max(self.b, 1.0), self.gradient[1])


class SpreadNLL:
    """Mean of -log(s_y + s_unknown / c), from the known columns' row sums and two numbers a row."""

    def __init__(self, logits: Tensor, labels: Tensor, exact: bool = False) -> None:
        self.sums = RowSums(logits[:, :-1], exact=exact)
        self.u_true = self.sums.relative(logits.gather(1, labels[:, None]).squeeze(1))
        self.u_unknown = self.sums.relative(logits[:, -1])
        self.log_c = math.log(logits.shape[1] - 1)
        self.rounding = 1e-13 if self.sums.dtype == torch.float64 else 1e-9

    def bounds(self) -> tuple[float, float]:
        """Smallest and largest b, from the spread of the known logits within a row."""
        b = self.sums.hottest
        spread = math.sqrt(max(slope(self.sums.at(b, 2), self.u_true, b).second, 0.0))
        return (min(1.0, 1 / (HOTTEST * spread)), max(1.0, 1 / (COLDEST * spread))) if spread > 0 else (1.0, 1.0)

    def descend(self, start: Point, bounds: tuple[float, float]) -> tuple[Point, int]:
        """Newton's method along the valley: one step in log b, then the bias that belongs to it."""
        low, high = (math.log(bound) for bound in bounds)

        def step(point: Point) -> float:
            aa, ab, bb = point.hessian
            curve = abs(aa - ab * ab / bb if bb > 1e-12 else aa)
            here = math.log(point.b)
            downhill = -point.gradient[0] / max(curve, 1e-300)
            return min(max(downhill, -1.0, low - here), 1.0, high - here)

        def move(point: Point, by_log_b: float) -> Point:
            # The best bias to first order; where the NLL is flat in the bias, the same gap takes half.
            b = point.b * math.exp(by_log_b)
            _, ab, bb = point.hessian
            by_b = -ab / point.b / bb if bb > 1e-12 else point.bias / point.b
            return Section(self, b).descend(point.bias + by_b * (b - point.b))

        first = Section(self, start.b).descend(start.bias)
        return _descend(first, step, move, lambda point: point.steepness, TOLERANCE, self.rounding)


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

    def ruled_out(self) -> Point:
        """The limit of a bias towards -infinity, as a finite bias."""
        return self.point(-RULED_OUT - max(0.0, self.b * float(self.nll.u_unknown.max())))

    def best(self, num_descents: int = 3, tolerance: float = BIAS_TOLERANCE) -> Point:
        """The lowest point over all biases: descents from the lowest candidates, not all in the same place."""
        candidates = self._candidates()
        values = [softplus(bias - self.open).sub_(softplus(bias - self.close)).mean() for bias in candidates]
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

    def descend(self, bias: float, tolerance: float = BIAS_TOLERANCE) -> Point:
        """Newton's method in the bias alone."""

        def step(point: Point) -> float:
            return min(max(-point.gradient[1] / max(abs(point.hessian[2]), 1e-300), -4.0), 4.0)

        def move(point: Point, by_bias: float) -> Point:
            return self.point(point.bias + by_bias)

        return _descend(
            self.point(bias), step, move, lambda point: abs(point.gradient[1]), tolerance, self.nll.rounding
        )[0]


def _descend(
    point: Point,
    newton_step: Callable[[Point], float],
    move: Callable[[Point, float], Point],
    steepness: Callable[[Point], float],
    tolerance: float,
    rounding: float,
) -> tuple[Point, int]:
    """Newton's method with halved steps along one line: where it ends, and after how many steps."""
    for num_steps in range(MAX_STEPS):
        if steepness(point) < tolerance:
            return point, num_steps
        change = newton_step(point)
        while abs(change) > 1e-10:
            new = move(point, change)
            rise = new.value - point.value
            # Near the minimum a step gains less than the value's rounding: there the gradient decides.
            if rise < -rounding or (rise <= rounding and steepness(new) < steepness(point)):
                break
            change /= 2
        else:
            return point, num_steps
        point = new
    return point, MAX_STEPS


def fit_readout(logits: Tensor, labels: Tensor) -> tuple[Point, FitReport, str]:
    """Minimises the NLL over T and bias: a coarse search, descents from its valleys, then a look at the limits.

    Returns the best point, the report, and what to warn of (empty if nothing).
    """
    nll = SpreadNLL(logits, labels)
    before = Section(nll, 1.0).point(0.0)
    bounds = nll.bounds()
    known = fit_inverse_temperature(logits[:, :-1], labels)
    starts = sorted(_valleys(nll, logits, labels, known.b, bounds), key=lambda start: start.value)
    descents = [nll.descend(start, bounds) for start in starts[:NUM_DESCENTS]]
    point, steps = min(descents, key=lambda descent: descent[0].value)
    if before.value < point.value:  # possible only where the coarse search saw too few rows
        point, steps = nll.descend(before, bounds)
    if point.gradient_norm >= CONVERGED and nll.rounding > 1e-12:  # single precision was not enough
        nll = SpreadNLL(logits, labels, exact=True)
        point, more = nll.descend(point, bounds)
        steps += more
    cold, hot = (Section(nll, b).best() if bounds[0] < bounds[1] else point for b in reversed(bounds))
    if cold.value < point.value - CONVERGED:
        point = cold
    warning = _warning(point, steps, cold)
    if known.report.nll_after <= point.value + SAME:
        point, steps, warning = Section(nll, known.b).ruled_out(), known.report.num_iterations, known.warning
    elif bounds[0] < bounds[1] and hot.value <= point.value + SAME:
        point, warning = hot, HOPELESS
    after = min(before.value, point.value)
    return point, FitReport(len(logits), steps, point.gradient_norm, before.value, after), warning


def _warning(point: Point, steps: int, cold: Point) -> str:
    if cold is point or cold.value <= point.value + SAME:
        return SURE_OR_UNKNOWN
    if point.gradient_norm < CONVERGED:
        return ""
    return (
        f"stopped after {steps} steps at a gradient norm of {point.gradient_norm:.1e}, above {CONVERGED:.0e}; "
        f"the fit is usable but not converged"
    )


def _valleys(
    nll: SpreadNLL, logits: Tensor, labels: Tensor, b_known: float, bounds: tuple[float, float]
) -> list[Point]:
    """The lowest valleys of the NLL along b, each at its best bias: found on some rows, measured on all."""
    rows = min(COARSE_ROWS, max(256, COARSE_ELEMENTS // logits.shape[1]))
    stride = max(1, len(logits) // rows)
    coarse = SpreadNLL(logits[::stride], labels[::stride]) if stride > 1 else nll
    unit = bounds[0] * HOTTEST
    tried = {1.0, *(factor * unit for factor in COARSE_FACTORS), *(factor * b_known for factor in KNOWN_FACTORS)}
    inside = sorted(min(max(b, bounds[0]), bounds[1]) for b in tried)
    points = [Section(coarse, b).best(1, 1e-4) for b in inside]
    padded = [math.inf, *(point.value for point in points), math.inf]
    lowest = [p for p, left, right in zip(points, padded, padded[2:], strict=False) if p.value <= min(left, right)]
    lowest = sorted(lowest, key=lambda point: point.value)[:NUM_VALLEYS]
    if stride == 1:
        return lowest
    lowest = [coarse.descend(point, bounds)[0] for point in lowest]
    best = min(point.value for point in lowest)
    return [Section(nll, point.b).best() for point in lowest if point.value < best + IN_DOUBT]
