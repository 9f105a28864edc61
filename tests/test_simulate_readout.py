"""Small cells of the simulated read-outs: few rows do little harm, and a useful column is used."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SEEDS = range(500, 545)


@pytest.fixture(scope="module")
def simulate():
    path = Path(__file__).parents[1] / "benchmarks" / "simulate_readout.py"
    spec = importlib.util.spec_from_file_location("simulate_readout", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["simulate_readout"] = module
    spec.loader.exec_module(module)
    return module.simulate


@pytest.mark.parametrize("world", ["images", "uninformative", "extreme", "separable"])
def test_fifty_rows_do_no_harm(simulate, world):
    cell = simulate(world, 50, SEEDS)
    assert float(cell.excess.mean()) <= 0.003
    assert float(cell.excess.quantile(0.95)) <= 0.05
    assert cell.factor <= 3


def test_a_useful_column_is_used(simulate):
    cell = simulate("flagged", 200, SEEDS)
    assert float(cell.excess.mean()) < -0.03
    assert cell.ruled_out < 0.2
    assert cell.factor <= 3
