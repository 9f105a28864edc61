"""One training in two real processes gives the targets and weights of one; and what happens when
one is lost."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import re
import signal
import sys
from typing import Any

import pytest
import rank_cases
import torch
from PIL import Image
from processes import SECONDS_UNTIL_HUNG, alive, descendants, wait_for, whole_lines

from socrates import SocratesLoss, methods
from socrates.contracts import Batch, Stream
from socrates.data.augment import Transform
from socrates.data.resident import ResidentImages
from socrates.data.streamed import StreamedImages
from socrates.engine.launch import _others_started
from socrates.engine.ranks import Ranks as Places
from socrates.records import Run

pytestmark = pytest.mark.slow


class Ranks:
    """Two processes that do the same function of `rank_cases`, each as its rank."""

    def __init__(self, folder) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipes, self.processes = [], []
        for rank in range(rank_cases.RANKS):
            here, there = context.Pipe()
            process = context.Process(
                target=rank_cases.serve,
                args=(rank, f"file://{folder / 'rendezvous'}", there),
                daemon=True,
            )
            process.start()
            self.pipes.append(here)
            self.processes.append(process)

    def __call__(self, name: str, **options: Any) -> list[Any]:
        for pipe in self.pipes:
            pipe.send((name, options))
        answers = []
        for pipe in self.pipes:
            assert pipe.poll(SECONDS_UNTIL_HUNG), f"{name} hangs"
            answers.append(pipe.recv())
        assert all(good for good, _ in answers), "\n".join(
            str(words) for good, words in answers if not good
        )
        return [answer for _, answer in answers]

    def end(self) -> None:
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            pipe.send(None)
            process.join(30)
            process.kill()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    started = Ranks(tmp_path_factory.mktemp("ranks"))
    yield started
    started.end()


def assert_like_one_process(two, one):
    for rank in two:
        torch.testing.assert_close(rank["target"], one["target"], rtol=0, atol=1e-6)
        torch.testing.assert_close(rank["weights"], one["weights"], rtol=0, atol=1e-5)
        assert torch.equal(rank["moved"], one["moved"])
        assert not len(rank["unvisited"])
    assert torch.equal(two[0]["target"], two[1]["target"])
    mean = (torch.tensor(two[0]["loss"]) + torch.tensor(two[1]["loss"])) / 2
    torch.testing.assert_close(mean, torch.tensor(one["loss"]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("loss", rank_cases.LOSSES)
@pytest.mark.parametrize(
    "shares", [(0.5, 1.0), (0.8, 1.0), (1.0, 1.0)], ids=["half", "unequal", "none"]
)
def test_a_loop_of_ones_own_is_that_of_one_process(ranks, loss, shares):
    one = rank_cases.own_loop(rank=0, world=1, loss=loss)
    assert (one["moved"] == 3).all()  # every sample once an epoch
    assert_like_one_process(ranks("own_loop", loss=loss, shares=shares), one)


@pytest.mark.parametrize(
    "options", [{"ignored": True}, {"weighted": True}, {"wrapped": True, "ignored": True}]
)
def test_ignored_samples_class_weights_and_recomputation_too(ranks, options):
    one = rank_cases.own_loop(rank=0, world=1, **options)
    assert_like_one_process(ranks("own_loop", shares=(0.7, 1.0), **options), one)


@pytest.mark.parametrize(("batch_size", "accumulation"), [(4, 1), (2, 2), (1, 4)])
def test_the_hugging_face_trainer_on_two_ranks_is_that_on_one(
    ranks, batch_size, accumulation, tmp_path
):
    one = rank_cases.hugging_face(rank=0, batch_size=8, accumulation=1, folder=tmp_path)
    two = ranks("hugging_face", batch_size=batch_size, accumulation=accumulation, folder=tmp_path)
    assert one.pop("ranks") == 1
    for state in two:
        assert state.pop("ranks") == 2
        torch.testing.assert_close(state, one, rtol=0, atol=1e-6)


def test_the_same_sample_on_both_ranks_and_a_rank_without_any(ranks):
    first, second = ranks("doubles")
    assert torch.equal(first, second)
    assert torch.equal(first, rank_cases.doubles(rank=0, world=1))


def test_the_docstring_tells_the_bytes_of_a_step(ranks):
    assert ranks("bytes_of_a_step", batch=6) == [16 + 8 * 6] * 2


def test_without_a_group_each_rank_remembers_alone(ranks):
    first, second = ranks("alone")
    assert (first != 1).sum() == 2
    assert (second == 1).all()


def test_a_rank_that_does_not_take_part_ends_in_a_time_out_that_names_the_option(ranks):
    said, nothing = ranks("absent")
    assert nothing is None
    assert "SocratesLoss" in said
    assert "process_group=None" in said


def test_autocast(ranks):
    first, second = ranks("in_half_precision")
    assert torch.equal(first, second)
    assert (first < 1).all()


@pytest.mark.parametrize("kind", ["resident", "resized", "streamed"])
@pytest.mark.parametrize("stream", [None, Stream(seed=1, epoch=2)])
def test_parts_of_batches_are_those_of_the_whole_ones_bit_for_bit(kind, stream, tmp_path):
    pixels, labels = torch.randint(256, (7, 3, 9, 9), dtype=torch.uint8), torch.arange(7)
    how: dict[str, Any] = (
        {"size": 8, "scale": (0.2, 1.0)} if kind != "resident" else {"padding": 2, "degrees": 20.0}
    )
    transform = Transform((0.5,) * 3, (0.5,) * 3, flip=True, **how)
    split: Any = ResidentImages(pixels, labels, transform)
    if kind == "streamed":
        paths = [tmp_path / f"{number}.png" for number in range(7)]
        for path, image in zip(paths, pixels, strict=True):
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
        split = StreamedImages(paths, labels, transform)
    order = torch.tensor([6, 2, 0, 4, 1])
    parts = [
        list(Places(rank, 2).batches(split, 4, order, stream, first_step=0)) for rank in range(2)
    ]
    for step, whole in enumerate(split.batches(4, order, stream)):
        first, second = (part[step] for part in parts)
        assert torch.equal(first.index, whole.index)
        if len(whole) == 1:  # the second rank has none, and borrows it
            assert torch.equal(first.inputs, whole.inputs)
            assert torch.equal(second.inputs, whole.inputs)
        else:
            assert torch.equal(torch.cat([first.inputs, second.inputs]), whole.inputs)


def test_a_split_that_gives_whole_batches_is_cut_and_so_are_mappings():
    class Whole:
        def batches(self, size, order, stream=None, first_step=0):
            inputs = {"tokens": torch.arange(5), "mask": torch.ones(5, 2)}
            yield Batch(inputs, torch.zeros(5, dtype=torch.int64), order)

    second = Places(1, 2)
    batch = second.part_of(next(second.batches(Whole(), 5, torch.arange(5))))
    assert batch.inputs["tokens"].tolist() == [3, 4]
    assert batch.inputs["mask"].shape == (2, 2)
    assert len(batch) == 5
    with pytest.raises(ValueError, match=r"5 .*2 inputs, .*4 rows"):
        batch.whole(torch.zeros(4, 3))


def test_devices_that_cannot_be_are_one_line(run_on_a_line, tmp_path, monkeypatch):
    words = ["train", "digits", "mlp", "ce", "--out", tmp_path]
    assert run_on_a_line(*words, "--devices", 0) == (
        1,
        "error: devices must be a whole number of at least 1, got 0",
    )
    code, said = run_on_a_line(*words, "--devices", 2, "--minutes", 1)
    assert code == 1
    assert "--minutes" in said
    assert "--epochs" in said
    for name, value in {
        "TORCHELASTIC_RUN_ID": "x",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "RANK": "0",
    }.items():
        monkeypatch.setenv(name, value)
    code, said = run_on_a_line(*words, "--devices", 3)
    assert code == 1
    assert "torchrun started 2 processes" in said
    assert not list(tmp_path.iterdir())


def test_processes_that_were_started_end_when_they_cannot_be_joined(monkeypatch):
    from lightning_fabric.plugins.environments import LightningEnvironment

    script = (
        "from socrates.engine import launch; launch._meet_starter(); import time; time.sleep(600)"
    )
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-c", script])
    with (
        pytest.raises(RuntimeError, match="in use"),
        _others_started(LightningEnvironment(), 3, 3) as started,
    ):
        raise RuntimeError("the address is in use")
    assert [process.wait() for process in started] == [-signal.SIGKILL] * 2
    assert "WORLD_SIZE" not in os.environ


# As a failing import, or memory that runs out, would end the second process.
DIES_AT_START = """
import os, signal, sys
if os.environ.get("LOCAL_RANK") == "1":
    {death}
from socrates.cli import main
if __name__ == "__main__":
    sys.exit(main())
"""
DEATHS = {
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
    "left": ("sys.exit(3)", "exit code 3"),
    # between the meeting and the connection, where torch waits for it
    "connecting": (
        "from socrates.engine import launch; launch._meet_starter(); os._exit(4)",
        "exit code 4",
    ),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_rank_that_dies_while_it_starts_ends_all_with_one_line(start, tmp_path, death):
    how, named = DEATHS[death]
    (tmp_path / "dies.py").write_text(DIES_AT_START.format(death=how))
    words = [*WORDS, "--epochs", 2, "--out", tmp_path / "runs", "--devices", 2]
    process = start(tmp_path / "dies.py", *words)
    assert process.ended() == 1
    lines = [line for line in process.said().splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert named in lines[0]
    assert "Traceback" not in process.said()
    assert not list(tmp_path.glob("runs/*"))


def test_ctrl_c_ends_a_run_whose_other_process_never_comes(start, tmp_path):
    (tmp_path / "slow.py").write_text(DIES_AT_START.format(death="import time; time.sleep(600)"))
    words = [*WORDS, "--epochs", 2, "--out", tmp_path / "runs", "--devices", 2]
    process = start(tmp_path / "slow.py", *words)
    (other,) = process.wait_for(lambda: descendants(process.pid))
    process.ctrl_c()
    assert process.ended() == 130
    assert process.said().count("stopped") == 1
    assert "Traceback" not in process.said()
    wait_for(lambda: not alive(other))


def test_a_rank_ends_when_its_starter_is_killed_while_they_start(start, tmp_path):
    late = "import pathlib, time; pathlib.Path('late').touch(); time.sleep(1.0)"
    (tmp_path / "late.py").write_text(DIES_AT_START.format(death=late))
    words = [*WORDS, "--epochs", 2, "--out", tmp_path / "runs", "--devices", 2]
    process = start(tmp_path / "late.py", *words, cwd=tmp_path)
    process.wait_for((tmp_path / "late").exists)
    (other,) = descendants(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: not alive(other))


def test_a_process_group_that_is_none_is_refused():
    with pytest.raises(ValueError, match="got 'all'"):
        SocratesLoss(3, process_group="all")
    assert "process_group" not in repr(SocratesLoss(3))


OPTIONS = {"ccl_sc": {"start_epoch": 1, "queue_size": 4, "epochs": 3}, "sat": {"start_epoch": 1}}
CASES = [(name, OPTIONS.get(name, {})) for name in methods.METHODS]


@pytest.fixture(scope="module")
def trained(ranks, tmp_path_factory):
    """The states after training by every method: on the first rank, on the second, and in one
    process."""
    out = tmp_path_factory.mktemp("trained")
    two = ranks("train_each", out=out / "two", cases=CASES)
    return [*two, rank_cases.train_each(0, out / "one", CASES)]


OTHERS = [
    ("socrates", {"precision": "bf16-mixed"}), ("sat", {"precision": "bf16-mixed", "epochs": 1}),
    ("mc", {"model": "cnn"}), ("ccl_sc", {**OPTIONS["ccl_sc"], "model": "cnn"}),
    ("ce", {"choose": "nll"}), ("ce", {"frozen": True}),
    ("socrates", {"clip_norm": 0.1}),
    ("ce", {"clip_norm": 0.1, "frozen": True, "precision": "bf16-mixed"}),
]  # fmt: skip


def test_half_precision_batch_norm_and_frozen_bodies_keep_the_ranks_together(ranks, tmp_path):
    two = ranks("train_each", out=tmp_path, cases=OTHERS)
    for (name, options), first, second in zip(OTHERS, *two, strict=True):
        for key, value in first.items():
            local = "encoder" in key  # whose running means nothing reads
            assert local or torch.equal(value, second[key]), (name, options, key)
            assert value.isfinite().all(), (name, options, key)


STOPPED = [(name, OPTIONS.get(name, {})) for name in ("socrates", "ccl_sc", "mc")]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 2)])
def test_a_run_that_was_stopped_amid_an_epoch_goes_on_with_any_number_of_ranks(
    ranks, trained, tmp_path, before, after
):
    def train(count, **options):
        options |= {"out": tmp_path, "cases": STOPPED}
        return (
            ranks("train_each", **options) if count == 2 else [rank_cases.train_each(0, **options)]
        )

    for states in train(before, stop_at=(1, 3)):
        assert [state["done"].tolist() for state in states] == [[1, 4]] * len(STOPPED)
    whole = trained[0 if (before, after) == (2, 2) else 2]
    for states in train(after):
        for (name, _), state in zip(STOPPED, states, strict=True):
            for key, value in whole[list(methods.METHODS).index(name)].items():
                exact = (before, after) == (2, 2)
                torch.testing.assert_close(state[key], value, rtol=0, atol=0 if exact else 1e-5)


@pytest.mark.parametrize("name", methods.METHODS)
def test_every_method_gives_the_state_of_one_process(trained, name):
    first, second, one = (states[list(methods.METHODS).index(name)] for states in trained)
    assert first.keys() == one.keys()
    for key, value in one.items():
        assert torch.equal(first[key], second[key]), key
        torch.testing.assert_close(first[key], value, rtol=0, atol=1e-5)
    targets = [value for key, value in one.items() if key.endswith("criterion.target")]
    assert all((target != 1).all() for target in targets)


WORDS = [
    "train",
    "digits",
    "mlp",
    "socrates",
    "--width",
    8,
    "--num-train",
    49,
    "--batch-size",
    8,
    "--device",
    "cpu",
]


def test_the_command_stops_on_all_ranks_at_once_and_a_lost_rank_ends_it_with_one_line(
    start, tmp_path
):
    words = [*WORDS, "--epochs", 100_000, "--out", tmp_path, "--devices", 2]
    process = start(*words)
    records = process.wait_for(lambda: list(tmp_path.glob("*/epochs.jsonl")))[0]
    process.wait_for(lambda: whole_lines(records) > 1)
    (other,) = descendants(process.pid)
    os.kill(process.pid, signal.SIGTERM)
    assert process.ended() == 128 + signal.SIGTERM
    assert process.said().count("stopped: ") == 1
    wait_for(lambda: not alive(other))
    before = whole_lines(records)
    assert f"{before} of 100000 epochs" in process.said()

    process = start(*words)
    process.wait_for(lambda: whole_lines(records) > before)
    os.kill(next(iter(descendants(process.pid))), signal.SIGKILL)
    assert process.ended() == 1
    assert process.said().count("error: ") == 1
    assert re.search(r"another process .*\b2\b.*lost", process.said())
    assert "checkpoint" in process.said()
    assert [path.name for path in tmp_path.rglob("lock")] == []


def test_torchrun_gives_the_run_of_one_process(start, run, tmp_path):
    words = [*WORDS, "--epochs", 2]
    torchrun = [
        importlib.import_module("torch.distributed.run").__file__,
        "--nproc-per-node",
        2,
        "--standalone",
    ]
    process = start(*torchrun, "-m", "socrates.cli", *words, "--out", tmp_path / "two")
    assert run(*words, "--out", tmp_path / "one")[0] == 0
    assert process.ended() == 0, process.said()
    assert process.said().count("finished: ") == 1
    one, two = (Run(next((tmp_path / name).iterdir())) for name in ("one", "two"))
    assert one.directory.name == two.directory.name
    for split in ("val", "test"):
        here, there = one.predictions(split, 2), two.predictions(split, 2)
        assert (here.labels == there.labels).all()
        assert abs(here.logits - there.logits).max() < 1e-5  # each sample once, in its place
    for first, second in zip(one.epochs(), two.epochs(), strict=True):
        for key in first.values.keys() - {"seconds"}:
            assert second.values[key] == pytest.approx(first.values[key], abs=1e-5, nan_ok=True), (
                key
            )
