"""The package as a folder of files that was never installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import socrates


def test_it_is_imported_without_being_installed(tmp_path):
    shutil.copytree(
        Path(socrates.__file__).parent,
        tmp_path / "socrates",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import socrates; "
        "print(socrates.__version__)"
    )
    # without site-packages, so without any metadata
    arguments = [sys.executable, "-I", "-S", "-c", code]
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.strip()) == (0, "0+unknown"), result.stderr
