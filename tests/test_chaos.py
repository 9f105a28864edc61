"""`make chaos`, a little of it: runs that are killed and damaged, and that a silent change would be
noticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent / "tools"

NOTICED = """
import json
from pathlib import Path

import chaos_runs
from chaos_runs import Verdict, command, experiment_of, numbers, stopped_and_finished, survives
from socrates.files import with_checksum
from socrates.records import Run

chaos_runs.warm_up()
_, folder = stopped_and_finished(Path("runs"))
run = Run(folder / experiment_of("socrates").name)
expected = {"shown": command("show", str(run.directory))[1], \
"evaluation": run.evaluation().to_json()}
assert survives("show", folder, expected) == survives("report", folder, expected) == "same numbers"
path = run.directory / "evaluation.json"
plain = json.loads(path.read_text())
plain["results"]["none"]["test"]["answer"]["accuracy"] = 0.98765
path.write_text(json.dumps(plain))
assert survives("show", folder, expected) == survives("report", folder, expected) == "told"  # by \
the checksum
del plain["checksum"]
path.write_text(json.dumps(plain))
assert survives("show", folder, expected) == survives("report", folder, expected) == "told"
path.write_text(json.dumps(with_checksum(plain)))
for action in ("show", "report"):
    try:
        survives(action, folder, expected)
    except Verdict as verdict:
        print("noticed:", verdict)
"""


def python(*words, cwd):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TOOLS), os.environ.get("PYTHONPATH", "")]),
    }
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a Unix system")
def test_thirty_kills_and_some_damaged_files_are_survived(tmp_path):
    done = python(
        TOOLS / "chaos.py",
        "--kills",
        30,
        "--mutations",
        4,
        "--scenarios",
        0,
        "--processes",
        1,
        "--page",
        "page.md",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 faults were not survived" in done.stdout
    page = (tmp_path / "page.md").read_text()
    assert "none differed from a run that was left alone" in page
    assert "In 0 cases a command ended in a traceback" in page


@pytest.mark.thorough
def test_a_number_that_changes_silently_is_noticed(tmp_path):
    done = python("-c", NOTICED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("noticed:") == 2
