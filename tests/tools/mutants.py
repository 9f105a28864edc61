"""Do the tests notice when the code is wrong? Changes one token at a time and counts what no test
sees: `make mutants`.

A random sample of such changes is tried in copies of the tree. A first run of the unchanged tests
notes which test calls which function and how long it takes; a mutant then meets only the tests that
call its function, fast ones first and for a limited time, in a fork of a process that has torch
loaded; hypothesis tries few examples. What is left alone because nothing can notice it,
`mutations.py` says. Exit code 1: fewer than 90 % were noticed."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

from mutations import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
SHARE_TO_KILL = 0.9
EXAMPLES = 25  # of each property, where the suite tries 40 to 300
# What is tried, and the tests that must notice.
TESTS = {
    "losses": ("test_*loss*.py", "test_theory.py"),
    "arrays": ("test_arrays.py", "test_metrics*.py"),
    "isotonic.py": ("test_arrays.py", "test_metrics_judge.py", "test_scaling_isotonic.py"),
    "metrics": ("test_metrics*.py", "test_arrays.py"),
    "scaling": ("test_scaling*.py",),
    "pareto.py": ("test_pareto*.py",),
    "abstention": ("test_abstention.py", "test_certificate.py"),
}
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "runs", ".data"
)


@dataclass
class Notes:
    """What the unchanged tests do: seconds of work of each, the functions each calls, and the
    modules they load."""

    seconds: dict[str, float] = field(default_factory=dict)
    # "file:line" of a function to the ids of tests
    calls: dict[str, list[str]] = field(default_factory=dict)
    # functions that are called while tests are gathered
    everywhere: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)

    def tests_for(self, mutant: Mutant, seconds: float) -> list[str]:
        """The tests that can notice, fast ones first, as many as take so long together.

        Code outside functions, or that remembers, concerns all of them.
        """
        owners = [f"{mutant.file}:{line}" for line in mutant.owners]
        if not owners or set(owners) & set(self.everywhere):
            chosen = set(self.seconds)
        else:
            chosen = {test for owner in owners for test in self.calls.get(owner, ())}
        ranked = sorted(chosen, key=lambda test: self.seconds.get(test, 0.0))
        reached = accumulate(self.seconds.get(test, 0.0) for test in ranked)
        return [
            test for test, total in zip(ranked, reached, strict=True) if total <= seconds
        ] or ranked[:1]


class Recorder:
    """A pytest plugin that takes the notes."""

    def __init__(self, root: Path) -> None:
        self.root = str(root / "src") + os.sep
        self.known: dict[str, str | None] = {}
        self.now: set[str] = set()
        self.by_test: dict[str, set[str]] = defaultdict(set)
        self.by_file: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = defaultdict(float)
        self.worked = 0.0
        self.gathered: set[str] = set()

    def trace(self, frame: Any, event: str, argument: Any) -> None:
        # its hash is kept, that of a code object is computed each time
        file = frame.f_code.co_filename
        if file not in self.known:
            inside = file.startswith(self.root)
            self.known[file] = (
                Path(file).relative_to(Path(self.root).parent).as_posix() if inside else None
            )
        if name := self.known[file]:
            self.now.add(f"{name}:{frame.f_code.co_firstlineno}")

    def pytest_sessionstart(self) -> None:
        sys.settrace(self.trace)
        threading.settrace(self.trace)  # of threads that tests start

    def pytest_collection_finish(self) -> None:
        self.gathered, self.now = self.now, set()
        self.worked = sum(os.times()[:4])

    def _taken(self) -> set[str]:
        sys.settrace(self.trace)  # what a test did with it is undone
        taken, self.now = self.now, set()
        return taken

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "setup":  # of a fixture that other tests of the file may share
            self.by_file[report.nodeid.split("::")[0]] |= self._taken()
        else:
            self.by_test[report.nodeid] |= self._taken()
        # its own and its children's: what else runs on the machine is not counted
        worked = sum(os.times()[:4])
        self.seconds[report.nodeid] += worked - self.worked
        self.worked = worked

    def notes(self) -> Notes:
        calls: dict[str, set[str]] = defaultdict(set)
        for test in self.seconds:
            for place in self.by_test[test] | self.by_file[test.split("::")[0]]:
                calls[place].add(test)
        ours = ("socrates", "test_", "conftest", "__", "_pytest")
        modules = [name for name in sys.modules if not name.startswith(ours)]
        by_place = {place: sorted(tests) for place, tests in calls.items()}
        return Notes(self.seconds, by_place, sorted(self.gathered), modules)


class Chosen:
    """A pytest plugin that runs these tests only, in this order."""

    def __init__(self, tests: list[str]) -> None:
        self.place = {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        chosen = [item for item in items if item.nodeid in self.place]
        items[:] = sorted(chosen, key=lambda item: self.place[item.nodeid])


def try_few_examples() -> None:
    """Let hypothesis try at most EXAMPLES in this process, whatever a profile or a test asks
    for."""
    import hypothesis

    settle = hypothesis.settings.__init__

    def settle_for_few(
        self: Any, *parents: Any, max_examples: Any = EXAMPLES, **options: Any
    ) -> None:
        few = min(max_examples, EXAMPLES) if isinstance(max_examples, int) else EXAMPLES
        settle(self, *parents, max_examples=few, **options)

    cast(Any, hypothesis.settings).__init__ = settle_for_few


def run_pytest(root: Path, words: list[str], plugin: Any) -> int:
    """pytest in this process, on a copy of the tree, without a word."""
    import pytest

    try_few_examples()
    os.chdir(root)
    os.environ["PYTHONPATH"] = str(root / "src")
    sys.path.insert(0, str(root / "src"))
    output = os.open(root / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    without = [
        word for name in ("randomly", "cacheprovider", "xdist") for word in ("-p", f"no:{name}")
    ]
    # of what is loaded already
    quiet = ["-x", "-q", "--tb=short", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*without, *quiet, *words], plugins=[plugin]))


def forked(work: Any) -> int:
    """The process that does the work and then ends with the exit code it gives."""
    pid = os.fork()
    with contextlib.suppress(OSError):
        # by both, so that it is one when either goes on: it can be ended with its children
        os.setpgid(pid, pid)
    if pid:
        return pid
    code = 3
    try:
        code = work()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(code)


def baseline(root: Path, words: list[str]) -> Notes:
    """The notes of a run of the unchanged tests, which must all pass."""
    file = root / "notes.json"

    def work() -> int:
        recorder = Recorder(root)
        code = run_pytest(root, words, recorder)
        sys.settrace(None)
        file.write_text(json.dumps(vars(recorder.notes())))
        return code

    _, status = os.waitpid(forked(work), 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"the unchanged tests fail:\n{(root / 'output.txt').read_text()[-3000:]}")
    return Notes(**json.loads(file.read_text()))


def warm(modules: list[str]) -> None:
    """Load what the tests load, once for all forks."""
    import importlib
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:
            with contextlib.suppress(BaseException):
                importlib.import_module(name)


@dataclass
class Slot:
    """A copy of the tree, and the mutant that is tried in it."""

    root: Path
    pid: int = 0
    mutant: Mutant | None = None
    end: float = 0.0


class Trials:
    """Mutants of one package, tried in copies of the tree."""

    def __init__(
        self, root: Path, folder: Path, processes: int, seconds: float, limit: float
    ) -> None:
        self.root, self.folder, self.seconds, self.limit = root, folder, seconds, limit
        self.slots = [Slot(folder / str(number)) for number in range(processes)]
        self.stamp = time.time()

    def prepare(self, words: list[str]) -> Notes:
        """Copies of the tree and the notes of the unchanged tests; what these compiled, all copies
        have."""
        first, *others = self.slots
        shutil.copytree(self.root, first.root, ignore=NOT_COPIED)
        notes = baseline(first.root, words)
        for slot in others:
            shutil.copytree(first.root, slot.root)
        warm(notes.modules)
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        return notes

    def run(self, mutants: list[Mutant], notes: Notes) -> Iterator[tuple[Mutant, bool]]:
        """Each mutant and whether a test noticed it, as they come."""
        waiting = list(mutants)
        try:
            while waiting or any(slot.mutant for slot in self.slots):
                for slot in self.slots:
                    if slot.mutant is None and waiting:
                        mutant = waiting.pop(0)
                        if tests := notes.tests_for(mutant, self.seconds):
                            self._begin(
                                slot, mutant, tests, sum(notes.seconds[test] for test in tests)
                            )
                        else:
                            yield mutant, False
                    if slot.mutant is not None and (noticed := self._noticed(slot)) is not None:
                        yield slot.mutant, noticed
                        shutil.copy2(self.root / slot.mutant.file, slot.root / slot.mutant.file)
                        slot.mutant = None
                time.sleep(0.02)
        finally:
            for slot in self.slots:
                if slot.mutant is not None:
                    self._end(slot)

    def _begin(self, slot: Slot, mutant: Mutant, tests: list[str], expected: float) -> None:
        path = slot.root / mutant.file
        path.write_bytes(mutant.applied((self.root / mutant.file).read_bytes()))
        # no two sources are of one time, so that none is taken for what was compiled before
        self.stamp += 10
        os.utime(path, (self.stamp, self.stamp))
        files = sorted({test.split("::")[0] for test in tests})
        slot.mutant, slot.end = mutant, time.monotonic() + self.limit + 5 * expected
        slot.pid = forked(lambda: run_pytest(slot.root, files, Chosen(tests)))

    def _noticed(self, slot: Slot) -> bool | None:
        """Whether a test failed; None as long as nobody knows. A mutant that hangs is noticed."""
        pid, status = os.waitpid(slot.pid, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status) != 0
        if time.monotonic() < slot.end:
            return None
        self._end(slot)
        return True

    def _end(self, slot: Slot) -> None:
        with contextlib.suppress(OSError):
            os.killpg(slot.pid, signal.SIGKILL)
            os.waitpid(slot.pid, 0)


def package_of(file: str) -> str:
    """The key of TESTS that a file belongs to."""
    part = Path(file).relative_to("src/socrates").parts[0]
    if part not in TESTS:
        raise SystemExit(f"{file} has no tests named here: choose files of {', '.join(TESTS)}")
    return part


def sources(root: Path) -> list[str]:
    """The files of all packages that are tried, as paths in the tree."""
    package = root / "src" / "socrates"
    found = [
        path
        for part in TESTS
        for path in (sorted((package / part).rglob("*.py")) or [package / part])
    ]
    return [path.relative_to(root).as_posix() for path in found if path.is_file()]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="which sample of mutants is drawn")
    parser.add_argument(
        "--per-file", type=int, default=5, help="at most so many mutants of each file"
    )
    parser.add_argument("--files", nargs="*", help="files whose path contains one of these words")
    parser.add_argument(
        "--processes", type=int, default=2, help="mutants that are tried at the same time"
    )
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="of work of the tests that a mutant meets"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=60.0,
        help="seconds, besides the expected ones, until it hangs",
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree with src and tests")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    root = options.root.resolve()
    files = [
        file
        for file in sources(root)
        if not options.files or any(asked in file for asked in options.files)
    ]
    by_package: dict[str, list[str]] = defaultdict(list)
    for file in files:
        by_package[package_of(file)].append(file)
    warm(["torch", "numpy", "pytest", "hypothesis"])
    killed: dict[str, list[bool]] = {file: [] for file in files}
    for package, chosen in by_package.items():
        mutants = []
        for file in chosen:
            found = mutants_of(file, (root / file).read_bytes())
            mutants += random.Random(f"{options.seed} {file}").sample(
                found, min(options.per_file, len(found))
            )
        tests = sorted(
            path for pattern in TESTS[package] for path in (root / "tests").glob(pattern)
        )
        words = [*(path.relative_to(root).as_posix() for path in tests), f"src/socrates/{package}"]
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            trials = Trials(
                root, Path(folder).resolve(), options.processes, options.seconds, options.limit
            )
            for mutant, noticed in trials.run(mutants, trials.prepare(words)):
                killed[mutant.file].append(noticed)
                if not noticed:
                    print(f"survived: {mutant}", flush=True)
    for file, results in killed.items():
        print(f"{sum(results):4d} of {len(results):3d} killed  {file}")
    total, dead = sum(map(len, killed.values())), sum(map(sum, killed.values()))
    print(f"{dead:4d} of {total:3d} killed ({dead / max(total, 1):.0%})")
    return int(dead < SHARE_TO_KILL * total)


if __name__ == "__main__":
    sys.exit(main())
