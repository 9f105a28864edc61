"""What the tests share: randomness from one seed, reference values, commands run here or apart."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import zlib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings
from lightning_utilities.core import imports as lightning_imports
from packaging.version import Version
from processes import Started

collect_ignore = ["tools"]  # programs of their own: make chaos, make fuzz, make mutants

torch.set_num_threads(1)
# Started in the background, a shell's child ignores Ctrl-C, by nohup a hang-up, and so would all
# that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No test fails because a machine is slow, and everybody tries the same examples;
# `--hypothesis-profile explore` draws new ones.
PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", **PATIENT, derandomize=True, database=None)
settings.register_profile("explore", **PATIENT)
settings.load_profile("steady")


def compare_version(
    package,
    compare,
    version,
    use_base_version=False,
    *,
    by_import=lightning_imports.compare_version,
):
    """By metadata: lightning_fabric would import torchmetrics, and that transformers, 3 seconds of
    each process."""
    if package != "torchmetrics":
        return by_import(package, compare, version, use_base_version)
    return compare(Version(metadata.version(package)), Version(version))


lightning_imports.compare_version = compare_version


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported stays: to look for garbage in it takes a sixth of the time of imports, and
    some of each test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """pytest-randomly does this for Python and numpy: no test sees what another one drew."""
    session = getattr(item.config.option, "randomly_seed", 0)
    torch.manual_seed(session + zlib.crc32(item.nodeid.encode()))


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    """The order and the randomness of a failure can be had again; `-q` hides the seed otherwise."""
    if exitstatus == pytest.ExitCode.TESTS_FAILED and hasattr(config.option, "randomly_seed"):
        terminalreporter.write_line(
            f"the same order again: --randomly-seed={config.option.randomly_seed}"
        )


@pytest.fixture(scope="session", autouse=True)
def quick_to_import(tmp_path_factory):
    """The processes that tests start do without torchmetrics, as where lightning itself is not
    installed."""
    folder = tmp_path_factory.mktemp("without")
    (folder / "torchmetrics.py").write_text(
        "raise ImportError('left out: it takes seconds to import')\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield


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
    from socrates.cli.output import console

    monkeypatch.setattr(console, "width", 200, raising=False)

    def call(*words):
        code = cli.main([str(word) for word in words])
        return code, "".join(capsys.readouterr())

    return call


@pytest.fixture
def run_on_a_line(run):
    """The same, with everything that was printed on one line."""

    def call(*words):
        code, text = run(*words)
        return code, " ".join(text.split())

    return call


@pytest.fixture
def few_scalers():
    """Most of the time of a small run is spent on scalers: for tests of all else, those that a
    model is kept with."""
    from socrates.scaling import SCALERS

    every = dict(SCALERS)
    for name in every.keys() - {"temperature", "readout"}:
        del SCALERS[name]
    yield
    SCALERS.clear()
    SCALERS.update(every)  # in their order, which is that of tables


@pytest.fixture
def no_figures(monkeypatch):
    """Most of the time of a report is spent on figures: for tests of its tables, its page and its
    words."""
    monkeypatch.setattr("socrates.report.write.write_figures", lambda *_: [])


@pytest.fixture
def quick_figures(monkeypatch):
    """Most of the time of a figure is spent on the fonts in its PDF and on the pixels of its PNG:
    for tests of all else in it."""

    def write_none(file):
        file.writeObject(file.fontObject, {})

    monkeypatch.setattr("matplotlib.backends.backend_pdf.PdfFile.writeFonts", write_none)
    monkeypatch.setattr("socrates.report.figures.compose.DPI", 50)


@pytest.fixture
def hastened(monkeypatch):
    """Audits try one scaler, and draw few samples: for tests of all else."""
    from haste import hasten

    hasten(monkeypatch)


@pytest.fixture
def start(tmp_path_factory):
    """Starts a command, or other words of Python, in a process that is gone when the test ends."""
    processes: list[Started] = []

    def begin(*words, **options) -> Started:
        command = words if str(words[0]).endswith(".py") else ("-m", "socrates.cli", *words)
        folder = tmp_path_factory.mktemp("process")
        processes.append(Started([sys.executable, *map(str, command)], folder, **options))
        return processes[-1]

    yield begin
    for process in processes:
        process.end()
