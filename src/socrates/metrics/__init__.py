"""Calibration, selective classification and out-of-distribution metrics, for torch tensors and numpy arrays alike."""

from . import sets
from .binning import BinStats
from .calibration import Reliability, ada_ece, cw_ece, debiased_ece, ece, mce, reliability, smooth_ece
from .decomposition import Corp, Decomposition, corp, decompose
from .direction import Direction, direction, top_k
from .groups import GroupTable
from .inputs import spell_out
from .meter import CalibrationMeter
from .ood import aupr, auroc, fpr_at_tpr
from .predictions import READINGS, Prediction, has_unknown, predict
from .samples import Top
from .scoring import accuracy, brier, nll
from .selective import RiskCoverage, augrc, aurc, coverage_at_risk, risk_coverage
from .tests import CalibrationTest, calibration_test
from .uncertainty import Interval, bootstrap, floor
from .worst import GroupGap, worst_classes, worst_groups

spell_out(bootstrap, calibration_test, corp, decompose, direction, reliability, risk_coverage, top_k)
spell_out(worst_classes, worst_groups, sets.aps, sets.lac, CalibrationMeter.update)

__all__ = [
    "READINGS", "BinStats", "CalibrationMeter", "CalibrationTest", "Corp", "Decomposition", "Direction", "GroupGap",
    "GroupTable", "Interval", "Prediction", "Reliability", "RiskCoverage", "Top", "accuracy", "ada_ece", "augrc",
    "aupr", "aurc", "auroc", "bootstrap", "brier", "calibration_test", "corp", "coverage_at_risk", "cw_ece",
    "debiased_ece", "decompose", "direction", "ece", "floor", "fpr_at_tpr", "has_unknown", "mce", "nll", "predict",
    "reliability", "risk_coverage", "sets", "smooth_ece", "top_k", "worst_classes", "worst_groups",
]  # fmt: skip
