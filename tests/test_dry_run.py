"""`--dry-run`: what runs cost, by torch's counter and by a few seconds of trying;
docs/paper-scale.md is true."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import paper_scale
import pytest
from PIL import Image

from socrates.cli import dry_run
from socrates.cli.commands import COMMANDS
from socrates.cli.options import parse
from socrates.engine.studies import forecast as forecasts
from socrates.engine.studies.forecast import forecast, kept_epochs, kind_of, sizes_of, workload_of
from socrates.engine.train import load_data
from socrates.experiment import Experiment, Optimization, Part, resolve
from socrates.paper.grid import final_experiment
from socrates.paper.reproduce import plan

ROOT = Path(__file__).parents[1]
TINY = Experiment(
    Part("digits"), Part("mlp", width=8), Part("ce"), optimization=Optimization(2, 32)
)


@pytest.fixture
def run(run_on_a_line):
    """What a command says, whatever the width of the terminal."""
    return run_on_a_line


# FLOPs and disk


def test_flops_by_hand():
    # 64 pixels to 8 to 10 classes; back: weights of both layers, and the input of the second.
    work = workload_of(replace(TINY, model=Part("mlp", width=8, depth=1)))
    assert work.forward_flops == 2 * (64 * 8 + 8 * 10)
    assert work.step_flops == work.forward_flops + 2 * (64 * 8 + 2 * 8 * 10)


def test_flops_of_known_architectures():
    expected = {
        "cifar100-vgg16": 0.63e9,
        "food101-resnet34": 7.33e9,
        "cifar100-vit_transfer": 35.1e9,
    }
    for setting, forward in expected.items():
        work = workload_of(final_experiment(setting, "ce"))
        assert work.forward_flops == pytest.approx(forward, rel=0.01)
        assert work.step_flops == pytest.approx(3 * forward, rel=0.02)


def test_what_methods_ask_for_besides():
    plain = workload_of(TINY)
    assert plain.training_flops == 2 * 300 * plain.step_flops
    keys = workload_of(replace(TINY, method=Part("ccl_sc", start_epoch=1, queue_size=16)))
    assert keys.step_flops == plain.step_flops + plain.forward_flops
    assert keys.training_flops == 300 * (2 * plain.step_flops + plain.forward_flops)
    extra = keys.checkpoint_bytes - plain.checkpoint_bytes  # the encoder of keys, three times
    assert extra == 3 * 4 * plain.parameters
    meta = workload_of(replace(TINY, method=Part("mc")))
    assert meta.training_flops == 2 * 270 * (plain.step_flops + plain.forward_flops)
    assert meta.checkpoint_bytes == plain.checkpoint_bytes


def test_evaluation_and_disk_count_kept_epochs():
    often = replace(TINY, keep_every=2, optimization=Optimization(5, 32))
    assert kept_epochs(often) == 3
    work = workload_of(often)
    assert work.evaluation_flops == (5 * 300 + 3 * 1_197) * work.forward_flops
    assert work.kept_bytes() == 4 * 1_497 * (10 + 1) * 3
    assert work.kept_bytes("full") - work.kept_bytes() == 4 * work.parameters
    assert work.kept_bytes("half") - work.kept_bytes() == 2 * work.parameters
    unknown = workload_of(replace(often, method=Part("socrates")))
    assert unknown.kept_bytes() == 4 * 1_497 * (11 + 1) * 3


# Seconds


def test_a_kind_is_what_decides_the_time_of_a_step():
    base = resolve(Experiment(Part("digits"), Part("mlp"), Part("ccl_sc")))
    same = [
        replace(base, seed=2),
        replace(base, keep_every=1),
        resolve(replace(base, method=Part("ccl_sc", weight=1))),
    ]
    assert {kind_of(run) for run in same} == {kind_of(base)}
    other = [
        replace(base, optimization=replace(base.optimization, batch_size=7)),
        resolve(replace(base, method=Part("ce"))),
        replace(base, model=Part("cnn")),
        replace(base, precision="bf16-mixed"),
    ]
    assert len({kind_of(run) for run in [base, *other]}) == 5


def test_twice_the_epochs_take_about_twice_as_long():
    runs = [
        replace(TINY, optimization=Optimization(epochs, 32)) for epochs in (1_000, 2_000, 3_000)
    ]
    found = forecast(runs)
    one, two, three = (found.seconds[run] for run in runs)
    assert 0 < one < two < three
    assert three - two == pytest.approx(two - one)  # all of one kind: one measurement


@pytest.mark.thorough
def test_what_is_too_large_is_reckoned_from_another():
    large = final_experiment("cifar100-vit_transfer", "ce")
    found = forecast([TINY, large])
    assert found.seconds[large] > 3600
    assert found.seconds[TINY] < 600
    assert any(
        "cifar100 vit_transfer was not timed" in note and "digits mlp" in note
        for note in found.notes
    )
    alone = forecast([large])
    assert any("at the speed of cifar10 resnet20" in note for note in alone.notes)


def test_patience_ends_but_something_is_always_timed(monkeypatch):
    tried: list[Experiment] = []
    usual = forecasts._measured_speed
    monkeypatch.setattr(
        forecasts, "_measured_speed", lambda run, *rest: tried.append(run) or usual(run, *rest)
    )
    runs = [replace(TINY, model=Part("mlp", width=width)) for width in (8, 16, 32)]
    assert forecast(runs, patience=-1.0).seconds.keys() == set(runs)
    assert len(tried) == 1


def test_data_that_are_not_there_are_said(tmp_path):
    absent = replace(TINY, dataset=Part(f"folder:{tmp_path / 'nowhere'}"))
    found = forecast([absent, TINY])
    assert list(found.seconds) == [TINY]
    assert any("is not known" in note and "nowhere" in note for note in found.notes)


@pytest.mark.thorough
def test_a_method_that_fails_is_said(monkeypatch):
    monkeypatch.setattr(forecasts, "try_pace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # not even the model that is always there
        forecast([TINY])
    usual = forecasts._measured_speed
    monkeypatch.undo()
    monkeypatch.setattr(
        forecasts,
        "_measured_speed",
        lambda run, *rest: 1 / 0 if run == TINY else usual(run, *rest),
    )
    found = forecast([TINY])
    assert any(re.search("digits mlp ce .*ZeroDivisionError", note) for note in found.notes)


def test_trying_leaves_threads_and_randomness_alone():
    import torch

    before = torch.get_num_threads(), torch.random.get_rng_state()
    forecast([TINY])
    assert torch.get_num_threads() == before[0]
    assert torch.equal(torch.random.get_rng_state(), before[1])


# Commands


@pytest.mark.slow
def test_the_summary_has_a_line_for_each_recipe(run, tmp_path, monkeypatch):
    monkeypatch.setattr(dry_run, "forecast", partial(forecast, patience=0.1))
    code, text = run(
        "reproduce", "all", "--seeds", "1", "--dry-run", "--processes", "4", "--out", tmp_path
    )
    assert code == 0, text
    for number in [*(f"Table {n}" for n in range(1, 10)), *(f"Figure {n}" for n in range(1, 15))]:
        assert len(re.findall(rf"{number} [a-z]", text)) == 1, number
    runs = len(plan(["all"], seeds=[1]).runs)
    assert f"{runs} of {runs} runs are missing" in text
    assert re.search(
        r"(about .*|less than a minute) with 4 processes; up to \d+(\.\d)? MB on the disk", text
    )
    assert "socrates reproduce test --dry-run" in text
    assert not any(tmp_path.iterdir())


def test_one_recipe_is_told_in_detail(run, tmp_path):
    code, text = run(
        "reproduce", "beta", "--seeds", "1", "--dry-run", "--out", tmp_path, "--processes", "1"
    )
    assert code == 0, text
    assert text.count("Socrates") == 5  # a line for each beta
    assert "with 1 process;" in text


def test_a_sweep_tells_time_and_disk(run, tmp_path):
    words = ("--methods", "ce", "--seeds", "1-2", "--epochs", "1", "--out", tmp_path, "--dry-run")
    code, text = run("sweep", *words)
    assert code == 0, text
    assert "2 runs, 0 finished, 2 to train" in text
    assert "less than a minute with" in text
    code, text = run("sweep", "--datasets", f"folder:{tmp_path / 'nowhere'}", *words)
    assert code == 0, text
    assert "2 runs, 0 finished, 2 to train" in text
    assert "is not known" in text


def test_a_sweep_over_images_of_one_s_own(run, tmp_path):
    images = np.random.default_rng(1).integers(256, size=(60, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", x_train=images, y_train=np.arange(60) % 3)
    dataset = f"npz:{tmp_path / 'own.npz'}"
    words = (
        "--models",
        "cnn",
        "--methods",
        "ce",
        "--seeds",
        "1",
        "--epochs",
        "1",
        "--out",
        tmp_path / "runs",
    )
    code, text = run("sweep", "--datasets", dataset, *words, "--dry-run")
    assert code == 0, text
    assert "less than a minute with" in text
    assert "is not known" not in text


@pytest.mark.parametrize("kind", ["npz", "folder"])
def test_a_recipe_on_images_of_one_s_own(run, tmp_path, kind):
    images = np.random.default_rng(1).integers(256, size=(120, 8, 8), dtype=np.uint8)
    if kind == "npz":
        np.savez(tmp_path / "own", x_train=images, y_train=np.arange(120) % 3)
    for place, image in enumerate(images if kind == "folder" else []):
        (tmp_path / "own" / "abc"[place % 3]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "own" / "abc"[place % 3] / f"{place}.png")
    dataset = f"{kind}:{tmp_path / ('own.npz' if kind == 'npz' else 'own')}"
    code, text = run(
        "reproduce",
        "beta",
        "--dataset",
        dataset,
        "--seeds",
        "1",
        "--dry-run",
        "--out",
        tmp_path / "runs",
    )
    assert code == 0, text
    assert "Laptop scale: 87 training images of" in text  # all there are, once others are held out
    assert f"5 of 5 runs are missing: {5 * 24 * 87:,} samples seen" in text
    made = plan(["beta"], dataset=dataset, seeds=[1], out=tmp_path)
    assert made.folder.parent == tmp_path / "laptop"  # whatever the path, one folder
    assert ":" not in made.folder.name
    assert sizes_of(made.runs[0]).train == 87
    load_data(made.runs[0], None)


def test_a_recipe_on_images_that_are_not_there(run, tmp_path):
    words = (
        "--dataset",
        f"npz:{tmp_path / 'nowhere'}",
        "--seeds",
        "1",
        "--dry-run",
        "--out",
        tmp_path / "runs",
    )
    code, text = run("reproduce", "beta", *words)
    assert code == 0, text
    assert "5 of 5 runs are missing note: how long runs on" in text
    assert "nowhere" in text


def test_tune_tells_candidates(run, tmp_path):
    words = (
        "tune",
        "digits",
        "mlp",
        "focal",
        "--grid",
        "gamma=1,2",
        "--seeds",
        "1-3",
        "--epochs",
        "1",
    )
    code, text = run(*words, "--out", tmp_path, "--dry-run")
    assert code == 0, text
    assert "gamma=1 gamma=2 6 runs, 0 finished, 6 to train less than a minute with" in text
    code, text = run(*words, "--trials", "5", "--out", tmp_path, "--dry-run")
    assert code == 0, text
    assert "5 candidates that optuna chooses, 15 runs" in text
    assert not any(tmp_path.iterdir())


def test_a_device_that_is_not_there_is_refused(run, tmp_path):
    code, text = run("reproduce", "beta", "--device", "tpux", "--dry-run", "--out", tmp_path)
    assert code == 1
    assert "tpux" in text


# The page


@pytest.mark.slow
def test_the_tables_of_the_page_are_what_the_script_prints():
    page = (ROOT / "docs" / "paper-scale.md").read_text()
    tables = page.partition(paper_scale.BEGIN)[2].partition(paper_scale.END)[0]
    assert tables == paper_scale.written(), "run python scripts/paper_scale.py --write"


def test_hours_follow_from_the_speed(capsys):
    script = paper_scale
    run = final_experiment("cifar100-vgg16", "socrates")
    assert script.gpu_hours([run], 5.85e12) == pytest.approx(2 * script.gpu_hours([run], 11.7e12))
    assert [script.hours(value) for value in (1.26, 9.96, 1_234)] == ["1.3", "10", "1,200"]
    with pytest.raises(SystemExit):
        script.main(["--share", "30"])
    assert "--share in (0, 1]" in capsys.readouterr().err


def test_the_commands_of_the_page_can_be_typed():
    text = (ROOT / "docs" / "paper-scale.md").read_text().replace("\\\n", " ")
    commands = re.findall(r"socrates (?:reproduce|train) [^`\n]*", text)
    assert len(commands) > 6
    for command in commands:
        _, name, *words = shlex.split(command.replace("NAME", "test"))
        if words[0].startswith("--"):
            words = ["test", *words]  # xargs puts the name behind
        parse(COMMANDS[name][0], words, "socrates")
