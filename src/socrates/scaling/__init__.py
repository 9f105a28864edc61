"""Post-hoc calibration: scalers that are fitted on held-out logits and then called on new ones."""

from socrates.scaling.best import Best, best, candidates
from socrates.scaling.beta import BetaScaling
from socrates.scaling.ensemble import EnsembleTemperatureScaling
from socrates.scaling.files import load, save
from socrates.scaling.isotonic import IsotonicScaling
from socrates.scaling.matrix import MatrixScaling
from socrates.scaling.readout import ReadoutScaling
from socrates.scaling.scaler import FitReport, Scaler
from socrates.scaling.structured import StructuredScaling
from socrates.scaling.temperature import TemperatureScaling
from socrates.scaling.vector import VectorScaling

# Every scaler by name, in the order of tables; its class holds the printed names and what it needs.
SCALERS: dict[str, type[Scaler]] = {
    "temperature": TemperatureScaling,
    "vector": VectorScaling,
    "matrix": MatrixScaling,
    "readout": ReadoutScaling,
    "structured": StructuredScaling,
    "ensemble": EnsembleTemperatureScaling,
    "isotonic": IsotonicScaling,
    "beta": BetaScaling,
}

__all__ = ["SCALERS", "Best", "BetaScaling", "EnsembleTemperatureScaling", "FitReport", "IsotonicScaling"]
__all__ += ["MatrixScaling", "ReadoutScaling", "Scaler", "StructuredScaling", "TemperatureScaling", "VectorScaling"]
__all__ += ["best", "candidates", "load", "save"]
