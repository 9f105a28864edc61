"""An audit in a fraction of its time, for tests of all else than its scalers and its draws."""

from __future__ import annotations

import pytest

from socrates import scaling


def hasten(patch: pytest.MonkeyPatch) -> None:
    """Most of the time of an audit is spent on scalers and draws: take one scaler and few draws."""
    patch.setattr(scaling, "candidates", lambda *_: {"temperature": scaling.TemperatureScaling()})
    draw_few(patch)


def draw_few(patch: pytest.MonkeyPatch) -> None:
    """Test calibration and resample with few draws."""
    for name in ("judge.NUM_RESAMPLES", "judge.NUM_DRAWS", "recalibrate.NUM_DRAWS"):
        patch.setattr(f"socrates.audit.{name}", 200)
