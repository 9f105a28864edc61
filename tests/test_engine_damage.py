"""Files of a run that are damaged, foreign or half written: one line that names the file, never
other numbers."""

from __future__ import annotations

import dataclasses
import errno
import importlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision import MixedPrecision

from socrates.engine import checkpoint, evaluate, train
from socrates.engine.events import EpochDone
from socrates.engine.lock import held
from socrates.experiment import Experiment, Optimization, Part, resolve
from socrates.files import replacing, write_json
from socrates.identity import signed
from socrates.records import Run

SHORT = Optimization(epochs=4, batch_size=64, learning_rate=0.05, halve_every=2)
ENGINE = importlib.import_module("socrates.engine.train")


def digits(method="socrates", **changes):
    made = Experiment(
        Part("digits"), Part("mlp", width=8), Part(method), num_train=100, keep_every=2
    )
    return dataclasses.replace(made, optimization=SHORT, **changes)


def stop_after(epochs):
    def tell(event):
        if isinstance(event, EpochDone) and event.record.epoch == epochs:
            raise KeyboardInterrupt

    return tell


@pytest.fixture(autouse=True)
def checkpoint_every_epoch(monkeypatch):
    monkeypatch.setattr("socrates.engine.saving.SECONDS_BETWEEN_CHECKPOINTS", -1.0)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A finished run, and the same one stopped after two epochs."""
    root = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("socrates.engine.saving.SECONDS_BETWEEN_CHECKPOINTS", -1.0)
        train(digits(), root / "finished", accelerator="cpu")
        with pytest.raises(KeyboardInterrupt):
            train(digits(), root / "stopped", accelerator="cpu", tell=stop_after(2))
    return root


@pytest.fixture
def stopped(folders, tmp_path):
    return Run(shutil.copytree(folders / "stopped", tmp_path / "stopped") / digits().name)


@pytest.fixture
def finished(folders, tmp_path):
    return Run(shutil.copytree(folders / "finished", tmp_path / "finished") / digits().name)


def go_on(run):
    return train(digits(), run.directory.parent, accelerator="cpu")


def flip(path, offset):
    """One bit of the first tensor's data."""
    with zipfile.ZipFile(path) as archive:
        entry = next(
            item
            for item in archive.infolist()
            if "/data/" in item.filename and item.file_size > 100
        )
    body = bytearray(path.read_bytes())
    start = (
        body.index(entry.filename.encode(), entry.header_offset) + len(entry.filename) + 80 + offset
    )
    body[start] ^= 64
    path.write_bytes(body)


def same_numbers(run, folders):
    whole = Run(folders / "finished" / digits().name)
    for split in ("val", "test"):
        assert np.array_equal(run.predictions(split, 4).logits, whole.predictions(split, 4).logits)
    assert [{**one.to_json(), "seconds": 0} for one in run.epochs()] == [
        {**one.to_json(), "seconds": 0} for one in whole.epochs()
    ]


@pytest.mark.parametrize("offset", range(0, 160, 32))
def test_a_flipped_bit_in_a_checkpoint_is_told_and_the_one_before_it_used(stopped, folders, offset):
    flip(stopped.checkpoint, offset)
    with pytest.warns(UserWarning, match=r"checksum .*checkpoint-previous\.pt"):
        same_numbers(go_on(stopped), folders)


def test_a_truncated_checkpoint_is_told_and_the_one_before_it_used(stopped, folders):
    stopped.checkpoint.write_bytes(stopped.checkpoint.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=r"checkpoint\.pt .*checkpoint-previous\.pt"):
        same_numbers(go_on(stopped), folders)


def test_without_the_last_checkpoint_the_one_before_it_is_used(stopped, folders):
    stopped.checkpoint.unlink()  # a process can be killed between two renames
    same_numbers(go_on(stopped), folders)


def test_two_damaged_checkpoints_are_one_line(stopped):
    for path in stopped.directory.glob("checkpoint*"):
        flip(path, 0)
    with pytest.raises(ValueError, match=r"checksum .*checkpoint-previous\.pt") as error:
        go_on(stopped)
    assert str(error.value).count("checksum") == 2
    assert "\n" not in str(error.value)


def test_a_newer_format_is_refused_with_the_reason(stopped):
    rewrite(stopped.checkpoint, lambda content: {**content, "format": "3.0"})
    with pytest.raises(ValueError, match=r"checkpoint\.pt .*format '3\.0', .*1\.0"):
        go_on(stopped)


def test_a_checkpoint_runs_no_code(stopped, tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'ran'}",)

    rewrite(stopped.checkpoint, lambda content: {**content, "best": Evil()})
    with pytest.warns(UserWarning, match=r"checkpoint\.pt .*UnpicklingError"):
        assert go_on(stopped).finished
    assert not (tmp_path / "ran").exists()


def rewrite(path, change):
    """Other content, written as training writes it."""
    checkpoint.write(path, change(checkpoint.read(path)))


def without(key):
    return lambda content: {name: value for name, value in content.items() if name != key}


def other_width(content):
    weights = {name: torch.zeros(*value.shape, 2) for name, value in content["model"].items()}
    return {**content, "model": weights}


def fewer_groups(content):
    content["optimizer"]["param_groups"].pop()
    return content


CRAFTED = {
    "nothing": (lambda _: {}, "KeyError: 'experiment'"),
    "another experiment": (
        lambda content: {**content, "experiment": resolve(digits("ce")).to_json()},
        f"it is of the run {digits('ce').name}",
    ),
    "no model": (without("model"), "KeyError: 'model'"),
    "no method": (without("method"), "KeyError: 'method'"),
    "no optimizer": (without("optimizer"), "KeyError: 'optimizer'"),
    "other shapes": (other_width, r"size mismatch for .*"),
    "other names": (lambda content: {**content, "model": {"x": torch.ones(1)}}, "Missing key.*"),
    "a model of text": (
        lambda content: {**content, "model": "weights"},
        "TypeError: Expected state_dict to be dict.*",
    ),
    "fewer groups": (fewer_groups, "number of parameter groups"),
    "no precision": (without("precision"), "KeyError: 'precision'"),
    "no groups": (lambda content: {**content, "optimizer": {}}, "KeyError: 'param_groups'"),
}


@pytest.mark.parametrize("what", CRAFTED)
def test_a_checkpoint_that_does_not_fit_is_one_line(stopped, what):
    change, message = CRAFTED[what]
    rewrite(stopped.checkpoint, change)
    before = stopped.checkpoint.read_bytes(), (stopped.directory / "epochs.jsonl").read_bytes()
    words = rf"checkpoint\.pt is not .*\(.*{message}.*\): "
    with pytest.raises(ValueError, match=words) as error:
        go_on(stopped)
    assert "\n" not in str(error.value)
    assert (
        stopped.checkpoint.read_bytes(),
        (stopped.directory / "epochs.jsonl").read_bytes(),
    ) == before


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        (
            "experiment.json",
            json.dumps(signed("mine", {"a": 1})),
            r"experiment.json is damaged .*\['a', ",
        ),
        ("experiment.json", "[]", r"experiment.json is damaged"),
        (
            "evaluation.json",
            "[]",
            r"evaluation.json .*\[\], not an object.*socrates evaluate",
        ),
        (
            "evaluation.json",
            json.dumps(signed("mine", {})),
            r"evaluation.json .*no epoch.*socrates evaluate",
        ),
        ("finished.json", "null", r"finished.json .*None, not an object"),
        ("finished.json", "{", r"finished.json is damaged"),
        (
            "epochs.jsonl",
            b'{"epoch": 2, "\xff": 1}\n',
            r"epochs.jsonl, line 1 .*'utf-8'",
        ),
        ("epochs.jsonl", b"\xff\n", r"epochs.jsonl, line 1 is damaged"),
    ],
)
def test_damaged_records_are_named(finished, name, words, message, capsys):
    (finished.directory / name).write_bytes(words if isinstance(words, bytes) else words.encode())

    def read_all():
        _ = finished.experiment
        finished.epochs()
        finished.evaluation()
        go_on(finished)

    with pytest.raises(ValueError, match=message) as error:
        read_all()
    assert "\n" not in str(error.value)
    assert "Traceback" not in capsys.readouterr().err


def test_a_misspelt_field_of_the_optimization_is_named(finished):
    path = finished.directory / "experiment.json"
    path.write_text(path.read_text().replace('"batch_size"', '"batchsize"'))
    with pytest.raises(ValueError, match=r"experiment\.json .*\['batch_size', 'batchsize'\]"):
        _ = finished.experiment


def test_an_older_epoch_never_takes_the_place_of_the_result(finished):
    result = (finished.directory / "evaluation.json").read_bytes()
    finished.predictions_path("val", 4).unlink()
    assert finished.save_evaluation(evaluate(finished)).name == "evaluation-0002.json"
    assert (finished.directory / "evaluation.json").read_bytes() == result


def test_a_second_copy_of_logits_is_no_epoch(finished):
    kept = finished.kept_epochs()
    name = finished.predictions_path("val", kept[-1])
    for stray in (f"{name.stem} (1).npz", "val-latest.npz"):
        name.with_name(stray).write_bytes(name.read_bytes())
        name.with_name(stray.replace("val", "test")).write_bytes(b"")
    assert finished.kept_epochs() == kept


def test_half_written_files_of_processes_that_are_gone_are_removed(stopped):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    halves = [
        f"checkpoint.pt.{gone.pid}.tmp",
        f"predictions/val-0004.npz.{gone.pid}.tmp",
        f"a.{os.getpid()}.tmp",
    ]
    kept = [f"evaluation.json.{os.getppid()}.tmp", "notes.tmp", "notes.mine.tmp"]
    for name in (*halves, *kept):
        (stopped.directory / name).write_text("half")
    run = go_on(stopped)
    assert run.finished
    assert sorted(path.name for path in run.directory.rglob("*.tmp")) == sorted(kept)


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_what_went_wrong_first_is_what_is_told(tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number), "evaluation.json.1.tmp")

    monkeypatch.setattr("socrates.files.open", refuse, raising=False)
    monkeypatch.setattr(Path, "unlink", refuse)
    reason = "the disk is full" if number == errno.ENOSPC else os.strerror(number)
    with pytest.raises(OSError, match=rf"evaluation\.json .*: {reason}") as error:
        write_json(tmp_path / "evaluation.json", {})
    assert ".tmp" not in str(error.value)


def test_an_interruption_is_not_hidden_by_cleaning_up(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "x"):
        raise KeyboardInterrupt


def test_half_precision_goes_on_bitwise(tmp_path, monkeypatch):
    """The scaler of float16 grows every third step and shrinks when a gradient overflows: a new one
    would differ."""

    def fabric(*_):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=3)
        return Fabric(
            accelerator="cpu", devices=1, plugins=MixedPrecision("16-mixed", "cpu", scaler)
        )

    monkeypatch.setattr(ENGINE, "make_fabric", fabric)
    whole = train(digits(), tmp_path / "whole", accelerator="cpu")
    with pytest.raises(KeyboardInterrupt):
        train(digits(), tmp_path / "stopped", accelerator="cpu", tell=stop_after(2))
    saved = checkpoint.read(Run(tmp_path / "stopped" / digits().name).checkpoint)["precision"]
    assert saved["scale"] != 2.0**24
    resumed = train(digits(), tmp_path / "stopped", accelerator="cpu")
    assert np.array_equal(
        whole.predictions("test", 4).logits, resumed.predictions("test", 4).logits
    )
    for one, other in zip(whole.epochs(), resumed.epochs(), strict=True):
        assert {**one.to_json(), "seconds": 0} == {**other.to_json(), "seconds": 0}


def test_what_a_killed_process_left_of_a_whole_run_is_cleared_away(tmp_path):
    experiment = digits()
    run = train(experiment, tmp_path, accelerator="cpu")
    for name in ("checkpoint.pt", "checkpoint-previous.pt", "lock"):
        (run.directory / name).touch()
    train(experiment, tmp_path, accelerator="cpu")
    assert not {"checkpoint.pt", "checkpoint-previous.pt", "lock"} & {
        path.name for path in run.directory.iterdir()
    }
    with held(run.directory):
        (run.directory / "checkpoint.pt").touch()
        # another process is at it: nothing is touched
        train(experiment, tmp_path, accelerator="cpu")
        assert (run.directory / "checkpoint.pt").exists()
