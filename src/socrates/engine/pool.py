"""Processes that train one run after the other; one that dies takes only its own run with it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch

from socrates.engine.events import EpochDone, Event, Started, Tell
from socrates.engine.train import train
from socrates.experiment import Experiment

# Threads that spin while they wait collapse as soon as anything else uses the cores.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
SECONDS_BETWEEN_EPOCHS_TOLD = 0.5
SECONDS_TO_DIE = 30.0  # an epoch that is nearly done is saved before its process ends
SILENCE: tuple[str, Any] = ("", None)


@dataclass
class Worker:
    """A process, our end of its pipe, and what it is training."""

    process: BaseProcess
    connection: Connection
    ready: bool = False
    experiment: Experiment | None = None


class Ended(NamedTuple):
    """The end of a run: None, or why it failed."""

    reason: str | None


class Pool:
    """At most `processes` workers, started when there is work for them; leaving the context ends them all."""

    def __init__(self, out: Path, data_root: Path | None, processes: int, accelerator: str) -> None:
        if processes < 1:
            raise ValueError(f"a pool needs at least 1 process, got {processes}")
        self.settings = (str(out), data_root, accelerator)
        self.processes = processes
        self.workers: list[Worker] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join(SECONDS_TO_DIE)
            if worker.process.is_alive():
                worker.process.kill()
            worker.process.join()
            worker.connection.close()
        self.workers.clear()

    def run(self, experiments: Iterable[Experiment], tell: Tell) -> Iterator[tuple[Experiment, str | None]]:
        """Train them all; each comes back when it ends, with None, or with the reason why it failed."""
        waiting = deque(experiments)
        while waiting or any(worker.experiment for worker in self.workers):
            self._hand_out(waiting, tell)
            for worker in self._speaking():
                experiment = worker.experiment
                ended = self._hear(worker, tell)
                if experiment is not None and ended is not None:
                    worker.experiment = None
                    yield experiment, ended.reason

    def _hand_out(self, waiting: deque[Experiment], tell: Tell) -> None:
        idle = [worker for worker in self.workers if worker.experiment is None]
        while waiting and (idle or len(self.workers) < self.processes):
            worker = idle.pop() if idle else self._start()
            experiment = waiting.popleft()
            with contextlib.suppress(OSError):  # it has died: that is heard next
                worker.connection.send(experiment)
            worker.experiment = experiment

    def _start(self) -> Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, *self.settings))
        with _inherited():
            process.start()
        theirs.close()
        self.workers.append(Worker(process, ours))
        return self.workers[-1]

    def _speaking(self) -> list[Worker]:
        """The workers that have something to say, or have died."""
        busy = [worker for worker in self.workers if worker.experiment is not None]
        by_handle: dict[Any, Worker] = {worker.connection: worker for worker in busy}
        by_handle |= {worker.process.sentinel: worker for worker in busy}
        spoken = {id(by_handle[handle]) for handle in wait(list(by_handle))}
        return [worker for worker in busy if id(worker) in spoken]

    def _hear(self, worker: Worker, tell: Tell) -> Ended | None:
        """How its run ended, if it did."""
        alive = worker.process.is_alive()  # asked first: what it said before it died is still in the pipe
        try:
            message: tuple[str, Any] = worker.connection.recv() if worker.connection.poll() else SILENCE
        except (EOFError, OSError):
            message, alive = SILENCE, False
        kind, value = message[0], message[1]
        if kind == "end":
            return Ended(value)
        if kind == "ready":
            worker.ready = True
        elif kind == "event":
            tell(value)
        elif not alive:
            return Ended(self._bury(worker))
        return None

    def _bury(self, worker: Worker) -> str:
        worker.process.join(SECONDS_TO_DIE)
        worker.connection.close()
        self.workers.remove(worker)
        code = worker.process.exitcode
        if not worker.ready and code is not None and code > 0:
            raise ChildProcessError(
                f"a process for training could not start (exit code {code}, its own words are above): a script that "
                f"trains in several processes must do so below `if __name__ == '__main__':`"
            )
        return why_it_died(code)


def why_it_died(code: int | None) -> str:
    """What an exit code says.

    >>> why_it_died(-9)
    'its process was killed (SIGKILL), as happens when memory runs out: try fewer processes'
    """
    if code == 128 + signal.SIGTERM:  # how training ends when it is asked to, after it saved its state
        code = -signal.SIGTERM
    if code is None or code >= 0:
        return f"its process ended by itself with exit code {code}"
    name = signal.Signals(-code).name
    hint = ", as happens when memory runs out: try fewer processes" if name == "SIGKILL" else ""
    return f"its process was killed ({name}){hint}"


@contextlib.contextmanager
def _inherited() -> Iterator[None]:
    """What a new process has from its first moment: one thread, set before torch is imported, and no ear for Ctrl-C.

    A terminal sends Ctrl-C to the children too; ours ends them, so their tracebacks would only be noise.
    """
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main else None
    try:
        yield
    finally:
        if in_main:
            signal.signal(signal.SIGINT, handler or signal.SIG_DFL)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _teller(connection: Connection) -> Tell:
    """Sends to the parent that a run starts, and its epochs now and then."""
    last = 0.0

    def tell(event: Event) -> None:
        nonlocal last
        due = isinstance(event, EpochDone) and time.monotonic() - last > SECONDS_BETWEEN_EPOCHS_TOLD
        if due or isinstance(event, Started):
            last = time.monotonic()
            connection.send(("event", event))

    return tell


def _work(connection: Connection, out: str, data_root: Path | None, accelerator: str) -> None:
    """What a worker does: train what comes until nothing more comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    connection.send(("ready", None))
    while True:
        try:
            experiment = connection.recv()
        except EOFError:
            return
        try:
            train(experiment, out, data_root=data_root, accelerator=accelerator, tell=_teller(connection))
            connection.send(("end", None))
        except Exception as error:
            connection.send(("end", reason_of(error)))


def _leave_with_parent() -> None:
    """End at once when the parent is gone, even if it was killed hard: nobody waits for the result."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def reason_of(error: Exception) -> str:
    """An error in one line: its own words if they are meant for users, else also its kind and place.

    >>> reason_of(ValueError("gamma must be at least 0, got -1"))
    'gamma must be at least 0, got -1'
    >>> reason_of(KeyError("x"))
    "KeyError: 'x'"
    """
    words = " ".join(str(error).split())
    if words and isinstance(error, ValueError | OSError | ImportError):
        return words
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {words}{place}" if words else f"{type(error).__name__}{place}"
