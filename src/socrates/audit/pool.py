"""Work on several processes of one thread each; results come in the order of the tasks, and nothing is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
# Threads that spin while they wait collapse as soon as anything else uses the cores.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", **dict.fromkeys(ONE_THREAD, "1")}


def in_processes(work: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> Iterator[Result]:
    """`work(task)` of each task, in their order; the first error in that order ends all processes and is raised.

    Process k takes the tasks k, k + workers, ..., and waits with a result until it is wanted: no more of them are in
    memory than there are processes.
    """
    context = _processes()
    going: list[tuple[Connection, Any]] = []
    try:
        for first in range(min(workers, len(tasks))):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_serve, args=(theirs, work, tasks[first::workers]), daemon=True)
            with _as_a_worker():
                process.start()
            theirs.close()
            going.append((ours, process))
        for place in range(len(tasks)):
            yield _result(*going[place % workers])
    finally:
        for _, process in going:
            process.terminate()
        for _, process in going:
            process.join()


def _processes() -> Any:
    """Where processes come from: a server that has imported what takes seconds to import, if the system has one."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["socrates.audit.measure", "pyarrow.parquet"])
    return context


def _result(connection: Connection, process: Any) -> Any:
    """The next result of a process."""
    try:
        result = connection.recv()
    except EOFError:
        process.join()
        raise ChildProcessError(
            f"a process ended with exit code {process.exitcode}: was it killed as memory ran out? Try fewer workers. "
            f"A script that uses several must do so below `if __name__ == '__main__':`"
        ) from None
    if isinstance(result, Exception):
        raise result
    return result


def _serve(connection: Connection, work: Callable[[Task], Result], tasks: Sequence[Task]) -> None:
    """What a process does."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    torch.set_num_threads(1)
    for task in tasks:
        try:
            result: Result | Exception = work(task)
        except Exception as error:
            result = error if isinstance(error, ValueError | OSError) else RuntimeError(repr(error))
        connection.send(result)


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
