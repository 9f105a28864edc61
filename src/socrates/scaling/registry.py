"""Every scaler by name, which the rest of the package iterates."""

from socrates.scaling.affine import MatrixScaling, StructuredScaling, VectorScaling
from socrates.scaling.beta import BetaScaling
from socrates.scaling.ensemble import EnsembleTemperatureScaling
from socrates.scaling.isotonic import IsotonicScaling
from socrates.scaling.readout import ReadoutScaling
from socrates.scaling.scaler import Scaler
from socrates.scaling.temperature import TemperatureScaling

# In the order of tables. Its class holds what any part of the package needs:
# the printed names, what it needs, whether it is usual, and how it is fitted, saved and loaded.
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
