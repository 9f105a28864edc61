"""The numbers that README and docs print of the demo are those of the commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from socrates import quickstart
from socrates.audit.run import audit
from socrates.engine import train

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?%?")


@pytest.fixture(scope="module")
def predictions(tmp_path_factory):
    """The test predictions of the demo: cross-entropy and Socrates, seed 1."""
    out = tmp_path_factory.mktemp("demo")
    wanted = [one for one in quickstart.experiments() if one.seed == 1]
    runs = [
        train(one, out, accelerator="cpu", keep_weights="none")
        for one in wanted
        if one.method.name in ("ce", "socrates")
    ]
    return [next((run.directory / "predictions").glob("test-*.npz")) for run in runs]


def printed(page: str, command: str) -> str:
    """Return what a page prints below a command, up to the end or to an ellipsis."""
    text = (ROOT / page).read_text(encoding="utf-8")
    block = text[text.index(command) :].partition("\n")[2]
    return re.split(r"\n```|\n\.\.\.\n", block)[0]


def numbers(text: str) -> list[str]:
    """Return all numbers of a text but those of run names."""
    return NUMBER.findall(re.sub(r"digits-mlp-\S+", "", text))


@pytest.mark.slow
def test_the_audits_of_the_demo_are_what_readme_and_docs_print(predictions):
    command = "$ socrates audit runs/quickstart/runs/digits-mlp-"
    for page, ending, paths in (
        ("README.md", "ce-seed1", predictions[:1]),
        ("docs/audit.md", "{ce,socrates}", predictions),
    ):
        answer = " ".join(audit(paths).to_json()["answer"])
        assert numbers(printed(page, command + ending)) == numbers(answer)
