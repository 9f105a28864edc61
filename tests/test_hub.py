"""The Hub: what is uploaded, what is read back, and what is never executed. Nothing here leaves the
machine."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from socrates import models
from socrates.contracts import Preparation
from socrates.predictor import Description, Predictor
from socrates.scaling import TemperatureScaling

pytest.importorskip("huggingface_hub")

from huggingface_hub import hub_mixin
from huggingface_hub.errors import EntryNotFoundError

from socrates.predictor import hub
from socrates.predictor.hub import HubPredictor

CLASSES = ("cat", "dog", "horse")
IMAGES = (
    torch.arange(5 * 3 * 10 * 9, dtype=torch.int64).remainder(251).to(torch.uint8).view(5, 3, 10, 9)
)


def make(model: str = "cnn") -> Predictor:
    """An untrained model with a scaler."""
    torch.manual_seed(0)
    labels = torch.arange(90) % 3
    scaler = TemperatureScaling().fit(torch.randn(90, 3) + nn.functional.one_hot(labels, 3), labels)
    about = Description(
        model,
        {},
        3,
        (3, 8, 8),
        CLASSES,
        Preparation((0.5, 0.4, 0.3), (0.2, 0.25, 0.3)),
        scaler="temperature",
    )
    module = (
        models.build(model, 3, (3, 8, 8))
        if model in models.MODELS
        else nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    )
    return Predictor(module, about, {"temperature": scaler})


class Uploads:
    """Stands where the Hub would be, and remembers what it was given."""

    def __init__(self, **_: Any) -> None:
        self.files = uploaded

    def create_repo(self, repo_id: str, **options: Any) -> SimpleNamespace:
        asked.append((repo_id, options))
        return SimpleNamespace(repo_id=repo_id)

    def upload_folder(self, *, repo_id: str, folder_path: Path, **_: Any) -> str:
        self.files.update({path.name: path.read_bytes() for path in Path(folder_path).iterdir()})
        return f"https://huggingface.co/{repo_id}/commit/1"


uploaded: dict[str, bytes] = {}
asked: list[tuple[str, dict[str, Any]]] = []


@pytest.fixture
def uploads(monkeypatch):
    uploaded.clear()
    asked.clear()
    monkeypatch.setattr(hub_mixin, "HfApi", Uploads)
    return uploaded


@pytest.fixture
def downloads(monkeypatch, tmp_path):
    """A folder of files that the Hub has; all that is asked of it is remembered."""
    requests: list[tuple[str, str]] = []

    def download(repo_id: str, filename: str, **_: Any) -> str:
        requests.append((repo_id, filename))
        if not (tmp_path / filename).exists():
            raise EntryNotFoundError(f"no {filename}")
        return str(tmp_path / filename)

    monkeypatch.setattr(hub, "hf_hub_download", download)
    return SimpleNamespace(folder=tmp_path, requests=requests)


def test_what_is_pushed_comes_back(uploads, downloads) -> None:
    predictor = make()
    address = predictor.push_to_hub("someone/animals", private=True)
    assert address == "https://huggingface.co/someone/animals/commit/1"
    assert asked[0][0] == "someone/animals"
    assert asked[0][1]["private"] is True
    assert sorted(uploads) == ["README.md", "model.safetensors"]
    for name, content in uploads.items():
        (downloads.folder / name).write_bytes(content)
    back = HubPredictor.from_pretrained("someone/animals", revision="main")
    assert downloads.requests == [("someone/animals", "model.safetensors")]
    torch.testing.assert_close(back(IMAGES), predictor(IMAGES), rtol=0, atol=0)
    assert back.about == predictor.about
    assert not back.training


def test_the_readme_is_the_card(uploads) -> None:
    make().push_to_hub("someone/animals")
    card = uploads["README.md"].decode()
    front = dict(line.split(": ", 1) for line in card.split("---")[1].strip().splitlines())
    assert json.loads(front["library_name"]) == "socrates-loss"
    assert json.loads(front["pipeline_tag"]) == "image-classification"
    assert 'socrates.load("model.safetensors")' in card
    assert "# cat, dog, horse" in card


def test_a_folder_is_saved_and_loaded(tmp_path: Path) -> None:
    predictor = make()
    (tmp_path / "README.md").write_text("my own words")
    assert HubPredictor(predictor).save_pretrained(tmp_path) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "model.safetensors"]
    assert (tmp_path / "README.md").read_text() == "my own words"
    back = HubPredictor.from_pretrained(tmp_path, scaler="none")
    assert back.about.scaler == "none"
    torch.testing.assert_close(back.logits(IMAGES), predictor.logits(IMAGES), rtol=0, atol=0)


class Trap:
    """Leaves a file behind if it is ever unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


@pytest.mark.parametrize(
    ("name", "fact"),
    [("model.safetensors", "not a whole"), ("pytorch_model.bin", r"no model\.safetensors")],
)
def test_a_pickle_is_never_opened(downloads, name: str, fact: str) -> None:
    sprung = downloads.folder / "sprung"
    (downloads.folder / name).write_bytes(pickle.dumps(Trap(sprung)))
    with pytest.raises(ValueError, match=fact):
        HubPredictor.from_pretrained("someone/animals")
    assert not sprung.exists()
    pickle.loads((downloads.folder / name).read_bytes())  # the trap works
    assert sprung.exists()


def test_outside_code_is_imported_only_if_trusted(downloads, tmp_path: Path, monkeypatch) -> None:
    sprung = tmp_path / "sprung"
    (tmp_path / "outside_model.py").write_text(
        f"from pathlib import Path\nfrom torch import nn\nPath({str(sprung)!r}).touch()\n"
        "def build(num_outputs, image_shape):\n    return nn.Sequential(nn.Flatten(), "
        "nn.Linear(192, 3))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    make("outside_model:build").save(tmp_path)
    # A configuration of others cannot say what is trusted.
    (tmp_path / "config.json").write_text(
        json.dumps({"trust_code": True, "model": "outside_model:build"})
    )
    for place in ("someone/animals", tmp_path):
        with pytest.raises(ValueError, match=r"outside_model:build.*trust_code=True"):
            HubPredictor.from_pretrained(place)
    assert not sprung.exists()
    HubPredictor.from_pretrained("someone/animals", trust_code=True)
    assert sprung.exists()


def test_a_run_gives_the_card_its_results(uploads, tmp_path: Path, monkeypatch) -> None:
    given = []

    def write_card(predictor, file, format, run):
        given.append((format, run.directory))
        file.with_name("README.md").write_text("card")

    monkeypatch.setattr(hub, "write_card", write_card)
    with pytest.raises(FileNotFoundError, match=r"not a run: .*experiment\.json"):
        make().push_to_hub("someone/animals", run=tmp_path)
    (tmp_path / "experiment.json").write_text("{}")
    make().push_to_hub("someone/animals", run=tmp_path)
    assert given == [("safetensors", tmp_path)]


def test_it_is_not_needed_until_it_is_asked_for() -> None:
    code = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        "from socrates.predictor import Predictor\n"
        "try:\n    Predictor.push_to_hub(None, 'someone/animals')\nexcept ImportError as "
        "error:\n    print(error)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "pip install 'socrates-loss[hub]'" in told
