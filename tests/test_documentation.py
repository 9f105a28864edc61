"""The README's Python blocks run in order, as a reader would type them; its links lead
somewhere."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import rank_cases
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from socrates import SocratesLoss, models
from socrates.contracts import Preparation
from socrates.predictor import Description, Predictor

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def keep_a_model(folder: Path) -> None:
    """What a finished run keeps, of a model that was not trained."""
    about = Description(
        "cnn", {}, 3, (3, 32, 32), ("car", "cat", "ship"), Preparation((0.5,) * 3, (0.2,) * 3)
    )
    Predictor(models.build("cnn", 3, (3, 32, 32)), about).save(folder)


def test_readme_blocks_run(capsys, monkeypatch, tmp_path):
    torch.manual_seed(0)
    monkeypatch.chdir(tmp_path)
    keep_a_model(Path("runs") / "NAME")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 4
    logits, labels = torch.randn(400, 11), torch.randint(10, (400,))
    logits[torch.arange(400), labels] += 2
    last_layer = nn.Linear(8, 11)
    names = {
        "DataLoader": DataLoader,
        "train_set": TensorDataset(torch.randn(256, 8), torch.randint(10, (256,))),
        "model": nn.Sequential(nn.Linear(8, 8), nn.ReLU(), last_layer),
        "last_layer": last_layer,
        "my_images": torch.zeros(2, 3, 48, 40, dtype=torch.uint8),
        "val_logits": logits[:200],
        "val_labels": labels[:200],
        "test_logits": logits[200:],
        "test_labels": labels[200:],
    }
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert (names["criterion"].target < 1).all()  # every sample was visited once
    assert names["loss"].requires_grad
    assert "ECE 0." in capsys.readouterr().out
    assert names["result"].answered.tolist() == [True, True]


def test_the_loss_in_other_loops_runs():
    page = (ROOT / "docs" / "loss.md").read_text()
    names = {
        "L": SimpleNamespace(LightningModule=nn.Module),
        "nn": nn,
        "SocratesLoss": SocratesLoss,
    }
    for block in re.findall(r"```python\n(class .*?)```", page, re.DOTALL):
        exec(compile(block, "loss.md", "exec"), names)
    labels, index = torch.tensor([0, 1, 1]), torch.tensor([0, 2, 4])
    lightning = names["Module"](nn.Linear(4, 3), num_samples=5)
    assert lightning.training_step((torch.randn(3, 4), labels, index), 0).requires_grad
    answers = nn.Linear(4, 3)
    trainer = names["WithLoss"](lambda x: SimpleNamespace(logits=answers(x)), num_samples=5)
    assert trainer(labels, index, x=torch.randn(3, 4))["loss"].requires_grad
    for module in (lightning, trainer):
        assert "criterion.target" in module.state_dict()
        assert module.criterion.unvisited().tolist() == [1, 3]


def test_accumulation_in_the_hugging_face_trainer_changes_nothing(tmp_path):
    whole = rank_cases.hugging_face(rank=0, batch_size=8, accumulation=1, folder=tmp_path)
    assert (whole["trained.criterion.target"] < 1).all()
    for batch_size, accumulation in ((2, 4), (1, 8)):
        parts = rank_cases.hugging_face(0, batch_size, accumulation, tmp_path)
        torch.testing.assert_close(parts, whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_minimal_example_runs(capsys, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    minimal = importlib.import_module("minimal")
    monkeypatch.setattr(minimal, "EPOCHS", 3)
    monkeypatch.setattr(minimal, "SEEDS", range(1, 3))
    minimal.main()
    assert re.search(r"Socrates +\d+\.\d\d ± ", capsys.readouterr().out)


def test_the_example_of_all_plots_draws_them(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    example = importlib.import_module("plots")
    figure = example.draw(num_resamples=20)
    assert len(figure.axes) == 6
    assert all(axes.has_data() and axes.get_title() for axes in figure.axes)
    assert example.PICTURE.stat().st_size < 200_000


def test_the_documented_study_is_a_list_of_experiments():
    page = (ROOT / "docs" / "architecture.md").read_text()
    source = next(
        block
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        if "experiments =" in block
    )
    names: dict = {}
    exec(compile(source, "my_study.py", "exec"), names)
    assert (
        len(names["experiments"])
        == len({experiment.name for experiment in names["experiments"]})
        == 30
    )
