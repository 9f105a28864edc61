"""`make mutants`: what is changed, what is left alone, and that a survivor is really one."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture(scope="module")
def mutations():
    spec = importlib.util.spec_from_file_location("mutations", SCRIPTS / "mutations.py")
    module = sys.modules["mutations"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a - b * c", ["x = a + b * c", "x = a - b / c"]),
        ("x = (a) + (  # why +\n b)", []),
        ("x **= y", ["x *= y"]),
        ("x = a and not (b or c)", ["x = a or not (b or c)", "x = a and  (b or c)", "x = a and not (b and c)"]),
        ("x = a is not None", ["x = a is None"]),
        ("x = -y", ["x = y"]),
        ("x = y.sum(dim=1)", ["x = y.sum(dim=2)"]),
        ("x = y.amax(True)", ["x = y.amin(True)", "x = y.amax(False)"]),
        ("x = max(*y)", ["x = min(*y)"]),
        ("def f(x, *, y: int | None = 1) -> 2: return x", [
            "def f(x, *, y: int | None = 2) -> 2: return x", "def f(x, *, y: int | None = 1) -> 2: return None"]),
        ("for x in y:\n    continue", ["for x in y:\n    break"]),
        ("x = é < 1", ["x = é <= 1", "x = é < 2"]),
        ("x = 1e400", ["x = 1.0"]),
        ("'What, in 1 < 2.'\n__all__ = ['a'] + 1\nfrom a import max", []),
        ("if a:\n    raise ValueError(f'{b + 1}', 1 + 1)", []),
        ("warnings.warn('x', stacklevel=2)\nzip(a, b, strict=True)\nx = f'{a + b}'\nisinstance(x, int | float)", []),
        ("@overload\ndef f(x=1): ...\nclass A(Protocol):\n    def f(self, x=1): ...", []),
        ("if TYPE_CHECKING:\n    x = 1", []),
        ("_CHUNK_ROWS = 1 << 9\nstep = 1 + _CHUNK_ROWS // 2\nx = y.astype(int, copy=False)", []),
        ("LIMIT = 9", ["LIMIT = 10"]),
    ],
)  # fmt: skip
def test_what_is_changed(mutations, source, expected):
    found = mutations.mutants_of("a.py", source.encode())
    assert sorted(mutant.applied(source.encode()).decode() for mutant in found) == sorted(expected)


PACKAGE = '''
def larger(a, b):
    """Of two.

    >>> larger(1, 2)
    2
    """
    return a if a > b else b


def thrice(n):
    return n * 3


def untested(a, b):
    return a + b
'''
TESTS = """
import pytest
from socrates.pareto import larger, thrice

@pytest.fixture(scope="module")
def twelve():
    return thrice(4)

def test_before(twelve): assert larger(2, 1) == 2
def test_thrice(twelve): assert twelve == 12
"""
ENDLESS = """
def ten(n):
    while n != 10:
        n = n + 1
    return n
"""


def mutants_in(folder, source, tests, *words):
    """Exit code and words of the script on a small tree."""
    for name, text in {
        "src/socrates/__init__.py": "",
        "src/socrates/pareto.py": source,
        "tests/test_pareto.py": tests,
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--doctest-modules'\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    command = [sys.executable, SCRIPTS / "mutants.py", "--root", folder, "--per-file", "99", *words]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert (folder / "src/socrates/pareto.py").read_text() == source
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_survivors_are_what_no_test_notices(tmp_path):
    code, text = mutants_in(tmp_path, PACKAGE, TESTS)
    survived = re.findall(r"survived: src/socrates/pareto.py:(\d+): (.*)", text)
    assert sorted(survived) == [("16", "+ -> -"), ("16", "a + b -> None"), ("8", "> -> >=")], text
    assert re.search(r"4 of +7 killed  src/socrates/pareto.py", text)
    assert code == 1


@pytest.mark.slow
def test_what_hangs_is_noticed(tmp_path):
    tests = "from socrates.pareto import ten\ndef test(): assert ten(1) == 10\n"
    code, text = mutants_in(tmp_path, ENDLESS, tests, "--limit", "1")
    assert re.search(r"5 of +5 killed \(100%\)", text), text
    assert code == 0
