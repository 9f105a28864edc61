"""A third of the strangers trains the unknown column: `--unknown-trains`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from socrates import data, methods
from socrates.cli import main
from socrates.cli.repeat import command_of
from socrates.contracts import Task
from socrates.data.unknown import of_training, shares_by_hash, with_training_strangers
from socrates.engine.divide import divided
from socrates.engine.open_world import compare_training
from socrates.engine.train import train
from socrates.experiment import Experiment, Optimization, Part, resolve
from socrates.methods.ablations import ABLATIONS
from socrates.records import Run


def write_digits(folder: Path, digits: Any, count: int) -> None:
    images, labels = load_digits(return_X_y=True)
    for digit in digits:
        place = folder / str(digit)
        place.mkdir(parents=True)
        for number, pixels in enumerate(images[labels == digit][:count]):
            gray = (pixels.reshape(8, 8) * 15.9).astype(np.uint8)
            Image.fromarray(gray).save(place / f"{number:03d}.png")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder / "known", (0, 1, 2), 100)
    write_digits(folder / "strange", (7, 8), 60)
    return folder


def experiment_of(folders: Path, method: str = "socrates", **changes: Any) -> Experiment:
    optimization = Optimization(epochs=6, batch_size=16, clip_norm=1.0)
    part = Part(
        f"folder:{folders / 'known'}",
        image_size=8,
        augment=False,
        unknown=str(folders / "strange"),
    )
    model = Part("mlp", width=32)
    return Experiment(
        part, model, Part(method), optimization=optimization, unknown_trains=True, **changes
    )


@pytest.fixture(scope="module")
def trained(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(experiment_of(folders), tmp_path_factory.mktemp("runs"), accelerator="cpu")


def test_each_stranger_has_one_use_and_keeps_it_without_training(folders: Path) -> None:
    experiment = experiment_of(folders)
    splits = data.load(experiment.dataset.name, **dict(experiment.dataset.options))
    strangers: Any = splits.unknown
    trains = of_training(strangers)
    parts = divided(experiment, splits)
    without = divided(replace(experiment, unknown_trains=False), splits)
    sizes = [len(part) for part in (parts.trained, parts.teach, parts.measure)]  # pyright: ignore[reportArgumentType]
    assert sum(sizes) == len(strangers) == 120
    assert min(sizes) > 25
    assert without.trained is None
    for name, share in zip(("teach", "measure"), shares_by_hash(strangers, 2), strict=True):
        mine: Any = getattr(parts, name)
        theirs: Any = getattr(without, name)
        kept = ~trains[share]
        assert torch.equal(mine.images, theirs.images[kept])
    joined = with_training_strangers(splits.train, strangers)
    assert len(joined) == len(splits.train) + sizes[0]
    assert joined.labels[-sizes[0] :].tolist() == [3] * sizes[0]


def test_the_run_trains_on_strangers_and_measures_others(trained: Run) -> None:
    record = trained.epochs()[-1]
    assert np.isfinite(record.values["train_loss"])
    assert 0 <= record.values["train_accuracy"] <= 1
    kept = trained.predictions("unknown", 6)
    unknown = torch.tensor(kept.logits).softmax(dim=1)[:, -1]
    known = torch.tensor(trained.predictions("test", 6).logits).softmax(dim=1)[:, -1]
    assert float(unknown.mean()) > float(known.mean())
    assert "--unknown-trains" in command_of(trained.experiment)
    plain = trained.experiment.to_json()
    assert Experiment.from_json(plain) == trained.experiment


def test_a_run_without_has_the_files_it_always_had(folders: Path) -> None:
    without = replace(experiment_of(folders), unknown_trains=False)
    assert "unknown_trains" not in without.to_json()
    assert Experiment.from_json(without.to_json()) == without
    assert "unknown-trains" not in command_of(resolve(without))


def test_methods_without_the_column_refuse(folders: Path, tmp_path: Path) -> None:
    for method in ("ce", "gamblers", sorted(ABLATIONS)[0]):
        with pytest.raises(ValueError, match=f"{method} cannot train.*socrates or sat"):
            train(experiment_of(folders, method), tmp_path, accelerator="cpu")
    experiment = experiment_of(folders)
    dataset = Part(experiment.dataset.name, image_size=8)
    with pytest.raises(ValueError, match="no images of none of the classes"):
        train(replace(experiment, dataset=dataset), tmp_path, accelerator="cpu")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["sat", "socrates"])
def test_both_phases_take_strangers(name: str) -> None:
    task = Task(num_samples=4, num_classes=2, epochs=4, strangers=True)
    method: Any = methods.build(name, task, start_epoch=2)
    assert method.takes_strangers
    for phase in (method.first, method.then):
        logits = torch.zeros(3, 3, requires_grad=True)
        labels = torch.tensor([0, 2, 2])
        loss = phase.validation_loss(logits, labels)
        assert bool(loss.isfinite())
        assert bool(phase.validation_loss(logits[1:], labels[1:]).isfinite())


def test_the_command_prints_both_runs(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", f"folder:{folders / 'known'}", "mlp", "sat", "--width", "32"]
    words += ["--image-size", "8", "--augment", "false", "--epochs", "4"]
    words += ["--unknown", str(folders / "strange"), "--unknown-trains", "--out", str(tmp_path)]
    assert not main(words)
    printed = capsys.readouterr().out
    assert "a third of the strangers trains" in printed
    assert "that neither learned from" in printed
    runs = {run.experiment.unknown_trains: run for run in map(Run, tmp_path.iterdir())}
    assert set(runs) == {True, False}
    experiment = runs[True].experiment
    splits = data.load(experiment.dataset.name, **dict(experiment.dataset.options))
    numbers = compare_training(runs[True], runs[False], splits.unknown)
    assert numbers["with"]["strangers"] == len(divided(experiment, splits).measure)  # pyright: ignore[reportArgumentType]
    assert set(numbers["with"]) >= {"accuracy", "confidence", "novelty", "unknown column"}
    assert main([*words, "--devices", "2"])
    assert "one device" in capsys.readouterr().err
