"""Files that belong together: one of another run or epoch, or edited by hand, never gives other
numbers without a word."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from signing import resign, resign_epochs, resign_model
from socrates.engine import evaluate, train
from socrates.engine.studies.choice import score_of
from socrates.experiment import Experiment, Optimization, Part
from socrates.predictor import load, weights_hash
from socrates.records import Run
from socrates.report.aggregate import find_runs, read_runs
from socrates.scaling import SCALERS

IMAGES = torch.arange(3 * 64).reshape(3, 1, 8, 8).to(torch.uint8)


def digits(method: str, seed: int) -> Experiment:
    settings = Optimization(epochs=4, batch_size=64, learning_rate=0.05, halve_every=2)
    made = Experiment(Part("digits"), Part("mlp", width=8), Part(method), seed)
    return dataclasses.replace(made, num_train=100, keep_every=2, optimization=settings)


OURS, SEED, METHOD = (
    digits("socrates", 1).name,
    digits("socrates", 2).name,
    digits("ce", 1).name,
)


@pytest.fixture(scope="module", autouse=True)
def two_scalers():
    """Most of the time of a small run is spent on scalers."""
    every = dict(SCALERS)
    for name in every.keys() - {"temperature", "readout"}:
        del SCALERS[name]
    yield
    SCALERS.clear()
    SCALERS.update(every)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two seeds and two methods, each with an evaluation of an epoch that is not chosen."""
    root = tmp_path_factory.mktemp("runs")
    for method, seed in (("socrates", 1), ("socrates", 2), ("ce", 1)):
        made = train(digits(method, seed), root, accelerator="cpu")
        made.save_evaluation(evaluate(made, 2))
    return root


@pytest.fixture
def root(trained, tmp_path):
    return Path(shutil.copytree(trained, tmp_path / "runs"))


def of(other: str, name: str, to: str | None = None) -> Callable[[Path], Any]:
    """Copy a file of another run over ours."""
    return lambda root: shutil.copy(root / other / name, root / OURS / (to or name))


def edit(name: str, change: Callable[[Any], object], checksum: str) -> Callable[[Path], Any]:
    """Change the content of a file, and leave, take out or mend its checksum."""

    def do(root: Path) -> None:
        path = root / OURS / name
        if checksum == "mended":
            return resign(path, change)
        plain = json.loads(path.read_text())
        change(plain)
        if checksum == "taken out":
            del plain["checksum"]
        path.write_text(json.dumps(plain))

    return do


def accurate(value: float) -> Callable[[Any], object]:
    """Set the accuracy of an evaluation."""
    return lambda plain: plain["results"]["none"]["test"]["answer"].update(accuracy=value)


def edit_line(root: Path) -> None:
    path = root / OURS / "epochs.jsonl"
    *before, last = path.read_text().splitlines()
    plain = json.loads(last) | {"val_accuracy": 0.99}
    del plain["checksum"]
    path.write_text("\n".join([*before, json.dumps(plain)]) + "\n")


def edit_share(root: Path) -> None:
    run = Run(root / OURS)
    resign_epochs(run.directory, [{**one.to_json(), "val_accuracy": 9.0} for one in run.epochs()])


def lose_line(root: Path) -> None:
    path = root / OURS / "epochs.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def older_model(root: Path) -> None:
    resign_model(root / OURS / "model.safetensors", lambda about, _: about.update(epoch=2))


def other_classes(root: Path) -> None:
    """Rename a class, and take the checksum out."""
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    path = root / OURS / "model.safetensors"
    with safe_open(path, "pt") as content:
        about = json.loads(content.metadata()["socrates"])
    del about["checksum"]
    about["classes"].reverse()
    save_file(load_file(path), path, {"socrates": json.dumps(about)})


class Case(NamedTuple):
    """What is done, the file that must be named, and who must at least notice it."""

    do: Callable[[Path], Any]
    named: str
    by: str


TEST, VAL = "predictions/test-0004.npz", "predictions/val-0004.npz"
MODEL = "model.safetensors"
CASES = {
    "test logits of another seed": Case(of(SEED, TEST), "test-0004.npz", "evaluate report"),
    "val logits of another seed": Case(of(SEED, VAL), "val-0004.npz", "evaluate"),
    "test logits of another method": Case(of(METHOD, TEST), "test-0004.npz", "evaluate report"),
    "test logits of another epoch": Case(
        of(OURS, "predictions/test-0002.npz", TEST), "test-0004.npz", "evaluate report"
    ),
    "val logits as test logits": Case(of(OURS, VAL, TEST), "test-0004.npz", "evaluate report"),
    "evaluation of another seed": Case(
        of(SEED, "evaluation.json"), "evaluation.json", "show report train"
    ),
    "evaluation of another method": Case(
        of(METHOD, "evaluation.json"), "evaluation.json", "show report train"
    ),
    "evaluation of another epoch": Case(
        of(OURS, "evaluation-0002.json", "evaluation.json"), "evaluation.json", "show report train"
    ),
    "model of another seed": Case(of(SEED, MODEL), MODEL, "load show train"),
    "model of another method": Case(of(METHOD, MODEL), MODEL, "load show train"),
    "model of another epoch": Case(older_model, MODEL, "load show train"),
    "epochs of another seed": Case(of(SEED, "epochs.jsonl"), "epochs.jsonl", "show report tune"),
    "epochs of another method": Case(
        of(METHOD, "epochs.jsonl"), "epochs.jsonl", "show report tune"
    ),
    "experiment of another seed": Case(
        of(SEED, "experiment.json"), "experiment.json", "show evaluate report load train tune"
    ),
    "mark of another seed": Case(
        of(SEED, "finished.json"), "finished.json", "show evaluate report load train"
    ),
    "data of another method": Case(of(METHOD, "data.json"), "data.json", "train"),
    "accuracy, checksum taken out": Case(
        edit("evaluation.json", accurate(0.99), "taken out"), "evaluation.json", "show report"
    ),
    "accuracy, checksum left": Case(
        edit("evaluation.json", accurate(0.99), "left"), "evaluation.json", "show report"
    ),
    "accuracy of 9,900 %": Case(
        edit("evaluation.json", accurate(99.0), "mended"), "evaluation.json", "show report"
    ),
    "seed, checksum taken out": Case(
        edit("experiment.json", lambda plain: plain.update(seed=77), "taken out"),
        "experiment.json",
        "show evaluate report train",
    ),
    "chosen epoch, checksum taken out": Case(
        edit("finished.json", lambda plain: plain.update(epoch=2), "taken out"),
        "finished.json",
        "show evaluate report train",
    ),
    "accuracy of an epoch, checksum taken out": Case(edit_line, "epochs.jsonl", "show report tune"),
    "accuracy of epochs of 900 %": Case(edit_share, "epochs.jsonl", "show report tune"),
    "classes of the model, checksum taken out": Case(other_classes, MODEL, "load show train"),
    "no epochs": Case(
        lambda root: (root / OURS / "epochs.jsonl").unlink(), "epochs.jsonl", "show report tune"
    ),
    "the last epoch lost": Case(lose_line, "epochs.jsonl", "show report tune"),
    "no evaluation": Case(
        lambda root: (root / OURS / "evaluation.json").unlink(), "evaluation.json", "show report"
    ),
}


class Told(Exception):
    """What a command said instead of numbers."""


def answers(run_command: Any, root: Path) -> dict[str, Any]:
    """Return what each command gives, or its refusal."""
    directory = root / OURS

    def shell(*words: object) -> str:
        code, text = run_command(*words)
        if code:
            raise Told(text)
        return text.replace(str(root), "")

    def report() -> Any:
        runs, skipped = read_runs(find_runs(root), logits=True)
        for directory, reason in skipped:
            raise Told(f"{directory}: {reason}")
        return [run.evaluation.value("none", "test", "answer", "accuracy") for run in runs]

    def loaded() -> Any:
        predictor = load(directory)
        weights = {f"model.{key}": value for key, value in predictor.model.state_dict().items()}
        return weights_hash(weights), predictor.classes, predictor(IMAGES).tolist()

    def evaluated() -> Any:
        shell("evaluate", directory)
        return Run(directory).evaluation().results

    command = "train digits mlp socrates --width 8 --seed 1 --num-train 100 --keep-every 2"
    settings = "--epochs 4 --batch-size 64 --learning-rate 0.05 --device cpu"
    commands: dict[str, Callable[[], Any]] = {
        "show": lambda: shell("show", directory),
        "load": loaded,
        "report": report,
        "tune": lambda: score_of(Run(directory)),
        "train": lambda: shell(*command.split(), *settings.split(), "--out", root, *RECIPE),
        "evaluate": evaluated,  # the last: it writes evaluation.json
    }
    found: dict[str, Any] = {}
    for name, do in commands.items():
        try:
            found[name] = do()
        except (Told, ValueError, OSError) as error:
            found[name] = Told(str(error))
    return found


RECIPE = ("--recipe", "paper", "--halve-every", "2")


@pytest.fixture(scope="module")
def expected(trained):
    return {}


@pytest.mark.parametrize("name", CASES)
def test_no_other_numbers_without_a_word(name, root, trained, run, expected):
    if not expected:
        place = root.parent / "untouched"
        expected |= answers(run, Path(shutil.copytree(trained, place)))
        assert not [told for told in expected.values() if isinstance(told, Told)], expected
        assert "already finished" in expected["train"]
    case = CASES[name]
    case.do(root)
    noticed = set()
    for command, answer in answers(run, root).items():
        if isinstance(answer, Told):
            assert case.named in str(answer).replace("\n", ""), (command, answer)
            noticed.add(command)
        else:
            assert same(answer, expected[command]), command
    assert noticed >= set(case.by.split())


def same(one: Any, other: Any) -> bool:
    return json.dumps(one) == json.dumps(other)


def test_every_case_of_the_table_is_there():
    assert len(CASES) == 27


def test_a_run_that_was_copied_counts_once(root):
    shutil.copytree(root / OURS, root / f"{OURS} copy")
    runs, skipped = read_runs(find_runs(root), logits=True)
    assert (len(runs), len(skipped)) == (3, 1)
    assert np.isin([OURS, f"{OURS} copy"], [one.directory.name for one in runs]).sum() == 1


def test_a_run_in_a_renamed_folder_is_read(root):
    (root / OURS).rename(root / "mine")
    run = Run(root / "mine")
    assert run.evaluation().epoch == 4
    assert len(run.predictions("val", 4).labels) == len(run.predictions("val", 2).labels)
    assert load(root / "mine").about.run == OURS
