"""docs/models.md is true: its Python blocks run in order beside a run of their own, its table is
what is printed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import socrates
from picture_files import write_pictures
from socrates import cli
from socrates.predictor.export import export

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PROGRAM = next(block for block in BLOCKS if "onnxruntime.InferenceSession" in block)
COLOURS = {"car": (200, 60, 60), "cat": (60, 200, 60), "ship": (60, 60, 200)}


def picture(name: str, seed: int, size: tuple[int, int] = (32, 32)) -> np.ndarray[Any, Any]:
    """A noisy image in the colour of its class."""
    noise = np.random.default_rng(seed).normal(scale=50, size=(*size, 3))
    return (np.array(COLOURS[name]) + noise).clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `my-images`, `new` and a finished run that is called runs/NAME there."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "new").mkdir()
    for name in COLOURS:
        (folder / "my-images" / name).mkdir(parents=True)
        for number in range(20):
            Image.fromarray(picture(name, number)).save(
                folder / "my-images" / name / f"{number}.png"
            )
        for number in range(2):
            image = picture(name, 100 + number, (40, 56) if number else (32, 32))
            Image.fromarray(image).save(folder / "new" / f"{name}-{number}.png")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(
            sys,
            "argv",
            ["socrates", "train", "folder:my-images", "cnn", "socrates", "--epochs", "3"],
        )
        cli.main()
    run = next((folder / "runs").iterdir())
    run.rename(folder / "runs" / "NAME")
    return folder


def test_the_blocks_run_in_order(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    hub_mixin = pytest.importorskip("huggingface_hub.hub_mixin")
    pytest.importorskip("onnxruntime.quantization")
    from socrates.predictor import hub

    class Hub:
        """Keeps what is uploaded in a folder, and gives it back."""

        def __init__(self, **_: Any) -> None: ...

        def create_repo(self, repo_id: str, **_: Any) -> SimpleNamespace:
            return SimpleNamespace(repo_id=repo_id)

        def upload_folder(self, folder_path: Path, **_: Any) -> str:
            (place / "hub").mkdir()
            for path in Path(folder_path).iterdir():
                (place / "hub" / path.name).write_bytes(path.read_bytes())
            return "a commit"

    monkeypatch.setattr(hub_mixin, "HfApi", Hub)
    monkeypatch.setattr(hub, "hf_hub_download", lambda repo, name, **_: str(place / "hub" / name))
    monkeypatch.chdir(place)
    labels = np.arange(150) % 3
    pictures = np.stack([picture([*COLOURS][label], 500 + row) for row, label in enumerate(labels)])
    names: dict[str, Any] = {
        "labeled_images": torch.from_numpy(pictures).permute(0, 3, 1, 2),
        "labels": labels,
        "confidence": np.full(100, 0.9),
        "correct": np.full(100, True),
    }
    random = torch.Generator().manual_seed(1)
    for part in ("train", "val", "new"):
        names[f"{part}_features"] = torch.randn(60, 4, generator=random)
        names[f"{part}_logits"] = torch.randn(60, 3, generator=random)
        names[f"{part}_labels"] = torch.arange(60) % 3
    batches = iter([{"images": names["labeled_images"].numpy()}])
    names["reader"] = SimpleNamespace(get_next=lambda: next(batches, None))
    export(socrates.load("runs/NAME"), "model.onnx")
    for block in BLOCKS:
        if block != PROGRAM:
            exec(compile(block, "models.md", "exec"), names)
    assert capsys.readouterr().out.startswith("car ")
    assert names["raw"](names["images"]).shape == (8, 4)
    certificate = socrates.load("certified.safetensors").certificate
    assert certificate == names["certificate"]
    assert names["predictor"].certificate == certificate
    assert names["score"].num_features == 4
    card = (place / "hub" / "README.md").read_text(encoding="utf-8")
    assert "| on 12 test images |" in card
    assert str(certificate) in card
    assert (place / "hub" / "reliability.png").is_file()


@pytest.mark.slow
def test_the_program_needs_onnxruntime_and_pillow_alone(place: Path) -> None:
    assert len(PROGRAM.strip().splitlines()) <= 16
    write_pictures(place / "odd")
    predictor = socrates.load(place / "runs" / "NAME")
    export(predictor, place / "model.onnx")
    alone = "import sys\nsys.modules.update(torch=None, socrates=None)\n" + PROGRAM
    files = sorted(str(path) for name in ("new", "odd") for path in (place / name).iterdir())
    command = [sys.executable, "-c", alone, *files]
    told = subprocess.run(
        command, cwd=place, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    with pytest.MonkeyPatch.context() as patch:
        arguments = [
            "predict",
            str(place / "runs" / "NAME"),
            *files,
            "--out",
            str(place / "predictions.csv"),
        ]
        patch.setattr(sys, "argv", ["socrates", *arguments])
        cli.main()
    rows = [row.split(",") for row in (place / "predictions.csv").read_text().splitlines()[1:]]
    assert len(told) == len(rows) == len(files) > 40
    for line, (path, predicted, confidence, *_) in zip(told, sorted(rows), strict=True):
        *_, name, share, _ = line.split(" ")
        assert line.startswith(path)
        assert name == predicted
        assert float(share) == pytest.approx(float(confidence), abs=0.001), path


@pytest.mark.slow
def test_the_table_is_what_the_script_prints() -> None:
    spec = importlib.util.spec_from_file_location(
        "abstention_picture", ROOT / "benchmarks" / "abstention.py"
    )
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.table(script.simulate(2000, 1000), 2000) in PAGE
