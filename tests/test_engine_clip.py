"""Clipped gradients: by how much, in which recipe, how they are recorded, and that a stopped run
goes on equal."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision
from torch import nn

from socrates.cli.commands import COMMANDS
from socrates.cli.options import parse
from socrates.engine import checkpoint, run_all, train
from socrates.engine.build import clip_gradients
from socrates.engine.events import Stepped
from socrates.engine.studies.candidates import candidate_of
from socrates.experiment import (
    Experiment,
    Optimization,
    Part,
    resolve,
    usual_optimization,
    with_batch_size,
)
from socrates.records import Run

CYCLE = Optimization(epochs=4, batch_size=20, recipe="one-cycle", clip_norm=1.0)
ENGINE = importlib.import_module("socrates.engine.train")


def digits(settings: Optimization = CYCLE, **changes: Any) -> Experiment:
    parts = Part("digits"), Part("mlp", width=8), Part("socrates")
    return resolve(
        Experiment(*parts, num_train=100, keep_every=4, optimization=settings, **changes)
    )


@pytest.fixture
def norms(monkeypatch):
    """Remember the norm of every gradient that is clipped."""
    usual = nn.utils.clip_grad_norm_
    seen = []

    def clip(*arguments, **options):
        seen.append(usual(*arguments, **options))
        return seen[-1]

    monkeypatch.setattr(nn.utils, "clip_grad_norm_", clip)
    return seen


def clipped_by(fabric: Fabric, slope: tuple[float, float]) -> tuple[list[float], bool]:
    """Clip the gradient of a linear function at 1; its gradient afterwards, and whether it counts
    as clipped."""
    model = nn.Linear(2, 1, bias=False)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), 0.1))
    fabric.backward((model.weight * torch.tensor([slope])).sum())
    was_clipped = clip_gradients(fabric, model, optimizer, 1.0)
    return model.weight.grad[0].tolist(), bool(was_clipped)


def plain() -> Fabric:
    return Fabric(accelerator="cpu", devices=1)


def half() -> Fabric:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    return Fabric(accelerator="cpu", devices=1, plugins=MixedPrecision("16-mixed", "cpu", scaler))


@pytest.mark.parametrize("fabric", [plain, half])
def test_a_gradient_of_norm_5_is_scaled_to_1_and_a_short_one_is_left_alone(fabric):
    """In half precision the loss is multiplied by 4,096, and the gradient must be divided by it
    before its norm."""
    gradient, was_clipped = clipped_by(fabric(), (3.0, 4.0))
    assert gradient == pytest.approx([0.6, 0.8], abs=1e-6)
    assert was_clipped
    assert clipped_by(fabric(), (0.375, 0.5)) == ([0.375, 0.5], False)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_gradient_that_is_not_finite_does_not_count_as_clipped(value):
    assert not clipped_by(plain(), (value, 1.0))[1]


@pytest.mark.usefixtures("few_scalers")
def test_a_clipped_step_is_as_long_as_the_rate_times_the_norm(tmp_path):
    """One step, without momentum and weight decay: the weights move by 0.5 * 0.01."""
    settings = Optimization(1, 100, 0.5, momentum=0.0, weight_decay=0.0, clip_norm=0.01)
    weights = []

    def build(*arguments):
        state = usual(*arguments)
        weights.append([parameter.detach().clone() for parameter in state.model.parameters()])
        weights.append(list(state.model.parameters()))
        return state

    usual = ENGINE.build
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ENGINE, "build", build)
        run = train(digits(settings), tmp_path, accelerator="cpu")
    before, after = (torch.cat([part.detach().flatten() for part in parts]) for parts in weights)
    assert float((after - before).norm()) == pytest.approx(0.005, rel=1e-4)
    assert [record.value("clipped_share") for record in run.epochs()] == [1.0]


@pytest.mark.usefixtures("few_scalers")
def test_the_share_of_clipped_steps_is_recorded(tmp_path, norms):
    run = train(digits(), tmp_path, accelerator="cpu")
    steps = len(norms) // 4
    assert steps == 5
    is_clipped = np.array([float(norm) > 1 for norm in norms]).reshape(4, steps)
    assert 0 < is_clipped.mean() < 1
    assert [record.value("clipped_share") for record in run.epochs()] == is_clipped.mean(
        axis=1
    ).tolist()


@pytest.mark.usefixtures("few_scalers")
def test_without_clipping_nothing_is_clipped_and_a_norm_that_is_never_reached_changes_no_bit(
    tmp_path, norms
):
    unclipped = train(digits(replace(CYCLE, clip_norm=0.0)), tmp_path, accelerator="cpu")
    assert not norms
    assert "clipped_share" not in unclipped.epochs()[0].values
    assert math.isnan(unclipped.epochs()[0].value("clipped_share"))
    far = train(digits(replace(CYCLE, clip_norm=1e6)), tmp_path, accelerator="cpu")
    assert len(norms) == 20
    assert [record.value("clipped_share") for record in far.epochs()] == [0.0] * 4
    logits = [run.predictions("test", 4).logits for run in (unclipped, far)]
    assert np.array_equal(*logits)
    clipped = train(digits(), tmp_path, accelerator="cpu")
    assert not np.array_equal(logits[0], clipped.predictions("test", 4).logits)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.usefixtures("few_scalers")
def test_a_run_that_is_stopped_within_an_epoch_ends_equal_with_its_shares(
    tmp_path, monkeypatch, precision
):
    monkeypatch.setattr("socrates.engine.saving.SECONDS_BETWEEN_CHECKPOINTS", -1.0)
    experiment = digits(replace(CYCLE, clip_norm=0.4), precision=precision)
    whole = train(experiment, tmp_path / "whole", accelerator="cpu")

    def stop(event):
        if event == Stepped(1, 3):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(experiment, tmp_path / "stopped", accelerator="cpu", tell=stop)
    stopped = Run(tmp_path / "stopped" / experiment.name)
    content = checkpoint.read(stopped.checkpoint)
    assert content["epoch"] == 1
    assert 0 < int(content["gathered"]["clipped"]) <= content["step"] < 5
    resumed = train(experiment, tmp_path / "stopped", accelerator="cpu")
    assert np.array_equal(
        whole.predictions("test", 4).logits, resumed.predictions("test", 4).logits
    )
    records = [
        [{**record.to_json(), "seconds": 0} for record in run.epochs()] for run in (whole, resumed)
    ]
    assert records[0] == records[1]
    assert all("clipped_share" in record for record in records[0])


def settings_of(*words: Any) -> Optimization:
    options = parse(COMMANDS["train"][0], [str(word) for word in words], "socrates train")
    return options.named_experiment(1).optimization


@pytest.mark.parametrize(
    ("words", "clip_norm"),
    [
        (("digits", "mlp"), 1.0),
        (("digits", "mlp", "--batch-size", 63), 1.0),
        (("digits", "mlp", "--batch-size", 64), 0.0),
        (("digits", "mlp", "--clip-norm", 0), 0.0),
        (("digits", "mlp", "--batch-size", 64, "--clip-norm", 2), 2.0),
        (("cifar10", "cnn"), 0.0),
        (("cifar10", "cnn", "--num-train", 300), 1.0),
        (("cifar10", "cnn", "--batch-size", 32), 1.0),
        (("cifar100", "vgg16"), 0.0),
        (("cifar100", "vgg16", "--batch-size", 16), 0.0),
        (("digits", "mlp", "--recipe", "paper"), 0.0),
        (("digits", "mlp", "--recipe", "paper", "--batch-size", 16), 0.0),
        (("digits", "mlp", "--recipe", "paper", "--clip-norm", 1), 1.0),
    ],
)
def test_one_cycle_clips_at_1_where_the_batch_is_below_64(words, clip_norm):
    dataset, model, *options = words
    assert settings_of(dataset, model, "ce", *options).clip_norm == clip_norm


@pytest.mark.parametrize(
    ("images", "batch_size", "clip_norm"), [(300, 16, 1.0), (2_047, 32, 1.0), (2_048, 64, 0.0)]
)
def test_small_sets_are_clipped(images, batch_size, clip_norm):
    usual = usual_optimization("folder:mine", "resnet34", "ce", num_images=images)
    assert (usual.batch_size, usual.clip_norm) == (batch_size, clip_norm)


def test_a_study_of_batch_sizes_trains_what_train_would():
    base = Experiment(
        Part("digits"),
        Part("mlp"),
        Part("ce"),
        optimization=usual_optimization("digits", "mlp", "ce"),
    )
    for batch_size in (16, 64):
        candidate = candidate_of(base, {"batch_size": batch_size}).experiment
        assert candidate.optimization == settings_of(
            "digits", "mlp", "ce", "--batch-size", batch_size
        )
    with pytest.raises(ValueError, match=r"batch_size .*'16'"):
        with_batch_size(base.optimization, "16")  # type: ignore[arg-type]


@pytest.mark.slow
def test_cross_entropy_survives_twice_the_usual_rate(tmp_path):
    """Without the clip the first three of these runs end at 10% to 66%."""
    settings = replace(usual_optimization("digits", "mlp", "ce"), learning_rate=0.2)
    parts = Part("digits"), Part("mlp"), Part("ce")
    wanted = [
        Experiment(*parts, seed, num_train=300, keep_every=settings.epochs, optimization=settings)
        for seed in range(1, 6)
    ]
    for run in run_all(wanted, tmp_path, accelerator="cpu"):
        predictions = run.predictions("test", settings.epochs)
        assert (predictions.logits.argmax(1) == predictions.labels).mean() > 0.9
