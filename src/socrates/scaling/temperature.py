"""Temperature scaling: one number, fitted by Newton's method on 1 / T."""

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from socrates.scaling.inputs import Array, check_fit, check_logits
from socrates.scaling.rowsums import RowSums, Slope, slope
from socrates.scaling.scaler import FitReport, Scaler, folded, working

# Order of the row sums: from one pass over the logits the series then finds an optimum about one percent away.
ORDER = 6
# Strides of the rows that warm the start, and the fewest rows worth it.
STRIDES = (64, 8)
FEWEST_ROWS = 128
# T stays between these multiples of the logits' spread; beyond, softmax(z / T) is one-hot or uniform anyway.
COLDEST, HOTTEST = 1e-6, 1e4
# On the larger of the derivatives by T and by 1 / T; the first rows need no more than their sampling error.
TOLERANCE, COARSE = 1e-7, 1e-3
MAX_PASSES = 100


class TemperatureScaling(Scaler):
    """Divides logits by the temperature T > 0 that minimises the NLL of the data it is fitted on.

    Before `fit`, T = 1. The NLL is convex in 1 / T, so the optimum is unique. Two limits have no optimum and end in a
    warning: if every label has the largest logit of its row, T stops at a small value where the gradient has vanished;
    if the logits say less than a uniform guess, T stops at 10,000 times their spread. Constant logits keep T = 1. All
    columns are used, an unknown column too. The `report` measures the gradient with respect to T.

    >>> logits = torch.tensor([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0]])
    >>> scaler = TemperatureScaling().fit(logits, torch.tensor([0, 0, 1, 1]))  # sure of itself, right 3 times of 4
    >>> scaler(logits).softmax(dim=1)[0]
    tensor([0.7500, 0.2500])
    >>> round(float(scaler.temperature), 4)  # 4 / log 3
    3.641
    """

    temperature: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._remember(torch.device("cpu"), temperature=torch.tensor(1.0))

    def fit(self, logits: Array, labels: Array) -> "TemperatureScaling":
        """Finds T from held-out logits (N, C) and labels (N,)."""
        z, y = check_fit(logits, labels, "TemperatureScaling")
        fit = fit_inverse_temperature(z, y)
        if fit.warning:
            warnings.warn(f"TemperatureScaling: {fit.warning}; T = {1 / fit.b:.4g}", stacklevel=2)
        self._remember(z.device, temperature=torch.tensor(1 / fit.b, dtype=torch.float64))
        self.report, self.columns = fit.report, z.shape[1]
        return self

    def forward(self, logits: Tensor) -> Tensor:
        """Logits / T, of any leading shape; the order of the columns never changes."""
        z = working(check_logits(logits, "TemperatureScaling", self.columns))
        return (z * (1 / self.temperature).to(z.dtype)).to(logits.dtype)

    def fold(self, linear: nn.Linear) -> nn.Linear:
        """A new linear layer whose outputs are already scaled: weight / T and bias / T."""
        return folded(linear, self.columns, "TemperatureScaling", 1 / self.temperature.double(), None)


@dataclass(frozen=True)
class InverseTemperature:
    """The fitted b = 1 / T, its report, and why the optimum is a limit (empty if it is not)."""

    b: float
    report: FitReport
    warning: str


def fit_inverse_temperature(logits: Tensor, labels: Tensor) -> InverseTemperature:
    """Minimises the mean NLL of softmax(b logits) over b > 0: on a few rows first, then on all of them."""
    true = logits.gather(1, labels[:, None]).squeeze(1)
    b, bounds = 1.0, None
    for stride in [s for s in STRIDES if len(logits) // s >= FEWEST_ROWS]:
        sums = RowSums(logits[::stride], draft=True)
        bounds = bounds or inverse_bounds(sums)
        b, _, _ = _newton(sums, sums.relative(true[::stride]), b, bounds or (1.0, 1.0), COARSE)
    sums = RowSums(logits)
    u_true = sums.relative(true)
    bounds = bounds or inverse_bounds(sums)
    if bounds is None:  # constant logits
        b, bounds = 1.0, (1.0, 1.0)
    b, here, passes = _newton(sums, u_true, b, bounds, TOLERANCE)
    before = _unscaled_nll(sums, u_true)
    if before < here.nll:  # by rounding only, as the NLL is convex: the smaller gradient tells which is lower
        unscaled = slope(sums.at(1.0, 3), u_true, 1.0)
        b, here = min((b, here), (1.0, unscaled), key=lambda point: _gradient(point[1], point[0]))
    report = FitReport(len(logits), passes, b * b * abs(here.first), before, min(before, here.nll))
    return InverseTemperature(b, report, _limit(u_true, b, here, bounds))


def _unscaled_nll(sums: RowSums, u_true: Tensor) -> float:
    """Mean NLL at b = 1, for the price of one exp an element."""
    return float((sums.at(1.0, 0).sums[0].log() - u_true).mean())


def inverse_bounds(sums: RowSums) -> tuple[float, float] | None:
    """Smallest and largest b, from the spread of the logits within a row; None if they are constant."""
    spread = math.sqrt(max(slope(sums.at(0.0, 2), torch.zeros(()), 0.0).second, 0.0))
    return (min(1.0, 1 / (HOTTEST * spread)), max(1.0, 1 / (COLDEST * spread))) if spread > 0 else None


def _limit(u_true: Tensor, b: float, here: Slope, bounds: tuple[float, float]) -> str:
    if bounds[0] == bounds[1]:
        return ""
    if bool((u_true == 0).all()) or b == bounds[1]:
        return "every label has the largest logit of its row, so the NLL falls for ever as T goes to 0"
    if b == bounds[0] and here.first > TOLERANCE:
        return "the logits predict the labels worse than a uniform guess, so the NLL falls for ever as T grows"
    return ""


def _newton(
    sums: RowSums, u_true: Tensor, b: float, bounds: tuple[float, float], tolerance: float
) -> tuple[float, Slope, int]:
    """The zero of the NLL's derivative, which rises with b: b, the slope there, and the passes over the logits."""
    low, high = bounds
    b = min(max(b, low), high)
    for passes in range(1, MAX_PASSES + 1):
        expansion = sums.at(b, ORDER)
        start, origin = slope(expansion, u_true, b), b
        low, high = (b, high) if start.first < 0 else (low, b)
        here = start
        for _ in range(20):
            if _gradient(here, b) < tolerance / 4:
                break
            b = _inside(_newton_target(here, b), (low, high), bounds)
            if expansion.error(b) > 0.1 * abs(start.first):  # too far for the series: expand again there
                break
            here = slope(expansion, u_true, b)
        trusted = expansion.error(b) * max(1.0, b * b) < tolerance
        if (trusted and _gradient(here, b) < tolerance) or b == origin or passes == MAX_PASSES:
            return b, here, passes
    raise AssertionError("unreachable")


def _gradient(here: Slope, b: float) -> float:
    """The larger of the derivatives with respect to b and to T = 1 / b."""
    return abs(here.first) * max(1.0, b * b)


def _newton_target(here: Slope, b: float) -> float:
    if here.second <= 0:
        return b / 10 if here.first > 0 else b * 10
    return min(max(b - here.first / here.second, b / 10), b * 10)


def _inside(target: float, bracket: tuple[float, float], bounds: tuple[float, float]) -> float:
    """The target, or the middle of the bracket if it is beyond an end that was already tried."""
    low, high = bracket
    if low < target < high:
        return target
    end = low if target <= low else high
    return end if end in bounds else math.sqrt(low * high)
