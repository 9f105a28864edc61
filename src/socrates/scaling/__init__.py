"""Post-hoc calibration: scalers that are fitted on held-out logits and then called on new ones.

One file per family of scalers, registry.py with SCALERS, which the rest of the package iterates,
and `best` to choose between them. It imports arrays, files, isotonic and, for what the unknown
column means, metrics. Read scaler.py first, then temperature.py; affine.py, newton.py and folds.py
are one fit.
"""

from socrates.scaling.affine import MatrixScaling, StructuredScaling, VectorScaling
from socrates.scaling.best import Best, best, candidates
from socrates.scaling.beta import BetaScaling
from socrates.scaling.ensemble import EnsembleTemperatureScaling
from socrates.scaling.isotonic import IsotonicScaling
from socrates.scaling.readout import ReadoutScaling
from socrates.scaling.registry import SCALERS
from socrates.scaling.saving import load, save
from socrates.scaling.scaler import FitReport, Scaler
from socrates.scaling.temperature import TemperatureScaling

__all__ = [
    "SCALERS",
    "Best",
    "BetaScaling",
    "EnsembleTemperatureScaling",
    "FitReport",
    "IsotonicScaling",
    "MatrixScaling",
    "ReadoutScaling",
    "Scaler",
    "StructuredScaling",
    "TemperatureScaling",
    "VectorScaling",
    "best",
    "candidates",
    "load",
    "save",
]
