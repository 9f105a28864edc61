"""Predictions for image files: what is found, what is written, what cannot be read, and who may
certify."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from socrates.contracts import Preparation
from socrates.engine.certify import labelled_logits
from socrates.engine.predict import find_images, predict_files, read_image, writing
from socrates.predictor import Description, Predictor

CLASSES = ("dark", "bright")


class Brightness(nn.Module):
    """Bright images are bright, dark ones dark, and grey ones unknown."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        level = images.mean(dim=(1, 2, 3))
        return torch.stack([-8 * level, 8 * level, 2 - 8 * level.abs()], dim=1)


def predictor(**changed: Any) -> Predictor:
    how = Preparation((0.5,) * 3, (0.5,) * 3)
    about: dict[str, Any] = {
        "model": "brightness",
        "options": {},
        "num_outputs": 3,
        "image_shape": (3, 8, 8),
    }
    about |= {"classes": CLASSES, "preparation": how, "reading": "spread"}
    return Predictor(Brightness(), Description(**(about | changed)))


def paint(path: Path, level: int, size: tuple[int, int] = (12, 10), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, (level,) * 3 if mode == "RGB" else level).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(30):
        paint(tmp_path / "images" / f"{number:02d}.png", 250 if number % 2 else 5)
    paint(tmp_path / "images" / "deep" / "grey.png", 128, mode="L")
    (tmp_path / "images" / "broken.png").write_bytes(b"no image")
    (tmp_path / "images" / "notes.txt").write_text("no image either")
    (tmp_path / "images" / ".hidden.png").write_bytes(b"")
    return tmp_path / "images"


def test_files_folders_and_patterns_are_found_once(folder: Path) -> None:
    everything = find_images([folder])
    assert [path.name for path in everything[:2]] == ["00.png", "01.png"]
    assert len(everything) == 32  # the broken one too: it is told later
    assert find_images([folder / "00.png", str(folder / "0*.png")]) == everything[:10]
    with pytest.raises(ValueError, match=r"no\*such' .*\.png"):
        find_images([folder / "no*such"])
    (folder / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty' .*\.png"):
        find_images([folder / "empty"])


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_every_file_has_a_row_and_the_unreadable_are_told(
    folder: Path, tmp_path: Path, suffix: str
) -> None:
    done: list[int] = []
    ours, out = predictor(), tmp_path / "new" / f"predictions{suffix}"
    with writing(out, ours) as write:
        found = predict_files(ours, find_images([folder]), write, batch_size=7, tell=done.append)
    assert (found.images, len(found.unreadable)) == (31, 1)
    (error,) = found.unreadable.values()
    assert "broken.png: not a readable image" in str(error)
    assert error.kind == "not an image"
    assert done[-1] == 32
    assert done == sorted(done)
    if suffix == ".csv":
        rows: list[Any] = list(csv.DictReader(out.read_text().splitlines()))
    elif suffix == ".jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        rows = parquet.read_table(out).to_pylist()
    assert list(rows[0]) == [
        "path",
        "predicted",
        "confidence",
        "unknown",
        "novelty",
        "answered",
        "error",
        "dark",
        "bright",
    ]
    assert len(rows) == 32
    assert {Path(row["path"]).name for row in rows if row["error"]} == {"broken.png"}
    (broken,) = [row for row in rows if row["error"]]
    assert not broken["predicted"]
    assert not broken.get("dark")
    assert [Path(row["path"]).name for row in rows] == [file.name for file in find_images([folder])]
    by_name = {Path(row["path"]).name: row for row in rows}
    assert by_name["00.png"]["predicted"] == "dark"
    assert by_name["01.png"]["predicted"] == "bright"
    assert float(by_name["grey.png"]["unknown"]) > 0.7 > 0.2 > float(by_name["00.png"]["unknown"])
    assert float(by_name["00.png"]["confidence"]) == float(by_name["00.png"]["dark"]) > 0.9
    assert sum(float(by_name["grey.png"][name]) for name in CLASSES) == pytest.approx(1, abs=1e-5)


def test_a_file_that_is_not_whole_is_not_there(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "predictions.csv"
    ours = predictor()

    def stop(_: int) -> None:
        assert list(tmp_path.glob("predictions*"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), writing(out, ours) as write:
        predict_files(ours, [folder / "00.png"], write, tell=stop)
    assert not list(tmp_path.glob("predictions*"))
    with pytest.raises(ValueError, match=r"\.parquet .*'predictions\.xlsx'"):
        writing(tmp_path / "predictions.xlsx", predictor()).__enter__()


def test_unknown_as_an_answer_and_models_without_it(folder: Path) -> None:
    rows: list[Any] = []
    found = predict_files(
        predictor(reading="answer"), [folder / "deep" / "grey.png", folder / "00.png"], rows.extend
    )
    assert [row["predicted"] for row in rows] == ["unknown", "dark"]
    assert [row["answered"] for row in rows] == [False, True]
    assert found.answered == 1
    plain = predictor(num_outputs=2, reading=None)
    plain.model = nn.Sequential(Brightness(), nn.Linear(3, 2))
    rows.clear()
    predict_files(plain, [folder / "00.png"], rows.extend)
    assert rows[0]["unknown"] is None


def test_classes_named_like_columns(folder: Path) -> None:
    rows: list[Any] = []
    predict_files(predictor(classes=("path", "unknown")), [folder / "01.png"], rows.extend)
    assert list(rows[0])[-2:] == ["class path", "class unknown"]
    assert rows[0]["path"].endswith("01.png")


def test_images_are_read_as_the_model_was_shown_them(tmp_path: Path) -> None:
    wide = paint(tmp_path / "wide.png", 200, (40, 20))
    assert read_image(wide, predictor().about).shape == (3, 8, 8)
    assert read_image(wide, predictor(image_shape=(1, 8, 8)).about).shape == (1, 8, 8)
    assert read_image(wide, predictor(image_shape=(3, 8, 6)).about).shape == (3, 8, 6)
    left = np.zeros((20, 40, 3), np.uint8)
    left[:, 6:34] = 255
    Image.fromarray(left).save(wide)
    assert int(read_image(wide, predictor().about).min()) == 255  # the middle of it


def test_only_new_labelled_images_certify(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    files: list[Path] = []
    for number in range(60):
        pixels = generator.integers(0, 120, (10, 12, 3)) + 130 * (number % 2)
        files.append(tmp_path / "labelled" / CLASSES[number % 2] / f"{number}.png")
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(files[-1])
    ours = predictor()
    logits, labels, _ = labelled_logits(ours, tmp_path / "labelled")
    assert labels.bincount().tolist() == [30, 30]
    certificate = ours.certify(labels=labels, logits=logits, risk=0.1)
    assert certificate.num_errors == 0
    brighter = [(read_image(files[row], ours.about) // 2 * 2) + 1 for row in (4, 6)]
    ours.seen = ours.thumbnails(torch.stack(brighter[:1]))
    with pytest.warns(UserWarning, match=r"\b1 of 60 (.|\n)*dark.4\.png"):
        logits, labels, _ = labelled_logits(ours, tmp_path / "labelled")
    assert labels.bincount().tolist() == [29, 30]
    assert len(logits) == 59
    ours.seen = ours.thumbnails(torch.stack(brighter))
    with pytest.raises(ValueError, match=r"\b2 of 60 (.|\n)*dark.4\.png, (.|\n)*dark.6\.png"):
        labelled_logits(ours, tmp_path / "labelled")


def test_the_training_folder_cannot_certify_but_its_test_folder_can(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for number in range(6):
            paint(tmp_path / part / CLASSES[number % 2] / f"{number}.png", 40 * number)
    ours = predictor(facts={"dataset": f"folder:{tmp_path}"})
    with pytest.raises(ValueError, match=r"train .*certify"):
        labelled_logits(ours, tmp_path / "train")
    assert len(labelled_logits(ours, tmp_path / "test")[1]) == 6
    with pytest.raises(ValueError, match=r"nothing .*folder"):
        labelled_logits(ours, tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"\['test', 'train'\]"):
        labelled_logits(predictor(), tmp_path)
    (tmp_path / "test" / "dark" / "broken.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r": 1 (.|\n)*broken\.png"):
        labelled_logits(ours, tmp_path / "test")
