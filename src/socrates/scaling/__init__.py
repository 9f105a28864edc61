"""Post-hoc calibration: scalers that are fitted on held-out logits and then called on new ones."""

from socrates.scaling.matrix import MatrixScaling
from socrates.scaling.readout import ReadoutScaling
from socrates.scaling.scaler import FitReport
from socrates.scaling.temperature import TemperatureScaling
from socrates.scaling.vector import VectorScaling

__all__ = ["FitReport", "MatrixScaling", "ReadoutScaling", "TemperatureScaling", "VectorScaling"]
