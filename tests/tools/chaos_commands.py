"""Faults beside those of one run: files swapped between runs, commands that are killed, ranks and
Ray workers that die, and disks that are full or read-only."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import socrates
from chaos_runs import (
    Verdict,
    command,
    experiment_of,
    images,
    in_child,
    numbers,
    stopped_and_finished,
    survives,
    words_of,
)
from socrates import cli
from socrates.engine import evaluate, train
from socrates.engine.display import describe
from socrates.records import Run

SECONDS_UNTIL_HUNG = 240.0
SECONDS_TO_END = 10.0  # of all ranks, after one died while they started
SWAPPED = (
    "evaluation.json", "finished.json", "epochs.jsonl", "experiment.json", "model.safetensors",
    "predictions/test-0004.npz", "predictions/val-0004.npz",
)  # fmt: skip
OUTCOMES = ("told", "same numbers")


def wait_until(condition: Callable[[], Any], what: str, seconds: float = SECONDS_UNTIL_HUNG) -> Any:
    """What the condition gives as soon as that is true; a Verdict if it takes too long."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise Verdict(f"{what} did not happen within {seconds:.0f} seconds")
        time.sleep(0.02)
    return found


def no_halves(folder: Path) -> None:
    """Nothing half-written may stay."""
    if left := [path.name for path in folder.rglob("*.tmp")]:
        raise Verdict(f"{left} was left")


def swaps(folder: Path, chance: random.Random) -> Iterator[str]:
    """Each file of a run is replaced by that of the same run with another seed."""
    stopped, ours = stopped_and_finished(folder / "ours")
    name = experiment_of("socrates").name
    other = train(replace(experiment_of("socrates"), seed=2), folder / "other", accelerator="cpu")
    whole = Run(ours / name)
    shown = [command("show", str(original / name))[1] for original in (stopped, ours)]
    expected: dict[str, Any] = {
        "evaluation": whole.evaluation().to_json(),
        "evaluation then": evaluate(Run(stopped / name)).to_json(),
        "probabilities": socrates.load(whole.directory).predict(images()).probs.numpy(),
        "shown": "".join([*shown, *map(describe, whole.epochs())]),
    }
    for relative in SWAPPED:
        for action in ("evaluate", "show", "report", "load"):
            tried = folder / "tried"
            shutil.copytree(ours, tried)
            shutil.copy(other.directory / relative, tried / name / relative)
            try:
                outcome = survives(action, tried, expected)
            except Verdict as verdict:
                raise Verdict(f"{relative} of another seed, {action}: {verdict}") from None
            finally:
                shutil.rmtree(tried)
            if outcome not in OUTCOMES:
                raise Verdict(f"{relative} of another seed, {action}: {outcome}")
            yield "swap"


def kill_until_done(words: list[str], folder: Path, chance: random.Random, expected: int) -> int:
    """Kill a command at random moments, two times, then let it end; how often it was killed."""
    kills = 0
    for attempt in range(3):
        number = chance.choice((signal.SIGKILL, signal.SIGTERM))

        def work() -> None:
            os.setsid()
            with open(folder / "said.txt", "w") as said:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
            raise SystemExit(cli.main(words))

        pid = in_child(work, folder)
        if attempt < 2:
            time.sleep(chance.uniform(0, 3))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        _, status = os.waitpid(pid, 0)
        wait_until(lambda pid=pid: not in_session(pid), "the end of all processes of a command")
        if os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 128 + signal.SIGTERM:
            kills += 1
        elif attempt == 2 and in_words(folder) is None:
            raise Verdict(f"{words} ended without a word")
    code, _, err = command(*words)
    if code != expected:
        raise Verdict(f"{words[0]} ended with {code} after {kills} kills: {err}")
    return kills


def in_words(folder: Path) -> str | None:
    """What a command said, unless it is a traceback."""
    said = (folder / "said.txt").read_text(errors="replace")
    return None if "Traceback" in said else said


def in_session(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = path.read_text().rsplit(")", 1)[1].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(path.parent.name))
    return found


def killed_commands(folder: Path, chance: random.Random) -> Iterator[str]:
    """`predict`, `export`, `audit --workers 2` and `tune` are killed; the next one is whole."""
    run = train(experiment_of("socrates"), folder / "runs", accelerator="cpu")
    pictures = folder / "pictures"
    pictures.mkdir()
    generator = np.random.default_rng(0)
    for number in range(300):
        pixels = generator.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(pictures / f"{number:03}.png")
    (pictures / "broken.png").write_bytes(b"no image")
    rows = "".join(f"{k % 2},{p:.4f},{1 - p:.4f}\n" for k, p in enumerate(generator.random(400)))
    (folder / "table.csv").write_text("label,p0,p1\n" + rows)
    place = folder / "out"
    place.mkdir()
    predict = ["predict", str(run.directory), str(pictures), "--out", str(place / "p.csv")]
    export = ["export", str(run.directory), "--format", "torch", "--out", str(place / "m.pt2")]
    audit = ["audit", str(folder / "table.csv"), "--workers", "2", "--out", str(place / "page")]
    tune = ["tune", *words_of(place / "tuned")[1:], "--grid", "gamma=1,2", "--seeds", "1"]
    outputs = {"predict": "p.csv", "export": "m.pt2", "audit": "page/index.html"}
    for words, expected in ((predict, 3), (export, 0), (audit, 0), (tune, 0)):
        kills = kill_until_done(words, folder, chance, expected)
        if name := outputs.get(words[0]):
            once = digest(place / name)
            if command(*words)[0] != expected:
                raise Verdict(f"{words[0]} does not work twice")
            if words[0] != "export" and digest(place / name) != once:  # whose zip has times
                raise Verdict(f"{words[0]} wrote something else after it was killed")
        no_halves(place)
        for _ in range(kills):
            yield words[0]


def digest(path: Path) -> str:
    """Of what a file holds."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Process:
    """A command in a session of its own, and its words."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.said_in = folder / "said.txt"
        with self.said_in.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "socrates.cli", *words],
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def others(self) -> list[int]:
        """The processes that it started."""
        return [pid for pid in in_session(self.process.pid) if pid != self.process.pid]

    def end(self, seconds: float = SECONDS_UNTIL_HUNG) -> tuple[int, str]:
        """Its exit code and words, once all of its processes are gone."""
        try:
            wait_until(lambda: self.process.poll() is not None, "the end of a command", seconds)
            wait_until(lambda: not self.others(), "the end of all its processes", seconds)
        finally:
            for pid in in_session(self.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
        return self.process.returncode, self.said_in.read_text()


def lost_ranks(folder: Path, chance: random.Random) -> Iterator[str]:
    """A rank of `train --devices 2` dies while it starts, or in a step; the run then continues."""
    out = folder / "runs"
    words = [*words_of(out), "--devices", "2"]
    words[words.index("--epochs") + 1] = "400"
    for moment in ("at the start", "in a step"):
        process = Process(words, folder)
        if moment == "in a step":
            wait_until(
                lambda: any(path.stat().st_size for path in out.glob("*/epochs.jsonl")), "an epoch"
            )
        (victim,) = wait_until(process.others, "a second process")
        time.sleep(chance.uniform(0, 1))
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        limit = SECONDS_TO_END if moment == "at the start" else SECONDS_UNTIL_HUNG
        code, said = process.end(limit)
        if code != 1 or said.count("error: ") != 1 or "Traceback" in said:
            raise Verdict(f"a rank killed {moment}: exit code {code}, {said}")
        yield f"rank killed {moment}"
    code, said = Process(words, folder).end()
    if code:
        raise Verdict(f"a run did not continue on two ranks: {said}")
    no_halves(out)


def lost_ray_workers(folder: Path, chance: random.Random) -> Iterator[str]:
    """A worker of Ray is killed while it trains; its run continues, with the same numbers."""
    if importlib.util.find_spec("ray") is None:
        return
    words = ["sweep", "--methods", "ce", "--models", "mlp:width=8", "--seeds", "1-2"]
    words += ["--epochs", "300", "--num-train", "60", "--batch-size", "16", "--keep-every", "300"]
    there, here = folder / "ray", folder / "local"
    process = Process([*words, "--engine", "ray", "--out", str(there)], folder)

    def training() -> list[int]:
        with contextlib.suppress(OSError, ValueError, IndexError):
            begun = [path.parent for path in there.glob("*/epochs.jsonl") if path.stat().st_size]
            return [int((run / "lock").read_text().split()[0]) for run in begun]
        return []

    victim = wait_until(training, "the training of a run")[0]
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    code, said = process.end()
    if code:
        raise Verdict(f"a study did not outlive a worker of Ray: {said}")
    yield "Ray worker killed"
    code, said = Process([*words, "--out", str(here)], folder).end()
    for run in here.glob("digits-*"):
        if Run(run).evaluation() != Run(there / run.name).evaluation():
            raise Verdict(f"{run.name} has other numbers on Ray after a worker was killed")


def bad_disks(folder: Path, chance: random.Random) -> Iterator[str]:
    """A small file system fills up, or is read-only: one line, and then the run is finished."""
    expected = numbers(train(experiment_of("socrates"), folder / "whole", accelerator="cpu"))
    place = folder / "small"
    place.mkdir()
    if os.system(f"mount -t tmpfs -o size=64k chaos '{place}' 2>/dev/null"):
        return  # only root may
    try:
        words = words_of(place / "runs")
        one_line(words, "a full disk")
        yield "full disk"
        remount(place, "size=20m,ro")
        one_line(words, "a read-only disk")
        yield "read-only disk"
        remount(place, "size=20m,rw")
        if code := command(*words)[0]:
            raise Verdict(f"with room on the disk again, a run ended with {code}")
        run = Run(place / "runs" / experiment_of("socrates").name)
        if numbers(run) != expected:
            raise Verdict("a run has other numbers after its disk was full")
        no_halves(place)
        remount(place, "ro")
        for words in (["evaluate", str(run.directory)], ["export", str(run.directory)]):
            one_line(words, "a read-only disk")
            yield "read-only disk"
    finally:
        os.system(f"umount '{place}'")


def remount(place: Path, options: str) -> None:
    """Change a file system that is mounted."""
    if os.system(f"mount -o remount,{options} '{place}'"):
        raise Verdict(f"{place} could not be mounted with {options}")


def one_line(words: list[str], fault: str) -> None:
    """A command must end with one line that is no traceback."""
    code, _, err = command(*words)
    if code != 1 or err.strip().count("\n") or "Traceback" in err:
        raise Verdict(f"{words[0]} on {fault}: exit code {code}, {err!r}")


SCENARIOS = (swaps, killed_commands, lost_ranks, lost_ray_workers, bad_disks)
