"""Losses: pure functions with one value per sample, and modules for training loops that only remember."""

from .adaptive import adaptive_target
from .brier import BrierLoss, brier_loss
from .contrastive import KeyQueue, Keys, contrastive_loss
from .dece import dece, smoothed_labels
from .focal import FLSDLoss, FocalLoss, flsd_loss, focal_loss
from .gamblers import GamblersLoss, gamblers_loss
from .indexed import IndexedDataset
from .sat import SATLoss, sat_loss
from .socrates import SocratesLoss, socrates_loss, socrates_loss_reference, uncertainty_penalty

__all__ = [
    "BrierLoss", "FLSDLoss", "FocalLoss", "GamblersLoss", "IndexedDataset", "KeyQueue", "Keys", "SATLoss",
    "SocratesLoss", "adaptive_target", "brier_loss", "contrastive_loss", "dece", "flsd_loss", "focal_loss",
    "gamblers_loss", "sat_loss", "smoothed_labels", "socrates_loss", "socrates_loss_reference",
    "uncertainty_penalty",
]  # fmt: skip
