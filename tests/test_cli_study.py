"""`socrates tune` and `socrates sweep`: the words they take, and a real study, stopped and
continued."""

from __future__ import annotations

import json
import re
import sys
from typing import get_args, get_type_hints

import pytest
from PIL import Image

from socrates.cli.commands import Reproduce, Sweep, Tune
from socrates.cli.options import parse, parse_seeds
from socrates.cli.studies import (
    grid_of,
    parse_grid,
    part_of,
    read_file,
    split_options,
    sweep_experiments,
)
from socrates.engine.studies.local import LocalEngine
from socrates.experiment import Experiment, Part, usual_optimization
from socrates.pareto import RULES
from socrates.report.vocabulary import METRICS, compared_metrics

BASE = Experiment(
    Part("digits"),
    Part("mlp"),
    Part("socrates"),
    optimization=usual_optimization("digits", "mlp", "ce"),
)


@pytest.fixture
def no_process(monkeypatch):
    monkeypatch.setattr(LocalEngine, "_start", lambda *_: pytest.fail("a process was started"))


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("1-5", (1, 2, 3, 4, 5)), ("1,3,7", (1, 3, 7)), ("4", (4,)), ("1-3, 2,9", (1, 2, 3, 9))],
)
def test_seeds(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "5-1", "a", "1-", "-3", "1;2", "1,,2"])
def test_what_are_no_seeds(text):
    with pytest.raises(ValueError, match="--seeds takes 1-5"):
        parse_seeds(text)


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("ce", "ce", {}),
        ("focal:gamma=2", "focal", {"gamma": "2"}),
        ("socrates:gamma=1,alpha=0.99", "socrates", {"gamma": "1", "alpha": "0.99"}),
        ("socrates:no-beta", "socrates:no-beta", {}),
        ("socrates:no-beta:gamma=2", "socrates:no-beta", {"gamma": "2"}),
        ("my_methods:Mine:start-epoch=3", "my_methods:Mine", {"start_epoch": "3"}),
    ],
)
def test_methods_with_options(text, name, options):
    assert split_options(text) == (name, options)


@pytest.mark.parametrize("text", ["focal:gamma=", "focal:=2", ":gamma=2", "focal:gamma=2,"])
def test_what_are_no_options(text):
    with pytest.raises(ValueError, match=f"^'{text}' .*OPTION="):
        split_options(text)


def test_parts_have_the_types_of_their_options():
    assert part_of("method", "ccl_sc:queue_size=300,weight=1").options == (
        ("queue_size", 300),
        ("weight", 1.0),
    )
    with pytest.raises(ValueError, match=r"'width': .*gamma"):
        part_of("method", "focal:width=3")
    with pytest.raises(ValueError, match=r"'fokal'.*'focal'"):
        part_of("method", "fokal:gamma=3")


def test_a_grid_in_words():
    grid = parse_grid(
        ["gamma=1,2.5", "target-over=all", "batch_size=64,64", "learning_rate=1"], BASE
    )
    assert grid == {
        "gamma": (1.0, 2.5),
        "target_over": ("all",),
        "batch_size": (64,),
        "learning_rate": (1.0,),
    }
    assert isinstance(grid["batch_size"][0], int)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gamma"], "takes NAME=VALUE,VALUE"),
        (["gamma=1,"], "takes NAME=VALUE,VALUE"),
        (["gamma=1", "gamma=2"], "gamma twice"),
        (["gama=1"], "did you mean 'gamma'"),
        (["batch_size=many"], "must be a number like 128"),
    ],
)
def test_a_grid_in_wrong_words(words, message):
    with pytest.raises(ValueError, match=message):
        parse_grid(words, BASE)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("digits mlp socrates", {"gamma", "alpha", "batch_size"}),
        ("digits mlp socrates --batch-size 64 --gamma 2", {"alpha"}),
        ("digits mlp sat --batch-size 64", {"alpha", "start_epoch"}),
    ],
)
def test_the_paper_has_a_grid_and_what_is_fixed_is_not_searched(words, names):
    grid = grid_of(parse(Tune, words.split(), "socrates tune"), BASE)
    assert set(grid) == names
    assert grid.get("start_epoch", (0, 25, 50, 100)) == (0, 25, 50, 100)  # of 150 epochs


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["tune", "digits", "mlp", "gamblers"],
            "the paper has no grid for 'gamblers', only for socrates,",
        ),
        (
            ["tune", "digits", "mlp", "brier", "--batch-size", "64"],
            "nothing is left of the paper's grid",
        ),
        (
            ["tune", "digits", "mlp", "ccl_sc", "--epochs", "3"],
            "starts no second phase before epoch 3",
        ),
        (["tune", "digits", "mlp", "focal", "--grid", "gamma=1,-1"], "gamma must be at least 0"),
        (["tune", "digits", "mlp", "socrates", "--grid", "target_over=all,some"], "'known'"),
        (
            ["tune", "digits", "mlp", "focal", "--gamma", "2", "--grid", "gamma=1"],
            "by itself and in --grid",
        ),
        (["tune", "digits", "mlp", "focal", "--seeds", "x"], "--seeds takes"),
        (["tune", "digits", "mlp", "focal", "--trials", "0"], "at least 1 trial"),
        (["tune", "digits", "mlp", "fokal"], "did you mean 'focal'"),
        (["tune", "digit", "mlp", "brier", "--seeds", "1"], "did you mean 'digits'"),
        (["sweep"], "a FILE.py, or --methods"),
        (["sweep", "nothing.py"], "nothing.py is not there"),
        (["sweep", "nothing.py", "--epochs", "3"], "--epochs has no place beside it"),
        (["sweep", "--methods", "focal:gamma=x"], "must be a number like"),
        (["sweep", "--methods", "focal:gamma=-1"], "gamma must be at least 0"),
        (["sweep", "--methods", "ce", "--gamma", "3"], "Unrecognized options: --gamma"),
    ],
)
def test_mistakes_are_told_before_any_process(run, tmp_path, no_process, words, message):
    code, text = run(*words, "--out", tmp_path)
    assert code == (2 if "Unrecognized" in message else 1)
    assert message in re.sub(r"\s+", " ", text)
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("options", "words"),
    [(Tune, ["tune", "digits", "mlp", "ce"]), (Reproduce, ["reproduce", "beta"])],
)
def test_the_rules_to_choose_by_are_those_of_the_library(run, no_process, options, words):
    assert get_args(get_type_hints(options)["rule"]) == tuple(RULES)
    code, text = run(*words, "--rule", "l2")
    assert code == 2
    assert all(word in text for word in ("--rule", "l1", "scaled", "ece"))


FILE = """
from dataclasses import replace
from socrates.experiment import Experiment, Part

base = Experiment(Part("digits"), Part("mlp"), Part("ce"))

{}
"""


@pytest.mark.parametrize(
    "text",
    [
        "experiments = [replace(base, seed=seed) for seed in (1, 2)]",
        "def experiments():\n    return base, base",
    ],
)
def test_a_file_of_experiments(tmp_path, monkeypatch, text):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "mine.py").write_text(FILE.format(text))
    assert len(read_file(tmp_path / "mine.py")) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("runs = [base]", "defines no `experiments`"),
        ("experiments = []", r"at least one Experiment, got \[\]"),
        ("experiments = base", "must be a list"),
        ("experiments = [base, 'ce']", "holds str at 1: expected an Experiment"),
        ("experiments = [bse]", "NameError: name 'bse'"),
        ("def experiments():\n    return 1 / 0", "ZeroDivisionError"),
        ("experiments = [", "SyntaxError"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, monkeypatch, text, message):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "mine.py").write_text(FILE.format(text))
    with pytest.raises(ValueError, match=message) as error:
        read_file(tmp_path / "mine.py")
    assert "mine.py" in str(error.value)


def test_the_product():
    options = Sweep(
        datasets=("digits", "mnist"),
        models=("mlp", "mlp:width=8"),
        methods=("ce", "socrates:no-beta:gamma=1"),
        seeds="1-3",
        epochs=2,
    )
    experiments = sweep_experiments(options)
    assert len(set(experiments)) == 2 * 2 * 2 * 3
    assert dict(experiments[-1].method.options)["gamma"] == 1.0
    assert experiments[-1].changed("model") == {"width": 8}
    assert (
        experiments[0].optimization.batch_size
        == usual_optimization("digits", "mlp", "ce").batch_size
    )
    assert {experiment.optimization.epochs for experiment in experiments} == {2}


@pytest.mark.slow
def test_a_file_with_whole_numbers_finds_its_runs(run, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    text = """experiments = [
        replace(base, method=Part("focal", gamma=gamma), seed=seed, num_train=50, \
optimization=Optimization(1, 64, 1))
        for gamma in (1,) for seed in (1, 2)
    ]"""
    (tmp_path / "study.py").write_text(
        FILE.format(text).replace("import Experiment", "import Optimization, Experiment")
    )
    words = ("sweep", tmp_path / "study.py", "--out", tmp_path / "runs")
    assert "2 runs, 0 finished, 2 to train" in run(*words, "--dry-run")[1]
    code, text = run(*words)
    assert code == 0, text
    assert len(re.findall(r"Focal.* 2 +\d+\.\d\d ± ", text)) == 1, text
    assert "2 runs, 2 finished, 0 to train" in run(*words, "--dry-run")[1]


def finished_times(out):
    """When each file of a finished run was changed last."""
    folders = [done.parent for done in out.glob("*/finished.json")]
    return {
        path: path.stat().st_mtime_ns
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


# The first run that gets to it may train, all others wait at their first batch for as long as the
# gate is closed.
GATED = """
import time
from pathlib import Path
from socrates.methods import METHODS

class Gated(METHODS["focal"]):
    free = False

    def forward(self, *given, **named):
        try:
            self.free = self.free or not Path("first").touch(exist_ok=False)
        except FileExistsError:
            while not Path("open").exists():
                time.sleep(0.02)
        return super().forward(*given, **named)
"""


@pytest.mark.slow
def test_a_real_study_stopped_and_continued(run, start, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "gated.py").write_text(GATED)
    out = tmp_path / "runs"
    settings = ("--seeds", "1-2", "--epochs", "30", "--num-train", "100", "--out", str(out))
    words = (
        "tune",
        "digits",
        "mlp",
        "gated:Gated",
        "--width",
        "16",
        "--grid",
        "gamma=1,3",
        *settings,
    )
    process = start(*words)
    process.wait_for(lambda: list(out.glob("*/finished.json")))
    process.ctrl_c()
    assert process.ended() == 130
    # the last one may not have been heard of yet
    assert re.search(r"[01] of 4 runs finished", process.said())
    assert "the same command continues" in process.said()
    assert "Traceback" not in process.said()
    before = finished_times(out)
    assert len(list(out.glob("*/finished.json"))) == 1

    (tmp_path / "open").touch()
    code, text = run(*words, "--processes", "1")
    assert code == 0, text
    assert len(list(out.glob("*/finished.json"))) == 4
    assert before.items() <= finished_times(out).items()
    study = json.loads(next(out.glob("study-*/study.json")).read_text())
    assert len(study["results"]) == 2
    gamma = study["choice"]["options"]["gamma"]
    assert f"choice: gamma={gamma:g}" in text
    assert "front, chosen" in text
    assert all(METRICS[name].head in text for name in compared_metrics())
    assert re.search("1 other candidate is .*2 seeds", " ".join(text.split()))
    assert "study.json" in text
    assert (
        f"socrates train digits mlp gated:Gated --gamma {gamma:g} --width 16 --seed 1 --epochs 30"
        in text
    )

    monkeypatch.setattr(LocalEngine, "_start", lambda *_: pytest.fail("a process was started"))
    after = finished_times(out)
    assert run(*words)[0] == 0
    same = (
        "sweep",
        "--models",
        "mlp:width=16",
        "--methods",
        "gated:Gated:gamma=1",
        "gated:Gated:gamma=3",
        *settings,
    )
    code, text = run(*same, "--keep-every", "30", "--dry-run")
    assert code == 0, text
    assert "4 runs, 4 finished, 0 to train" in text
    code, text = run(*same, "--keep-every", "30")
    assert code == 0, text
    assert len(re.findall(r"γ=\d +2 +\d+\.\d\d ± ", text)) == 2
    assert f"next: socrates report {out}" in text
    assert finished_times(out) == after
    code, text = run(*same, "--dry-run")
    assert "4 runs, 0 finished, 4 to train" in text
    assert ": 0 of 30 epochs" in text


def test_a_sweep_takes_options_of_data_sets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert part_of("dataset", "folder:photos:image_size=32,augment=false") == Part(
        "folder:photos", image_size=32, augment=False
    )
    assert part_of("dataset", "digits:label_noise=0.3") == Part("digits", label_noise=0.3)
    (tmp_path / "of:size=3").mkdir()
    assert part_of("dataset", "folder:of:size=3") == Part("folder:of:size=3")
    with pytest.raises(ValueError, match=r"'size'.*image_size"):
        part_of("dataset", "folder:photos:size=32")


def test_tune_lists_a_folder_once(run, tmp_path, monkeypatch):
    from socrates.data import folder as module

    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(10):
            Image.new("L", (8, 8), number).save(tmp_path / "photos" / name / f"{number}.png")
    listed = []
    once = module._list_folder
    monkeypatch.setattr(module, "_list_folder", lambda path: listed.append(path) or once(path))
    words = ["tune", f"folder:{tmp_path / 'photos'}", "mlp", "socrates", "--grid", "gamma=1,2,3"]
    code, *_ = run(*words, "--dry-run", "--out", str(tmp_path / "runs"))
    assert code == 0
    assert len(listed) == 1
