"""Losses: pure functions with one value per sample, and modules for training loops that remember.

They import torch and numpy, and nothing else of ours, so that a folder of these files can be
copied. Read socrates.py first, then adaptive.py and module.py.
"""

from .adaptive import adaptive_target
from .contrastive import KeyQueue, Keys, contrastive_loss
from .dece import dece, smoothed_labels
from .indexed import IndexedDataset
from .sat import SATLoss, sat_loss
from .socrates import SocratesLoss, socrates_loss, socrates_loss_reference, uncertainty_penalty
from .stateless import (
    BrierLoss,
    FLSDLoss,
    FocalLoss,
    GamblersLoss,
    brier_loss,
    flsd_loss,
    focal_loss,
    gamblers_loss,
)

__all__ = [
    "BrierLoss", "FLSDLoss", "FocalLoss", "GamblersLoss", "IndexedDataset", "KeyQueue", "Keys",
    "SATLoss", "SocratesLoss", "adaptive_target", "brier_loss", "contrastive_loss", "dece",
    "flsd_loss", "focal_loss", "gamblers_loss", "sat_loss", "smoothed_labels", "socrates_loss",
    "socrates_loss_reference", "uncertainty_penalty",
]  # fmt: skip
