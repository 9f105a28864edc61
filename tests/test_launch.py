"""Many runs at once: failures, killed processes, what is not started, and that nothing is left behind."""

from __future__ import annotations

import io
import signal
import time
from pathlib import Path

import pytest
import torch
from processes import alive, descendants, wait_for, whole_lines
from rich.console import Console

from socrates.engine import Failure, StudyError, StudyWatcher, run_all
from socrates.engine.launch import describe_failures
from socrates.engine.pool import Pool, why_it_died
from socrates.engine.watch import StudyLines, study_watcher
from socrates.experiment import Experiment, Optimization, Part, resolve

KILLER = """
import os, signal
from socrates.methods.ce import CrossEntropy

class Killer(CrossEntropy):
    def forward(self, model, batch, meta=None):
        os.kill(os.getpid(), signal.SIGKILL)
"""

ENDLESS = """
from pathlib import Path
from socrates.engine import run_all
from socrates.experiment import Experiment, Optimization, Part

if __name__ == "__main__":
    settings = Optimization(epochs=100000)
    parts = Part("digits"), Part("mlp", width=8), Part("ce")
    run_all([Experiment(*parts, seed, 20, keep_every=100000, optimization=settings) for seed in (1, 2)], "runs")
"""


def digits(method="ce", seed=1, dataset="digits", **options):
    settings = Optimization(epochs=2, batch_size=64, learning_rate=0.05)
    parts = Part(dataset), Part("mlp", width=16), Part(method, **options)
    return resolve(Experiment(*parts, seed, num_train=100, keep_every=2, optimization=settings))


class Noted(StudyWatcher):
    """Remembers what it was told."""

    def __init__(self):
        self.told = []

    def expected(self, total, finished):
        self.told.append(("expected", total, finished))

    def run_started(self, experiment):
        self.told.append(("started", experiment))

    def run_finished(self, experiment):
        self.told.append(("finished", experiment))

    def run_failed(self, failure):
        self.told.append(("failed", failure.experiment))

    def closed(self):
        self.told.append("closed")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Two good runs, one of them asked for twice, among one that is wrong and one that kills its process."""
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "killer.py").write_text(KILLER)
    good, other = digits(), digits(seed=2)
    wrong, killer = digits("focal", gamma=-1.0), digits("killer:Killer")
    watcher, done = Noted(), []
    asked = [killer, good, wrong, other, good]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        with pytest.raises(StudyError) as error:
            run_all(asked, folder / "runs", processes=1, done=done.append, watcher=watcher)
    return {
        "out": folder / "runs", "error": error.value, "watcher": watcher, "done": done,
        "good": (good, other), "bad": (wrong, killer),
    }  # fmt: skip


def test_a_failing_run_leaves_the_others_alone(mixed):
    assert sorted(run.experiment.seed for run in mixed["done"]) == [1, 2]
    assert all(run.finished for run in mixed["done"])
    assert {failure.experiment for failure in mixed["error"].failures} == set(mixed["bad"])


def test_the_error_names_every_failure_and_its_reason(mixed):
    text = str(mixed["error"])
    assert "2 of 4 runs failed, the others are finished" in text
    assert "gamma must be at least 0" in text
    assert "its process was killed (SIGKILL), as happens when memory runs out" in text
    for experiment in mixed["bad"]:
        assert experiment.name in text


def test_the_watcher_hears_of_each_run_once(mixed):
    told = mixed["watcher"].told
    assert told[0] == ("expected", 4, 0)
    assert told[-1] == "closed"
    assert sorted(str(kind) for kind, *_ in told[1:-1]) == ["failed"] * 2 + ["finished"] * 2 + ["started"] * 4


def test_no_process_is_started_for_finished_runs(mixed, monkeypatch):
    monkeypatch.setattr(Pool, "_start", lambda self: pytest.fail("a process was started"))
    good, other = mixed["good"]
    before = {path: path.stat().st_mtime_ns for path in mixed["out"].rglob("*")}
    done = []
    runs = run_all([good, other, good], mixed["out"], done=done.append)
    assert [run.experiment for run in runs] == [good, other, good]
    assert len(done) == 2
    assert {path: path.stat().st_mtime_ns for path in mixed["out"].rglob("*")} == before


def test_a_data_set_that_cannot_be_had_fails_its_runs_before_any_process(tmp_path, monkeypatch):
    monkeypatch.setattr(Pool, "_start", lambda self: pytest.fail("a process was started"))
    with pytest.raises(StudyError, match="did you mean 'digits'") as error:
        run_all([digits(dataset="digit", seed=seed) for seed in (1, 2)], tmp_path)
    assert len(error.value.failures) == 2


def test_no_experiments_no_runs(tmp_path):
    assert run_all([], tmp_path) == []


def test_many_failures_of_one_reason_stay_readable():
    failures = [Failure(digits(seed=seed), "the disk is full") for seed in range(30)]
    text = describe_failures(failures, 30)
    assert text.startswith("30 of 30 runs failed; the same command tries again:\n  the disk is full\n")
    assert text.endswith("    and 20 more")
    assert len(text.splitlines()) == 13


def test_a_pool_needs_a_process():
    with pytest.raises(ValueError, match="at least 1 process, got -1"):
        run_all([digits()], "nowhere", processes=-1)


def test_other_ends_of_a_process():
    assert why_it_died(-11) == "its process was killed (SIGSEGV)"
    assert why_it_died(143) == "its process was killed (SIGTERM)"
    assert why_it_died(0) == "its process ended by itself with exit code 0"


def epochs_done(folder):
    return [whole_lines(path) for path in sorted(folder.glob("runs/*/epochs.jsonl"))]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind(tmp_path, start, how):
    (tmp_path / "endless.py").write_text(ENDLESS)
    process = start("endless.py", cwd=tmp_path)
    process.wait_for(lambda: len(epochs_done(tmp_path)) == 2 and min(epochs_done(tmp_path)) > 2)
    children = descendants(process.pid)
    assert len(children) >= 2
    if how is signal.SIGINT:
        process.ctrl_c()
    else:
        process.process.kill()
    process.ended()
    wait_for(lambda: not any(map(alive, children)))
    assert process.said().count("Traceback") == (1 if how is signal.SIGINT else 0)  # the script's own, none of a child
    if how is signal.SIGINT:  # every whole epoch is saved
        saved = [torch.load(path, weights_only=True)["epoch"] for path in sorted(tmp_path.glob("runs/*/*.pt"))]
        assert saved == epochs_done(tmp_path)


def test_lines_tell_runs_and_times(monkeypatch):
    seconds = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: seconds[0])
    output = io.StringIO()
    lines = StudyLines(Console(file=output, width=200))
    one, two, three = (digits(seed=seed) for seed in (1, 2, 3))
    lines.expected(4, 1)
    for run in (one, two):
        lines.run_started(run)
        lines.epoch_done(run, 0)
    seconds[0] += 60
    lines.epoch_done(one, 1)
    lines.run_finished(one)
    lines.run_started(three)
    lines.epoch_done(three, 1)  # continues after its first epoch, which took no time here
    seconds[0] += 60
    lines.run_failed(Failure(two, "no [disk] left"))
    lines.run_finished(three)
    lines.closed()
    assert output.getvalue().splitlines() == [
        "1 of 4 runs finished, 0:00:00 elapsed",
        "1 of 4 runs finished, 2 running, 0:01:00 elapsed, about 0:05:00 left",
        f"failed: {two.name}: no [disk] left",
        "2 of 4 runs finished, 1 failed, 1 running, 0:02:00 elapsed, about 0:01:00 left",
        "3 of 4 runs finished, 1 failed, 0:02:00 elapsed",
    ]


def test_a_bar_in_a_terminal():
    output = io.StringIO()
    bar = study_watcher(Console(file=output, force_terminal=True, width=120))
    bar.expected(2, 0)
    bar.run_started(digits())
    bar.epoch_done(digits(), 0)
    bar.run_finished(digits())
    bar.closed()
    assert "1 of 2 runs finished" in output.getvalue()
