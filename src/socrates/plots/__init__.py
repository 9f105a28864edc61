"""Pictures of calibration, one line each in a notebook.

Every function draws on `ax`, or on a new figure with a legend, and returns the axes. What they draw
is labelled, so `axes.legend()` explains axes of yours; grey is what chance alone would show of a
calibrated model, 95% of the time. The package imports metrics, pareto and palette; read bins.py
first, then ink.py, which also draws the report's figures.
"""

from importlib.util import find_spec

if find_spec("matplotlib") is None:
    raise ImportError("plots need matplotlib: pip install 'socrates-loss[report]'")

from .bins import confidence_histogram, reliability
from .curves import corp, risk_coverage
from .methods import forest, pareto

__all__ = ["confidence_histogram", "corp", "forest", "pareto", "reliability", "risk_coverage"]
