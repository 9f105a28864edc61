"""The package as a whole: what it imports, its layers, names and sizes, and what no file may
hold."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import socrates
from socrates.data import validation_split

PACKAGE = Path(socrates.__file__).parent
ROOT = Path(__file__).parents[1]

# Each of these may be copied out of the package, with the ground floor: torch, numpy and Python are
# all it needs.
LAYER_0 = ("losses", "metrics", "scaling", "novelty", "pareto", "abstention")
# The ground floor, which every part may use, and which uses no other part.
GROUND_FLOOR = {"arrays", "files", "identity", "isotonic", "palette"}

# What each part may import of ours (itself included); parts not listed here may import nothing of
# ours.
FOUNDATIONS = {"abstention", "losses", "metrics", "novelty", "scaling", "pareto"}
LAYERS = {
    "names": set(),
    "files": set(),
    "identity": {"files"},
    "scaling": {"metrics"},  # what the unknown column means stands in metrics/predictions.py
    "data": {"contracts", "files", "names"},
    "models": {"contracts", "names"},
    "methods": {"contracts", "losses", "names"},
    "optimization": {"data", "methods", "models"},
    "experiment": {"contracts", "data", "methods", "models", "names", "optimization"},
    "records": {"data", "experiment", "files", "metrics"},
    # records and report only for the card and the Hub, which nothing else here imports
    "predictor": {"abstention", "contracts", "files", "metrics", "models", "names", "novelty"}
    | {"data", "scaling"}  # of data image.py and thumbnail.py
    | {"plots", "records", "report"},  # for the card
    "export": {"predictor"},  # the short names of two modules of the predictor
    "hub": {"predictor"},
    "integrations": {"losses", "metrics", "scaling"},
    "cluster": {"processes"},
    "engine": FOUNDATIONS
    | {
        "cluster",
        "contracts",
        "data",
        "experiment",
        "files",
        "methods",
        "models",
        "names",
        "predictor",
        "processes",
        "prose",
        "records",
    },
    "plots": {"metrics", "pareto"},
    "report": {
        "files",
        "records",
        "experiment",
        "metrics",
        "pareto",
        "plots",
        "scaling",
    },
    # Beside the engine, which does not see it.
    "audit": {
        "abstention",
        "cluster",
        "experiment",
        "files",
        "metrics",
        "processes",
        "records",
        "report",
        "scaling",
    },
    "paper": {
        "data",
        "experiment",
        "names",
        "engine",
        "metrics",
        "report",
        "records",
        "pareto",
        "scaling",
    },
    "quickstart": {"engine", "experiment", "prose", "records", "report"},
    "cli": {
        "data",
        "engine",
        "experiment",
        "methods",
        "metrics",
        "models",
        "names",
        "optimization",
        "paper",
        "predictor",
        "prose",
    }
    | {"audit", "quickstart", "records", "report"},
}


LOADED = """
import sys, torch, numpy
for module in sys.argv[1:]:
    before = set(sys.modules)
    __import__(module)
    loaded = set(sys.modules) - before
    print(module, *sorted(loaded))
    for name in loaded:
        if name.startswith("socrates"):
            del sys.modules[name]  # the next one is imported as if it were the first
"""


@pytest.fixture(scope="module")
def loaded():
    """What each module loads beyond torch and numpy, by its name."""
    modules = ["socrates", *(f"socrates.{part}" for part in LAYER_0)]
    words = [sys.executable, "-c", LOADED, *modules]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return {line.split()[0]: line.split()[1:] for line in said.splitlines()}


@pytest.mark.parametrize("module", ["socrates", *(f"socrates.{part}" for part in LAYER_0)])
def test_the_foundation_loads_torch_and_numpy_only(loaded, module):
    names = loaded[module]
    assert module in names
    assert {name.split(".")[0] for name in names} <= {
        "socrates",
        "torch",
        "numpy",
        *sys.stdlib_module_names,
    }
    ours = {name.split(".")[1] for name in names if name.startswith("socrates.")}
    part = module.removeprefix("socrates.")
    below = GROUND_FLOOR | LAYERS.get(part, set())
    assert ours <= {part, *below} if module != "socrates" else not ours


def parts():
    return sorted(
        {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}
        - {"__init__"}
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
        found |= {
            name.split(".")[1]
            for name in names
            if name.startswith("socrates.") and len(name.split(".")) > 1
        }
    return found


@pytest.mark.parametrize("part", parts())
def test_imports_point_downwards_only(part):
    target = PACKAGE / part
    files = list(target.rglob("*.py")) if target.is_dir() else [target.with_suffix(".py")]
    allowed = LAYERS.get(part, set()) | {part}
    if part not in GROUND_FLOOR:
        allowed |= GROUND_FLOOR
    for path in files:
        assert imports_of_ours(path) <= allowed, path


def test_public_names_exist_and_have_an_example():
    for part in (
        "",
        ".losses",
        ".metrics",
        ".scaling",
        ".pareto",
        ".abstention",
        ".data",
        ".plots",
    ):
        module = importlib.import_module(f"socrates{part}")
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing):
                assert thing.__doc__, name
                assert ">>>" in thing.__doc__ or (
                    isinstance(thing, type) and issubclass(thing, tuple)
                ), f"{module.__name__}.{name} has no example"


def test_only_the_command_line_speaks_of_options():
    """A Python user never typed a --flag: errors below cli/ name the Python value."""
    flags: dict[str, list[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if path.is_relative_to(PACKAGE / "cli"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and re.search(r" --[a-z]", node.value):
                flags.setdefault(str(path.relative_to(PACKAGE)), []).append(node.value)
    assert not flags


def test_names_say_what_is_inside():
    empty = {"utils", "util", "common", "helpers", "core", "misc"}
    assert not [path for path in PACKAGE.rglob("*") if path.stem.strip("_") in empty]


def test_a_file_is_read_in_one_sitting():
    lengths = {path.name: len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {name for name, length in lengths.items() if length > 400} <= {"detect.py"}


# Pieces, so that this file holds none of them itself.
OF_A_MACHINE = "|".join(
    ("home", "Users", "root", "work", "tmp", "opt", "mnt", "srv", "workspace", "var/folders")
)
OF_A_REGISTRY = "|".join(
    (
        "(?<!gh-action-)p" + "ypi",
        "python" + "hosted",
        "npm" + "js",
        "art" + "ifactory",
        "index" + "-url",
    )
)
FORBIDDEN = re.compile(
    rf"(?<![\w.~*-])/({OF_A_MACHINE})/|[A-Z]:\\\\?Users|{OF_A_REGISTRY}".encode()
)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("see /{}/me/x", True),
        ("'file:///{}/x'", True),
        ("runs/{}/x", False),
        ("https://a.org/{}/x", False),
        ("/dev/full", False),
    ],
)
def test_what_counts_as_a_path_of_a_machine(text, wrong):
    assert bool(FORBIDDEN.search(text.format("home").encode())) is wrong


def test_no_file_tells_where_it_was_made():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git repository")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    texts = {path: path.read_bytes() for path in files if path.is_file()}
    assert len(texts) > 100
    found = {path: match for path, text in texts.items() if (match := FORBIDDEN.search(text))}
    assert not {str(path.relative_to(ROOT)): match[0] for path, match in found.items()}
    assert not [path for path, text in texts.items() if str(ROOT).encode() in text]


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


def test_metrics_call_no_blas():
    """Its threads would compete with torch's: see `socrates.arrays.open.row_sums`."""
    for path in [*(PACKAGE / "metrics").glob("*.py"), *(PACKAGE / "arrays").glob("*.py")]:
        nodes = [*ast.walk(ast.parse(path.read_text()))]
        products = [
            node
            for node in nodes
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
        ]
        called = [node.attr for node in nodes if isinstance(node, ast.Attribute)]
        assert not products, path
        assert not {"dot", "matmul", "linalg", "tensordot", "inner"} & {*called}, path
