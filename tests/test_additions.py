"""What the documentation says can be added from outside is added: its files, as they stand there, are trained with."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from socrates import data, methods, models
from socrates.engine.train import train
from socrates.experiment import Experiment, Optimization, Part
from socrates.names import option_help
from socrates.records import Run

PAGE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"
FILES = dict(re.findall(r"```python\n# (my_\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the documented files, where a user would work."""
    for name, source in FILES.items():
        (tmp_path / name).write_text(source)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_has_every_file():
    assert list(FILES) == ["my_methods.py", "my_models.py", "my_data.py", "my_scalers.py", "my_study.py"]


@pytest.mark.parametrize(
    ("dataset", "model", "method"),
    [
        (Part("digits"), Part("mlp"), Part("my_methods.py:LabelSmoothing", smoothing=0.2)),
        (Part("digits"), Part("my_models.py:plain", width=8), Part("socrates")),
        (Part("digits"), Part("my_models.py:Tiny", width=4), Part("ccl_sc", start_epoch=0, queue_size=8)),
        (Part("my_data.py:stripes", noise=20.0), Part("cnn"), Part("socrates")),
        (Part("my_data.py:stripes"), Part("my_models.py:Tiny"), Part("my_methods.py:LabelSmoothing")),
    ],
    ids=["method", "plain model", "model", "data set", "all three"],
)
@pytest.mark.usefixtures("few_scalers")
def test_what_is_documented_trains(folder, dataset, model, method):
    settings = Optimization(epochs=2, batch_size=32, learning_rate=0.05)
    run = train(Experiment(dataset, model, method, optimization=settings), folder / "runs", accelerator="cpu")
    assert run.finished
    assert len(run.epochs()) == 2


@pytest.mark.parametrize(
    ("package", "name", "options"),
    [
        (methods, "my_methods.py:LabelSmoothing", {"smoothing": 0.1}),
        (models, "my_models.py:Tiny", {"width": 8}),
        (data, "my_data.py:stripes", {"count": 200, "noise": 60.0}),
    ],
)
def test_their_options_are_read_from_their_signatures(folder, package, name, options):
    assert package.options(name) == options
    assert option_help(package.factory(name)).keys() == options.keys()


def test_a_scaler_from_outside_stands_in_evaluation_and_tables(folder):
    program = """
import my_scalers
from socrates.cli import main
from socrates.report import write
write.write_figures = lambda *_: []  # slow, and others test them
assert main("train digits mlp ce --epochs 2 --num-train 60 --out runs --device cpu".split()) == 0
assert main("report runs --out report".split()) == 0
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=folder)
    (run,) = (folder / "runs").iterdir()
    assert Run(run).evaluation().scalers == ("none", "temperature", "vector", "matrix", "prior")
    assert "+ PS" in (folder / "report" / "tables" / "test-posthoc.md").read_text()
