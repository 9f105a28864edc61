"""What an experiment may hold, and what its directory is called."""

from __future__ import annotations

import dataclasses

import pytest

from socrates.engine.normal import normalized
from socrates.experiment import Experiment, Optimization, Part, usual_optimization

PARTS = Part("digits"), Part("mlp"), Part("focal", gamma=2.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs must be more than 0, got 0"),
        ({"epochs": -1}, "epochs must be more than 0, got -1"),
        ({"epochs": 2.5}, "epochs must be a whole number, got 2.5"),
        ({"batch_size": 0}, "batch_size must be more than 0, got 0"),
        ({"batch_size": True}, "batch_size must be a whole number, got True"),
        ({"halve_every": 0}, "halve_every must be more than 0, got 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number, got nan"),
        ({"learning_rate": float("inf")}, "learning_rate must be a finite number, got inf"),
        ({"learning_rate": 0.0}, "learning_rate must be more than 0, got 0.0"),
        ({"learning_rate": "fast"}, "learning_rate must be a finite number, got fast"),
        ({"backbone_factor": -0.1}, "backbone_factor must be at least 0, got -0.1"),
        ({"weight_decay": -1e-4}, "weight_decay must be at least 0, got -0.0001"),
        ({"momentum": -0.1}, r"momentum of SGD must be in \[0, 1\), got -0.1"),
        ({"momentum": 1.0}, r"momentum of SGD must be in \[0, 1\), got 1.0"),
        ({"milestones": (35, 20)}, r"milestones must be epochs in increasing order, got \(35, 20\)"),
        ({"milestones": (0, 20)}, "milestones must be more than 0, got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Optimization(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"num_bins": 0}, "num_bins must be more than 0, got 0"),
        ({"keep_every": 0}, "keep_every must be more than 0, got 0"),
        ({"keep_every": -1}, "keep_every must be more than 0, got -1"),
        ({"num_train": 0}, "num_train must be more than 0, got 0"),
        ({"precision": "33-true"}, "precision must be one of 32-true, .*got '33-true'"),
        ({"method": Part("focal", gamma=float("nan"))}, "gamma of focal must be a finite number, got nan"),
        ({"model": Part("vit", dropout=float("inf"))}, "dropout of vit must be a finite number, got inf"),
    ],
)
def test_experiments_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(Experiment(*PARTS), **changes)


def test_names_of_usual_runs_stay_as_they_are():
    """Directories that exist must be found again."""
    assert Experiment(*PARTS).name == "digits-mlp-focal-gamma2.0-seed1-1d1f3cf3"
    ablation = Part("socrates:no-beta", alpha=0.99, gamma=1.0)
    settings = Optimization(epochs=150, batch_size=64, halve_every=50, weight_decay=0.0)
    experiment = Experiment(Part("digits"), Part("mlp", width=64), ablation, 3, num_train=100, optimization=settings)
    assert experiment.name == "digits-mlp-socrates_no-beta-alpha0.99-gamma1.0-seed3-66bb73c9"


@pytest.mark.parametrize("value", ["a/b", "../up", "c:\\d", 'x*?"<>|\n'])
def test_no_option_makes_a_nested_or_forbidden_directory(value):
    name = Experiment(PARTS[0], PARTS[1], Part("mine:method", path=value)).name
    assert not set(name) & set('/\\:*?"<>|\n')
    assert name != Experiment(PARTS[0], PARTS[1], Part("mine:method", path=value.replace("/", "_") + " ")).name


def test_long_names_still_fit_a_file_system():
    name = Experiment(Part("folder:" + "ä" * 300), PARTS[1], PARTS[2]).name
    assert len(name.encode()) < 240
    assert "-seed1-" in name


def test_equal_experiments_have_one_directory():
    whole = Experiment(Part("digits"), Part("mlp", width=16.0), Part("focal", gamma=2))
    exact = Experiment(Part("digits"), Part("mlp", width=16), Part("focal", gamma=2.0))
    assert whole == exact
    assert normalized(whole) == whole
    assert normalized(whole).name == exact.name
    assert normalized(exact).name == exact.name
    odd = Experiment(Part("digits"), Part("nothing", a=1), Part("no_module:thing", b=1))
    assert normalized(odd).name == odd.name
    settings = Optimization(learning_rate=1, weight_decay=0)
    same = Optimization(learning_rate=1.0, weight_decay=0.0)
    assert Experiment(*PARTS, optimization=settings).name == Experiment(*PARTS, optimization=same).name


@pytest.mark.parametrize(
    ("dataset", "model"),
    [("cifar10", "vgg16"), ("svhn", "vgg16"), ("mnist", "cnn"), ("fashion_mnist", "cnn"), ("cifar100", "vit_transfer")],
)
def test_ccl_sc_has_half_the_batch_everywhere(dataset, model):
    usual, contrastive = (usual_optimization(dataset, model, method) for method in ("ce", "ccl_sc"))
    assert (usual.batch_size, contrastive.batch_size) == (128, 64)
    assert dataclasses.replace(contrastive, batch_size=128) == usual
