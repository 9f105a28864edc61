"""Calibration, selective classification and out-of-distribution metrics, for torch tensors and numpy arrays alike."""

from socrates.metrics.binning import BinStats
from socrates.metrics.calibration import Reliability, ada_ece, cw_ece, debiased_ece, ece, mce, reliability, smooth_ece
from socrates.metrics.inputs import Top
from socrates.metrics.meter import CalibrationMeter
from socrates.metrics.ood import aupr, auroc, fpr_at_tpr
from socrates.metrics.predictions import READINGS, Prediction, has_unknown, predict
from socrates.metrics.scoring import accuracy, brier, nll
from socrates.metrics.selective import RiskCoverage, augrc, aurc, coverage_at_risk, risk_coverage
from socrates.metrics.uncertainty import Interval, bootstrap, floor

__all__ = [
    "READINGS",
    "BinStats",
    "CalibrationMeter",
    "Interval",
    "Prediction",
    "Reliability",
    "RiskCoverage",
    "Top",
    "accuracy",
    "ada_ece",
    "augrc",
    "aupr",
    "aurc",
    "auroc",
    "bootstrap",
    "brier",
    "coverage_at_risk",
    "cw_ece",
    "debiased_ece",
    "ece",
    "floor",
    "fpr_at_tpr",
    "has_unknown",
    "mce",
    "nll",
    "predict",
    "reliability",
    "risk_coverage",
    "smooth_ece",
]
