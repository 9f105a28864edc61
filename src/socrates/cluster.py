"""The machines of a Ray cluster: a connection that is left as it was found, and work whose results come in order.

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
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

# Threads that spin while they wait collapse as soon as anything else uses the cores.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
RETRIES = 10  # of a task whose worker or machine died: in a large cluster some always do
SECONDS_TO_ANSWER = 5.0
SECONDS_TO_DIE = 30.0  # a run that is asked to end saves within its step
SECONDS_BETWEEN_LOOKS = 5.0
SECONDS_UNTIL_GONE = 30.0  # of silence; after 60 Ray itself ends this process, whatever it does
GONE = "the Ray cluster is gone; what was saved is safe: start it again, then the same command continues"


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster, or with one of its own on this machine; left as it was found."""
    try:
        import ray
    except ImportError as error:
        raise ImportError("--engine ray needs the package ray: pip install 'socrates-loss[ray]'") from error
    if ray.is_initialized():
        yield ray
        return
    # Workers find what this process finds: modules of one's own, and the package where it is not installed.
    paths = os.pathsep.join(os.path.abspath(path) for path in dict.fromkeys(["", *sys.path]))
    environment = {"env_vars": {**ENVIRONMENT, "PYTHONPATH": paths}}
    own: dict[str, Any] = {} if address else {"num_cpus": available_cores(), "include_dashboard": False}
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # runs on CPUs leave devices as they are
    asked_to_end = signal.getsignal(signal.SIGTERM)
    try:
        if address:
            _reach(address)
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        ray.init(address=address or "local", runtime_env=environment, **quiet, **own)
    except (OSError, ValueError, RuntimeError) as error:
        where = address or "this machine"
        words = f"there is no Ray cluster at {where} ({first_line(error)}): start one, see docs/cluster.md"
        raise OSError(words) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, asked_to_end)  # which Ray took for itself
    try:
        yield ray
    finally:
        if answers(ray):
            ray.shutdown()


def _reach(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would try it for minutes."""
    if address == "auto":
        from ray._private.services import canonicalize_bootstrap_address

        address = canonicalize_bootstrap_address(address) or ""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()


def answers(ray: Any) -> bool:
    """Whether the cluster that Ray is connected to is there; a farewell to one that is not would never end."""
    try:
        _reach(ray.get_runtime_context().gcs_address)
    except (OSError, ray.exceptions.RayError):
        return False
    return True


@dataclass
class Pulse:
    """Whether the cluster that Ray is connected to still answers."""

    ray: Any
    seen: float = field(default_factory=time.monotonic)
    looked: float = field(default_factory=time.monotonic)

    def check(self) -> bool:
        """Raise if there was no answer for a while, else whether one came now; called often, it asks now and then."""
        if time.monotonic() - self.looked < SECONDS_BETWEEN_LOOKS:
            return False
        found, self.looked = answers(self.ray), time.monotonic()
        self.seen = self.looked if found else self.seen
        if self.looked - self.seen > SECONDS_UNTIL_GONE:
            raise ConnectionError(GONE)
        return found

    def wait(self, task: Any) -> Any:
        """The result of a task, as soon as it is there."""
        while not self.ray.wait([task], timeout=SECONDS_BETWEEN_LOOKS)[0]:
            self.check()
        return self.ray.get(task)


def in_ray(
    work: Callable[[Task], Result], tasks: Sequence[Task], address: str | None, at_once: int | None = None
) -> Iterator[Result]:
    """`work(task)` of each task, in their order, from the machines of a cluster; the first error of them is raised.

    Of results that nobody has taken yet there are at most `at_once`, twice as many as the cluster has cores by default.
    """
    with connected(address) as ray:
        remote = ray.remote(_there).options(num_cpus=1, max_retries=RETRIES)
        room = at_once or 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        folder, pulse = os.getcwd(), Pulse(ray)
        going = [remote.remote(work, folder, task) for task in tasks[:room]]
        try:
            for place in range(len(tasks)):
                yield pulse.wait(going[0])
                del going[0]
                going += [remote.remote(work, folder, task) for task in tasks[place + room : place + room + 1]]
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise cause if isinstance(cause, ValueError | OSError) else RuntimeError(repr(cause)) from error
        except ray.exceptions.RayError as error:
            raise ChildProcessError(
                f"a task ended {RETRIES + 1} times without a result ({first_line(error)})"
            ) from error
        finally:
            end(ray, going)


def _there(work: Callable[[Task], Result], folder: str, task: Task) -> Result:
    """What a task does: the work, in one thread, where paths mean what they mean here."""
    import torch

    torch.set_num_threads(1)
    os.chdir(folder)
    return work(task)


def end(ray: Any, going: Sequence[Any]) -> None:
    """Ask tasks to end, and make those end that do not."""
    if not going or not answers(ray):
        return
    for force in (False, True):
        for task in going:
            with contextlib.suppress(Exception):  # of a cluster that goes meanwhile
                ray.cancel(task, force=force)
        with contextlib.suppress(Exception):
            _, going = ray.wait(list(going), num_returns=len(going), timeout=SECONDS_TO_DIE)
        if not going:
            return


def first_line(error: BaseException) -> str:
    """The first line of an error's words, or its kind.

    >>> first_line(ValueError("one\\ntwo")), first_line(KeyError())
    ('one', 'KeyError')
    """
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def check_engine(engine: str, address: str | None) -> None:
    """Refuse the address of a cluster where none is used."""
    if address and engine != "ray":
        raise ValueError("an address is that of a Ray cluster: choose the engine ray as well (--engine ray)")


def available_cores() -> int:
    """The cores that this process may use, which can be fewer than the machine has.

    >>> available_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
