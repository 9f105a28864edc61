"""Calibration, selective classification and out-of-distribution metrics, one file per family.

Every metric first opens its inputs with ../arrays/, then applies its formula to plain arrays. Apart
from ../arrays/ and ../isotonic.py, this package imports nothing else of ours. Read calibration.py
and binning.py first; registry.py lists the name of each metric and which way is better.
"""

from ..arrays.entries import GroupTable
from ..arrays.samples import Prediction, Top
from . import conformal
from .binning import BinStats
from .calibration import Reliability, ada_ece, cw_ece, debiased_ece, ece, mce, reliability
from .calibration_test import CalibrationTest, calibration_test
from .chance import Excess, ExcessDifference, compare_excess, excess
from .decomposition import Corp, Decomposition, corp, decompose
from .direction import Direction, direction, top_k
from .meter import CalibrationMeter
from .ood import aupr, auroc, fpr_at_tpr, unknown_answered
from .predictions import READINGS, has_unknown, predict
from .registry import METRICS, Metric
from .scoring import accuracy, brier, nll
from .selective import RiskCoverage, augrc, aurc, coverage_at_risk, risk_coverage
from .smooth import smooth_ece
from .uncertainty import Interval, bootstrap, floor
from .worst import GroupGap, worst_classes, worst_groups

sets = conformal  # the name that users write: metrics.sets.lac(probs, labels)

__all__ = [
    "METRICS", "READINGS", "BinStats", "CalibrationMeter", "CalibrationTest", "Corp",
    "Decomposition", "Direction", "Excess", "ExcessDifference", "GroupGap", "GroupTable",
    "Interval", "Metric", "Prediction", "Reliability", "RiskCoverage", "Top", "accuracy",
    "ada_ece", "augrc", "aupr", "aurc", "auroc", "bootstrap", "brier", "calibration_test",
    "compare_excess", "conformal", "corp", "coverage_at_risk", "cw_ece", "debiased_ece",
    "decompose", "direction", "ece", "excess", "floor", "fpr_at_tpr", "has_unknown", "mce",
    "nll", "predict", "reliability", "risk_coverage", "sets", "smooth_ece", "top_k",
    "unknown_answered", "worst_classes", "worst_groups",
]  # fmt: skip
