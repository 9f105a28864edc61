"""Runs on the machines of a Ray cluster: tasks that continue elsewhere if a worker dies.

Runs, and the data, are on storage that all machines share under the same path.
"""

import math
import os
import pickle
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from socrates.cluster import RETRIES, Heartbeat, connected, end_tasks
from socrates.data import data_root
from socrates.engine.events import Busy, Event, Failed, Finished, Tell
from socrates.engine.lock import RunIsHeld
from socrates.engine.studies.engine import (
    EngineOptions,
    WaitingRuns,
    exit_by_signal,
    reason_with_place,
    train_and_report,
)
from socrates.experiment import Experiment
from socrates.files import reason_of
from socrates.processes import ONE_THREAD, handled, signals, unhandled

SECONDS_BETWEEN_EVENTS = 0.2
SECONDS_BETWEEN_LOOKS = 1.0  # at a run that another process trains
SECONDS_FOR_ROOM = 900.0  # within which a growing cluster has a machine with room for a run


@dataclass(frozen=True)
class RayEngine(EngineOptions):
    """Train every run as a Ray task; the cluster decides how many are trained at once."""

    # of a cluster; None starts one on this machine for as long as the study takes
    address: str | None = None

    def share(self, resources: dict[str, float]) -> dict[str, float]:
        """Return what a run takes of a machine, in a cluster with these resources.

        >>> from pathlib import Path
        >>> RayEngine(Path("runs"), accelerator="auto", per_gpu=4).share({"CPU": 8.0, "GPU": 2.0})
        {'CPU': 1, 'GPU': 0.25}
        """
        has_gpu = "GPU" in resources
        on_gpu = self.accelerator in ("cuda", "gpu") or (self.accelerator == "auto" and has_gpu)
        return {"CPU": 1, "GPU": 1 / self.per_gpu} if on_gpu else {"CPU": 1}

    def room(self, resources: dict[str, float]) -> int:
        """Return the number of runs that fit on a cluster with these resources.

        >>> from pathlib import Path
        >>> RayEngine(Path("runs"), accelerator="cuda", per_gpu=2).room({"CPU": 8.0, "GPU": 3.0})
        6
        """
        share = self.share(resources)
        return int(min(resources.get(name, 0.0) / part for name, part in share.items()))

    @property
    def at_once(self) -> int:
        """Return about how many runs are trained at the same time."""
        if self.processes:
            return self.processes
        with connected(self.address) as ray:
            return max(1, self.room(ray.cluster_resources()))

    def run(self, experiments: Sequence[Experiment], tell: Tell) -> None:
        """Train all experiments, and report each once as Finished or as Failed.

        When this process is asked to end, the tasks save what they have.
        """
        received: list[int] = []

        def note_and_exit(number: int, frame: object) -> None:
            received.append(number)  # Ray turns any SystemExit into one of code 1
            exit_by_signal(number, frame)

        with (
            connected(self.address) as ray,
            handled(unhandled("SIGTERM", "SIGHUP"), note_and_exit),
        ):
            study = _RayStudy(self, ray, experiments, tell)
            try:
                study.run()
            except SystemExit as stop:
                raise SystemExit(128 + received[0] if received else stop.code) from None
            except ray.exceptions.RayError as error:
                raise ConnectionError(
                    f"the Ray cluster fails ({reason_of(error)}); what was saved is safe: the "
                    "same command continues"
                ) from error
            finally:
                study.mailbox.end.remote()
                end_tasks(ray, list(study.running))


class _RayStudy:
    """The runs of one study on a cluster: those that wait, and the tasks that train the others."""

    def __init__(
        self, engine: RayEngine, ray: Any, experiments: Sequence[Experiment], tell: Tell
    ) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.engine = engine
        self.ray = ray
        self.tell = tell
        self.waiting = WaitingRuns(experiments)
        self.running: dict[Any, Experiment] = {}  # by task
        self.ended: set[Experiment] = set()
        self.heartbeat = Heartbeat(ray)
        self.began = time.monotonic()
        self.heard_of_any = False
        # On the machine of this process: the study then depends on no other machine.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor = ray.remote(_mailbox_class()).options(num_cpus=0, scheduling_strategy=here)
        self.mailbox = actor.remote()
        share = engine.share(ray.cluster_resources())
        self.work = ray.remote(_work).options(
            num_cpus=share["CPU"],
            num_gpus=share.get("GPU", 0),
            max_retries=RETRIES,
            retry_exceptions=False,
        )
        data = data_root(engine.data_root).absolute()
        self.engine_there = replace(engine, out=engine.out.absolute(), data_root=data)

    def run(self) -> None:
        """Train until every run has ended."""
        while self.waiting.runs or self.running:
            self._start_tasks()
            done, _ = self.ray.wait(list(self.running), timeout=SECONDS_BETWEEN_EVENTS)
            self._report_events()
            for task in done:
                experiment = self.running.pop(task)
                self.waiting.note_loaded(experiment.dataset)
                reason = _why_it_failed(self.ray, task)
                if reason:
                    self._report(Failed(experiment, reason))
            if self.heartbeat.check() and not self.heard_of_any:
                self._check_room()

    def _start_tasks(self) -> None:
        """Submit the runs that may start, at most as many at once as were asked for."""
        most = self.engine.processes or math.inf
        while len(self.running) < most and (experiment := self.waiting.take()):
            task = self.work.remote(self.mailbox, experiment, self.engine_there)
            self.running[task] = experiment

    def _report_events(self) -> None:
        """Report what the tasks have sent since the last time."""
        for event in map(pickle.loads, self.heartbeat.wait(self.mailbox.take.remote())):
            self.heard_of_any = True
            self.waiting.note_loaded(event.experiment.dataset)
            self._report(event)

    def _report(self, event: Event) -> None:
        """Report an event; the end of a run once, although a repeated task may send it again."""
        if isinstance(event, Finished | Failed):
            if event.experiment in self.ended:
                return
            self.ended.add(event.experiment)
        self.tell(event)

    def _check_room(self) -> None:
        """Raise if no machine has room for a run and none comes: Ray would wait in silence."""
        resources = self.ray.cluster_resources()
        if self.engine.room(resources) or time.monotonic() - self.began <= SECONDS_FOR_ROOM:
            return
        share = self.engine.share(resources)
        wanted = " and ".join(f"{part:g} {name}" for name, part in share.items())
        there = " and ".join(f"{resources.get(name, 0):g} {name}" for name in share)
        raise ValueError(
            f"no machine of the Ray cluster has room for a run, which takes {wanted}: it has "
            f"{there}"
        )


def _mailbox_class() -> type:
    """Return the class of the actor that keeps the events of tasks until they are taken.

    Ray sends a class that a function defines as a whole, and the events are bytes to it: its
    process imports nothing of ours, and starts at once.
    """

    class Mailbox:
        def __init__(self) -> None:
            self.events: list[bytes] = []
            self.ending = False

        def put(self, event: bytes) -> bool:
            self.events.append(event)
            return self.ending

        def end(self) -> None:
            self.ending = True

        def take(self) -> list[bytes]:
            events = self.events
            self.events = []
            return events

    return Mailbox


def _work(mailbox: Any, experiment: Experiment, engine: RayEngine) -> None:
    """Train one run in a task, and report on it through the mailbox."""
    import ray

    def send(event: Event) -> None:
        if ray.get(mailbox.put.remote(pickle.dumps(event))):
            raise KeyboardInterrupt  # Ray may forget to cancel a task that it is about to repeat

    os.environ.update(ONE_THREAD)
    is_waiting = False
    while True:
        try:
            # Ray's own handler would end a step in its middle, and lose what came after the last
            # checkpoint.
            with handled(signals("SIGTERM"), signal.SIG_DFL):
                return train_and_report(experiment, engine, send)
        except RunIsHeld as error:
            # by another study, or by a worker that Ray gave up on: it ends soon, as it lost its
            # machine
            if not is_waiting:
                send(Busy(experiment, reason_with_place(error)))
            is_waiting = True
            time.sleep(SECONDS_BETWEEN_LOOKS)
        except Exception as error:
            return send(Failed(experiment, reason_with_place(error)))


def _why_it_failed(ray: Any, task: Any) -> str | None:
    """Return why a task ended without reporting it, or None if it reported its end."""
    try:
        ray.get(task)
    except ray.exceptions.RayTaskError as error:
        return f"its task could not do its work on its machine: {reason_with_place(error.cause)}"
    except ray.exceptions.RayError as error:
        return f"its task ended {RETRIES + 1} times without a result ({reason_of(error)})"
    return None
