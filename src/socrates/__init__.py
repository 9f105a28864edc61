"""Classifiers that know what they do not know: the Socrates loss, calibration metrics and post-hoc scaling."""

from importlib.metadata import version as _version

from . import losses, metrics, pareto, scaling
from .losses import BrierLoss, FLSDLoss, FocalLoss, GamblersLoss, IndexedDataset, SATLoss, SocratesLoss

__version__ = _version("socrates-loss")

__all__ = [
    "BrierLoss",
    "FLSDLoss",
    "FocalLoss",
    "GamblersLoss",
    "IndexedDataset",
    "SATLoss",
    "SocratesLoss",
    "losses",
    "metrics",
    "pareto",
    "scaling",
]
