"""Runs on the machines of a Ray cluster: each is a task, retried where its worker dies, from its last checkpoint.

Runs, and the data, are on storage that all machines share under the same path.
"""

import os
import pickle
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from socrates.cluster import ENVIRONMENT, RETRIES, Pulse, connected, end, first_line
from socrates.data import data_root
from socrates.engine.events import Event, Failed, Finished, Tell
from socrates.engine.guard import handled, signals, unhandled
from socrates.engine.studies.local import EngineOptions, leave, reason_of, train_and_tell
from socrates.experiment import Experiment, Part

SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_UNTIL_FREE = 60.0  # a worker whose machine was lost may live a little longer than Ray thinks
SECONDS_FOR_ROOM = 900.0  # in which a cluster that grows has a machine that a run fits on


@dataclass(frozen=True)
class RayEngine(EngineOptions):
    """Every run is a Ray task with its share of a machine; the cluster decides how many go on at once."""

    address: str | None = None  # of a cluster; None starts one on this machine for as long as the study takes

    def share(self, found: dict[str, float]) -> dict[str, float]:
        """What a run takes of a machine, in a cluster that has so much of everything.

        >>> from pathlib import Path
        >>> RayEngine(Path("runs"), accelerator="auto", per_gpu=4).share({"CPU": 8.0, "GPU": 2.0})
        {'CPU': 1, 'GPU': 0.25}
        """
        on_gpu = self.accelerator in ("cuda", "gpu") or (self.accelerator == "auto" and "GPU" in found)
        return {"CPU": 1, "GPU": 1 / self.per_gpu} if on_gpu else {"CPU": 1}

    def room(self, found: dict[str, float]) -> int:
        """How many runs fit on such a cluster.

        >>> from pathlib import Path
        >>> RayEngine(Path("runs"), accelerator="cuda", per_gpu=2).room({"CPU": 8.0, "GPU": 3.0})
        6
        """
        return int(min(found.get(name, 0.0) / part for name, part in self.share(found).items()))

    @property
    def at_once(self) -> int:
        """About how many runs go on together."""
        if self.processes:
            return self.processes
        with connected(self.address) as ray:
            return max(1, self.room(ray.cluster_resources()))

    def run(self, experiments: Sequence[Experiment], tell: Tell) -> None:
        """Train them all; each is told once as Finished or as Failed. Asked to end, its tasks save what they have."""
        asked: list[int] = []

        def note_and_leave(number: int, frame: object) -> None:
            asked.append(number)  # Ray forgets it: of any SystemExit it makes one of code 1
            leave(number, frame)

        with connected(self.address) as ray, handled(unhandled("SIGTERM", "SIGHUP"), note_and_leave):
            study = _Study(self, ray, tell, list(experiments))
            try:
                study.run()
            except SystemExit as stop:
                raise SystemExit(128 + asked[0] if asked else stop.code) from None
            except ray.exceptions.RayError as error:
                words = f"the Ray cluster fails ({first_line(error)}); what was saved is safe"
                raise ConnectionError(f"{words}: the same command continues") from error
            finally:
                study.told.end.remote()
                end(ray, list(study.going))


class _Study:
    """Some runs on a cluster: those that wait, the tasks that go on, and what they told."""

    def __init__(self, engine: RayEngine, ray: Any, tell: Tell, waiting: list[Experiment]) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.engine, self.ray, self.tell, self.waiting = engine, ray, tell, waiting
        self.going: dict[Any, Experiment] = {}
        self.ahead: dict[Part, Experiment | None] = {}  # who fetches a data set for all; None when it is there
        self.ended = set[Experiment]()
        self.pulse, self.began = Pulse(ray), time.monotonic()
        self.heard = False  # of any run
        # On the machine of this process: nothing else may be lost that the study cannot go on without.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.told = ray.remote(_told()).options(num_cpus=0, scheduling_strategy=here).remote()
        share = engine.share(ray.cluster_resources())
        share = {"num_cpus": share["CPU"], "num_gpus": share.get("GPU", 0)}
        self.work = ray.remote(_work).options(**share, max_retries=RETRIES, retry_exceptions=False)
        folders = {"out": engine.out.absolute(), "data_root": data_root(engine.data_root).absolute()}
        self.place = replace(engine, **folders)

    def run(self) -> None:
        """Until every run has ended."""
        while self.waiting or self.going:
            self._start()
            done, _ = self.ray.wait(list(self.going), timeout=SECONDS_BETWEEN_LOOKS)
            self._hear()
            for task in done:
                experiment = self.going.pop(task)
                self.ahead[experiment.dataset] = None
                reason = _why_it_failed(self.ray, task)
                if reason:
                    self._tell(Failed(experiment, reason))
            if self.pulse.check() and not self.heard:
                self._check_room()

    def _start(self) -> None:
        """Hand over what waits; of a data set that nobody has loaded yet one run goes ahead."""
        for experiment in list(self.waiting):
            if self.engine.processes and len(self.going) >= self.engine.processes:
                return
            if self.ahead.setdefault(experiment.dataset, experiment) not in (None, experiment):
                continue
            self.waiting.remove(experiment)
            self.going[self.work.remote(self.told, experiment, self.place)] = experiment

    def _hear(self) -> None:
        for event in map(pickle.loads, self.pulse.wait(self.told.take.remote())):
            self.heard = True
            self.ahead[event.experiment.dataset] = None
            self._tell(event)

    def _tell(self, event: Event) -> None:
        """Once how a run ended, although a task that is repeated may tell it again."""
        if isinstance(event, Finished | Failed):
            if event.experiment in self.ended:
                return
            self.ended.add(event.experiment)
        self.tell(event)

    def _check_room(self) -> None:
        """Raise if no machine can take a run, and none comes: Ray would wait for one in silence."""
        found = self.ray.cluster_resources()
        if not self.engine.room(found) and time.monotonic() - self.began > SECONDS_FOR_ROOM:
            share = self.engine.share(found)
            wanted = " and ".join(f"{part:g} {name}" for name, part in share.items())
            there = " and ".join(f"{found.get(name, 0):g} {name}" for name in share)
            raise ValueError(f"no machine of the Ray cluster has room for a run, which takes {wanted}: it has {there}")


def _told() -> type:
    """The actor that keeps what tasks have told until somebody hears it.

    Ray sends a class that is made in a function as a whole, and the events are bytes to it: so its process imports
    nothing of ours, and is there at once.
    """

    class Told:
        def __init__(self) -> None:
            self.events: list[bytes] = []
            self.ending = False

        def put(self, event: bytes) -> bool:
            self.events.append(event)
            return self.ending

        def end(self) -> None:
            self.ending = True

        def take(self) -> list[bytes]:
            events, self.events = self.events, []
            return events

    return Told


def _work(told: Any, experiment: Experiment, engine: RayEngine) -> None:
    """What a task does: train one run, and tell of it."""
    import ray

    def send(event: Event) -> None:
        if ray.get(told.put.remote(pickle.dumps(event))):
            raise KeyboardInterrupt  # Ray may forget to cancel a task that it is about to repeat

    os.environ.update(ENVIRONMENT)
    until = time.monotonic() + SECONDS_UNTIL_FREE
    while True:
        try:
            # Ray's own handler would end a step in its middle, and lose what came after the last checkpoint.
            with handled(signals("SIGTERM"), signal.SIG_DFL):
                return train_and_tell(experiment, engine, send)
        except BlockingIOError as error:  # by a worker that Ray gave up on: it ends soon, as it lost its machine
            if time.monotonic() > until:
                return send(Failed(experiment, reason_of(error)))
            time.sleep(1.0)
        except Exception as error:
            return send(Failed(experiment, reason_of(error)))


def _why_it_failed(ray: Any, task: Any) -> str | None:
    """Why a task ended that could not tell; None if it could."""
    try:
        ray.get(task)
    except ray.exceptions.RayTaskError as error:
        return f"its task could not do its work on its machine: {reason_of(error.cause)}"
    except ray.exceptions.RayError as error:
        return f"its task ended {RETRIES + 1} times without a result ({first_line(error)})"
    return None
