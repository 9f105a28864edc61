"""SmoothECE: a calibration error without bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from socrates.metrics.inputs import LabelsLike, ProbsLike, Top, open_samples

Array = npt.NDArray[Any]

# Cells of the grid the residuals are shared out to. Sharing between the two nearest centres keeps their place, so the
# error falls with the square of the cell's width over the bandwidth.
_CELLS = 1 << 13
_HALVINGS = 24


def smooth_ece(probs: ProbsLike, labels: LabelsLike) -> float:
    """SmoothECE (Blasiok and Nakkiran, 2023): the calibration error of the top class, smoothed at its own scale.

    Residuals, confidence less correctness, are smoothed over the confidence by a Gaussian reflected at 0 and 1; the
    result is the mean absolute value at the bandwidth sigma that equals it. It needs no number of bins and moves
    continuously with the probabilities. It agrees with the `relplot` package to within 0.002: that one stops the search
    for sigma at steps of 0.001.

    Args:
        probs: (N, C) probabilities, torch or numpy, or a `Prediction`.
        labels: (N,) class numbers.

    >>> round(smooth_ece([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 3)
    0.25
    """
    return smooth_ece_of(open_samples(probs, labels).top())


def smooth_ece_of(top: Top) -> float:
    """SmoothECE of confidences."""
    residual = _on_grid(top.confidence, top.confidence.astype(np.float64) - top.correct) / len(top.confidence)
    # Mirrored, the grid is periodic, and smoothing with the reflected kernel is a product with a Gaussian.
    spectrum = np.fft.rfft(np.concatenate([residual, residual[::-1]]))
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        sigma = (low + high) / 2
        low, high = (sigma, high) if _smoothed_error(spectrum, sigma) > sigma else (low, sigma)
    return (low + high) / 2


def _smoothed_error(spectrum: Array, sigma: float) -> float:
    """Integral of the absolute smoothed residual."""
    # Beyond 9 / (pi sigma) the Gaussian is below 1e-17; eight points for the shortest wave that is left are enough.
    num_waves = min(len(spectrum), 2 + int(9 / (np.pi * sigma)))
    cells = min(_CELLS, 1 << (8 * num_waves).bit_length())
    gaussian = np.exp(-0.5 * (np.pi * sigma * np.arange(num_waves)) ** 2)
    return float(np.abs(np.fft.irfft(spectrum[:num_waves] * gaussian, 2 * cells)).sum() / 2)


def _on_grid(position: Array, weight: Array) -> Array:
    """Weights shared between the two nearest of _CELLS cell centres; beyond the outer centres they stay in one cell."""
    place = np.minimum(np.maximum(position.astype(np.float64) * _CELLS - 0.5, 0), _CELLS - 1)
    left = np.minimum(place.astype(np.intp), _CELLS - 2)
    share = place - left
    grid = np.bincount(left, weights=weight * (1 - share), minlength=_CELLS)
    grid[1:] += np.bincount(left, weights=weight * share, minlength=_CELLS)[:-1]
    return grid
