"""Commands in processes of their own: tests wait for what must come, never for a while."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SECONDS_UNTIL_HUNG = 300.0  # only a hang takes as long; nothing is concluded from what is faster


def wait_for(
    condition: Callable[[], Any],
    process: subprocess.Popen | None = None,
    said: Callable[[], str] = str,
) -> Any:
    """What the condition gives as soon as that is true; fails at once, with its words, if the
    process ends before."""
    end = time.monotonic() + SECONDS_UNTIL_HUNG
    while True:
        # asked first: it may come true as the last thing
        ended = process is not None and process.poll() is not None
        if found := condition():
            return found
        if ended:
            pytest.fail(
                f"the process ended with {process.returncode} before it happened:\n{said()}"
            )
        if time.monotonic() > end:
            pytest.fail(f"it did not happen within {SECONDS_UNTIL_HUNG:.0f} seconds:\n{said()}")
        time.sleep(0.02)


class Started:
    """A process in a session of its own; its words go to files, so that it never waits for a
    reader."""

    def __init__(self, words: list[str], folder: Path, **options: Any) -> None:
        self.stdout, self.stderr = folder / "stdout.txt", folder / "stderr.txt"
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",
            "COLUMNS": "200",
        }
        with open(self.stdout, "wb") as out, open(self.stderr, "wb") as errors:
            self.process = subprocess.Popen(
                words, stdout=out, stderr=errors, env=environment, start_new_session=True, **options
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        """Waits until the condition is true."""
        return wait_for(condition, self.process, self.said)

    def ctrl_c(self) -> None:
        """As a terminal sends it: the children hear it too."""
        os.killpg(self.pid, signal.SIGINT)

    def ended(self) -> int:
        """Its exit code, when it has one."""
        wait_for(lambda: self.process.poll() is not None, said=self.said)
        return self.process.returncode

    def said(self) -> str:
        """All of its words so far."""
        return self.stdout.read_text() + self.stderr.read_text()

    def end(self) -> None:
        """Whatever is left of it goes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


def whole_lines(path: Path) -> int:
    """How many lines of a file are written to their end; none if it is not there."""
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def alive(pid: int) -> bool:
    """Whether a process is there and not only waiting to be buried."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def descendants(pid: int) -> set[int]:
    """The processes below one."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in {pid, *found}} - found:
        found |= more
    return found
