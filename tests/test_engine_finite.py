"""Losses that are not finite: the run stops and says where, leaves the step out, or goes on and is
recorded."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from socrates import cli
from socrates.contracts import Method, Output, Task
from socrates.engine import checkpoint, run_all, train
from socrates.engine.epoch import Undo
from socrates.experiment import Experiment, Optimization, Part, resolve
from socrates.methods.adaptive import Adaptive
from socrates.records import Run

SETTINGS = Optimization(epochs=3, batch_size=20, learning_rate=0.05, halve_every=2)
WILD = replace(SETTINGS, learning_rate=1e12)
ENGINE = importlib.import_module("socrates.engine.train")


def digits(settings=SETTINGS, model=None):
    parts = Part("digits"), model or Part("mlp", width=8), Part("socrates")
    return resolve(Experiment(*parts, num_train=100, keep_every=3, optimization=settings))


@pytest.fixture
def bad_steps(monkeypatch):
    """Makes the loss, and all that the step remembers, NaN in these steps, counted from the first
    of the run."""

    def make(*steps, factor=float("nan")):
        usual, seen = Adaptive.forward, []

        def forward(method, model, batch):
            seen.append(batch.index.tolist())
            if len(seen) - 1 not in steps:
                return usual(method, model, batch)
            output = usual(method, model, replace(batch, inputs=batch.inputs * factor))
            return Output(output.loss * factor, output.logits)

        monkeypatch.setattr(Adaptive, "forward", forward)
        return seen

    return make


def test_a_run_stops_with_the_place_and_keeps_its_last_good_state(tmp_path, bad_steps, monkeypatch):
    whole = train(digits(), tmp_path / "whole", accelerator="cpu")
    monkeypatch.setattr("socrates.engine.saving.SECONDS_BETWEEN_CHECKPOINTS", -1.0)
    seen = bad_steps(7)
    with pytest.raises(ValueError, match=r"\bnan\b.*\b3 .*epoch 2,") as error:
        train(digits(), tmp_path, accelerator="cpu")
    for fact in (" 0.05,", f" {', '.join(map(str, seen[7]))}:", " 1 epochs and 2 steps"):
        assert fact in str(error.value)
    assert "\n" not in str(error.value)
    run = Run(tmp_path / digits().name)
    content = checkpoint.read(run.checkpoint)
    assert (content["epoch"], content["step"]) == (1, 2)
    assert all(torch.isfinite(value).all() for value in content["model"].values())
    monkeypatch.undo()
    resumed = train(digits(), tmp_path, accelerator="cpu")
    assert np.array_equal(
        whole.predictions("test", 3).logits, resumed.predictions("test", 3).logits
    )


def test_without_a_checkpoint_between_it_is_noticed_when_the_epoch_ends(tmp_path, bad_steps):
    bad_steps(6)
    with pytest.raises(ValueError, match=r"step 2 .*epoch 2, .*: 0 "):
        train(digits(), tmp_path, accelerator="cpu")
    assert len(Run(tmp_path / digits().name).epochs()) == 1


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_a_skipped_step_leaves_no_trace_and_is_counted_and_told(tmp_path, bad_steps, norm):
    model = Part("mlp", width=8) if norm == "none" else Part("resnet20")
    experiment = digits(replace(SETTINGS, epochs=2), model)
    seen = bad_steps(3, 8)
    with pytest.warns(UserWarning, match="left out") as told:
        run = train(experiment, tmp_path, accelerator="cpu", on_nan="skip")
    words = [str(one.message) for one in told if "left out" in str(one.message)]
    assert [re.search(r"in step (\d) of 5 of epoch (\d)", one).groups() for one in words] == [
        ("4", "1"),
        ("4", "2"),
    ]
    assert all(str(seen[place])[1:-1] in one for place, one in zip((3, 8), words, strict=True))
    records = run.epochs()
    assert [record.value("skipped_steps") for record in records] == [1, 1]
    assert all(
        np.isfinite(record.value(name))
        for record in records
        for name in ("train_loss", "target", "val_ece")
    )
    assert np.isfinite(run.predictions("test", 2).logits).all()


def test_gradients_that_are_not_finite_are_skipped_too(tmp_path, bad_steps):
    bad_steps(2, factor=1e38)
    with pytest.warns(UserWarning, match=r"step 3 .*epoch 1,"):
        run = train(digits(), tmp_path, accelerator="cpu", on_nan="skip")
    assert np.isfinite(run.predictions("test", 3).logits).all()


def test_what_a_method_adds_in_place_is_undone_too():
    class Sums(Method):
        seen = torch.zeros(1)  # no buffer: only epoch_state tells of it

        def epoch_state(self):
            return {"seen": self.seen}

        def load_epoch_state(self, state):
            self.seen = state["seen"]

    method = Sums(Task(num_samples=4, num_classes=2))
    undo = Undo(SimpleNamespace(model=torch.nn.Linear(1, 1), method=method))
    method.seen += 1
    undo.undo()
    assert method.seen == 0


def test_an_epoch_of_skipped_steps_is_an_error(tmp_path, bad_steps):
    bad_steps(*range(5))
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ValueError, match=r"every .*epoch 1\b"),
    ):
        train(digits(), tmp_path, accelerator="cpu", on_nan="skip")


def test_a_skipped_step_is_remembered_by_a_stopped_epoch(tmp_path, bad_steps, monkeypatch):
    with monkeypatch.context():
        bad_steps(1)
        with pytest.warns(UserWarning, match="left out"):
            whole = train(digits(), tmp_path / "whole", accelerator="cpu", on_nan="skip")
    monkeypatch.undo()
    bad_steps(1)

    def stop(event):
        if getattr(event, "step", None) == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="left out"), pytest.raises(KeyboardInterrupt):
        train(digits(), tmp_path, accelerator="cpu", on_nan="skip", tell=stop)
    monkeypatch.undo()
    resumed = train(digits(), tmp_path, accelerator="cpu", on_nan="skip")
    assert [{**one.to_json(), "seconds": 0} for one in whole.epochs()] == [
        {**one.to_json(), "seconds": 0} for one in resumed.epochs()
    ]


def test_a_study_does_not_stop_because_one_run_diverges(tmp_path):
    wild, tame = run_all([digits(WILD), digits()], tmp_path, processes=1)
    assert wild.summary()["collapsed"] == "the logits are not finite"
    assert tame.summary()["collapsed"] is None


def test_the_command_says_it_in_one_line(tmp_path, capsys):
    words = [
        "train",
        "digits",
        "mlp",
        "ce",
        "--learning-rate",
        "1e12",
        "--epochs",
        "3",
        "--num-train",
        "100",
    ]
    words += ["--device", "cpu", "--out", str(tmp_path)]
    assert cli.main(words) == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1, errors
    assert re.search(r"on.nan.*skip", errors)
    assert cli.main([*words, "--on-nan", "collapse"]) == 0
    assert "this run collapsed: the logits are not finite" in capsys.readouterr().out
