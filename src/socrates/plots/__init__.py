"""Pictures of calibration, one line each in a notebook; the report's figures are drawn with the same ink.

Every function draws on `ax`, or on a figure of its own with a legend, and returns the axes. What they draw is labelled:
`axes.legend()` explains axes of yours. Grey is what chance alone would show of a calibrated model, 95 % of the time.
"""

from importlib.util import find_spec

if find_spec("matplotlib") is None:
    raise ImportError("plots need matplotlib: pip install 'socrates-loss[report]'")

from ..metrics.inputs import spell_out
from .bins import confidence_histogram, reliability
from .curves import corp, risk_coverage
from .methods import forest, pareto

spell_out(confidence_histogram, corp, reliability, risk_coverage)

__all__ = ["confidence_histogram", "corp", "forest", "pareto", "reliability", "risk_coverage"]
