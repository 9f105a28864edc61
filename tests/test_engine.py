"""Training and evaluation from end to end, on digits: records, resuming, collapse, bad disks."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import warnings

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from socrates import methods
from socrates.contracts import Stream
from socrates.engine import evaluate, run_all, train
from socrates.engine.build import learning_rate, make_optimizer, set_rate
from socrates.engine.evaluate import val_record
from socrates.engine.events import Finished, Stepped
from socrates.engine.train import build, train_epoch
from socrates.experiment import Experiment, Optimization, Part
from socrates.records import EpochRecord, Run

SHORT = Optimization(epochs=4, batch_size=64, learning_rate=0.05, halve_every=2)


def digits(method="ce", seed=1, settings=SHORT, **options):
    return Experiment(
        Part("digits"),
        Part("mlp", width=32),
        Part(method, **options),
        seed,
        keep_every=2,
        optimization=settings,
    )


def stop_after(epoch):
    """Ctrl-C in the middle of an epoch."""

    def tell(event):
        if event == Stepped(epoch, 1):
            raise KeyboardInterrupt

    return tell


@pytest.fixture(autouse=True)
def checkpoint_every_epoch(monkeypatch):
    monkeypatch.setattr("socrates.engine.saving.SECONDS_BETWEEN_CHECKPOINTS", -1.0)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return train(digits("socrates", gamma=1.0), tmp_path_factory.mktemp("runs"), accelerator="cpu")


def test_a_run_leaves_everything_the_paper_plots(finished):
    assert finished.finished
    assert not list(finished.directory.glob("checkpoint*"))
    records = finished.epochs()
    assert [record.epoch for record in records] == [1, 2, 3, 4]
    wanted = {
        f"{split}_{key}"
        for split in ("train", "val")
        for key in ("loss", "accuracy", "ece", "ada_ece", "cw_ece", "nll")
    }
    wanted |= {"beta", "target", "unknown_share", "weight_norm", "head_norm", "rate", "seconds"}
    wanted |= {
        f"confidence_{who}{when}"
        for who in ("true", "unknown")
        for when in ("", "_right", "_wrong")
    }
    assert wanted <= set(records[-1].values)
    assert records[-1].value("train_loss") < records[0].value("train_loss")
    assert finished.kept_epochs() == [2, 4]
    logits, labels, num_classes, _ = finished.predictions("test", 4)
    assert logits.shape == (len(labels), 11)
    assert num_classes == 10


def test_evaluation_has_every_scaler_split_and_reading(finished):
    evaluation = finished.evaluation()
    assert set(evaluation.scalers) == {"none", "temperature", "vector", "matrix", "readout"}
    for splits in evaluation.results.values():
        assert set(splits) == {"val", "test"}
        assert set(splits["test"]) == {"answer", "abstain", "renormalize", "spread"}
    values = evaluation.values("none", "test", "answer")
    logits, labels, *_ = finished.predictions("test", 4)
    assert values["accuracy"] == pytest.approx(float((logits.argmax(1) == labels).mean()))
    before = evaluation.value("none", "val", "answer", "nll")
    assert evaluation.value("temperature", "val", "answer", "nll") <= before + 1e-9


def test_evaluate_needs_neither_data_nor_model(finished, monkeypatch):
    monkeypatch.setattr("socrates.data.load", None)
    monkeypatch.setattr("socrates.models.build", None)
    assert evaluate(Run(finished.directory), epoch=2).epoch == 2
    with pytest.raises(FileNotFoundError, match=r"kept epochs: \[2, 4\]"):
        evaluate(Run(finished.directory), epoch=3)


def test_the_same_command_again_does_nothing(finished):
    before = {path: path.stat().st_mtime_ns for path in finished.directory.rglob("*")}
    train(finished.experiment, finished.directory.parent, accelerator="cpu")
    assert {path: path.stat().st_mtime_ns for path in finished.directory.rglob("*")} == before


@pytest.mark.parametrize(
    "method",
    [
        ("ce", {}),
        ("socrates", {}),
        ("sat", {"start_epoch": 2}),
        ("mc", {}),
        ("ccl_sc", {"start_epoch": 1, "queue_size": 128}),
    ],
)
@pytest.mark.usefixtures("few_scalers")
def test_a_stopped_run_ends_bitwise_equal(tmp_path, method):
    experiment = digits(method[0], **method[1])
    whole = train(experiment, tmp_path / "whole", accelerator="cpu")
    with pytest.raises(KeyboardInterrupt):
        train(experiment, tmp_path / "stopped", accelerator="cpu", tell=stop_after(2))
    stopped = Run.create(tmp_path / "stopped", experiment)
    assert not stopped.finished
    assert len(stopped.epochs()) == 2
    resumed = train(experiment, tmp_path / "stopped", accelerator="cpu")
    for split in ("val", "test"):
        assert np.array_equal(
            whole.predictions(split, 4).logits, resumed.predictions(split, 4).logits
        )
    for one, other in zip(whole.epochs(), resumed.epochs(), strict=True):
        assert {**one.to_json(), "seconds": 0} == {**other.to_json(), "seconds": 0}


@pytest.mark.usefixtures("few_scalers")
def test_seeds_differ_and_repeat(tmp_path):
    first, again, other = (
        train(digits(seed=seed), tmp_path / name, accelerator="cpu").predictions("test", 4).logits
        for seed, name in ((1, "a"), (1, "b"), (2, "c"))
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_damaged_files_are_named(tmp_path):
    experiment = digits()
    with pytest.raises(KeyboardInterrupt):
        train(experiment, tmp_path, accelerator="cpu", tell=stop_after(1))
    run = Run.create(tmp_path, experiment)
    for path in run.directory.glob("checkpoint*"):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"checkpoint\.pt .*checkpoint-previous\.pt"):
        train(experiment, tmp_path, accelerator="cpu")
    (run.directory / "experiment.json").write_text("{")
    with pytest.raises(ValueError, match=r"experiment\.json "):
        _ = run.experiment
    with pytest.raises(FileNotFoundError):
        Run(tmp_path / "nothing")


def test_a_cut_off_last_line_is_left_out(tmp_path):
    run = Run.create(tmp_path, digits())
    run.append_epoch(EpochRecord(1, {"x": float("nan")}))
    with open(run.directory / "epochs.jsonl", "a") as file:
        file.write('{"epoch": 2, "x"')
    (record,) = run.epochs()
    assert (record.epoch, list(record.values), math.isnan(record.value("x"))) == (1, ["x"], True)
    run.forget_epochs_after(1)
    run.append_epoch(EpochRecord(2, {"x": 1.0}))
    assert len(run.epochs()) == 2


@pytest.mark.parametrize(
    ("logits", "labels", "share", "reason"),
    [
        (
            [[0.0, 0.0, 5.0]] * 15 + [[5.0, 0.0, 0.0]] * 5,
            [0, 1] * 10,
            0.75,
            "75% of the answers are 'unknown'",
        ),
        ([[0.0, 1.0]] * 20, [0, 1] * 10, 0.0, "every answer is class dog"),
        ([[0.0, 1.0]] * 20, [1] * 20, 0.0, None),
        ([[0.0, 1.0]] * 9, [0, 1] * 4 + [0], 0.0, None),
        ([[0.0, 1.0], [1.0, 0.0]] * 10, [0, 1] * 10, 0.0, None),
        (
            [[0.0, math.inf, 0.0], [0.0, 1.0, 2.0]] * 10,
            [0, 1] * 10,
            0.5,
            "the logits are not finite",
        ),
    ],
)
def test_collapse_is_recorded(logits, labels, share, reason):
    record = val_record(torch.tensor(logits), torch.tensor(labels), ("cat", "dog"), num_bins=15)
    assert (record["unknown_share"], record["collapsed"]) == (share, reason)
    assert (
        ("val_ece" in record)
        is ("confidence_true" in record)
        is (reason != "the logits are not finite")
    )


def test_confidences_by_hand():
    logits = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.7, 0.2]]).log()
    record = val_record(logits, torch.tensor([0, 0]), ("cat", "dog"), num_bins=15)
    assert record["confidence_true"] == pytest.approx(0.3)
    assert record["confidence_true_right"] == pytest.approx(0.5)
    assert record["confidence_unknown_wrong"] == pytest.approx(0.2)
    assert record["val_accuracy"] == 0.5
    assert "confidence_unknown" not in val_record(
        logits, torch.tensor([0, 0]), ("a", "b", "c"), num_bins=15
    )


def test_schedules_and_groups():
    paper = Optimization()
    assert [learning_rate(epoch, paper) for epoch in (0, 25, 299)] == [0.1, 0.05, 0.1 * 0.5**11]
    from socrates import models

    model = models.build("mlp", 10, (1, 8, 8))
    transfer = Optimization(learning_rate=5e-4, backbone_factor=0.1, milestones=(20, 35, 45))
    optimizer = make_optimizer(model, transfer)
    assert set_rate(optimizer, 40, transfer) == pytest.approx(5e-4 / 4)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([5e-4 / 4, 5e-5 / 4])
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(
        list(model.parameters())
    )


def test_streams_are_functions_of_their_names():
    numbers = {
        Stream(seed, epoch, purpose).number(step)
        for seed in (1, 2)
        for epoch in (0, 1)
        for purpose in "ab"
        for step in (0, 1)
    }
    assert len(numbers) == 16


def test_experiments_are_equal_iff_their_names_are(tmp_path):
    experiment = digits("socrates", gamma=1.0)
    same = Experiment.from_json(json.loads(json.dumps(experiment.to_json())))
    assert same == experiment
    assert same.name == experiment.name
    assert dataclasses.replace(experiment, seed=2).name != experiment.name
    with pytest.raises(ValueError, match=r"\['color'\]"):
        Experiment.from_json({**experiment.to_json(), "color": 1})


@pytest.mark.slow
def test_a_pool_of_processes(tmp_path):
    experiments = [digits(seed=seed) for seed in (1, 2)]
    told = []
    runs = run_all(experiments, tmp_path, processes=2, tell=told.append)
    assert [run.experiment.seed for run in runs] == [1, 2]
    done = [event.run.directory for event in told if isinstance(event, Finished)]
    assert sorted(done) == sorted(run.directory for run in runs)
    assert all(run.finished for run in runs)


class NoReading(TorchDispatchMode):
    """Raises where a tensor's value is read by the host: a synchronisation on an accelerator."""

    reading = (
        "aten._local_scalar_dense.default",
        "aten.nonzero.default",
        "aten.is_nonzero.default",
        "aten.equal.default",
    )

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert str(func) not in self.reading, f"{func} reads a value inside a step"
        return func(*args, **(kwargs or {}))


def nothing_read_in(num_steps):
    """Looks at the steps of an epoch, from the end of its first to the end of its last."""
    mode = NoReading()

    def tell(event):
        if event.step == 0:
            mode.__enter__()
        if event.step == num_steps - 1:
            mode.__exit__(None, None, None)

    return tell


@pytest.mark.parametrize(
    "method",
    [name for name in methods.METHODS if ":" not in name],
)
@pytest.mark.parametrize("clip_norm", [0.0, 1.0])
def test_no_value_is_read_inside_a_step(method, clip_norm):
    from lightning_fabric import Fabric

    from socrates import data

    settings = dataclasses.replace(SHORT, clip_norm=clip_norm)
    experiment = digits(
        method,
        settings=settings,
        **({"start_epoch": 0, "queue_size": 64} if method == "ccl_sc" else {}),
    )
    fabric = Fabric(accelerator="cpu", devices=1)
    state = build(experiment, data.load("digits"), fabric)
    model, state.optimizer = fabric.setup(state.model, state.optimizer)
    model.mark_forward_method("features")
    num_steps = -(-len(state.train) // 64)
    record = train_epoch(fabric, model, state, nothing_read_in(num_steps))
    assert record["train_loss"] > 0


def test_a_run_that_diverges_is_whole_and_marked(tmp_path):
    wild = dataclasses.replace(SHORT, learning_rate=1e12, epochs=3)
    run = train(digits("socrates", settings=wild), tmp_path, accelerator="cpu", on_nan="collapse")
    assert run.finished
    assert run.summary()["collapsed"] == "the logits are not finite"
    assert run.evaluation().results == {}


@pytest.mark.parametrize(("rank", "heard"), [("0", 1), ("1", 0)])
def test_only_the_first_rank_of_a_run_warns(rank, heard, tmp_path, monkeypatch):
    def warn_instead(*_):
        warnings.warn("a step is left out", stacklevel=2)

    monkeypatch.setattr(sys.modules[train.__module__], "_train", warn_instead)
    monkeypatch.setenv("LOCAL_RANK", rank)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(digits(), tmp_path, devices=2)
    assert len(caught) == heard
