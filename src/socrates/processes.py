"""Worker processes of one thread each, a pool with ordered results, and the signals of a process.

The studies of `engine` and the parts of an `audit` run in such processes. Nothing here imports
another part of the package.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")

# Threads that spin while they wait collapse as soon as anything else uses the cores.
ONE_THREAD = {
    "OMP_WAIT_POLICY": "PASSIVE",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
# A terminal sends these to the workers too, but it is the parent that ends them.
FOR_THE_PARENT = ("SIGINT", "SIGHUP")


def in_processes(
    work: Callable[[Job], Outcome],
    jobs: Sequence[Job],
    workers: int,
    preload: Sequence[str] = (),
) -> Iterator[Outcome]:
    """Yield `work(job)` for each job, in the order of the jobs.

    The first error in that order ends all processes and is raised. What a process warns of is
    warned of here, each text once. Each process works at most one job ahead, so that only a few
    results are in memory at a time.

    This is not a `ProcessPoolExecutor`: its processes share one pipe, and one that is ended while
    it writes there leaves the pool waiting for the rest of the message.

    Args:
        work: a function of a module, which the workers import.
        jobs: its arguments; functions, jobs and results are pickled.
        workers: the number of processes.
        preload: modules that are slow to import, see `worker_context`.
    """
    context = worker_context(preload)
    count = min(workers, len(jobs))
    pool: list[_Worker] = []
    try:
        for first in range(count):
            # A signal between start and entry would leave a process that nothing ends.
            with later(*FOR_THE_PARENT):
                pool.append(_Worker(context, work, jobs[first::count]))
        known: set[str] = set()
        for number in range(len(jobs)):
            outcome, messages = pool[number % count].receive()
            warn_of(messages, known)
            yield outcome
    finally:
        for worker in pool:
            worker.end()


class _Worker:
    """A process that does its share of the jobs, and our end of its pipe."""

    def __init__(self, context: Any, work: Callable[[Job], Outcome], jobs: Sequence[Job]) -> None:
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_do_all, args=(theirs, work))
        self.process.start()
        theirs.close()
        # Jobs may be large. As arguments of the process, they would leave it with a traceback if
        # this process were killed while it sent them.
        with contextlib.suppress(ConnectionError):  # `receive` says how the process ended
            self.connection.send(jobs)

    def receive(self) -> tuple[Any, Sequence[str]]:
        """Return the result of the next job and what it warned of, or raise its error."""
        try:
            done, error = self.connection.recv()
        except (EOFError, OSError):  # between two messages, or within one
            self.process.join()
            raise ChildProcessError(
                f"a worker process ended with exit code {self.process.exitcode}: was it killed "
                "because memory ran out? Try fewer workers. A script that uses several must do so "
                "below `if __name__ == '__main__':`"
            ) from None
        if error is not None:
            raise error
        return done

    def end(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def _do_all(connection: Connection, work: Callable[[Job], Outcome]) -> None:
    """Receive the jobs through the pipe, and send the result or the error of each."""
    become_a_worker()
    try:
        jobs: Sequence[Job] = connection.recv()
    except (EOFError, OSError):  # the parent is gone
        return
    for job in jobs:
        try:
            message = with_warnings(work, job), None
        except (ValueError, OSError) as error:
            message = None, error
        except MemoryError as error:  # numpy's own kind cannot be pickled in every version
            message = None, MemoryError(str(error))
        except Exception as error:
            message = None, RuntimeError(repr(error))
        try:
            connection.send(message)
        except (BrokenPipeError, ConnectionResetError):  # the parent is gone
            return


def with_warnings(work: Callable[[Job], Outcome], job: Job) -> tuple[Outcome, list[str]]:
    """Return the result of a job and the texts of its warnings, each once.

    >>> with_warnings(lambda job: 2 * job, 3)
    (6, [])
    """
    with warnings.catch_warnings(record=True) as caught:
        outcome = work(job)
    return outcome, [*dict.fromkeys(str(warning.message) for warning in caught)]


def warn_of(messages: Iterable[str], known: set[str]) -> None:
    """Warn of what another process warned of, unless it is known already."""
    for message in messages:
        if message not in known:
            known.add(message)
            warnings.warn(message, stacklevel=3)


def worker_context(preload: Sequence[str] = ()) -> Any:
    """Return the `multiprocessing` context that starts workers.

    Where the system has a fork server, it imports the modules of `preload` once, with one thread
    and without answering Ctrl-C, and each worker starts from there at once.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*preload])
    # The variables must be set before torch is imported.
    with environment(ONE_THREAD), handled(signals(*FOR_THE_PARENT), signal.SIG_IGN):
        forkserver.ensure_running()
    return context


def become_a_worker() -> None:
    """Make this process one of one thread that only its parent ends, and that ends with it."""
    import torch

    for number in signals(*FOR_THE_PARENT):
        signal.signal(number, signal.SIG_IGN)
    os.environ.update(ONE_THREAD)
    torch.set_num_threads(1)
    threading.Thread(target=leave_with_parent, daemon=True).start()


def leave_with_parent() -> None:
    """Wait until the parent is gone, then end this process at once."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the time of a `with` block.

    >>> with environment({"SOCRATES_EXAMPLE": "1"}):
    ...     os.environ["SOCRATES_EXAMPLE"]
    '1'
    >>> "SOCRATES_EXAMPLE" in os.environ
    False
    """
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def signals(*names: str) -> list[int]:
    """Return the numbers of those signals that this system has."""
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def unhandled(*names: str) -> list[int]:
    """Return the numbers of those signals for which no program has set a handler."""
    usual: dict[int, Any] = {signal.SIGINT: signal.default_int_handler}
    return [
        number
        for number in signals(*names)
        if signal.getsignal(number) == usual.get(number, signal.SIG_DFL)
    ]


@contextlib.contextmanager
def handled(numbers: Iterable[int], handler: Any) -> Iterator[None]:
    """Handle signals by another handler for the time of a `with` block.

    Python allows this in the main thread only; elsewhere nothing changes.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in numbers if in_main_thread}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)


@contextlib.contextmanager
def later(*names: str) -> Iterator[None]:
    """Let signals wait until the `with` block ends; they are then handled as always."""
    noted: list[int] = []
    with handled(signals(*names), lambda number, _: noted.append(number)):
        yield
    for number in noted:
        signal.raise_signal(number)


def available_cores() -> int:
    """Return the number of cores this process may use, which may be fewer than the machine has.

    >>> available_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
