"""Small cells of `make simulate`: false verdicts are rare, and true differences are seen."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
STUDIES = 60


@pytest.fixture(scope="module")
def simulate():
    path = Path(__file__).parents[1] / "benchmarks" / "simulate.py"
    spec = importlib.util.spec_from_file_location("simulate", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["simulate"] = module
    spec.loader.exec_module(module)
    return module


def test_without_a_difference_nothing_is_worse(simulate):
    calibrated = simulate.verdicts(simulate.equal(1000, 2, 5, 0.66, 0.83, 0.0), STUDIES)
    assert calibrated["worse"] <= 0.1
    lattice = simulate.verdicts(simulate.equal(360, 8, 2, 0.95, 0.95, 0.02), STUDIES)
    assert max(lattice["worse"], lattice["less accurate"]) <= 0.1


def test_a_difference_is_seen(simulate):
    cell = simulate.Cell(5000, 5, (0.9,) * 4, (0.01, 0.03, 0.03, 0.03))
    assert simulate.verdicts(cell, 30)["worse"] >= 0.8


def test_a_failed_run_is_seen_and_sound_ones_are_not(simulate):
    alarms, _ = simulate.failing((5, 4, 1.0, 0.0), STUDIES)
    _, seen = simulate.failing((5, 4, 1.0, 26.0), STUDIES)
    assert alarms <= 0.1
    assert seen >= 0.9
