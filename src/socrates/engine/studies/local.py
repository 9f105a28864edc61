"""Runs on this machine: several at once, each in a process of one thread.

Many processes of one thread train faster than one process of many threads.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from socrates.data import data_root
from socrates.engine.events import Busy, Event, Failed, Finished, Retried, Tell
from socrates.engine.lock import RunIsHeld, is_held_here
from socrates.engine.studies.engine import (
    EngineOptions,
    WaitingRuns,
    exit_by_signal,
    reason_with_place,
    train_and_report,
)
from socrates.experiment import Experiment
from socrates.processes import (
    ONE_THREAD,
    available_cores,
    become_a_worker,
    handled,
    later,
    unhandled,
    worker_context,
)
from socrates.records import Run, finished_run

# slow to import, and needed by each run
PRELOADED = ["socrates.engine.train", "lightning_fabric", "sklearn.datasets"]
SECONDS_TO_DIE = 30.0  # an epoch that is nearly done is saved before its process ends
ATTEMPTS = 2  # of a run whose process is killed
SECONDS_BETWEEN_LOOKS = 1.0  # at runs that another study trains


@dataclass
class TrainingProcess:
    """A process that trains one run, and our end of its pipe."""

    experiment: Experiment
    process: BaseProcess
    connection: Connection
    gpu: str | None = None
    last_event: Event | None = None

    def receive(self) -> Event | None:
        """Return the next event of the process, or None when the process is gone."""
        try:
            self.last_event = self.connection.recv()
        except (EOFError, OSError):
            self.connection.close()
            return None
        return self.last_event


@dataclass(frozen=True)
class LocalEngine(EngineOptions):
    """Train at most `processes` runs at once; a process that dies loses only its own run."""

    @cached_property
    def gpus(self) -> tuple[str, ...]:
        """Return the GPUs that runs may use: those of this process, if the accelerator is one."""
        return visible_gpus() if self.accelerator in ("auto", "gpu", "cuda") else ()

    @property
    def at_once(self) -> int:
        """Return the number of runs that are trained at the same time."""
        return self.processes or self.per_gpu * len(self.gpus) or available_cores()

    def run(self, experiments: Sequence[Experiment], tell: Tell) -> None:
        """Train all experiments, and report each once as Finished or as Failed.

        Nothing is left behind, however this ends.
        """
        # SIGTERM, or the loss of the terminal, ends a study like Ctrl-C does: its processes save
        # what they have.
        with handled(unhandled("SIGTERM", "SIGHUP"), exit_by_signal):
            _LocalStudy(self, experiments, tell).run()

    def _gpu(self, running: Collection[TrainingProcess]) -> str | None:
        """Return the GPU with the fewest runs, or None where there is no GPU."""
        runs_on = Counter(training.gpu for training in running)
        return min(self.gpus or (None,), key=lambda gpu: runs_on[gpu])

    def _start(self, experiment: Experiment, gpu: str | None) -> TrainingProcess:
        """Start a process that trains one run."""
        context = worker_context(PRELOADED)
        ours, theirs = context.Pipe(duplex=False)
        engine = replace(self, data_root=data_root(self.data_root))
        variables = {**os.environ, **ONE_THREAD}
        if gpu is not None:
            variables["CUDA_VISIBLE_DEVICES"] = gpu
        process = context.Process(target=_work, args=(theirs, variables, experiment, engine))
        process.start()
        theirs.close()
        return TrainingProcess(experiment, process, ours, gpu)


class _LocalStudy:
    """The runs of one study: those that wait, and the processes that train the others.

    This is not a `ProcessPoolExecutor`, which cannot do three things that a study needs: it ends
    all its processes when one of them dies, it reports nothing of a task before its result, and it
    cannot give each process its own GPU.
    """

    def __init__(self, engine: LocalEngine, experiments: Sequence[Experiment], tell: Tell) -> None:
        self.engine = engine
        self.tell = tell
        self.waiting = WaitingRuns(experiments)
        self.running: dict[Connection, TrainingProcess] = {}
        self.attempts: Counter[Experiment] = Counter()
        self.busy: list[Experiment] = []  # with other processes than those of this study
        self.told_busy: set[Experiment] = set()

    def run(self) -> None:
        """Train until every run has ended, here or in another study on the same folder."""
        try:
            while self.waiting.runs or self.running or self.busy:
                self._start_processes()
                if self.running:
                    timeout = SECONDS_BETWEEN_LOOKS if self.busy else None
                    for connection in wait(list(self.running), timeout):
                        self._listen(self.running[connection])  # pyright: ignore[reportArgumentType]
                else:
                    time.sleep(SECONDS_BETWEEN_LOOKS)
                self._look_at_busy()
        finally:
            _end(self.running.values())

    def _look_at_busy(self) -> None:
        """Report the runs that others finished, and take over those that they left."""
        for experiment in list(self.busy):
            if run := finished_run(self.engine.out, experiment):
                self.tell(Finished(experiment, run))
            elif is_held_here(Run.directory_of(self.engine.out, experiment)):
                continue
            else:
                self.waiting.runs.append(experiment)
            self.busy.remove(experiment)

    def _start_processes(self) -> None:
        """Start processes while there is room and a run that may start."""
        while len(self.running) < self.engine.at_once and (experiment := self.waiting.take()):
            self.attempts[experiment] += 1
            # A signal between start and entry would leave a process that nothing ends.
            with later("SIGINT", "SIGTERM", "SIGHUP"):
                gpu = self.engine._gpu(self.running.values())
                training = self.engine._start(experiment, gpu)
                self.running[training.connection] = training

    def _listen(self, training: TrainingProcess) -> None:
        """Report the next event of a process, or how the process ended."""
        event = training.receive()
        self.waiting.note_loaded(training.experiment.dataset)
        if isinstance(event, Busy):
            if event.experiment not in self.told_busy:
                self.tell(event)
            self.told_busy.add(event.experiment)
            return
        if event is not None:
            self.tell(event)
            return
        del self.running[training.connection]
        if isinstance(training.last_event, Busy):
            self.busy.append(training.experiment)
            self.attempts[training.experiment] -= 1  # to wait is not to try
            training.process.join()
            return
        reason = _why_it_ended(training)
        if reason is None:
            return
        if self.attempts[training.experiment] < ATTEMPTS:
            self.tell(Retried(training.experiment, reason))
            self.waiting.runs.append(training.experiment)
        else:
            self.tell(Failed(training.experiment, reason))


def _end(running: Iterable[TrainingProcess]) -> None:
    """Ask processes to save and end, then end those that do not."""
    running = list(running)
    for training in running:
        training.process.terminate()
    for training in running:
        training.process.join(SECONDS_TO_DIE)
        if training.process.is_alive():
            training.process.kill()
            training.process.join()
        training.connection.close()


def _work(
    connection: Connection, variables: dict[str, str], experiment: Experiment, engine: LocalEngine
) -> None:
    """Train one run in this process, and report on it through the pipe."""
    os.environ.update(variables)
    become_a_worker()
    try:
        train_and_report(experiment, engine, connection.send)
    except RunIsHeld as error:
        connection.send(Busy(experiment, reason_with_place(error)))
    except Exception as error:
        connection.send(Failed(experiment, reason_with_place(error)))


def _why_it_ended(training: TrainingProcess) -> str | None:
    """Return why a process ended before its run did, or None if the run has ended."""
    training.process.join()
    if isinstance(training.last_event, Finished | Failed):
        return None
    code = training.process.exitcode
    if training.last_event is None and code is not None and 0 < code < 128:
        raise ChildProcessError(
            f"a process for training could not start (exit code {code}, its error is above): a "
            "script that trains in several processes must do so below `if __name__ == '__main__':`"
        )
    return why_it_died(code)


def why_it_died(code: int | None) -> str:
    """Explain an exit code.

    >>> why_it_died(-9)
    'its process was killed (SIGKILL), as happens when memory runs out: try fewer processes'
    """
    # how training ends when it is asked to, after it saved its state
    if code == 128 + signal.SIGTERM:
        code = -signal.SIGTERM
    if code is None or code >= 0:
        return f"its process ended by itself with exit code {code}"
    name = signal.Signals(-code).name
    hint = ", as happens when memory runs out: try fewer processes" if name == "SIGKILL" else ""
    return f"its process was killed ({name}){hint}"


def visible_gpus() -> tuple[str, ...]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES spells them."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    if names is None:
        return tuple(str(number) for number in range(torch.cuda.device_count()))
    if not torch.cuda.device_count():
        return ()
    return tuple(name for name in names.split(",") if name.strip())
