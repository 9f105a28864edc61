"""Does any file from outside break a reader? Spoils small good files, a million of them: `make
fuzz`.

Every reader either takes a file or refuses it by a ValueError or OSError of one line that names the
file. All else is a finding: another error, several lines, a crash, more memory than two gigabytes,
more than ten seconds. Readers run in forks, for equal times and each at least once, until there
were enough inputs or time is up; what is spoiled is a function of the seed, so that
`--only "audit CSV" --first 123 --inputs 1` repeats the input 123. Exit code 1: there were
findings."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from hostile import Target

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
FIRST, LAST = "<!-- made by make fuzz -->", "<!-- end of what make fuzz made -->"
MEMORY = 2 << 30  # bytes that a reader may ask for
SECONDS = 10  # of work on one small file
SLICE = 20  # seconds that a fork lives


@dataclass
class Tally:
    """What became of the inputs of a reader."""

    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    # where and by which error, and what the first of them was
    findings: dict[str, str] = field(default_factory=dict)
    failed: int = 0

    @property
    def accepted(self) -> int:
        """Read without an error."""
        return self.inputs - self.refused - self.failed


def spoiled(target: Target, seed: int, number: int) -> bytes:
    """The input of that number."""
    return target.spoiled(random.Random(f"{seed} {target.name} {number}"))


def fault(target: Target, body: bytes) -> str | None:
    """Read a file: None if it was taken, "" if it was refused as it should be, else what is
    wrong."""
    target.path.write_bytes(body)
    try:
        target.read(target.path)
        return None
    except (ValueError, OSError) as error:
        told = str(error)
        if (
            type(error).__name__ == "UnicodeDecodeError"
            or "\n" in told
            or target.path.name not in told
        ):
            return (
                f"{_place(error)}: {type(error).__name__} that is not one line with the "
                f"file's name: {told[:200]!r}"
            )
        return ""
    except Exception as error:
        return f"{_place(error)}: {type(error).__name__}: {str(error)[:200]!r}"


def _place(error: Exception) -> str:
    """The innermost line of ours."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "socrates" in frame.filename
    ]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "outside"


def work(target: Target, seed: int, first: int, last: int, shared: Any, pipe: Any) -> None:
    """Read inputs from `first` on until `last` or the time is up; `shared` tells how far it came,
    even of a crash."""
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries of images talk
    sys.unraisablehook = partial(_unraisable, shared, pipe)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    end = time.monotonic() + SLICE
    for number in range(first, last):
        shared[0] = number
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        wrong = fault(target, spoiled(target, seed, number))
        signal.setitimer(signal.ITIMER_PROF, 0)
        shared[1] += 1
        shared[2] += wrong == ""
        if wrong:
            pipe.send((number, wrong))
        if time.monotonic() > end:
            break
    pipe.send(None)
    os._exit(0)


def _unraisable(shared: Any, pipe: Any, what: Any) -> None:
    """An error that a library prints because nobody can catch it."""
    pipe.send((shared[0], f"printed: {what.exc_type.__name__}: {what.exc_value}"))


@dataclass
class Fork:
    """A reader at work."""

    target: Target
    process: Any
    shared: Any
    pipe: Any
    began: float

    @classmethod
    def start(cls, target: Target, seed: int, first: int, last: int) -> Fork:
        context = multiprocessing.get_context("fork")
        shared = context.Array("q", 3, lock=False)
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=work, args=(target, seed, first, last, shared, theirs), daemon=True
        )
        process.start()
        theirs.close()
        return cls(target, process, shared, ours, time.monotonic())

    def collect(self, tally: Tally) -> None:
        """Wait for its end and count."""
        found: list[tuple[int, str]] = []
        try:
            while (one := self.pipe.recv()) is not None:
                found.append(one)
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            name = signal.Signals(-code).name if code and code < 0 else f"exit code {code}"
            why = f"more than {SECONDS} s" if name == "SIGPROF" else f"crashed by {name}"
            found.append((self.shared[0], why))
            self.shared[1] += 1
        self.process.join()
        tally.inputs += self.shared[1]
        tally.refused += self.shared[2]
        tally.seconds += time.monotonic() - self.began
        for number, wrong in found:
            tally.findings.setdefault(": ".join(wrong.split(": ")[:2]), f"input {number}: {wrong}")
        tally.failed += len(found)


def fuzz(
    all_targets: Sequence[Target],
    inputs: int,
    seconds: float,
    seed: int,
    first: int,
    processes: int,
) -> dict[str, Tally]:
    """Spoil and read in rounds, in which every reader has its turn, each as long as the others."""
    tallies = {target.name: Tally() for target in all_targets}
    end = time.monotonic() + seconds
    done = 0
    while done < inputs and time.monotonic() < end:
        waiting, running = list(all_targets), list[Fork]()
        while waiting or running:
            while waiting and len(running) < processes:
                target = waiting.pop(0)
                start = first + tallies[target.name].inputs
                running.append(Fork.start(target, seed, start, start + inputs - done))
            fork = running.pop(0)
            fork.collect(tallies[fork.target.name])
        done = sum(tally.inputs for tally in tallies.values())
        print(f"{done:,} inputs", flush=True)
    return tallies


def table(tallies: dict[str, Tally]) -> str:
    """Return the tallies as a Markdown table."""
    lines = [
        "| reader | inputs | refused | accepted | findings | inputs per second |",
        "|:--|--:|--:|--:|--:|--:|",
    ]
    total = Tally()
    for name, one in tallies.items():
        lines.append(_row(name, one))
        total.inputs, total.refused = total.inputs + one.inputs, total.refused + one.refused
        total.seconds, total.failed = total.seconds + one.seconds, total.failed + one.failed
        total.findings |= {f"{name} {key}": value for key, value in one.findings.items()}
    return "\n".join([*lines, _row("all", total)])


def _row(name: str, one: Tally) -> str:
    rate = f"{one.inputs / one.seconds:,.0f}" if one.seconds else ""
    return (
        f"| {name} | {one.inputs:,} | {one.refused:,} | {one.accepted:,} | "
        f"{len(one.findings)} | {rate} |"
    )


def added(files: Sequence[Path]) -> dict[str, Tally]:
    """The tallies of earlier times, added up."""
    total: dict[str, Tally] = {}
    for file in files:
        for name, plain in json.loads(file.read_text()).items():
            one = total.setdefault(name, Tally())
            for key in ("inputs", "refused", "seconds", "failed"):
                setattr(one, key, getattr(one, key) + plain[key])
            one.findings |= plain["findings"]
    return total


def write(tallies: dict[str, Tally]) -> None:
    """Put the table into the page, between its marks."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(FIRST)
    PAGE.write_text(
        f"{head}{FIRST}\n{table(tallies)}\n{LAST}{rest.partition(LAST)[2]}", encoding="utf-8"
    )


def run(given: argparse.Namespace) -> dict[str, Tally]:
    """Make the good files, in memory if that can be, and spoil them."""
    from fuzz_targets import targets

    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        chosen = [one for one in targets(Path(folder)) if one.name in given.only or not given.only]
        return fuzz(
            chosen, given.inputs, 60 * given.minutes, given.seed, given.first, given.processes
        )


def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of all readers together")
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="names of readers")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--write", action="store_true", help="write the table into docs/security.md"
    )
    parser.add_argument("--json", type=Path, help="write the tallies there")
    parser.add_argument(
        "--read", type=Path, nargs="*", help="add up such files instead of reading anything"
    )
    given = parser.parse_args(words)
    found = added(given.read) if given.read else run(given)
    print(table(found))
    if given.write:
        write(found)
    for name, tally in found.items():
        for told in tally.findings.values():
            print(f"{name}, {told}")
    if given.json:
        given.json.write_text(
            json.dumps({name: vars(tally) for name, tally in found.items()}, indent=1)
        )
    return int(any(tally.findings for tally in found.values()))


if __name__ == "__main__":
    sys.exit(main())
