"""Losses: pure functions with one value per sample, and modules for training loops that remember.

They import torch and numpy, and nothing else of ours, so that a folder of these files can be
copied. Read socrates.py first, then adaptive.py and module.py.
"""

from .adaptive import adaptive_target
from .contrastive import KeyQueue, Keys, contrastive_loss
from .dece import dece, smoothed_labels
from .indexed import IndexedDataset
from .margins import (
    LogitNormLoss,
    MbLSLoss,
    label_smoothing_loss,
    logit_norm_loss,
    mbls_loss,
)
from .mixing import mixed_up, regmixup_loss
from .penalties import BetaPenaltyLoss, MDCALoss, beta_penalty_loss, mdca, mdca_loss
from .ranking import CorrectnessHistory, crl_loss
from .reweighted import BSCEGRALoss, DualFocalLoss, bsce_gra_loss, dual_focal_loss
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
    "BSCEGRALoss", "BetaPenaltyLoss", "BrierLoss", "CorrectnessHistory", "DualFocalLoss",
    "FLSDLoss", "FocalLoss", "GamblersLoss", "IndexedDataset", "KeyQueue", "Keys",
    "LogitNormLoss", "MDCALoss", "MbLSLoss", "SATLoss", "SocratesLoss", "adaptive_target",
    "beta_penalty_loss", "brier_loss", "bsce_gra_loss", "contrastive_loss", "crl_loss", "dece",
    "dual_focal_loss", "flsd_loss", "focal_loss", "gamblers_loss", "label_smoothing_loss",
    "logit_norm_loss", "mbls_loss", "mdca", "mdca_loss", "mixed_up", "regmixup_loss", "sat_loss",
    "smoothed_labels", "socrates_loss", "socrates_loss_reference", "uncertainty_penalty",
]  # fmt: skip
