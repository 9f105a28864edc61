"""What goes wrong around a run: mistakes in the command, Ctrl-C, two processes, lost records, a
full disk."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import wait_for, whole_lines
from rich.console import Console

from signing import resign
from socrates import cli
from socrates.cli.commands import COMMANDS
from socrates.engine import checkpoint, evaluate, lock, run_all, train
from socrates.engine.display import RunDisplay, TensorBoard
from socrates.engine.events import Closed, EpochDone, Started, Stepped
from socrates.engine.lock import held
from socrates.experiment import Experiment, Optimization, Part
from socrates.files import replacing
from socrates.records import EpochRecord, Run

try:
    import fcntl
    import pty
except ImportError:
    fcntl = pty = None

unix = pytest.mark.skipif(fcntl is None, reason="needs a Unix system")
pytestmark = pytest.mark.usefixtures("few_scalers")
SHORT = Optimization(epochs=4, batch_size=64, learning_rate=0.05, halve_every=2)


def digits(method="ce", seed=1, settings=SHORT, **options):
    parts = Part("digits"), Part("mlp", width=16), Part(method, **options)
    return Experiment(*parts, seed, num_train=100, keep_every=2, optimization=settings)


def signals_in(epoch, *numbers):
    """Sends this process signals in the middle of an epoch."""

    def tell(event):
        if event == Stepped(epoch, 0):
            for number in numbers:
                os.kill(os.getpid(), number)

    return tell


def fail_on(kind, message):
    """Refuses to hear of something."""

    def tell(event):
        if isinstance(event, kind):
            pytest.fail(message)

    return tell


@unix
def test_a_mistake_in_a_terminal_is_one_line(tmp_path):
    ours, theirs = pty.openpty()
    words = ["train", "digit", "mlp", "ce", "--out", str(tmp_path / "runs"), "--log", "tensorboard"]
    process = subprocess.Popen(
        [sys.executable, "-m", "socrates.cli", *words], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    text = b""
    with contextlib.suppress(OSError):  # how a pseudo terminal says that the other side is gone
        while part := os.read(ours, 4096):
            text += part
    os.close(ours)
    assert process.wait() == 1
    assert re.search(rb"'digit'.*'digits'", text)
    assert b"Traceback" not in text
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "listen", [lambda: RunDisplay(Console(file=io.StringIO(), force_terminal=True)), TensorBoard]
)
def test_a_display_that_never_started_can_be_closed(listen):
    listen()(Closed())


TRAIN = ["train", "digits", "mlp", "focal", "--device", "cpu", "--epochs", "2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*TRAIN, "--batch-size", "0"], "batch_size must be more than 0, got 0"),
        ([*TRAIN, "--keep-every", "0"], "keep_every must be more than 0, got 0"),
        ([*TRAIN, "--keep-every", "-1"], "keep_every must be more than 0, got -1"),
        ([*TRAIN, "--learning-rate", "nan"], "learning_rate must be a finite number, got nan"),
        ([*TRAIN[:-1], "0"], "epochs must be more than 0, got 0"),
        ([*TRAIN[:-1], "-1"], "epochs must be more than 0, got -1"),
        ([*TRAIN, "--seed", "-1"], "seed must be at least 0, got -1"),
        ([*TRAIN, "--num-bins", "0"], "num_bins must be more than 0, got 0"),
        ([*TRAIN, "--gamma", "nan"], "gamma of focal must be a finite number, got nan"),
        ([*TRAIN, "--gamma", "-1"], "gamma must be at least 0"),
        ([*TRAIN, "--num-train", "0"], "num_train must be more than 0, got 0"),
        ([*TRAIN, "--num-train", "100000"], "num_train must be between 10"),
        ([*TRAIN, "--sgd-momentum", "-0.5"], "momentum of SGD must be in"),
        ([*TRAIN, "--weight-decay", "-1"], "weight_decay must be at least 0"),
        ([*TRAIN, "--milestones", "3", "1"], "milestones must be epochs in increasing order"),
        ([*TRAIN, "--precision", "x"], "precision must be one of"),
        (
            [*TRAIN, "--device", "abacus"],
            "the device abacus with precision 32-true cannot be used here",
        ),
        (
            [*TRAIN, "--image-size", "-3"],
            "image_size must be a number of pixels of at least 1, got -3",
        ),
        ([*TRAIN, "--width", "0"], "width"),
        (["train", "folder:nowhere", "mlp", "ce"], "nowhere is not a folder"),
        (["train", "digits", "vgg16", "ce"], "vgg16"),
        (
            ["train", "digits", "mlp", "sat", "--start-epoch", "150"],
            "sat would never act: .*106",
        ),
        (
            ["train", "digits", "mlp", "ccl_sc", "--start-epoch", "2.5"],
            "needs an epoch counted from 0, got 2.5",
        ),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(capsys, tmp_path, words, message):
    assert cli.main([*words, "--out", str(tmp_path / "runs")]) == 1
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.count("\n") == 1, errors  # not wrapped, however narrow
    assert re.search(message, errors), errors
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="device cuda"):
        train(digits(), tmp_path / "runs", accelerator="cuda")
    assert not (tmp_path / "runs").exists()


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match=r"file"):
            train(digits(), out, accelerator="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


STOPS = [
    (signal.SIGINT, KeyboardInterrupt),
    (signal.SIGTERM, SystemExit),
    (signal.SIGHUP, SystemExit),
]


@pytest.fixture
def amid_a_step(monkeypatch):
    """Sends this process signals in the middle of a step, when its gradients are there."""

    def send(*numbers, at):
        optimize, steps = torch.optim.SGD.step, []

        def step(optimizer, *arguments):
            steps.append(1)
            if len(steps) == at:
                for number in numbers:
                    os.kill(os.getpid(), number)
            return optimize(optimizer, *arguments)

        monkeypatch.setattr(torch.optim.SGD, "step", step)

    return send


@unix
@pytest.mark.parametrize(("number", "kind"), STOPS)
@pytest.mark.parametrize("method", ["socrates", "mc"])
def test_ctrl_c_saves_within_the_step_and_the_next_start_goes_on_from_it(
    tmp_path, amid_a_step, number, kind, method
):
    experiment = digits(method, settings=dataclasses.replace(SHORT, batch_size=20))
    whole = train(experiment, tmp_path / "whole", accelerator="cpu")
    before = [signal.getsignal(name) for name, _ in STOPS]
    amid_a_step(number, at=7)
    told = []
    with pytest.raises(kind) as stopped:
        train(experiment, tmp_path / "stopped", accelerator="cpu", tell=told.append)
    assert [signal.getsignal(name) for name, _ in STOPS] == before
    run = Run(tmp_path / "stopped" / experiment.name)
    steps = told[0].steps_per_epoch
    place = divmod(7, steps)  # the step it came in was still done
    content = checkpoint.read(run.checkpoint)
    assert ((content["epoch"], content["step"]), len(run.epochs())) == (place, place[0])
    assert not (run.directory / "lock").exists()
    then = f", and {place[1]} of {steps} steps of the next" if place[1] else ""
    words = f"{place[0]} of 4 epochs are done and saved in {run.directory}{then}"
    assert stopped.value.args[-1] == words
    told.clear()
    resumed = train(experiment, tmp_path / "stopped", accelerator="cpu", tell=told.append)
    assert next(event for event in told if isinstance(event, Stepped)) == Stepped(*place)
    same_run(whole, resumed)


def same_run(one, other):
    assert np.array_equal(one.predictions("test", 4).logits, other.predictions("test", 4).logits)
    records = [
        [{**record.to_json(), "seconds": 0} for record in run.epochs()] for run in (one, other)
    ]
    assert records[0] == records[1]


@unix
def test_a_second_ctrl_c_does_not_wait(tmp_path, amid_a_step):
    amid_a_step(signal.SIGINT, signal.SIGINT, at=4)
    with pytest.raises(KeyboardInterrupt, match="0 of 4 epochs"):
        train(digits(), tmp_path / "stopped", accelerator="cpu")
    run = Run(tmp_path / "stopped" / digits().name)
    assert not run.checkpoint.exists()  # half a step is no state to keep
    assert len(run.epochs()) == 1
    same_run(
        train(digits(), tmp_path / "stopped", accelerator="cpu"),
        train(digits(), tmp_path, accelerator="cpu"),
    )


@unix
def test_ctrl_c_when_all_is_saved_does_not_wait(tmp_path, monkeypatch):
    monkeypatch.setattr("socrates.engine.saving.SECONDS_BETWEEN_CHECKPOINTS", -1.0)
    with pytest.raises(KeyboardInterrupt, match=r"^2 of 4 .*\b1 of 2 "):
        train(digits(), tmp_path, accelerator="cpu", tell=signals_in(2, signal.SIGINT))
    assert len(Run(tmp_path / digits().name).epochs()) == 2


@unix
def test_ctrl_c_while_an_epoch_is_measured_keeps_its_steps(tmp_path, monkeypatch):
    module = importlib.import_module("socrates.engine.train")
    whole = train(digits(), tmp_path / "whole", accelerator="cpu")
    monkeypatch.setattr(module, "measure", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt, match=r"^0 of 4 .*\b2 of 2 "):
        train(digits(), tmp_path, accelerator="cpu")
    monkeypatch.undo()
    same_run(whole, train(digits(), tmp_path, accelerator="cpu"))


@unix
def test_ctrl_c_during_the_evaluation_keeps_the_training(tmp_path, monkeypatch):
    module = importlib.import_module("socrates.engine.train")
    monkeypatch.setattr(module, "evaluate_fitted", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt, match="4 of 4 epochs"):
        train(digits(), tmp_path, accelerator="cpu")
    monkeypatch.undo()
    again = fail_on(Stepped, "a step was done again")
    assert train(digits(), tmp_path, accelerator="cpu", tell=again).finished


@unix
def test_ctrl_c_on_the_command_line(tmp_path, start):
    words = [
        "train",
        "digits",
        "mlp",
        "ce",
        "--epochs",
        "100000",
        "--keep-every",
        "100000",
        "--device",
        "cpu",
    ]
    process = start(*words, "--out", "runs", cwd=tmp_path)
    process.wait_for(lambda: sum(map(whole_lines, tmp_path.glob("runs/*/epochs.jsonl"))))
    process.ctrl_c()
    assert process.ended() == 130
    errors = process.stderr.read_text()
    found = re.fullmatch(
        r"stopped: (\d+) of 100000 epochs are done and saved in runs/[^ ,;]+(?:, and \d+ of \d+ "
        r"steps of the next)?; "
        r"the same command continues\n",
        errors,
    )
    assert found, errors
    run = Run(next(tmp_path.glob("runs/*")))
    assert len(run.epochs()) == int(found[1]) == checkpoint.read(run.checkpoint)["epoch"]


@pytest.mark.parametrize(
    ("command", "continues"), [("list", False), ("train", True), ("sweep", True)]
)
def test_only_what_continues_says_so(capsys, monkeypatch, command, continues):
    def stop(*_):
        raise KeyboardInterrupt

    words = {"train": ["digits", "mlp", "ce"], "sweep": ["--methods", "ce"]}.get(command, [])
    monkeypatch.setitem(COMMANDS, command, (COMMANDS[command][0], stop))
    assert cli.main([command, *words]) == 130
    assert ("continues" in capsys.readouterr().err) is continues


@unix
def test_two_processes_cannot_train_one_run(tmp_path):
    run = Run.create(tmp_path, digits())
    with (
        held(run.directory),
        pytest.raises(BlockingIOError, match=rf"\b{os.getpid()}\b"),
    ):
        train(digits(), tmp_path, accelerator="cpu")
    assert not (run.directory / "lock").exists()
    (run.directory / "lock").write_text("12345\n")  # what a process leaves that is killed
    assert train(digits(), tmp_path, accelerator="cpu").finished
    assert not (run.directory / "lock").exists()


@unix
@pytest.mark.parametrize("guarded", [True, False])
def test_a_lock_of_a_dead_process_is_taken_over_also_on_a_shared_file_system(
    tmp_path, monkeypatch, guarded
):
    """Without the system's guard, what stands in the lock tells; another machine's process must
    show that it lives."""
    if not guarded:
        monkeypatch.setattr(
            lock.fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOLCK, "no locks"))
        )
    monkeypatch.setattr(lock, "SECONDS_BETWEEN_BEATS", 0.05)
    path = tmp_path / "lock"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for dead in (
        f"{gone.pid} {lock.HOST}",
        f"{gone.pid}",
        f"{os.getppid()} another-host",
        "",
        "\0\0\0",
    ):
        path.write_text(dead)
        with held(tmp_path):
            assert path.read_text() == f"{os.getpid()} {lock.HOST}\n"
        assert not path.exists()
    path.write_text(f"{os.getppid()} another-host")
    monkeypatch.setattr(lock.time, "sleep", lambda _: os.utime(path, ns=(1, 1)))  # it lives
    with (
        pytest.raises(BlockingIOError, match=f"{os.getppid()} .*another-host"),
        held(tmp_path),
    ):
        pass
    if not guarded:
        path.write_text(f"{os.getppid()} {lock.HOST}")
        with (
            pytest.raises(BlockingIOError, match=rf"\b{os.getppid()}\b"),
            held(tmp_path),
        ):
            pass
    assert path.exists()


@unix
def test_a_lock_that_cannot_be_written_is_let_go(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(
            lock.os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "no space"))
        )
        with (
            pytest.raises(OSError, match=r"lock .*full"),
            held(tmp_path),
        ):
            pass
    with held(tmp_path):
        pass


@unix
def test_a_suspended_process_keeps_its_lock(tmp_path, monkeypatch):
    """However long its heartbeat is missing: once resumed, it would write again."""
    monkeypatch.setattr(lock, "SECONDS_BETWEEN_BEATS", 0.01)
    hold = (
        "import pathlib, sys\n"
        "from socrates.engine.lock import held\n"
        "with held(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    child.send_signal(signal.SIGSTOP)
    os.utime(tmp_path / "lock", ns=(1, 1))
    with pytest.raises(BlockingIOError, match=rf"\b{child.pid}\b"), held(tmp_path):
        pass
    child.send_signal(signal.SIGCONT)
    child.communicate(b"", timeout=60)
    with held(tmp_path):
        pass


def test_a_held_lock_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "SECONDS_BETWEEN_BEATS", 0.01)
    with held(tmp_path):
        os.utime(tmp_path / "lock", ns=(1, 1))
        wait_for(lambda: (tmp_path / "lock").stat().st_mtime_ns > 1)


@unix
def test_a_run_that_another_process_finished_meanwhile_is_left_alone(tmp_path, monkeypatch):
    other = train(digits(), tmp_path / "other", accelerator="cpu")
    module = importlib.import_module("socrates.engine.train")
    build = module.build

    def and_then(*arguments):
        (tmp_path / "ours").mkdir()
        other.directory.rename(tmp_path / "ours" / other.directory.name)
        return build(*arguments)

    monkeypatch.setattr(module, "build", and_then)
    assert train(
        digits(),
        tmp_path / "ours",
        accelerator="cpu",
        tell=fail_on(Started, "it was trained again"),
    ).finished


@pytest.fixture
def stopped(tmp_path):
    """A run that was stopped in the last of its four epochs."""
    with pytest.raises(KeyboardInterrupt):
        train(digits(), tmp_path, accelerator="cpu", tell=signals_in(3, signal.SIGINT))
    return Run(tmp_path / digits().name)


@unix
@pytest.mark.parametrize("kept", [[0], [0, 2], [0, 1, 1, 2], [1, 0, 2], []])
def test_lost_records_are_an_error_that_loses_nothing_more(stopped, kept):
    path = stopped.directory / "epochs.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 3
    path.write_text("".join(lines[k] for k in kept))
    before = {path: path.read_bytes() for path in stopped.directory.rglob("*") if path.is_file()}
    message = rf"{len(kept)} records .* 1 to 3.*{digits().name}"
    with pytest.raises(ValueError, match=message):
        train(digits(), stopped.directory.parent, accelerator="cpu")
    assert {
        path: path.read_bytes() for path in stopped.directory.rglob("*") if path.is_file()
    } == before


@unix
def test_a_changed_experiment_is_not_continued(stopped):
    path = stopped.directory / "experiment.json"
    path.write_text(path.read_text().replace('"seed": 1', '"seed": 2'))
    with pytest.raises(ValueError, match=r"experiment\.json .*checksum"):
        train(digits(), stopped.directory.parent, accelerator="cpu")
    resign(path, lambda plain: None)
    with pytest.raises(ValueError, match="another experiment"):
        train(digits(), stopped.directory.parent, accelerator="cpu")


def test_a_run_without_all_its_records_is_never_finished(tmp_path, monkeypatch):
    append = Run.append_epoch
    monkeypatch.setattr(
        Run, "append_epoch", lambda run, record: record.epoch == 2 or append(run, record)
    )
    with pytest.raises(ValueError, match=r"3 records .*1 to 4"):
        train(digits(), tmp_path, accelerator="cpu")
    assert not Run(tmp_path / digits().name).finished


def test_ccl_sc_works_out_of_the_box(tmp_path, capsys):
    words = [
        "train",
        "digits",
        "mlp",
        "ccl_sc",
        "--epochs",
        "4",
        "--out",
        str(tmp_path),
        "--device",
        "cpu",
    ]
    assert cli.main(words) == 0
    records = Run(next(tmp_path.iterdir())).epochs()
    assert ["queue_fill" in record.values for record in records] == [False, False, True, True]
    assert 0 < records[3].value("queue_fill") < 1


def test_an_evaluation_of_another_epoch_stands_beside(tmp_path, capsys):
    run = train(digits(), tmp_path, accelerator="cpu")
    before = (run.directory / "evaluation.json").read_bytes()
    assert cli.main(["evaluate", str(run.directory), "--epoch", "2"]) == 0
    assert "evaluation-0002.json" in capsys.readouterr().out
    assert (run.directory / "evaluation.json").read_bytes() == before
    assert json.loads((run.directory / "evaluation-0002.json").read_text())["epoch"] == 2
    temperature = run.evaluation().parameters["temperature"]["temperature"]
    logits, labels, *_ = run.predictions("val", 4)
    scaled = torch.nn.functional.cross_entropy(
        torch.tensor(logits) / temperature, torch.tensor(labels).long()
    )
    expected = run.evaluation().value("temperature", "val", "plain", "nll")
    assert float(scaled) == pytest.approx(expected, abs=1e-5)
    path = run.directory / "predictions" / "val-0004.npz"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match=rf"val-0004\.npz .*{run.directory.name}"):
        evaluate(run)


@unix
def test_files_have_the_mode_that_the_user_wants(tmp_path):
    before = os.umask(0o027)
    try:
        run = train(digits(), tmp_path, accelerator="cpu")
    finally:
        os.umask(before)
    modes = {
        path.name: path.stat().st_mode & 0o777
        for path in run.directory.rglob("*")
        if path.is_file()
    }
    assert len(modes) == 10
    assert set(modes.values()) == {0o640}, modes


def write_half(path):
    """Until the disk is full."""
    with replacing(path) as file:
        file.write(b"new")
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_named_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "checkpoint.pt"
    path.write_text("old")
    with pytest.raises(OSError, match=r"checkpoint\.pt .*full"):
        write_half(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "name",
    ["checkpoint.pt", "val-0002.npz", "epochs.jsonl", "evaluation.json", "model.safetensors"],
)
def test_a_disk_that_fills_up_in_training(tmp_path, monkeypatch, name, capsys):
    import builtins

    real = builtins.open

    def full(path, mode="r", *arguments, **options):
        chosen = Path(path).name.startswith(name) and mode == (
            "a" if name == "epochs.jsonl" else "wb"
        )
        return real("/dev/full" if chosen else path, mode, *arguments, **options)

    for module in ("records.run", "files"):
        monkeypatch.setattr(f"socrates.{module}.open", full, raising=False)
    words = [
        "train",
        "digits",
        "mlp",
        "ce",
        "--epochs",
        "2",
        "--keep-every",
        "2",
        "--device",
        "cpu",
    ]
    assert cli.main([*words, "--out", str(tmp_path)]) == 1
    errors = capsys.readouterr().err
    assert re.search(rf"error: .*{name} could not be written: the disk is full", errors), errors
    run = Run(next(tmp_path.iterdir()))
    assert not run.finished
    assert not list(run.directory.rglob("*.tmp"))
    monkeypatch.undo()
    assert cli.main([*words, "--out", str(tmp_path)]) == 0
    assert run.finished


def shown(width, first_epoch=0, epochs=300):
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=width, color_system=None)
    settings = Optimization(epochs=epochs)
    display = RunDisplay(console)
    experiment = Experiment(Part("digits"), Part("mlp"), Part("ce"), optimization=settings)
    display(Started(experiment, None, first_epoch, steps_per_epoch=352))
    begun = output.getvalue()
    record = EpochRecord(123, {"train_loss": 0.1234, "val_accuracy": 0.999, "val_ece": 0.1})
    display(EpochDone(experiment, record))
    display(Closed())
    return begun, next(line for line in output.getvalue().splitlines() if "epoch 123" in line)


@pytest.mark.parametrize(("width", "bar"), [(60, False), (70, False), (100, True)])
def test_narrow_terminals_keep_the_time_left(width, bar):
    line = shown(width, first_epoch=150)[1]
    assert re.search(r"epoch 123/300 loss 0\.123 acc 99\.9% ECE 10\.0%", line), line
    assert re.search(r"(\d|-:--:--) left", line), line
    assert ("━" in line) is bar


def test_a_continued_display_starts_with_its_epoch():
    begun, _ = shown(100, first_epoch=40)
    assert "epoch 41" in begun
    assert "epoch 1 " not in begun


def test_equal_experiments_are_one_run(tmp_path):
    run = train(digits("focal", gamma=1), tmp_path, accelerator="cpu")
    assert run.directory.name == digits("focal", gamma=1.0).name
    assert (
        run_all([digits("focal", gamma=1), digits("focal", gamma=1.0)], tmp_path)[1].directory
        == run.directory
    )
    assert len(list(tmp_path.iterdir())) == 1


def test_warnings_show_no_source_line(capsys, monkeypatch):
    import warnings

    def warn(*_):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("SVHN: too few [samples]", UserWarning, stacklevel=1)

    monkeypatch.setitem(COMMANDS, "list", (COMMANDS["list"][0], warn))
    assert cli.main(["list"]) == 0
    assert capsys.readouterr().err == "warning: SVHN: too few [samples]\n"
