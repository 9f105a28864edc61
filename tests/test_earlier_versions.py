"""Runs that earlier versions left: a finished one is read, a stopped one goes on to the numbers it would have had."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from socrates.engine.train import train
from socrates.records import Run

RUNS = Path(__file__).parent / "data" / "runs-0.1.0"
FINISHED, STOPPED = "digits-mlp-socrates-seed1-b61103d8", "digits-mlp-socrates-gamma1.0-seed1-dde90cfd"


def test_a_finished_run_is_read_and_left_alone(tmp_path):
    shutil.copytree(RUNS / FINISHED, tmp_path / FINISHED)
    run = Run(tmp_path / FINISHED)
    assert run.finished
    before = {path: path.read_bytes() for path in run.directory.rglob("*") if path.is_file()}
    assert train(run.experiment, tmp_path).directory == run.directory
    assert {path: path.read_bytes() for path in run.directory.rglob("*") if path.is_file()} == before


def test_a_stopped_run_goes_on_to_the_numbers_it_would_have_had(tmp_path):
    shutil.copytree(RUNS / STOPPED, tmp_path / STOPPED)
    experiment = Run(tmp_path / STOPPED).experiment
    run = train(experiment, tmp_path, accelerator="cpu")
    assert run.directory == tmp_path / STOPPED
    assert run.finished
    expected = np.load(RUNS / "continued-val-0004.npz")
    with np.load(run.directory / "predictions" / "val-0004.npz") as found:
        assert np.array_equal(found["labels"], expected["labels"])
        assert found["logits"] == pytest.approx(expected["logits"], abs=1e-6)
