"""Let a scaler from outside, any module in SCALERS, be fitted and called like one of ours."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from socrates.scaling.held_out import HeldOut
from socrates.scaling.registry import SCALERS
from socrates.scaling.scaler import Fit, FitReport, Scaler


class OutsideScaler(Scaler):
    """Open and check inputs for a module that only has `fit` and a call on logits.

    The module gets logits in single precision, as the engine passes them.
    """

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def _fit(self, data: HeldOut) -> Fit:
        if data.weight is not None:
            raise ValueError(f"{type(self.module).__name__} takes no sample_weight")
        self.module.fit(data.logits.float(), data.labels, unknown_class=data.unknown_class)
        return {}, FitReport(len(data.labels), 0, 0.0, math.nan, math.nan), ""

    def transform(self, logits: Tensor) -> Tensor:
        """Return what the module makes of the logits."""
        return self.module(logits.float())


def outside_scalers(unknown_class: bool) -> dict[str, Scaler]:
    """Return the usual scalers that others added to SCALERS, unfitted, by name."""
    scalers: dict[str, Scaler] = {}
    for name, kind in SCALERS.items():
        is_ours = kind.__module__.startswith(f"{__package__}.")
        if is_ours or not getattr(kind, "usual", True):
            continue
        if unknown_class or not kind.needs_unknown_class:
            scaler: Any = kind()
            scalers[name] = scaler if isinstance(scaler, Scaler) else OutsideScaler(scaler)
    return scalers
