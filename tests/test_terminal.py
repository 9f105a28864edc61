"""What commands print: whole words and paths at any width, any encoding, one line per warning."""

from __future__ import annotations

import io
import sys
import warnings

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from socrates import cli, quickstart
from socrates.cli.characters import spelled
from socrates.engine.display import StudyDisplay
from socrates.engine.events import Closed, Planned, Warned, to_nobody
from socrates.engine.studies.runs import run_all
from socrates.experiment import Experiment, Optimization, Part
from socrates.prose import print_prose, whole

TINY = {"epochs": 1, "batch_size": 64}
PROSE = "accuracy 91.65%, ECE 5.36% (a perfectly calibrated model would measure 2.17%)"


def experiment(seed: int = 1, dataset: str = "digits") -> Experiment:
    return Experiment(
        Part(dataset), Part("mlp", width=8), Part("ce"), seed, optimization=Optimization(**TINY)
    )


# Width


@pytest.mark.parametrize("width", [40, 53, 60, 80, 200])
def test_prose_is_wrapped_between_words_and_paths_stay_whole(width):
    path = "/data/my photographs of 2026/runs/digits-mlp-socrates-gamma1.0-seed1-b5645de9"
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    print_prose(console, f"{PROSE}: {whole(path)} and more", "test set, as trained: ")
    lines = console.file.getvalue().splitlines()
    assert " ".join(lines) == f"test set, as trained: {PROSE}: {path} and more"
    assert sum(path in line for line in lines) == 1
    assert all(len(line) <= width or line == path for line in lines)


def test_what_goes_to_a_pipe_is_one_line(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    console = Console(file=io.StringIO(), width=40)
    print_prose(console, PROSE)
    assert console.file.getvalue() == PROSE + "\n"


# Encodings


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with its model, some images and a file of predictions, all with foreign names."""
    folder = tmp_path_factory.mktemp("größe-λ")
    words = ["train", "digits", "mlp", "socrates", "--epochs", "1", "--device", "cpu"]
    assert cli.main([*words, "--out", str(folder / "runs")]) == 0
    (run,) = (folder / "runs").iterdir()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(folder / "bär.png")
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 300)
    np.savez(folder / "modèle.npz", probs=probs, labels=rng.integers(0, 3, 300))
    return folder, run


COMMANDS = {
    "overview": "--help",
    "help": "train --help",
    "list": "list",
    "show": "show {run}",
    "evaluate": "evaluate {run}",
    "predict": "predict {run} {folder}/bär.png",
    "predict to a file": "predict {run} {folder}/bär.png --out {folder}/ü.csv",
    "audit": "audit {folder}/modèle.npz --out {folder}/prüfung",
    "sweep": "sweep --methods ce --epochs 1 --dry-run --out {folder}/runs",
    "finished": "train digits mlp socrates --epochs 1 --device cpu --out {folder}/runs",
    "report": "report {folder}/runs --out {folder}/bericht",
    "reproduce": "reproduce test --scale laptop --dry-run --out {folder}/paper",
    "tune": "tune digits mlp focal --grid gamma=1,2 --epochs 1 --dry-run --out {folder}/runs",
}
LONG = {
    "export": "export {run} --out {folder}/größe",
    "tune": "tune digits mlp focal --grid gamma=1,2 --seeds 1 --epochs 1 --out {folder}/tüne",
    "quickstart": "quickstart --out {folder}/schnell",
}


@pytest.mark.usefixtures("no_figures", "hastened")
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_succeeds_in_any_encoding(monkeypatch, trained, command, encoding):
    assert_succeeds(monkeypatch, trained, command, encoding)


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("command", LONG.values(), ids=LONG)
def test_long_commands_succeed_in_ascii(monkeypatch, trained, command):
    monkeypatch.setattr(quickstart, "METHODS", quickstart.METHODS[:1])
    monkeypatch.setattr(quickstart, "SEEDS", range(1, 2))
    monkeypatch.setattr(quickstart, "usual_optimization", lambda *_: Optimization(**TINY))
    assert_succeeds(monkeypatch, trained, command, "ascii")


def assert_succeeds(monkeypatch, trained, command, encoding):
    """Run a command whose output has this encoding: it succeeds and says something."""
    folder, run = trained
    out = io.BytesIO()
    errors = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding, write_through=True))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(errors, encoding, write_through=True))
    words = [word.format(folder=folder, run=run) for word in command.split()]
    assert cli.main(words) == 0, errors.getvalue()
    assert out.getvalue().decode(encoding)


def test_what_an_encoding_lacks_is_spelled():
    assert spelled("α=0.9 ± 2 → 3 … Müller ▸ ─│") == "alpha=0.9 +- 2 -> 3 ... Muller > -|"
    assert spelled("\udcff漢") == "??"  # a byte of a name that is not UTF-8


# The row in use


def test_show_marks_the_row_that_the_kept_model_uses(trained, run):
    code, text = run("show", trained[1])
    assert code == 0
    marked = [line.split()[:2] for line in text.splitlines() if line.startswith("▸ ")]
    assert marked == [["▸", "RS"]]


# Warnings


def test_a_warning_of_many_runs_is_one_line():
    console = Console(file=io.StringIO(), width=200)
    display = StudyDisplay(console)
    display(Planned(3, 0))
    for seed in (1, 2, 3):
        display(Warned(experiment(seed), "photos: 3 of 60 images are not 32x32"))
        display(Warned(experiment(seed), f"runs/ce-seed{seed}/val-0025.npz is lost"))
    display(Warned(experiment(2), "the class a has a single image"))
    display(Closed())
    lines = [line for line in console.file.getvalue().splitlines() if "warning" in line]
    assert len(lines) == 3
    assert "3 of 3 runs" in lines[0]
    assert "3 of 3 runs" in lines[1]
    assert experiment(2).name in lines[2]


@pytest.mark.slow
@pytest.mark.usefixtures("few_scalers")
def test_warnings_of_worker_processes_are_events(tmp_path, capfd):
    rng = np.random.default_rng(0)
    for name in "ab":
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(8):
            size = (8, 8, 3) if number else (9, 8, 3)
            image = Image.fromarray(rng.integers(0, 255, size, dtype=np.uint8))
            image.save(tmp_path / "photos" / name / f"{number}.png")
    runs = [experiment(seed, f"folder:{tmp_path / 'photos'}") for seed in (1, 2)]
    heard: list[Warned] = []
    run_all(
        runs,
        tmp_path / "runs",
        processes=2,
        tell=lambda event: heard.append(event) if isinstance(event, Warned) else None,
    )
    assert {event.experiment.seed for event in heard} == {1, 2}
    assert all("2 of 16 images" in event.message for event in heard)
    assert "UserWarning" not in capfd.readouterr().err


def test_a_warning_that_nobody_listens_to_is_python_s():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        to_nobody(Warned(experiment(), "odd images"))
    assert [str(warning.message) for warning in caught] == ["odd images"]
