"""Files of format 1.0 are read and continued; those of version 0.x are refused in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from signing import resign, resign_model
from socrates import scaling
from socrates.engine import checkpoint, evaluate
from socrates.engine.train import train
from socrates.experiment import Part
from socrates.files import with_checksum
from socrates.identity import FORMAT, ForeignFile
from socrates.predictor import load
from socrates.records import Run

FORMATS = Path(__file__).parent / "data" / "formats"


@pytest.fixture(params=["1.0"])
def stored(request, tmp_path):
    return Path(shutil.copytree(FORMATS / request.param, tmp_path / "runs"))


def the_run(folder):
    (directory,) = folder.glob("digits-*")
    return Run(directory)


def test_the_files_of_this_format_are_stored():
    assert (FORMATS / FORMAT).is_dir()


def test_a_finished_run_is_read(stored):
    run = the_run(stored / "finished")
    assert run.finished
    expected = Part("socrates", alpha=0.99, gamma=1.0, start_epoch=0, target_over="all")
    assert run.experiment.method == expected
    assert [record.epoch for record in run.epochs()] == [1, 2, 3, 4]
    assert (run.chosen_epoch(), run.evaluation().epoch) == (4, 4)
    told = run.evaluation().value("none", "test", "answer", "accuracy")
    assert told == evaluate(run).value("none", "test", "answer", "accuracy")
    predictor = load(run.directory)
    assert (predictor.about.run, predictor.about.epoch) == (run.directory.name, 4)
    assert scaling.load(stored / "scaler.npz").columns == 11


def test_a_finished_run_is_not_trained_again(stored):
    run = the_run(stored / "finished")
    before = {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()}
    assert train(run.experiment, stored / "finished", accelerator="cpu").directory == run.directory
    assert {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()} == before


def test_a_stopped_run_is_continued(stored):
    stopped = the_run(stored / "stopped")
    run = train(stopped.experiment, stored / "stopped", accelerator="cpu")
    assert (run.directory, run.finished) == (stopped.directory, True)
    expected = the_run(stored / "finished").predictions("val", 4).logits
    np.testing.assert_allclose(run.predictions("val", 4).logits, expected, rtol=0, atol=1e-6)


def old_json(path):
    """As 0.1.0 wrote it: without format, run and checksum."""
    plain = json.loads(path.read_text())
    for name in ("format", "run", "checksum"):
        del plain[name]
    path.write_text(json.dumps(plain))


def old_epochs(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        del line["format"], line["run"], line["checksum"]
    path.write_text("".join(json.dumps(with_checksum(line)) + "\n" for line in lines))


def old_logits(path):
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in ("logits", "labels", "num_classes")}
    np.savez_compressed(path, **arrays)


def old_model(path):
    def change(about, _):
        about["format"] = 1
        del about["run"]

    resign_model(path, change)


def old_checkpoint(path):
    content = checkpoint.read(path)
    torch.save({**content, "format": 2}, path)


def old_scaler(path):
    with np.load(path) as stored:
        arrays = dict(stored)
    about = json.loads(str(arrays["socrates_scaler"])) | {"format": 1}
    np.savez(path, **arrays | {"socrates_scaler": np.array(json.dumps(about))})


OLD = {
    "experiment.json": (old_json, lambda run: Run(run.directory).experiment),
    "evaluation.json": (old_json, lambda run: run.evaluation()),
    "finished.json": (old_json, lambda run: run.summary()),
    "data.json": (old_json, lambda run: run.data),
    "epochs.jsonl": (old_epochs, lambda run: run.epochs()),
    "predictions/val-0004.npz": (old_logits, lambda run: evaluate(run)),
    "model.safetensors": (old_model, lambda run: load(run.directory)),
}


@pytest.mark.parametrize("name", OLD)
def test_a_file_of_version_0_is_refused_in_one_line(name, stored):
    spoil, read = OLD[name]
    run = the_run(stored / "finished")
    spoil(run.directory / name)
    with pytest.raises(ForeignFile, match=rf"{name}\b.*version 0\.x.*1\.0") as error:
        read(run)
    assert "\n" not in str(error.value)


def test_a_checkpoint_and_a_scaler_of_version_0_are_refused_in_one_line(stored):
    run = the_run(stored / "stopped")
    old_checkpoint(run.checkpoint)
    with pytest.raises(ForeignFile, match=r"checkpoint\.pt .*format 2 of version 0\.x.*1\.0"):
        train(run.experiment, stored / "stopped", accelerator="cpu")
    old_scaler(stored / "scaler.npz")
    with pytest.raises(ValueError, match=r"scaler\.npz .*format 1 of version 0\.x.*1\.0"):
        scaling.load(stored / "scaler.npz")


def test_a_later_format_is_refused_by_its_number(stored):
    run = the_run(stored / "finished")
    resign(run.directory / "experiment.json", lambda plain: plain.update(format="2.0"))
    with pytest.raises(ForeignFile, match=r"experiment\.json .*format '2\.0'.*1\.0"):
        _ = run.experiment


def test_a_model_of_another_program_is_not_taken_for_one_of_version_0(stored):
    path = the_run(stored / "finished").directory / "model.safetensors"
    save_file(load_file(path), path)
    with pytest.raises(ValueError, match=r"no description"):
        load(path)
