"""What the tests share: the reference values of `tests/golden`."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

torch.set_num_threads(1)
# Started in the background, a shell's child ignores Ctrl-C, and so would everything that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def golden():
    """Reads a file of reference values by name."""

    def read(name: str) -> Any:
        return json.loads((Path(__file__).parent / "golden" / f"{name}.json").read_text())

    return read


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs a command in this process; returns its exit code and what it printed."""
    from socrates import cli

    monkeypatch.setattr(cli.console, "width", 200, raising=False)

    def call(*words):
        code = cli.main([str(word) for word in words])
        return code, "".join(capsys.readouterr())

    return call
