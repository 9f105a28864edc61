"""The package as a whole: what it imports, its layers, its public names, the published split."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import socrates
from socrates.data import validation_split

PACKAGE = Path(socrates.__file__).parent

# What each part may import of ours (itself included); parts not listed here may import nothing of ours.
LAYERS = {
    "names": set(),
    "experiment": {"contracts", "data", "methods", "models", "names"},
    "records": {"experiment"},
    "data": {"contracts", "names"},
    "models": {"contracts", "names"},
    "methods": {"contracts", "losses", "names"},
    "report": {"records", "experiment", "metrics", "pareto"},
    "paper": {"experiment", "names", "engine", "report", "records", "pareto"},
    "quickstart": {"engine", "experiment", "records", "report"},
    "cli": {"engine", "experiment", "records", "data", "models", "methods", "quickstart", "names", "report", "paper"},
    "engine": {
        "losses",
        "metrics",
        "scaling",
        "pareto",
        "contracts",
        "experiment",
        "records",
        "data",
        "models",
        "methods",
    },
}


def test_import_pulls_in_torch_and_numpy_only():
    code = (
        "import sys, torch, numpy; before = set(sys.modules); import socrates; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - {'socrates', 'torch', 'numpy'} - set(sys.stdlib_module_names)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def parts():
    return sorted(
        {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")} - {"__init__"}
    )


def imports_of_ours(path: Path) -> set[str]:
    """Top-level parts of socrates that a file imports, relative imports resolved."""
    here = ("socrates", *path.relative_to(PACKAGE).parts[:-1])
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            names = [f"{module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("socrates.") and len(name.split(".")) > 1}
    return found


@pytest.mark.parametrize("part", parts())
def test_imports_point_downwards_only(part):
    target = PACKAGE / part
    files = list(target.rglob("*.py")) if target.is_dir() else [target.with_suffix(".py")]
    allowed = LAYERS.get(part, set()) | {part}
    for path in files:
        assert imports_of_ours(path) <= allowed, path


def test_public_names_exist_and_have_an_example():
    for part in ("", ".losses", ".metrics", ".scaling", ".pareto", ".data"):
        module = importlib.import_module(f"socrates{part}")
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing):
                assert thing.__doc__, name
                assert ">>>" in thing.__doc__ or issubclass(thing, tuple), f"{module.__name__}.{name} has no example"


def test_version_is_the_package_metadata():
    assert socrates.__version__ == version("socrates-loss")


@pytest.mark.parametrize("name", ["cifar", "svhn", "food101"])
def test_published_validation_split(golden, name):
    expected = golden("val_split_seed42")[name]
    train, val = validation_split(expected["n"])
    assert (len(train), len(val)) == (expected["train"], expected["val"])
    assert val[:10].tolist() == expected["first10_val"]
    assert train[:10].tolist() == expected["first10_train"]
    assert int(val.sum()) == expected["sum_val"]
    assert sorted([*train, *val]) == list(range(expected["n"]))


@pytest.mark.parametrize("bad", [(0, 0.1), (5, 0.1), (10, 1.0), (10, -0.5)])
def test_split_without_samples_on_both_sides_is_refused(bad):
    with pytest.raises(ValueError, match="both sides"):
        validation_split(*bad)
