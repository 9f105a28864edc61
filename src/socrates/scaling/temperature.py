"""Temperature scaling: one number, fitted by Newton's method on b = 1 / T."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from socrates.scaling.held_out import HeldOut, mean
from socrates.scaling.scaler import Fit, FitReport, Scaler

# Order of the row sums: from one pass over the logits, the series finds an optimum that is about
# one percent away.
ORDER = 6
# How far the series is followed, relative to where it was expanded; beyond, it may point anywhere.
REACH = 0.5
# Strides of the rows that warm the start, and the fewest rows worth it.
STRIDES = (64, 8)
FEWEST_ROWS = 128
# On the larger of the derivatives by T and by 1 / T; a sample of the rows needs no more than its
# sampling error.
TOLERANCE = 1e-9
COARSE_TOLERANCE = 1e-3
MAX_PASSES = 100
MAX_STEPS = 20
# What a step must change of b, relative to it: less is rounding.
SMALLEST_STEP = 1e-12

# Two working buffers of this size stay in the processor's cache; an accelerator works best with
# few large kernels.
CHUNK_ELEMENTS = {"cpu": 2**18, "other": 2**25}
# Below this size float64 costs nothing that anyone would notice.
SMALL = 2**17
# Below, exp is 0 beside the row maximum's 1, but its subnormal numbers are ten times slower.
LOWEST = -87.0
# The smallest b times the largest difference within a row.
HOTTEST = 1e-4

SEPARABLE = "every label has the largest logit of its row, so the NLL falls for ever as T goes to 0"
HOPELESS = (
    "the logits predict the labels worse than a uniform guess, so the NLL falls for ever as T grows"
)


class TemperatureScaling(Scaler):
    """Divides logits by the temperature T > 0 that minimises the NLL of the data it is fitted on.

    The NLL is convex in 1 / T, so the optimum is unique. Two limits have no optimum and end in a
    warning: if every label has the largest logit of its row, T stops at a value where the gradient
    has vanished; if the logits say less than a uniform guess, T stops at 10,000 times the largest
    difference within a row. Constant logits keep T = 1. All columns are used, an unknown column
    too. The `report` measures the gradient with respect to T.

    Reference: Guo et al., On Calibration of Modern Neural Networks, ICML 2017.

    >>> logits = torch.tensor([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0]])
    >>> scaler = TemperatureScaling().fit(logits, torch.tensor([0, 0, 1, 1]))  # right 3 times of 4
    >>> scaler.probs(logits)[0]
    tensor([0.7500, 0.2500])
    >>> scaler  # 4 / log 3
    TemperatureScaling(temperature=3.641, columns=2)
    """

    title = "temperature scaling"
    short = "TS"
    temperature: Tensor

    def __init__(self) -> None:
        super().__init__(temperature=1.0)

    def num_fitted(self, columns: int) -> float:
        """Return 1, the temperature."""
        return 1

    def _fit(self, data: HeldOut) -> Fit:
        b, report, limit = fit_inverse_temperature(data)
        return {"temperature": 1 / b}, report, limit and f"{limit}; T = {1 / b:.4g}"

    def affine(self) -> tuple[Tensor, Tensor]:
        """Return 1 / T and no shift, so that the order of the columns never changes."""
        return 1 / self.temperature, torch.zeros_like(self.temperature)


def fit_inverse_temperature(data: HeldOut) -> tuple[float, FitReport, str]:
    """Minimise the mean NLL of softmax(b logits) over b > 0: on a few rows first, then on all.

    Returns b = 1 / T, the report, and why the optimum is a limit (empty if it is not).
    """
    b = 1.0
    for stride in STRIDES:
        if len(data.labels) // stride >= FEWEST_ROWS:
            some = data.take(slice(None, None, stride))
            b, _, _ = _newton(RowSums(some), b, COARSE_TOLERANCE)
    sums = RowSums(data)
    b, slope, passes = _newton(sums, b, TOLERANCE)
    before = float(mean(sums.at(1.0, 0).sums[0].log() - sums.u_true, sums.weight))
    limit = HOPELESS if b == sums.hottest and slope.first > 0 else ""
    if sums.depth > 0 and bool((sums.u_true == 0).all()):
        limit = SEPARABLE
    # Where T = 1 is the optimum, rounding may leave the NLL before it below the one after.
    after = min(before, slope.nll)
    return b, FitReport(len(data.labels), passes, b * b * abs(slope.first), before, after), limit


def _newton(sums: RowSums, b: float, tolerance: float) -> tuple[float, Slope, int]:
    """Find the zero of the NLL's derivative, which rises with b.

    Returns b, the slope there, and the number of passes over the logits.
    """
    low = sums.hottest
    high = math.inf
    for passes in range(1, MAX_PASSES + 1):
        expansion = sums.at(b, ORDER)
        centre = b
        slope = sums.slope(expansion, b)
        if slope.first < 0:
            low = b
        else:
            high = b
        for _ in range(MAX_STEPS):
            if _gradient(slope.first, b) < tolerance:
                break
            b = _newton_target(slope, b, low, high, sums.hottest)
            if abs(b - centre) > REACH * centre:
                break
            slope = sums.slope(expansion, b)
        exact = (
            _gradient(slope.first, b) < tolerance
            and _gradient(sums.error(expansion, b), b) < tolerance
        )
        if exact or abs(b - centre) <= SMALLEST_STEP * b:
            return b, slope, passes
    return b, sums.slope(sums.at(b, 2), b), MAX_PASSES


def _gradient(first: float, b: float) -> float:
    """Return the larger of the derivatives with respect to b and to T = 1 / b."""
    return abs(first) * max(1.0, b * b)


def _newton_target(slope: Slope, b: float, low: float, high: float, hottest: float) -> float:
    """Return where Newton's step leads, at most tenfold and within what was tried."""
    target = b - slope.first / max(slope.second, 1e-300)
    target = min(max(target, b / 10), b * 10)
    if low < target < high:
        return target
    return hottest if target <= low == hottest else math.sqrt(low * high)


@dataclass(frozen=True)
class Slope:
    """Mean NLL at one b, with its first and second derivative with respect to b."""

    nll: float
    first: float
    second: float


class RowSums:
    """The sums S_j(b) = sum_k u_k^j exp(b u_k) of every row, where u = logits - row maximum.

    The matrix of the logits is never copied.
    """

    def __init__(self, data: HeldOut, exact: bool = False) -> None:
        logits = data.logits
        self.logits = logits  # (N, C)
        self.weight = None if data.weight is None else data.weight.cpu().double()
        wants_double = exact or logits.numel() <= SMALL
        double = logits.dtype == torch.float64 or (wants_double and logits.device.type != "mps")
        self.dtype = torch.float64 if double else torch.float32
        self.top = logits.amax(dim=1).to(self.dtype)  # (N,)
        true = logits.gather(1, data.labels[:, None]).squeeze(1)
        self.u_true = (true.to(self.dtype) - self.top).cpu().double()
        # The largest difference within a row.
        self.depth = float((self.top.cpu().double() - logits.amin(dim=1).cpu().double()).max())
        # Below, softmax(b u) is uniform to four digits.
        self.hottest = HOTTEST / max(self.depth, HOTTEST)
        elements = CHUNK_ELEMENTS["cpu" if logits.device.type == "cpu" else "other"]
        self.chunk_rows = max(1, min(len(logits), elements // logits.shape[1]))
        self.centred = logits.new_empty((self.chunk_rows, logits.shape[1]), dtype=self.dtype)
        self.powers = torch.empty_like(self.centred)

    def at(self, b: float, order: int) -> Expansion:
        """Return S_0 ... S_order near b > 0: at b rounded to the working precision."""
        centre = float(torch.tensor(b, dtype=self.dtype))
        out = self.logits.new_empty((order + 1, len(self.logits)), dtype=self.dtype)
        for start in range(0, len(self.logits), self.chunk_rows):
            chunk = slice(start, start + self.chunk_rows)
            logits = self.logits[chunk]
            centred = self.centred[: len(logits)]
            powers = self.powers[: len(logits)]
            torch.sub(logits, self.top[chunk, None], out=centred)
            centred.mul_(centre).clamp_(min=LOWEST)
            torch.exp(centred, out=powers)
            torch.sum(powers, dim=1, out=out[0, chunk])
            for row in out[1:, chunk]:
                torch.sum(powers.mul_(centred), dim=1, out=row)
        # Chunks hold powers of b u, which exp(b u) keeps from overflowing, instead of powers of u.
        units = torch.tensor([[centre**-j] for j in range(order + 1)], dtype=torch.float64)
        return Expansion(centre, out.cpu().double() * units)

    def slope(self, expansion: Expansion, b: float) -> Slope:
        """Return the mean NLL and its derivatives at b, near the expansion's centre."""
        s0, s1, s2 = expansion.near(b, 3)
        expected = s1 / s0
        nll = s0.log() - b * self.u_true
        return Slope(
            float(mean(nll, self.weight)),
            float(mean(expected - self.u_true, self.weight)),
            float(mean(s2 / s0 - expected * expected, self.weight)),
        )

    def error(self, expansion: Expansion, b: float) -> float:
        """Return the last term kept in the series of S_1 / S_0: a cautious bound of its error."""
        terms = len(expansion.sums) - 1
        last = abs(b - expansion.centre) ** (terms - 1) / math.factorial(terms - 1)
        return last * float(mean(expansion.sums[-1].abs() / expansion.sums[0], self.weight))


@dataclass(frozen=True)
class Expansion:
    """Row sums at `centre`, and nearby by a Taylor series, since d S_j / d b = S_{j+1}."""

    centre: float
    sums: Tensor  # (order + 1, N)

    def near(self, b: float, count: int) -> Tensor:
        """Return S_0 ... S_{count - 1} at b, shape (count, N)."""
        step = b - self.centre
        size = len(self.sums)
        series = [
            [step ** (m - j) / math.factorial(m - j) if m >= j else 0.0 for m in range(size)]
            for j in range(count)
        ]
        return torch.tensor(series, dtype=torch.float64) @ self.sums
