"""Temperature scaling: one number, fitted by Newton's method on b = 1 / T."""

import math

import torch
from torch import Tensor

from socrates.scaling.rowsums import RowSums, Slope
from socrates.scaling.scaler import Fit, FitReport, Scaler

# Order of the row sums: from one pass over the logits the series then finds an optimum about one percent away.
ORDER = 6
# How far the series is followed, relative to where it was expanded; beyond, it may point anywhere.
REACH = 0.5
# Strides of the rows that warm the start, and the fewest rows worth it.
STRIDES = (64, 8)
FEWEST_ROWS = 128
# On the larger of the derivatives by T and by 1 / T; the first rows need no more than their sampling error.
TOLERANCE, COARSE = 1e-9, 1e-3
MAX_PASSES, MAX_STEPS = 100, 20
# What a step must change of b, relative to it: less is rounding.
SMALLEST_STEP = 1e-12

SEPARABLE = "every label has the largest logit of its row, so the NLL falls for ever as T goes to 0"
HOPELESS = "the logits predict the labels worse than a uniform guess, so the NLL falls for ever as T grows"


class TemperatureScaling(Scaler):
    """Divides logits by the temperature T > 0 that minimises the NLL of the data it is fitted on.

    The NLL is convex in 1 / T, so the optimum is unique. Two limits have no optimum and end in a warning: if every
    label has the largest logit of its row, T stops at a value where the gradient has vanished; if the logits say less
    than a uniform guess, T stops at 10,000 times the largest difference within a row. Constant logits keep T = 1. All
    columns are used, an unknown column too. The `report` measures the gradient with respect to T.

    >>> logits = torch.tensor([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0]])
    >>> scaler = TemperatureScaling().fit(logits, torch.tensor([0, 0, 1, 1]))  # sure of itself, right 3 times of 4
    >>> scaler(logits).softmax(dim=1)[0]
    tensor([0.7500, 0.2500])
    >>> scaler  # 4 / log 3
    TemperatureScaling(temperature=3.641, columns=2)
    """

    title, short = "temperature scaling", "TS"
    temperature: Tensor

    def __init__(self) -> None:
        super().__init__(temperature=1.0)

    def _fit(self, logits: Tensor, labels: Tensor, unknown_class: bool) -> Fit:
        b, report, limit = fit_inverse_temperature(logits, labels)
        return {"temperature": 1 / b}, report, limit and f"{limit}; T = {1 / b:.4g}"

    def affine(self) -> tuple[Tensor, Tensor]:
        """1 / T and no shift, so that the order of the columns never changes."""
        return 1 / self.temperature, torch.zeros_like(self.temperature)


def fit_inverse_temperature(logits: Tensor, labels: Tensor) -> tuple[float, FitReport, str]:
    """Minimises the mean NLL of softmax(b logits) over b > 0: on a few rows first, then on all of them.

    Returns b = 1 / T, the report, and why the optimum is a limit (empty if it is not).
    """
    b = 1.0
    for stride in [s for s in STRIDES if len(logits) // s >= FEWEST_ROWS]:
        b, _, _ = _newton(RowSums(logits[::stride], labels[::stride]), b, COARSE)
    sums = RowSums(logits, labels)
    b, here, passes = _newton(sums, b, TOLERANCE)
    before = float((sums.at(1.0, 0).sums[0].log() - sums.u_true).mean())
    limit = HOPELESS if b == sums.hottest and here.first > 0 else ""
    if sums.depth > 0 and bool((sums.u_true == 0).all()):
        limit = SEPARABLE
    # Where T = 1 is the optimum, rounding may leave the NLL before it below the one after.
    report = FitReport(len(logits), passes, b * b * abs(here.first), before, min(before, here.nll))
    return b, report, limit


def _newton(sums: RowSums, b: float, tolerance: float) -> tuple[float, Slope, int]:
    """The zero of the NLL's derivative, which rises with b: b, the slope there, and the passes over the logits."""
    low, high = sums.hottest, math.inf
    for passes in range(1, MAX_PASSES + 1):
        expansion, centre = sums.at(b, ORDER), b
        here = sums.slope(expansion, b)
        low, high = (b, high) if here.first < 0 else (low, b)
        for _ in range(MAX_STEPS):
            if _gradient(here.first, b) < tolerance:
                break
            b = _newton_target(here, b, low, high, sums.hottest)
            if abs(b - centre) > REACH * centre:
                break
            here = sums.slope(expansion, b)
        exact = _gradient(here.first, b) < tolerance and _gradient(expansion.error(b), b) < tolerance
        if exact or abs(b - centre) <= SMALLEST_STEP * b:
            return b, here, passes
    return b, sums.slope(sums.at(b, 2), b), MAX_PASSES


def _gradient(first: float, b: float) -> float:
    """The larger of the derivatives with respect to b and to T = 1 / b."""
    return abs(first) * max(1.0, b * b)


def _newton_target(here: Slope, b: float, low: float, high: float, hottest: float) -> float:
    """Newton's step, at most tenfold; beyond what was tried the middle instead, or the hottest b that is allowed."""
    target = min(max(b - here.first / max(here.second, 1e-300), b / 10), b * 10)
    if low < target < high:
        return target
    return hottest if target <= low == hottest else math.sqrt(low * high)
