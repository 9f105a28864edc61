"""What an experiment may hold, and what its directory is called."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from socrates import SocratesLoss
from socrates.cli.repeat import command_of
from socrates.contracts import Task
from socrates.experiment import Experiment, Optimization, Part, resolve, usual_optimization
from socrates.identity import signed
from socrates.methods import METHODS, build
from socrates.models import MODELS
from socrates.names import options_of
from socrates.records import Run

PARTS = Part("digits"), Part("mlp"), Part("focal", gamma=2.0)
SOCRATES = [name for name in METHODS if name.startswith("socrates")]


@pytest.mark.parametrize("name", SOCRATES)
def test_gamma_of_socrates_is_1_at_every_door(name):
    assert SocratesLoss(None).gamma == 1.0
    assert options_of(METHODS[name], ["task"])["gamma"] == 1.0
    assert build(name, Task(num_samples=9, num_classes=2)).criterion.gamma == 1.0
    plain, other = (
        Experiment(*PARTS[:2], Part(name, **options)) for options in ({}, {"gamma": 2.0})
    )
    assert dict(resolve(plain).method.options)["gamma"] == 1.0
    assert "gamma" not in plain.name
    assert "-gamma2.0-" in other.name
    assert "--gamma 2.0" in command_of(other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs .*got 0"),
        ({"epochs": -1}, "epochs .*got -1"),
        ({"epochs": 2.5}, "epochs .*got 2.5"),
        ({"batch_size": 0}, "batch_size .*got 0"),
        ({"batch_size": True}, "batch_size .*got True"),
        ({"halve_every": 0}, "halve_every .*got 0"),
        ({"learning_rate": float("nan")}, "learning_rate .*got nan"),
        ({"learning_rate": float("inf")}, "learning_rate .*got inf"),
        ({"learning_rate": 0.0}, "learning_rate .*got 0.0"),
        ({"learning_rate": "fast"}, "learning_rate .*got fast"),
        ({"backbone_factor": -0.1}, "backbone_factor .*got -0.1"),
        ({"weight_decay": -1e-4}, "weight_decay .*got -0.0001"),
        ({"clip_norm": -1}, "clip_norm .*got -1.0"),
        ({"clip_norm": float("inf")}, "clip_norm .*got inf"),
        ({"momentum": -0.1}, r"momentum of SGD .*got -0.1"),
        ({"momentum": 1.0}, r"momentum of SGD .*got 1.0"),
        (
            {"milestones": (35, 20)},
            r"milestones .*got \(35, 20\)",
        ),
        ({"milestones": (0, 20)}, "milestones .*got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Optimization(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, "seed .*got -1"),
        ({"num_bins": 0}, "num_bins .*got 0"),
        ({"keep_every": 0}, "keep_every .*got 0"),
        ({"keep_every": -1}, "keep_every .*got -1"),
        ({"num_train": 0}, "num_train .*got 0"),
        ({"precision": "33-true"}, "precision .*got '33-true'"),
        (
            {"method": Part("focal", gamma=float("nan"))},
            "gamma of focal .*got nan",
        ),
        (
            {"model": Part("vit", dropout=float("inf"))},
            "dropout of vit .*got inf",
        ),
    ],
)
def test_experiments_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(Experiment(*PARTS), **changes)


def test_names_of_usual_runs_stay_as_they_are():
    """Directories that exist must be found again."""
    assert Experiment(*PARTS).name == "digits-mlp-focal-seed1-2efc9a26"
    ablation = Part("socrates:no-beta", alpha=0.99, gamma=2.0)
    settings = Optimization(epochs=150, batch_size=64, halve_every=50, weight_decay=0.0)
    experiment = Experiment(
        Part("digits"), Part("mlp", width=64), ablation, 3, num_train=100, optimization=settings
    )
    assert experiment.name == "digits-mlp-socrates_no-beta-gamma2.0-seed3-5d8ad52b"


@pytest.mark.parametrize("value", ["a/b", "../up", "c:\\d", 'x*?"<>|\n'])
def test_no_option_makes_a_nested_or_forbidden_directory(value):
    name = Experiment(PARTS[0], PARTS[1], Part("mine:method", path=value)).name
    assert not set(name) & set('/\\:*?"<>|\n')
    assert (
        name
        != Experiment(
            PARTS[0], PARTS[1], Part("mine:method", path=value.replace("/", "_") + " ")
        ).name
    )


def test_long_names_still_fit_a_file_system():
    name = Experiment(Part("folder:" + "ä" * 300), PARTS[1], PARTS[2]).name
    assert len(name.encode()) < 240
    assert "-seed1-" in name


def spellings(make, own):
    """Some of a factory's options: missing, at their default, or another value; numbers as int or
    float."""
    usual = options_of(make, own)
    names = [
        name
        for name, value in usual.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    number = st.sampled_from([0, 0.0, 1, 1.0, 2, 2.0, 0.5, 16, 16.0])
    given_default = st.fixed_dictionaries(
        {}, optional={name: st.just(value) for name, value in usual.items()}
    )
    given_number = st.fixed_dictionaries({}, optional=dict.fromkeys(names, number))
    return st.builds(lambda one, other: {**one, **other}, given_default, given_number)


@st.composite
def experiments(draw):
    method = draw(st.sampled_from(sorted(METHODS)))
    return Experiment(
        Part(
            "digits",
            **draw(
                st.fixed_dictionaries(
                    {}, optional={"augment": st.booleans(), "image_size": st.none()}
                )
            ),
        ),
        Part("mlp", **draw(spellings(MODELS["mlp"], ("num_outputs", "image_shape")))),
        Part(method, **draw(spellings(METHODS[method], ("task",)))),
        optimization=Optimization(
            epochs=draw(st.sampled_from([1, 2])), learning_rate=draw(st.sampled_from([1, 1.0]))
        ),
    )


@given(experiments(), experiments())
def test_equal_experiments_have_equal_names_and_the_other_way_round(one, other):
    first, second = resolve(one), resolve(other)
    assert resolve(first) == first
    assert first.name == one.name
    assert (first == second) == (first.name == second.name)
    again = Experiment.from_json(json.loads(json.dumps(first.to_json())))
    assert (again, again.name) == (first, first.name)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_default_may_be_missing_or_given(method):
    usual = Experiment(Part("digits"), Part("mlp"), Part(method))
    options = dict(resolve(usual).method.options)
    assert set(options) == set(options_of(METHODS[method], ("task",)))
    spelt = [
        Part(method, **options),
        Part(method, **{name: _other_type(value) for name, value in options.items()}),
    ]
    for part in spelt:
        given_all = Experiment(
            Part("digits", augment=True, image_size=None), Part("mlp", width=128.0, depth=2), part
        )
        assert resolve(given_all) == resolve(usual)
        assert given_all.name == usual.name == resolve(usual).name
        assert json.dumps(resolve(given_all).to_json()) == json.dumps(resolve(usual).to_json())
    first, value = next(iter(options.items()), (None, None))
    if isinstance(value, float):
        assert (
            resolve(replace(usual, method=Part(method, **{first: value + 0.25}))).name != usual.name
        )


def _other_type(value):
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return (
        float(value)
        if isinstance(value, int)
        else (int(value) if value.is_integer() else np.float64(value))
    )


def test_what_a_default_depends_on_is_filled_in():
    half = Experiment(
        Part("digits"), Part("mlp"), Part("ccl_sc"), optimization=Optimization(epochs=9)
    )
    assert dict(resolve(half).method.options)["start_epoch"] == 4
    assert half.changed("method") == {}
    pretrained = Experiment(Part("cifar100"), Part("vit_transfer"), Part("ce"))
    assert dict(resolve(pretrained).dataset.options)["image_size"] == 224
    assert (
        dict(resolve(replace(pretrained, dataset=Part("food101"))).dataset.options)["image_size"]
        is None
    )
    assert (
        dict(resolve(replace(pretrained, dataset=Part("cifar100", image_size=32))).dataset.options)[
            "image_size"
        ]
        == 32
    )
    own = replace(pretrained, dataset=Part("folder:mine"))
    assert dict(resolve(own).dataset.options)["image_size"] == 224


def test_what_is_not_known_stays_as_it_is(tmp_path, monkeypatch):
    odd = Experiment(Part("digits"), Part("nothing", a=1.0), Part("no_module:thing", b=1))
    assert (resolve(odd).model, resolve(odd).method) == (odd.model, odd.method)
    assert resolve(odd).name == odd.name
    (tmp_path / "spy_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    foreign = Experiment(Part("digits"), Part("mlp"), Part("spy_module:thing", b=1))
    # reading a run imports nothing
    assert resolve(foreign, trust_code=False).method == foreign.method


def test_reading_a_run_imports_no_code(tmp_path, monkeypatch):
    (tmp_path / "spy_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    plain = resolve(Experiment(*PARTS)).to_json() | {
        "method": {"name": "spy_module:thing", "options": {}}
    }
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "experiment.json").write_text(json.dumps(signed("spy", plain)))
    assert Run(tmp_path / "run").experiment.method == Part("spy_module:thing")


@pytest.mark.parametrize(
    ("dataset", "model"),
    [("cifar10", "vgg16"), ("svhn", "vgg16"), ("cifar100", "vit_transfer")],
)
def test_ccl_sc_has_half_the_batch_everywhere(dataset, model):
    usual, contrastive = (usual_optimization(dataset, model, method) for method in ("ce", "ccl_sc"))
    assert (usual.batch_size, contrastive.batch_size) == (128, 64)
    assert dataclasses.replace(contrastive, batch_size=128) == usual


def test_a_later_field_of_the_optimization_is_written_only_where_it_differs():
    usual = Experiment(Part("digits"), Part("mlp"), Part("ce"))
    assert "backbone_joins" not in usual.to_json()["optimization"]
    assert Experiment.from_json(usual.to_json()) == usual
    joined = replace(usual, optimization=Optimization(backbone_joins=20))
    assert joined.to_json()["optimization"]["backbone_joins"] == 20
    assert Experiment.from_json(joined.to_json()) == joined
    assert joined.name != usual.name
