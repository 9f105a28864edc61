"""The machines of a Ray cluster: a connection, and work whose results come in order.

What tasks read and write is on storage that all machines share under the same path.
"""

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from socrates.files import reason_of
from socrates.processes import (
    ONE_THREAD,
    Job,
    Outcome,
    available_cores,
    warn_of,
    with_warnings,
)

RETRIES = 10  # of a task whose worker or machine died: in a large cluster some always do
SECONDS_TO_ANSWER = 5.0
SECONDS_TO_DIE = 30.0  # a run that is asked to end saves within its step
SECONDS_BETWEEN_BEATS = 5.0
SECONDS_UNTIL_GONE = 30.0  # of silence; after 60 Ray itself ends this process, whatever it does


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Connect Ray to a cluster, or to a new one on this machine, for the time of a `with` block.

    A connection that exists already is used and left open.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "the engine ray needs the package ray: pip install 'socrates-loss[ray]'"
        ) from error
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, address)
    try:
        yield ray
    finally:
        if answers(ray):
            ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    """Connect Ray quietly, and keep the handler of SIGTERM, which Ray would replace."""
    # Workers import what this process can import: modules beside a script, and the package where
    # it is not installed.
    paths = [os.path.abspath(path) for path in dict.fromkeys(["", *sys.path])]
    variables = {**ONE_THREAD, "PYTHONPATH": os.pathsep.join(paths)}
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if not address:
        options |= {"num_cpus": available_cores(), "include_dashboard": False}
    # runs on CPUs leave devices as they are
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if address:
            _reach(address)
        ray.init(address=address or "local", runtime_env={"env_vars": variables}, **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise OSError(
            f"there is no Ray cluster at {address or 'this machine'} ({reason_of(error)}): "
            "start one, see docs/cluster.md"
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _reach(address: str) -> None:
    """Refuse an address where nothing listens: Ray itself would try it for minutes."""
    if address == "auto":
        from ray._private.services import canonicalize_bootstrap_address

        address = canonicalize_bootstrap_address(address) or ""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()


def answers(ray: Any) -> bool:
    """Return whether the connected cluster still answers.

    Shutting down a connection to one that does not would never end.
    """
    try:
        _reach(ray.get_runtime_context().gcs_address)
    except (OSError, ray.exceptions.RayError):
        return False
    return True


@dataclass
class Heartbeat:
    """Watch whether the connected cluster still answers."""

    ray: Any
    last_answer: float = field(default_factory=time.monotonic)
    last_look: float = field(default_factory=time.monotonic)

    def check(self) -> bool:
        """Return whether the cluster answered just now; raise if it has been silent for long.

        Called often, it asks every few seconds only.
        """
        if time.monotonic() - self.last_look < SECONDS_BETWEEN_BEATS:
            return False
        answered = answers(self.ray)
        self.last_look = time.monotonic()
        if answered:
            self.last_answer = self.last_look
        if self.last_look - self.last_answer > SECONDS_UNTIL_GONE:
            raise ConnectionError(
                "the Ray cluster is gone; what was saved is safe: start it again, then the same "
                "command continues"
            )
        return answered

    def wait(self, task: Any) -> Any:
        """Return the result of a task as soon as it is there."""
        while not self.ray.wait([task], timeout=SECONDS_BETWEEN_BEATS)[0]:
            self.check()
        return self.ray.get(task)


def in_ray(
    work: Callable[[Job], Outcome],
    jobs: Sequence[Job],
    address: str | None,
    at_once: int | None = None,
) -> Iterator[Outcome]:
    """Yield `work(job)` for each job, in the order of the jobs, from the machines of a cluster.

    The first error in that order is raised. What a task warns of is warned of here, each text
    once. At most `at_once` jobs are under way or have results
    that are not taken yet, by default twice as many as the cluster has cores.
    """
    with connected(address) as ray:
        remote = ray.remote(_work_there).options(num_cpus=1, max_retries=RETRIES)
        at_once = at_once or 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        folder = os.getcwd()
        heartbeat = Heartbeat(ray)
        tasks = [remote.remote(work, folder, job) for job in jobs[:at_once]]
        known: set[str] = set()
        try:
            for place in range(len(jobs)):
                outcome, messages = heartbeat.wait(tasks[0])
                warn_of(messages, known)
                yield outcome
                del tasks[0]
                if place + at_once < len(jobs):
                    tasks.append(remote.remote(work, folder, jobs[place + at_once]))
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            for_users = isinstance(cause, ValueError | OSError | MemoryError)
            raise (cause if for_users else RuntimeError(repr(cause))) from error
        except ray.exceptions.RayError as error:
            raise ChildProcessError(
                f"a task ended {RETRIES + 1} times without a result ({reason_of(error)})"
            ) from error
        finally:
            end_tasks(ray, tasks)


def _work_there(work: Callable[[Job], Outcome], folder: str, job: Job) -> tuple[Outcome, list[str]]:
    """Do the work in one thread, in a folder where relative paths mean what they mean here."""
    import torch

    torch.set_num_threads(1)
    os.chdir(folder)
    return with_warnings(work, job)


def end_tasks(ray: Any, tasks: Sequence[Any]) -> None:
    """Ask tasks to end, then force those that do not."""
    if not tasks or not answers(ray):
        return
    for force in (False, True):
        for task in tasks:
            with contextlib.suppress(Exception):  # the cluster may end meanwhile
                ray.cancel(task, force=force)
        with contextlib.suppress(Exception):
            _, tasks = ray.wait(list(tasks), num_returns=len(tasks), timeout=SECONDS_TO_DIE)
        if not tasks:
            return


def check_engine(engine: str, address: str | None) -> None:
    """Refuse the address of a cluster where the engine does not use one."""
    if address and engine != "ray":
        raise ValueError(
            f"{address} is the address of a Ray cluster, which the engine {engine} does not use: "
            "choose the engine ray as well"
        )
