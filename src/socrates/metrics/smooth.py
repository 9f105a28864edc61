"""SmoothECE: a calibration error without bins, smoothed over the confidence."""

from __future__ import annotations

import numpy as np

from ..arrays.content import Classes
from ..arrays.entries import Groups, LabelsLike, TopLike, Value, by_group, open_top, reads
from ..arrays.open import Array, ArrayLike
from ..arrays.samples import Top

# Number of grid cells. Each residual is split between the two nearest cell centers, which keeps its
# position, so the error falls with the square of cell width over bandwidth.
_CELLS = 1 << 13
_TOLERANCE = 1e-8  # of the bandwidth
_MAX_STEPS = 50  # three to eight are enough


@reads(open_top)
def smooth_ece(
    probs: TopLike | None = None,
    labels: LabelsLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Classes | None = None,
    groups: Groups | None = None,
) -> Value:
    """Return SmoothECE, a calibration error without bins (Blasiok and Nakkiran, 2023).

    The residuals, confidence minus correctness, are smoothed over the confidence by a Gaussian
    kernel that is reflected at 0 and 1. The result is the mean absolute smoothed residual, at the
    bandwidth sigma that equals this mean. It changes continuously with the probabilities. A direct
    sum over the kernel agrees to 1e-5. The `relplot` package searches sigma in steps of 0.001, and
    may differ by 0.007.

    Args: as for `ece`, without bins.

    >>> round(smooth_ece([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 3)
    0.25
    """
    top = open_top(probs, labels, confidence, correct, sample_weight, classes)
    return by_group("smooth_ece", _smooth, top, groups, sample_weight)


def _smooth(top: Top) -> float:
    """Find the bandwidth that equals the error smoothed with it, which is SmoothECE."""
    residual = top.confidence.astype(np.float64)
    residual -= top.correct
    if top.weight is not None:
        residual *= top.weight / top.weight.mean()
    residual = _on_grid(top.confidence, residual) / len(top)
    # The mirrored grid is periodic, so smoothing with the reflected kernel multiplies its spectrum
    # by a Gaussian.
    spectrum = np.fft.rfft(np.concatenate([residual, residual[::-1]]))
    # The error is at least the absolute mean residual (an infinite bandwidth), and at most the mean
    # absolute residual (no smoothing).
    low = abs(float(residual.sum()))
    high = float(np.abs(residual).sum())
    if high < _TOLERANCE:
        return high
    sigma = min(max(low, 0.02), high)
    last_sigma = 1.0
    last_excess = low - 1
    for _ in range(_MAX_STEPS):
        # As sigma grows, the excess falls at a rate of at least 1: it bounds the error of sigma.
        excess = _smoothed_error(spectrum, sigma) - sigma
        # Where the grid changes with sigma, the error jumps, and sigma can come to rest there.
        if abs(excess) < _TOLERANCE or excess == last_excess:
            break
        if excess > 0:
            low = sigma
        else:
            high = sigma
        secant = sigma - excess * (sigma - last_sigma) / (excess - last_excess)
        last_sigma = sigma
        last_excess = excess
        sigma = secant if low < secant < high else (low + high) / 2
    return sigma


def _smoothed_error(spectrum: Array, sigma: float) -> float:
    """Return the integral of the absolute smoothed residual."""
    # Beyond the frequency 9 / (pi sigma) the Gaussian is below 1e-17. Eight grid points for the
    # shortest remaining wave are enough.
    waves = spectrum[: 2 + int(9 / (np.pi * sigma))]
    cells = min(_CELLS, 1 << (8 * len(waves)).bit_length())
    gaussian = np.exp(-0.5 * (np.pi * sigma * np.arange(len(waves))) ** 2)
    smoothed = np.fft.irfft(waves * gaussian, 2 * cells)
    return float(np.abs(smoothed).sum() / 2)


def _on_grid(position: Array, weight: Array) -> Array:
    """Split each weight between the two nearest of _CELLS cell centers.

    Beyond the outermost centers the whole weight goes to one cell.
    """
    # In place, because each copy of many samples takes as long as a sum.
    place = position.astype(np.float64)
    place *= _CELLS
    place -= 0.5
    np.maximum(place, 0, out=place)
    np.minimum(place, _CELLS - 1, out=place)
    left = place.astype(np.intp)
    place -= left
    place *= weight  # the part of the right one of the two cells
    grid = np.bincount(left, weights=weight - place, minlength=_CELLS)
    grid[1:] += np.bincount(left, weights=place, minlength=_CELLS)[:-1]
    return grid
