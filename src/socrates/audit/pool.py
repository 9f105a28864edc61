"""Work on several processes of one thread each; results come in the order of the tasks, and nothing is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
# Threads that spin while they wait collapse as soon as anything else uses the cores.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def in_processes(work: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> Iterator[Result]:
    """`work(task)` of each task, in their order; the first error in that order ends all processes and is raised."""
    context = _processes()
    going: dict[Connection, Any] = {}
    done: dict[int, Result | Exception] = {}
    try:
        for first in range(min(workers, len(tasks))):
            ours, theirs = context.Pipe(duplex=False)
            own = [(place, tasks[place]) for place in range(first, len(tasks), workers)]
            process = context.Process(target=_serve, args=(theirs, work, own), daemon=True)
            with _as_a_worker():
                process.start()
            theirs.close()
            going[ours] = process
        for place in range(len(tasks)):
            while place not in done:
                for connection in wait(list(going)):
                    _hear(connection, going, done)  # pyright: ignore[reportArgumentType]
            result = done.pop(place)
            if isinstance(result, Exception):
                raise result
            yield result
    finally:
        for process in going.values():
            process.terminate()
        for process in going.values():
            process.join()


def _processes() -> Any:
    """Where processes come from: a server that has imported what takes seconds to import, if the system has one."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["socrates.audit.measure", "pyarrow.parquet"])
    return context


def _hear(connection: Connection, going: dict[Connection, Any], done: dict[int, Any]) -> None:
    """Take the next result of a process; one that ends has sent None before."""
    try:
        message = connection.recv()
    except EOFError:
        process = going[connection]
        process.join()
        raise ChildProcessError(
            f"a process ended with exit code {process.exitcode}: was it killed as memory ran out? Try fewer workers. "
            f"A script that uses several must do so below `if __name__ == '__main__':`"
        ) from None
    if message is None:
        going.pop(connection).join()
    else:
        done[message[0]] = message[1]


def _serve(connection: Connection, work: Callable[[Task], Result], tasks: Sequence[tuple[int, Task]]) -> None:
    """What a process does."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    torch.set_num_threads(1)
    for place, task in tasks:
        try:
            result: Result | Exception = work(task)
        except Exception as error:
            result = error if isinstance(error, ValueError | OSError) else RuntimeError(repr(error))
        connection.send((place, result))
    connection.send(None)


@contextmanager
def _as_a_worker() -> Iterator[None]:
    """What a process that starts inherits: one thread, and deafness to Ctrl-C, on which the parent ends it."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main else None
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        if in_main:
            signal.signal(signal.SIGINT, handler)
