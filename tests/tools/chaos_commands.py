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
import pyarrow
from PIL import Image
from pyarrow import parquet

import socrates
from chaos_runs import (
    Verdict,
    command,
    experiment_of,
    images,
    numbers,
    stopped_and_finished,
    survives,
    words_of,
)
from socrates.audit.read.parquet import PART_ROWS
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


def in_session(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = path.read_text().rsplit(")", 1)[1].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(path.parent.name))
    return found


def parent_of(pid: int) -> int | None:
    """Return the parent of a process, or None if the process is gone."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return None


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
    tables = folder / "tables"
    tables.mkdir()
    for part in range(2):  # each worker reads one, if it is large enough
        share = generator.random(PART_ROWS)
        columns = {"label": np.arange(len(share)) % 2, "p0": share, "p1": 1 - share}
        parquet.write_table(pyarrow.table(columns), tables / f"part-{part}.parquet")
    export = ["export", str(run.directory), "--format", "torch"]
    tune = ["tune", *words_of(folder)[1:-2], "--grid", "gamma=1,2", "--seeds", "1"]
    tune[tune.index("--epochs") + 1] = "300"  # long enough for signals to land in them
    tune[tune.index("--keep-every") + 1] = "300"
    for words, name, expected in (
        (["predict", str(run.directory), str(pictures)], "p.csv", 3),
        (export, "m.pt2", 0),
        (["audit", str(tables), "--workers", "2", "--sample", "2000"], "page", 0),
        (tune, "tuned", 0),
    ):
        yield from kill_until_done(words, name, expected, folder, chance)


def kill_until_done(
    words: list[str], name: str, expected: int, folder: Path, chance: random.Random
) -> Iterator[str]:
    """Kill a command twice, and its workers once; then its result is that of one left alone."""
    alone, place = folder / f"{words[0]}-alone", folder / f"{words[0]}-killed"
    for directory in (alone, place):
        directory.mkdir()
    start = time.monotonic()
    code, said = Process([*words, "--out", str(alone / name)], folder).end()
    seconds = time.monotonic() - start
    if code != expected:
        raise Verdict(f"{words[0]} ended with {code}: {said}")
    killed = [*words, "--out", str(place / name)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = Process(killed, folder)
        if words[0] == "tune":
            wait_for_training(process, place)
        else:
            time.sleep(chance.uniform(seconds / 4, seconds))
        process.process.send_signal(number)
        code, said = process.end()
        if "Traceback" in said:
            raise Verdict(f"{words[0]} after {number.name}: {said}")
        if code in (-number, 128 + number):
            yield f"`{words[0]}` killed"
        elif words[0] == "tune":
            raise Verdict(f"tune was not ended by {number.name}: exit code {code}, {said}")
    if words[0] in ("audit", "tune"):
        yield from kill_a_worker(killed, folder)
    code, said = Process(killed, folder).end()
    if code != expected or "Traceback" in said:
        raise Verdict(f"{words[0]} ended with {code} after it was killed: {said}")
    if contents(place) != contents(alone):
        raise Verdict(f"{words[0]} wrote something else after it was killed")
    no_halves(place)


def kill_a_worker(words: list[str], folder: Path) -> Iterator[str]:
    """Kill one worker of a command: the command ends well, or with a reason in one line."""
    process = Process(words, folder)
    wait_until(lambda: process.workers() or process.is_over(), "a worker")
    for victim in process.workers()[:1]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            yield f"worker of `{words[0]}` killed"
    code, said = process.end()
    if "Traceback" in said or code not in (0, 1) or (code and said.count("error: ") != 1):
        raise Verdict(f"{words[0]} after one of its workers was killed: exit code {code}, {said}")


def wait_for_training(process: Process, folder: Path) -> None:
    """Wait until a command trains a run in the folder, or has ended."""
    wait_until(lambda: process.is_over() or trains(folder), "the training of a run")


def trains(folder: Path) -> bool:
    """Return whether a run in the folder has written an epoch and is not finished."""
    return any(
        path.stat().st_size and not (path.parent / "finished.json").is_file()
        for path in folder.rglob("epochs.jsonl")
    )


def contents(folder: Path) -> dict[str, Any]:
    """Return what the files of a command's result say, without times and places."""
    if runs := sorted(path.parent for path in folder.rglob("finished.json")):
        return {run.name: Run(run).evaluation().to_json() for run in runs}
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(folder)): None if path.suffix == ".pt2" else digest(path)
        for path in files  # an exported program is a zip file, which has times
    }


def digest(path: Path) -> str:
    """Return a checksum of what a file holds."""
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

    def is_over(self) -> bool:
        """Return whether the command itself has ended."""
        return self.process.poll() is not None

    def others(self) -> list[int]:
        """The processes that it started."""
        return [pid for pid in in_session(self.process.pid) if pid != self.process.pid]

    def workers(self) -> list[int]:
        """Return the processes of its fork server: those that have a parent among `others`."""
        others = set(self.others())
        return sorted(pid for pid in others if parent_of(pid) in others)

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


SCENARIOS = (swaps, bad_disks, lost_ray_workers, lost_ranks, killed_commands)  # the longest last
