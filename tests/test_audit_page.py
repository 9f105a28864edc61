"""docs/audit.md is true: its pipeline step runs as a script, its Python blocks run, its names are
the code's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from socrates.audit import layout
from socrates.audit.run import audit
from socrates.cli.commands import AuditOptions

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with predictions.csv: three classes, two hospitals, sure in the right measure."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet((0.3, 0.3, 0.3), size=900)
    labels = (probs.cumsum(axis=1) > rng.random((900, 1))).argmax(axis=1)
    rows = [
        f"{'north' if place % 2 else 'south'},{label},{','.join(f'{p:.6f}' for p in row)}"
        for place, (label, row) in enumerate(zip(labels, probs, strict=True))
    ]
    (tmp_path / "predictions.csv").write_text("\n".join(["hospital,label,p0,p1,p2", *rows]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_step_of_a_pipeline_runs_as_a_script(place: Path) -> None:
    (step,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    script = re.search(r"run: \|\n(.*)", step, re.DOTALL)
    assert script is not None
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", script[1]],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert "can be trusted as far as 900 rows" in done.stdout
    assert json.loads((place / "audit.json").read_text())["metrics"]["ece"]["value"] < 0.1
    assert (place / "page" / "index.html").is_file()


def test_the_python_blocks_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = np.genfromtxt("predictions.csv", delimiter=",", skip_header=1, usecols=(1, 2, 3, 4))
    names = {
        "probs": table[:, 1:],
        "labels": table[:, 0].astype(int),
        "hospital": ["north", "south"] * 450,
    }
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "audit.md", "exec"), names)
    said = capsys.readouterr().out
    assert "CalibrationTest(p_value=" in said
    assert re.search(r"north|south", said)


def test_the_table_of_names_is_that_of_the_code() -> None:
    table = re.search(r"\| content.*?\n\n", str(layout.__doc__), re.DOTALL)
    assert table is not None
    assert table[0] in PAGE


@pytest.mark.usefixtures("hastened")
def test_the_page_names_every_key_of_the_json(place: Path) -> None:
    several = audit([place / "predictions.csv"] * 2).to_json()
    told = re.search(r"The object: .*?\n\n", PAGE, re.DOTALL)
    assert told is not None
    inside = {"ece", "value", "low", "high", "floor", "floor_95"}  # of metrics
    keys = {*several, *several["files"]["predictions (1)"]}
    assert {*re.findall(r"`(\w+)`", told[0])} - inside == keys - inside


def test_every_option_that_the_page_names_is_one() -> None:
    options = {f"--{name.replace('_', '-')}" for name in AuditOptions.__dataclass_fields__}
    assert set(re.findall(r"--[a-z][a-z-]*", PAGE)) <= options
