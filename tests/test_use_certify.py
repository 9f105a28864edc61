"""`socrates certify`, and what `predict` and `export` say of what it keeps."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from socrates import models
from socrates.cli import main
from socrates.cli.use import in_doubt
from socrates.contracts import Preparation
from socrates.engine.predict import ROW
from socrates.predictor import Description, Predictor, load

CLASSES = ("dark", "middle", "bright")


def saved(path: Path) -> Path:
    """Write a model that tells dark, middle and bright images apart."""
    how = Preparation((0.5,) * 3, (0.5,) * 3)
    about = Description("mlp", {"width": 1, "depth": 1}, 3, (3, 8, 8), CLASSES, how)
    model = models.build("mlp", 3, (3, 8, 8), width=1, depth=1)
    body, head = (one for one in model.modules() if isinstance(one, nn.Linear))
    body.weight.data = torch.ones(1, 192) / 192
    body.bias.data = torch.ones(1)  # 0 to 2: never below 0
    head.weight.data = torch.tensor([[-6.0], [0.0], [6.0]])
    head.bias.data = torch.tensor([6.0, 2.0, -6.0])
    return Predictor(model, about).save(path)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(tmp_path / "model.safetensors")


def labelled(folder: Path) -> Path:
    """Return a folder of 90 images, 30 of each class."""
    for row in range(90):
        path = folder / CLASSES[row % 3] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        level = (20, 128, 220)[row % 3] + row // 3
        Image.new("RGB", (8, 8), (level,) * 3).save(path)
    return folder


def test_certify_keeps_its_certificate_and_predict_and_export_use_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, path = labelled(tmp_path / "labelled"), saved(tmp_path / "model.safetensors")
    assert main(["predict", str(path), str(new)]) == 0
    assert "no share of wrong answers is promised" in capsys.readouterr().out
    words = ["certify", str(path), str(new), "--risk", "0.2"]
    assert main(words) == 0
    output = capsys.readouterr().out
    assert "among images of these classes" in output
    assert "model.safetensors" in output
    certificate = load(path).certificate
    assert certificate is not None
    assert (certificate.risk, certificate.scope.share) == (0.2, 0.0)
    assert main(["predict", str(path), str(new), "--risk", "0.2"]) == 0
    assert "at most 20%" in capsys.readouterr().out
    out = tmp_path / "out" / "model.pt2"
    assert main(["export", str(path), "--format", "torch", "--out", str(out)]) == 0
    assert "at most 20%" in capsys.readouterr().out
    assert "at most 20%" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_predict_keeps_what_it_certifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, path = labelled(tmp_path / "labelled"), saved(tmp_path / "model.safetensors")
    assert main(["predict", str(path), str(new), "--risk", "0.2", "--calibrate", str(new)]) == 0
    assert "kept with the model" in capsys.readouterr().out
    certificate = load(path).certificate
    assert certificate is not None
    assert certificate.risk == 0.2


def test_an_export_without_a_certificate_says_that_nothing_is_promised(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out" / "model.pt2"
    assert main(["export", str(model), "--format", "torch", "--out", str(out)]) == 0
    assert "no share of wrong answers is promised" in capsys.readouterr().out
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "no share of wrong answers is promised" in card


def strangers(folder: Path, number: int) -> Path:
    """Return a folder of striped images of none of the classes."""
    folder.mkdir(parents=True)
    for row in range(number):
        pixels = np.zeros((8, 8, 3), np.uint8)
        pixels[row % 8] = 40 + row
        Image.fromarray(pixels).save(folder / f"{row}.png")
    return folder


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (59, ["--share", "0.1"], r"59 strangers are too few .*\b60\b.* could be"),
        (60, [], "--strangers and --share belong together"),
        (60, ["--share", "1.5"], r"share.1\.5"),
    ],
)
def test_strangers_that_cannot_certify_are_refused(
    tmp_path: Path, number: int, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    new, path = labelled(tmp_path / "labelled"), saved(tmp_path / "model.safetensors")
    others = strangers(tmp_path / "others", number)
    order = ["certify", str(path), str(new), "--risk", "0.2", "--strangers", str(others), *words]
    assert main(order) == 1
    assert re.search(told, " ".join(capsys.readouterr().err.split()))
    assert load(path).certificate is None


def test_classes_of_the_model_are_no_strangers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, path = labelled(tmp_path / "labelled"), saved(tmp_path / "model.safetensors")
    words = ["--risk", "0.2", "--strangers", str(new), "--share", "0.1"]
    assert main(["certify", str(path), str(new), *words]) == 1
    assert re.search(r"sub-folder .*classes", " ".join(capsys.readouterr().err.split()))


def test_a_certificate_with_strangers_names_their_folder_and_share(tmp_path: Path) -> None:
    new, path = labelled(tmp_path / "labelled"), saved(tmp_path / "model.safetensors")
    others = strangers(tmp_path / "others", 60)
    words = ["--risk", "0.5", "--strangers", str(others), "--share", "0.02"]
    assert main(["certify", str(path), str(new), *words]) == 0
    certificate = load(path).certificate
    assert certificate is not None
    assert certificate.scope.share == 0.02
    assert certificate.scope.strangers == str(others)
    assert certificate.thresholds[0].num_strangers == 60


def test_a_doubtful_answer_names_the_two_leading_classes() -> None:
    about = SimpleNamespace(unknown_class=False)
    certificate = SimpleNamespace()
    predictor: Any = SimpleNamespace(
        about=about, certificate=certificate, classes=("car", "cat", "path")
    )
    names = [*ROW, "class car", "class cat", "class path"]
    values = ["new/1.png", "cat", 0.5, None, None, False, None, 0.4, 0.5, 0.1]
    assert in_doubt(dict(zip(names, values, strict=True)), predictor) == (
        "I do not know: cat or car?"
    )
