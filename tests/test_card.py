"""The model card: where it is written, and its picture in its method's colour, and whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from socrates import models
from socrates.card import draw_reliability, write_card
from socrates.contracts import Preparation
from socrates.metrics import predict
from socrates.predictor import Description, Predictor
from socrates.report.style import method_colour


@pytest.mark.parametrize("method", ["socrates alpha=0.99 gamma=2.0", "ce", "focal gamma=1"])
def test_the_picture_has_the_colour_of_its_method(method: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    labels = torch.arange(300) % 3
    logits = 3 * torch.randn(300, 3) + 3 * torch.nn.functional.one_hot(labels, 3)
    draw_reliability(predict(logits), labels, method, tmp_path / "reliability.png")
    pixels = np.array(Image.open(tmp_path / "reliability.png").convert("RGB"))
    dots = (pixels == [*bytes.fromhex(method_colour(method.split(" ")[0])[1:])]).all(axis=2)
    assert dots.sum() > 100
    border = np.concatenate([pixels[:, 0], pixels[:, -1], pixels[0], pixels[-1]])
    assert (border == 255).all()  # neither title nor legend is cut off


def test_a_readme_that_is_no_card_stays(tmp_path: Path) -> None:
    about = Description("cnn", {}, 2, (3, 8, 8), ("cat", "dog"), Preparation((0.5,) * 3, (0.2,) * 3))
    predictor, file = Predictor(models.build("cnn", 2, (3, 8, 8)), about), tmp_path / "model.onnx"
    readme = tmp_path / "README.md"
    assert write_card(predictor, file, "onnx") == readme
    assert "InferenceSession" in readme.read_text(encoding="utf-8")
    assert write_card(predictor, file, "torch") == readme  # a card gives way to a newer one
    assert "torch.export.load" in readme.read_text(encoding="utf-8")
    readme.write_text("# My project", encoding="utf-8")
    assert write_card(predictor, file, "onnx") == tmp_path / "model.md"
    assert readme.read_text(encoding="utf-8") == "# My project"
