"""The Socrates loss, calibration metrics, post-hoc scaling, and trained models that may abstain.

Names here are imported when they are first used, and need torch and numpy only. Read
docs/architecture.md first, then contracts.py.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import abstention, losses, metrics, pareto, scaling
    from . import plots as plots  # not in __all__: it needs matplotlib
    from .losses import (
        BrierLoss,
        FLSDLoss,
        FocalLoss,
        GamblersLoss,
        IndexedDataset,
        SATLoss,
        SocratesLoss,
    )
    from .predictor import Predictor, load

try:
    __version__ = metadata.version("socrates-loss")
except metadata.PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"

__all__ = [
    "BrierLoss",
    "FLSDLoss",
    "FocalLoss",
    "GamblersLoss",
    "IndexedDataset",
    "SATLoss",
    "SocratesLoss",
]
__all__ += ["Predictor", "abstention", "load", "losses", "metrics", "pareto", "scaling"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: the command line sets up threads before torch."""
    if name in ("abstention", "losses", "metrics", "pareto", "plots", "scaling"):
        return import_module(f"socrates.{name}")
    if name in __all__:
        home = "predictor" if name in ("Predictor", "load") else "losses"
        return getattr(import_module(f"socrates.{home}"), name)
    raise AttributeError(f"module 'socrates' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
