"""Runs on the machines of a Ray cluster: each is a task, retried where its worker dies, from its last checkpoint.

Runs, and the data, are on storage that all machines share under the same path.
"""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from socrates.data import data_root
from socrates.engine.events import Failed, Finished, Tell
from socrates.engine.studies.local import ENVIRONMENT, available_cores, reason_of, train_and_tell
from socrates.experiment import Experiment, Part
from socrates.predictor import Weights

Task = TypeVar("Task")
Result = TypeVar("Result")

RETRIES = 10  # of a run whose worker or machine died: in a large cluster some always do
SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_TO_DIE = 30.0  # a run that is asked to end saves within its step
SECONDS_UNTIL_FREE = 60.0  # a worker whose machine was lost may live a little longer than Ray thinks
CPUS = ("cpu", "auto")


@dataclass(frozen=True)
class RayEngine:
    """Every run is a Ray task with its share of a machine; the cluster decides how many go on at once."""

    out: Path
    data_root: Path | None = None
    processes: int | None = None  # at most so many runs at once; as many as the cluster has room for if not given
    accelerator: str = "cpu"
    keep_weights: Weights = "none"
    per_gpu: int = 1  # runs that share a GPU
    address: str | None = None  # of a cluster; None starts one on this machine for as long as the study takes

    def __post_init__(self) -> None:
        if self.processes is not None and self.processes < 1:
            raise ValueError(f"training needs at least 1 process, got {self.processes}")
        if self.per_gpu < 1:
            raise ValueError(f"at least 1 run uses a GPU, got {self.per_gpu}")

    @property
    def share(self) -> dict[str, float]:
        """What a run takes of a machine."""
        return {"num_cpus": 1} if self.accelerator in CPUS else {"num_cpus": 1, "num_gpus": 1 / self.per_gpu}

    @property
    def at_once(self) -> int:
        """About how many runs go on together."""
        if self.processes:
            return self.processes
        with connected(self.address) as ray:
            found = ray.cluster_resources()
        share = {"CPU": self.share["num_cpus"], "GPU": self.share.get("num_gpus", 0.0)}
        return max(1, int(min(found.get(name, 0.0) / part for name, part in share.items() if part)))

    def run(self, experiments: Sequence[Experiment], tell: Tell) -> None:
        """Train them all; each is told once as Finished or as Failed. Asked to end, its tasks save what they have."""
        with connected(self.address) as ray:
            from ray.util.queue import Queue

            told = Queue(actor_options={"num_cpus": 0})
            place = replace(self, out=self.out.absolute(), data_root=data_root(self.data_root).absolute())
            work = ray.remote(_work).options(**self.share, max_retries=RETRIES, retry_exceptions=False)
            waiting, going, ahead = list(experiments), dict[Any, Experiment](), dict[Part, Experiment]()
            ended = set[Experiment]()

            def hear() -> None:
                for event in told.get_nowait_batch(told.qsize()):
                    ahead.pop(event.experiment.dataset, None)  # it has its data: all others may have them
                    if not isinstance(event, Finished | Failed):
                        tell(event)
                    elif event.experiment not in ended:
                        ended.add(event.experiment)
                        tell(event)

            try:
                seen = set[Part]()
                while waiting or going:
                    for experiment in list(waiting):
                        if self.processes and len(going) >= self.processes:
                            break
                        if experiment.dataset in ahead:
                            continue  # one run fetches the data for all
                        if experiment.dataset not in seen:
                            seen.add(experiment.dataset)
                            ahead[experiment.dataset] = experiment
                        waiting.remove(experiment)
                        going[work.remote(told, experiment, place)] = experiment
                    done, _ = ray.wait(list(going), timeout=SECONDS_BETWEEN_LOOKS)
                    hear()
                    for task in done:
                        experiment = going.pop(task)
                        ahead.pop(experiment.dataset, None)
                        reason = _why_it_failed(ray, task)
                        hear()
                        if reason and experiment not in ended:
                            ended.add(experiment)
                            tell(Failed(experiment, reason))
            finally:
                _end(ray, list(going))
                told.shutdown()


def in_ray(work: Callable[[Task], Result], tasks: Sequence[Task], address: str | None) -> Iterator[Result]:
    """The results of `work` in the order of the tasks, from the machines of a cluster; few wait at a time."""
    with connected(address) as ray:
        remote = ray.remote(work)
        room = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        going = [remote.remote(task) for task in tasks[:room]]
        try:
            for place in range(len(tasks)):
                if place + room < len(tasks):
                    going.append(remote.remote(tasks[place + room]))
                yield ray.get(going[place])
                going[place] = None
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            raise cause if isinstance(cause, ValueError | OSError) else ChildProcessError(_first_line(error)) from error
        finally:
            _end(ray, [task for task in going if task is not None])


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
    try:
        ray.init(address=address, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = address or "this machine"
        words = f"there is no Ray cluster at {where} ({_first_line(error)}): start one, see docs/cluster.md"
        raise OSError(words) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _work(told: Any, experiment: Experiment, engine: RayEngine) -> None:
    """What a task does: train one run, and tell of it."""
    os.environ.update(ENVIRONMENT)
    until = time.monotonic() + SECONDS_UNTIL_FREE
    while True:
        try:
            train_and_tell(experiment, engine, told.put)
        except BlockingIOError as error:  # by a worker that Ray gave up on: it ends soon, as it lost its machine
            if time.monotonic() < until:
                time.sleep(1.0)
                continue
            told.put(Failed(experiment, reason_of(error)))
        except Exception as error:
            told.put(Failed(experiment, reason_of(error)))
        return


def _why_it_failed(ray: Any, task: Any) -> str | None:
    """Why a task ended that did not train to the end; None if it did."""
    try:
        ray.get(task)
    except ray.exceptions.RayError as error:
        return f"its task ended {RETRIES + 1} times without a result ({_first_line(error)})"
    return None


def _end(ray: Any, going: Sequence[Any]) -> None:
    """Ask tasks to end, and make those end that do not."""
    for force in (False, True):
        for task in going:
            with contextlib.suppress(Exception):  # of a cluster that is gone
                ray.cancel(task, force=force)
        if going:
            with contextlib.suppress(Exception):
                _, going = ray.wait(list(going), num_returns=len(going), timeout=SECONDS_TO_DIE)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
