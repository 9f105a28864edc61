"""Calibration, selective classification and out-of-distribution metrics, for torch tensors and numpy arrays alike."""

from .binning import BinStats
from .calibration import Reliability, ada_ece, cw_ece, debiased_ece, ece, mce, reliability, smooth_ece
from .groups import GroupTable
from .meter import CalibrationMeter
from .ood import aupr, auroc, fpr_at_tpr
from .predictions import READINGS, Prediction, has_unknown, predict
from .samples import Top
from .scoring import accuracy, brier, nll
from .selective import RiskCoverage, augrc, aurc, coverage_at_risk, risk_coverage
from .uncertainty import Interval, bootstrap, floor

__all__ = [
    "READINGS", "BinStats", "CalibrationMeter", "GroupTable", "Interval", "Prediction", "Reliability", "RiskCoverage",
    "Top", "accuracy", "ada_ece", "augrc", "aupr", "aurc", "auroc", "bootstrap", "brier", "coverage_at_risk", "cw_ece",
    "debiased_ece", "ece", "floor", "fpr_at_tpr", "has_unknown", "mce", "nll", "predict", "reliability",
    "risk_coverage", "smooth_ece",
]  # fmt: skip
