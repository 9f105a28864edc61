"""`reproduce --as-released`: each departure of the released code, alone and together, and said on
every output."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from report_runs import make_run

from socrates import methods
from socrates.contracts import Task
from socrates.experiment import Part, resolve
from socrates.losses import flsd_loss
from socrates.paper.compare import paper_setting
from socrates.paper.grid import final_experiment
from socrates.paper.recipes import RECIPES, write_recipes
from socrates.paper.released import AS_RELEASED_NOTE, as_released
from socrates.paper.reproduce import plan
from socrates.paper.scales import LaptopScale, PaperScale
from socrates.paper.settings import SETTINGS

DEPARTURES = {  # of the options that the paper's text asks for, in CIFAR-100 with VGG-16
    "socrates": {"target_over": "known"},
    "socrates:no-focal": {"target_over": "known"},
    "socrates:beta-known": {"target_over": "known", "clamp": False},
    "socrates:beta-fixed": {"target_over": "known", "when": "unknown"},
    "flsd": {"times_gamma": True},
    "ccl_sc": {"temperature": 1.0, "weight": 1.0},
    "sat": {},
    "focal": {},
    "ce": {},
}


@pytest.mark.parametrize("name", DEPARTURES)
def test_only_the_departures_change(name):
    ours = final_experiment("cifar100-vgg16", name)
    released = as_released(ours)
    options = dict(ours.method.options)
    assert dict(released.method.options) == options | DEPARTURES[name]
    assert dataclasses.replace(released, method=ours.method) == ours
    assert (resolve(released).name == ours.name) == (not DEPARTURES[name])
    if name != "ccl_sc":
        methods.build(name, Task(9, 2, 300), **dict(released.method.options))


def test_cifar10_is_not_augmented_and_other_data_are():
    for setting in SETTINGS:
        ours = final_experiment(setting, "ce")
        released = as_released(ours)
        expected = dict(ours.dataset.options) | (
            {"augment": False} if setting == "cifar10-vgg16" else {}
        )
        assert released.dataset == Part(ours.dataset.name, **expected)


def test_flsd_times_gamma():
    logits, labels = (
        torch.randn(5, 4, generator=torch.Generator().manual_seed(1)),
        torch.tensor([0, 1, 2, 3, 0]),
    )
    method = methods.build("flsd", Task(5, 4), gamma=2.0, times_gamma=True)
    torch.testing.assert_close(
        method.validation_loss(logits, labels), 2 * flsd_loss(logits, labels, 2.0).mean()
    )
    plain = methods.build("flsd", Task(5, 4), gamma=2.0)
    torch.testing.assert_close(
        plain.validation_loss(logits, labels), flsd_loss(logits, labels, 2.0).mean()
    )


@pytest.mark.parametrize("scale", ["paper", "laptop"])
def test_a_plan_as_released_has_its_own_folder_and_runs(tmp_path, scale):
    usual = plan(["test", "beta"], scale=scale, settings=["cifar100-vgg16"], out=tmp_path)
    released = plan(
        ["test", "beta"], scale=scale, settings=["cifar100-vgg16"], as_released=True, out=tmp_path
    )
    assert released.folder == tmp_path / f"{scale}-as-released"
    assert AS_RELEASED_NOTE in released.scale.note
    assert AS_RELEASED_NOTE not in usual.scale.note
    changed = {run.method.name for run in released.runs} - {
        run.method.name for run in usual.runs if run in released.runs
    }
    assert changed == {
        "socrates",
        "socrates:beta-known",
        "socrates:beta-fixed",
        "socrates:no-beta",
        "flsd",
        "ccl_sc",
    }
    # the second penalty is unclamped in both of its columns
    assert len(released.runs) == len(usual.runs) - 5


def test_every_table_as_released_says_so(tmp_path):
    scale, recipe = LaptopScale(released=True), RECIPES["beta"]
    wanted = {"beta": recipe.wanted([], scale, (1,))}
    for runs in wanted["beta"]["cifar100-vgg16"].values():
        make_run(tmp_path / "runs", runs[0], num_test=40)
    written, missing = write_recipes({"beta": recipe}, wanted, scale, tmp_path / "runs", tmp_path)
    assert not missing
    for path in written["beta"]:
        assert "As released" in path.read_text(), path
        assert "Laptop scale" in path.read_text(), path


@pytest.mark.thorough
def test_the_command_says_so(run, tmp_path):
    code, text = run(
        "reproduce", "beta", "--as-released", "--dry-run", "--scale", "paper", "--out", tmp_path
    )
    assert code == 0, text
    assert "As released" in text


def test_printed_numbers_stand_beside_runs_as_released():
    assert PaperScale(released=True).compares
    for setting in SETTINGS:
        for name in ("socrates", "ccl_sc", "flsd"):
            ours = final_experiment(setting, name)
            assert paper_setting(ours) == paper_setting(as_released(ours)) == SETTINGS[setting]
    mixed = final_experiment("cifar10-vgg16", "socrates")
    mixed = dataclasses.replace(mixed, dataset=Part("cifar10", augment=False))
    assert paper_setting(mixed) is None  # neither the text nor the release
