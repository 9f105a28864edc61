"""The search for the temperature and bias of readout scaling, whose NLL is not convex and may have no minimum."""

import math
from dataclasses import dataclass

from torch import Tensor

from socrates.scaling.scaler import CONVERGED
from socrates.scaling.spreadnll import Point, SpreadNLL, closer
from socrates.scaling.temperature import fit_inverse_temperature, inverse_bounds

# The coarse search: 1 / T in units of the logits' spread, on so many rows or logits at most.
COARSE_FACTORS = tuple(10 ** (k / 5) for k in range(-7, 16))
KNOWN_FACTORS = (0.7, 1.0, 1.4)
COARSE_ROWS, COARSE_ELEMENTS = 2000, 2**20
# Descents from the lowest valleys of the coarse search, first on its rows, then on all of them.
NUM_VALLEYS, NUM_DESCENTS = 4, 2
# Valleys that are higher than the lowest by more than the error of so few rows are left out.
IN_DOUBT = 0.05
MAX_STEPS = 100
# NLLs that differ by less than this are the same.
SAME = 1e-9


@dataclass(frozen=True)
class ReadoutFit:
    """The best point, the steps that led there, the NLL before, and what to warn of (empty if nothing)."""

    point: Point
    num_steps: int
    nll_before: float
    warning: str


def fit_readout(logits: Tensor, labels: Tensor) -> ReadoutFit:
    """Minimises the NLL over T and bias: a coarse search, descents from its valleys, then a look at the limits."""
    nll = SpreadNLL(logits, labels)
    before = nll.section(1.0).point(0.0)
    bounds = inverse_bounds(nll.sums) or (1.0, 1.0)
    known = fit_inverse_temperature(logits[:, :-1], labels)
    starts = sorted(_valleys(nll, logits, labels, known.b, bounds), key=lambda start: start.value)
    descents = [_descend(nll, start, bounds) for start in starts[:NUM_DESCENTS]]
    point, steps = min(descents, key=lambda descent: descent[0].value)
    if before.value < point.value:  # possible only where the coarse search saw too few rows
        point, steps = _descend(nll, before, bounds)
    if point.gradient_norm >= CONVERGED and nll.rounding > 1e-12:  # single precision was not enough
        nll = SpreadNLL(logits, labels, exact=True)
        point, more = _descend(nll, point, bounds)
        steps += more
    cold, hot = (nll.section(b).best() if bounds[0] < bounds[1] else point for b in reversed(bounds))
    if cold.value < point.value - CONVERGED:
        point = cold
    if known.report.nll_after <= point.value + SAME:
        return ReadoutFit(nll.without_unknown(known.b), known.report.num_iterations, before.value, known.warning)
    if bounds[0] < bounds[1] and hot.value <= point.value + SAME:
        return ReadoutFit(hot, steps, before.value, HOPELESS)
    return ReadoutFit(point, steps, before.value, _warning(point, steps, cold))


HOPELESS = "the logits predict the labels worse than a uniform guess, so the NLL falls for ever as T grows"


def _warning(point: Point, steps: int, cold: Point) -> str:
    if cold is not point and cold.value > point.value + SAME:
        if point.gradient_norm < CONVERGED:
            return ""
        return (
            f"stopped after {steps} steps at a gradient norm of {point.gradient_norm:.1e}, above {CONVERGED:.0e}; "
            f"the fit is usable but not converged"
        )
    return (
        "the unknown column is high wherever the largest known logit is wrong, so the NLL falls for ever as T goes to 0"
    )


def _valleys(
    nll: SpreadNLL, logits: Tensor, labels: Tensor, b_known: float, bounds: tuple[float, float]
) -> list[Point]:
    """The lowest valleys of the NLL along b, each at its best bias: found on some rows, measured on all."""
    rows = min(COARSE_ROWS, max(256, COARSE_ELEMENTS // logits.shape[1]))
    stride = max(1, len(logits) // rows)
    coarse = SpreadNLL(logits[::stride], labels[::stride]) if stride > 1 else nll
    unit = bounds[0] * 1e4
    tried = {1.0, *(factor * unit for factor in COARSE_FACTORS), *(factor * b_known for factor in KNOWN_FACTORS)}
    points = [coarse.section(b).best(1, 1e-4) for b in sorted(min(max(b, bounds[0]), bounds[1]) for b in tried)]
    padded = [math.inf, *(point.value for point in points), math.inf]
    lowest = [p for p, left, right in zip(points, padded, padded[2:], strict=False) if p.value <= min(left, right)]
    lowest = sorted(lowest, key=lambda point: point.value)[:NUM_VALLEYS]
    if stride == 1:
        return lowest
    lowest = [_descend(coarse, point, bounds)[0] for point in lowest]
    best = min(point.value for point in lowest)
    return [nll.section(point.b).best() for point in lowest if point.value < best + IN_DOUBT]


def _descend(nll: SpreadNLL, start: Point, bounds: tuple[float, float]) -> tuple[Point, int]:
    """Newton's method along the valley: one step in log b, then the bias that belongs to it."""
    point = nll.section(start.b).descend(start.bias)
    for step in range(MAX_STEPS):
        if point.converged:
            return point, step
        by_log_b, new = _newton_step(point), point
        while abs(by_log_b) > 1e-10:
            b = min(max(point.b * math.exp(by_log_b), bounds[0]), bounds[1])
            new = nll.section(b).descend(_bias_at(point, b))
            if closer(new.value - point.value, nll.rounding, new.gradient_norm < point.gradient_norm):
                break
            by_log_b /= 2
        else:
            return point, step
        if new.b == point.b:
            return new, step
        point = new
    return point, MAX_STEPS


def _newton_step(point: Point) -> float:
    """Newton's step in log b along the best biases, at most 1 and always downhill."""
    aa, ab, bb = point.hessian
    curve = abs(aa - ab * ab / bb if bb > 1e-12 else aa)
    step = -point.gradient[0] / max(curve, 1e-300)
    return min(max(step, -1.0), 1.0)


def _bias_at(point: Point, b: float) -> float:
    """The best bias at a nearby b to first order; where the NLL is flat in the bias, the same gap takes half."""
    _, ab, bb = point.hessian
    slope = -ab / point.b / bb if bb > 1e-12 else point.bias / point.b
    return point.bias + slope * (b - point.b)
