"""Run directories that earlier versions wrote are read and continued."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from socrates.engine import checkpoint
from socrates.engine.studies.runs import finished_run
from socrates.engine.train import train
from socrates.experiment import Part, resolve
from socrates.records import Run
from socrates.report.labels import method_label

STORED = Path(__file__).parent / "data" / "runs-0.1.0"
FORMATS = Path(__file__).parent / "data" / "formats"
FINISHED, STOPPED = (
    "digits-mlp-socrates-seed1-b61103d8",
    "digits-mlp-socrates-gamma1.0-seed1-dde90cfd",
)


@pytest.fixture
def runs(tmp_path):
    return Path(shutil.copytree(STORED, tmp_path / "runs"))


def test_a_finished_run_is_read(runs):
    run = Run(runs / FINISHED)
    assert run.finished
    assert run.experiment.method == Part(
        "socrates", alpha=0.99, gamma=2.0, start_epoch=0, target_over="all"
    )
    assert [record.epoch for record in run.epochs()] == [1, 2, 3, 4]
    assert run.epochs()[0].value("val_accuracy") == 0.1
    evaluation = run.evaluation()
    assert (evaluation.epoch, evaluation.unknown_class) == (4, True)
    assert evaluation.scalers == ("none", "temperature", "vector", "matrix", "readout")
    assert math.isclose(
        evaluation.value("none", "test", "answer", "ece"), 0.0413729598, abs_tol=1e-9
    )


def test_a_finished_run_is_found_under_its_old_name(runs):
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    assert (
        train(Run(runs / FINISHED).experiment, runs, accelerator="cpu").directory == runs / FINISHED
    )
    assert {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()} == before


def test_a_stopped_run_is_continued(runs):
    run = train(Run(runs / STOPPED).experiment, runs, accelerator="cpu")
    assert run.directory == runs / STOPPED
    assert run.finished
    expected = np.load(runs / "continued-val-0004.npz")["logits"]
    np.testing.assert_allclose(run.predictions("val", 4).logits, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("number", [1, 2])
def test_a_checkpoint_of_every_format_is_continued(number, tmp_path):
    """Format 1 is of whole epochs; format 2 was stopped after the first step of the third epoch."""
    runs = Path(shutil.copytree(FORMATS / str(number), tmp_path / "runs"))
    (stopped,) = runs.glob("digits-*")
    assert checkpoint.read(stopped / "checkpoint.pt").get("format", 1) == number
    run = train(Run(stopped).experiment, runs, accelerator="cpu")
    assert (run.directory, run.finished) == (stopped, True)
    expected = np.load(runs / "continued-val-0004.npz")["logits"]
    np.testing.assert_allclose(run.predictions("val", 4).logits, expected, rtol=0, atol=1e-6)


def test_a_run_of_mc_keeps_the_fixed_rate_of_its_time(runs):
    path = runs / FINISHED / "experiment.json"
    plain = json.loads(path.read_text())
    path.write_text(json.dumps({**plain, "method": {"name": "mc", "options": {}}}))
    assert dict(Run(runs / FINISHED).experiment.method.options)["virtual_rate"] == 0.1
    now = resolve(replace(Run(runs / FINISHED).experiment, method=Part("mc")))
    assert dict(now.method.options)["virtual_rate"] is None
    assert Run.create(runs, now).experiment == now


def test_a_run_of_ccl_sc_is_told_from_one_of_now(runs):
    path = runs / FINISHED / "experiment.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "method": {"name": "ccl_sc", "options": {}}})
    )
    path.parent.rename(runs / "digits-mlp-ccl_sc-seed1-b61103d8")
    then = Run(runs / "digits-mlp-ccl_sc-seed1-b61103d8")
    assert then.experiment.changed("method") == {"queues_by": "model"}
    assert "queues_by=model" in method_label(then.experiment)
    now = resolve(replace(then.experiment, method=Part("ccl_sc")))
    assert finished_run(runs, now) is None  # it is trained, in a folder of its own
    assert Run.create(runs, now).experiment == now
    assert Run.directory_of(runs, now) != then.directory
    assert Run.directory_of(runs, then.experiment) == then.directory
