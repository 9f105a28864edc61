"""Many runs at once: failures, killed processes, what is not started, and that nothing is left
behind."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from processes import alive, descendants, wait_for, whole_lines
from rich.console import Console

from socrates.engine import StudyError, checkpoint, run_all, train
from socrates.engine.display import StudyDisplay
from socrates.engine.events import (
    Busy,
    Closed,
    EpochDone,
    Failed,
    Finished,
    Planned,
    Retried,
    Started,
)
from socrates.engine.lock import held
from socrates.engine.studies.local import LocalEngine, why_it_died
from socrates.engine.studies.runs import describe_failures
from socrates.experiment import Experiment, Optimization, Part, resolve
from socrates.records import EpochRecord, Run

KILLED_ONCE = """
import os, signal
from pathlib import Path
from socrates.methods.logits_only import CrossEntropy

class KilledOnce(CrossEntropy):
    def forward(self, model, batch):
        mark = Path(__file__).with_name("killed")
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(model, batch)
"""

KILLER = """
import os, signal
from socrates.methods.logits_only import CrossEntropy

class Killer(CrossEntropy):
    def forward(self, model, batch):
        os.kill(os.getpid(), signal.SIGKILL)
"""

ENDLESS = """
from socrates.engine import run_all
from socrates.engine.studies import local
from socrates.experiment import Experiment, Optimization, Part

if __name__ == "__main__":
    local.SECONDS_TO_DIE = 600  # however slow the disk is, an epoch is saved before its process \
ends
    settings = Optimization(epochs=100000)
    parts = Part("digits"), Part("mlp", width=8), Part("ce")
    run_all([Experiment(*parts, seed, 20, keep_every=100000, optimization=settings) \
for seed in (1, 2)], "runs")
"""


def digits(method="ce", seed=1, dataset="digits", **options):
    settings = Optimization(epochs=2, batch_size=64, learning_rate=0.05)
    parts = Part(dataset), Part("mlp", width=16), Part(method, **options)
    return resolve(Experiment(*parts, seed, num_train=100, keep_every=2, optimization=settings))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Two good runs, one of them asked for twice, among one that is wrong and one that kills its
    process."""
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "killer.py").write_text(KILLER)
    good, other = digits(), digits(seed=2)
    wrong, killer = digits("focal", gamma=-1.0), digits("killer:Killer")
    told = []
    asked = [killer, good, wrong, other, good]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        with pytest.raises(StudyError) as error:
            run_all(asked, folder / "runs", processes=1, tell=told.append)
    return {
        "out": folder / "runs", "error": error.value, "told": told,
        "good": (good, other), "bad": (wrong, killer),
    }  # fmt: skip


def test_a_failing_run_leaves_the_others_alone(mixed):
    runs = [event.run for event in mixed["told"] if isinstance(event, Finished)]
    assert sorted(run.experiment.seed for run in runs) == [1, 2]
    assert all(run.finished for run in runs)
    assert {failure.experiment for failure in mixed["error"].failures} == set(mixed["bad"])


def test_the_error_names_every_failure_and_its_reason(mixed):
    text = str(mixed["error"])
    names = [experiment.name for experiment in mixed["bad"]]
    for fact in ("2 of 4 runs", "gamma", "(SIGKILL)", "memory", *names):
        assert fact in text


def test_a_run_whose_process_is_killed_is_tried_again_and_that_is_told(tmp_path, monkeypatch):
    (tmp_path / "killed_once.py").write_text(KILLED_ONCE)
    monkeypatch.syspath_prepend(tmp_path)
    output = io.StringIO()
    (run,) = run_all(
        [digits("killed_once:KilledOnce")],
        tmp_path / "runs",
        tell=StudyDisplay(Console(file=output, width=300)),
    )
    assert run.finished
    assert re.search(rf"again: {run.directory.name}: .*\(SIGKILL\)", output.getvalue())
    assert "1 of 1 runs finished" in output.getvalue()


def test_every_run_is_told_once(mixed):
    told = mixed["told"]
    assert told[0] == Planned(4, 0)
    (again,) = [event for event in told if isinstance(event, Retried)]
    assert again.experiment == mixed["bad"][1]
    assert "(SIGKILL)" in again.reason
    assert told[-1] == Closed()
    ended = [event for event in told if isinstance(event, Finished | Failed)]
    assert sorted(type(event).__name__ for event in ended) == ["Failed"] * 2 + ["Finished"] * 2
    assert {event.experiment for event in ended} == {*mixed["good"], *mixed["bad"]}
    trained = [event.experiment for event in told if isinstance(event, Started)]
    assert set(trained) == {*mixed["good"], mixed["bad"][1]}


def test_no_process_is_started_for_finished_runs(mixed, monkeypatch):
    monkeypatch.setattr(LocalEngine, "_start", lambda *_: pytest.fail("a process was started"))
    good, other = mixed["good"]
    before = {path: path.stat().st_mtime_ns for path in mixed["out"].rglob("*")}
    told = []
    runs = run_all([good, other, good], mixed["out"], tell=told.append)
    assert [run.experiment for run in runs] == [good, other, good]
    assert [type(event) for event in told] == [Planned, Finished, Finished, Closed]
    assert all(event.already for event in told[1:3])
    assert {path: path.stat().st_mtime_ns for path in mixed["out"].rglob("*")} == before


def test_a_data_set_that_cannot_be_had_fails_its_runs_before_any_process(tmp_path, monkeypatch):
    monkeypatch.setattr(LocalEngine, "_start", lambda *_: pytest.fail("a process was started"))
    with pytest.raises(StudyError, match=r"'digit'.*'digits'") as error:
        run_all([digits(dataset="digit", seed=seed) for seed in (1, 2)], tmp_path)
    assert len(error.value.failures) == 2


def test_no_experiments_no_runs(tmp_path):
    assert run_all([], tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("end", ["finished", "stopped"])
def test_a_run_that_another_study_trains_is_waited_for(tmp_path, monkeypatch, end):
    monkeypatch.setattr("socrates.engine.studies.local.SECONDS_BETWEEN_LOOKS", 0.05)
    taken, other = digits(), digits(seed=2)
    directory = Path(tmp_path / taken.name)
    directory.mkdir()
    told = []
    with contextlib.ExitStack() as lock:
        lock.enter_context(held(directory))

        def tell(event):
            told.append(event)
            # both: a study goes on with its other runs meanwhile
            kinds = {type(one) for one in told if getattr(one, "experiment", None) == taken}
            free = Busy in kinds and any(isinstance(one, Finished) for one in told)
            if free and end == "finished":
                shutil.rmtree(directory)
                shutil.copytree(tmp_path / "elsewhere" / taken.name, directory)
            if free:
                lock.close()

        if end == "finished":
            train(taken, tmp_path / "elsewhere", accelerator="cpu")
        runs = run_all([taken, other], tmp_path, processes=1, tell=tell)
    assert [run.finished for run in runs] == [True, True]
    assert [type(event) for event in told if isinstance(event, Busy | Failed)] == [Busy]
    trained = [event.experiment for event in told if isinstance(event, Started)]
    assert (taken in trained) == (end == "stopped")


@pytest.mark.slow
def test_to_wait_for_another_study_is_not_an_attempt(tmp_path, monkeypatch):
    monkeypatch.setattr("socrates.engine.studies.local.SECONDS_BETWEEN_LOOKS", 0.05)
    (tmp_path / "killed_once.py").write_text(KILLED_ONCE)
    monkeypatch.syspath_prepend(tmp_path)
    taken = digits("killed_once:KilledOnce")
    directory = Run.directory_of(tmp_path / "runs", taken)
    directory.mkdir(parents=True)
    told = []
    with contextlib.ExitStack() as lock:
        lock.enter_context(held(directory))

        def tell(event):
            told.append(type(event))
            if isinstance(event, Busy):
                lock.close()

        (run,) = run_all([taken], tmp_path / "runs", tell=tell)
    assert run.finished
    assert [kind for kind in told if kind in (Busy, Retried, Failed)] == [Busy, Retried]


def test_many_failures_of_one_reason_stay_readable():
    failures = [Failed(digits(seed=seed), "the disk is full") for seed in range(30)]
    text = describe_failures(failures, 30)
    assert text.startswith("30 of 30 runs ")
    assert text.count("the disk is full") == 1
    assert text.endswith(" 20 more")
    assert len(text.splitlines()) == 13


def test_a_pool_needs_a_process():
    with pytest.raises(ValueError, match="got -1"):
        run_all([digits()], "nowhere", processes=-1)


def test_other_ends_of_a_process():
    for code, fact in ((-11, "(SIGSEGV)"), (143, "(SIGTERM)"), (0, "exit code 0")):
        assert why_it_died(code).endswith(fact)


def epochs_done(folder):
    return [whole_lines(path) for path in sorted(folder.glob("runs/*/epochs.jsonl"))]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    "how",
    [
        signal.SIGINT,
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),  # handled as SIGTERM is
    ],
)
def test_nothing_is_left_behind(tmp_path, start, how):
    (tmp_path / "endless.py").write_text(ENDLESS)
    process = start("endless.py", cwd=tmp_path)
    process.wait_for(lambda: len(epochs_done(tmp_path)) == 2 and min(epochs_done(tmp_path)) > 2)
    children = descendants(process.pid)
    assert len(children) >= 2
    if how is signal.SIGINT:
        process.ctrl_c()
    else:
        process.process.send_signal(how)
    assert process.ended() == {signal.SIGTERM: 143, signal.SIGHUP: 129}.get(how, -how)
    wait_for(lambda: not any(map(alive, children)))
    # the script's own, none of a child
    assert process.said().count("Traceback") == (1 if how is signal.SIGINT else 0)
    if how is not signal.SIGKILL:  # every whole epoch is saved
        saved = [
            checkpoint.read(path)["epoch"] for path in sorted(tmp_path.glob("runs/*/checkpoint.pt"))
        ]
        assert saved == epochs_done(tmp_path)


@pytest.mark.parametrize(
    ("number", "raised"),
    [
        (signal.SIGINT, KeyboardInterrupt),
        (signal.SIGTERM, SystemExit),
        (signal.SIGHUP, SystemExit),
    ],
)
def test_a_signal_while_a_process_starts_leaves_none_behind(tmp_path, monkeypatch, number, raised):
    started, start_it = [], LocalEngine._start

    def interrupted(engine, *arguments):
        started.append(start_it(engine, *arguments))
        signal.raise_signal(number)
        return started[-1]

    monkeypatch.setattr(LocalEngine, "_start", interrupted)
    endless = replace(digits(), optimization=Optimization(epochs=100_000))
    with pytest.raises(raised):
        LocalEngine(tmp_path, processes=1).run([endless], lambda event: None)
    assert [training.process.is_alive() for training in started] == [False]


def epoch(experiment, number):
    return EpochDone(experiment, EpochRecord(number, {}))


def test_lines_tell_runs_and_times(monkeypatch):
    seconds = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: seconds[0])
    output = io.StringIO()
    tell = StudyDisplay(Console(file=output, width=200))
    one, two, three = (digits(seed=seed) for seed in (1, 2, 3))
    tell(Planned(4, 1))
    tell(Started(one, None, 0, 1))
    tell(Started(two, None, 0, 1))
    seconds[0] += 60
    tell(epoch(one, 1))
    tell(Finished(one, None))
    tell(Started(three, None, 1, 1))  # continues after its first epoch, which took no time here
    seconds[0] += 60
    tell(Failed(two, "no [disk] left"))
    tell(Finished(three, None))
    tell(Closed())
    assert output.getvalue().splitlines() == [
        "1 of 4 runs finished, starting, 0:00:00 elapsed",
        "1 of 4 runs finished, 2 running, 0:01:00 elapsed, about 0:05:00 left",
        f"failed: {two.name}: no [disk] left",
        "2 of 4 runs finished, 1 failed, 1 running, 0:02:00 elapsed, about 0:01:00 left",
        "3 of 4 runs finished, 1 failed, 0:02:00 elapsed",
    ]


def test_a_bar_in_a_terminal():
    output = io.StringIO()
    tell = StudyDisplay(Console(file=output, force_terminal=True, width=120))
    for event in (
        Planned(2, 0),
        Started(digits(), None, 0, 1),
        epoch(digits(), 1),
        Finished(digits(), None),
        Closed(),
    ):
        tell(event)
    assert "1 of 2 runs finished" in output.getvalue()
