"""Runs on this machine: some at once, each in a process of one thread, which beats one process of many threads."""

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from socrates.cluster import ENVIRONMENT, available_cores
from socrates.data import data_root
from socrates.engine.events import EpochDone, Event, Failed, Finished, Retried, Started, Tell
from socrates.engine.guard import environment, handled, later, signals, unhandled
from socrates.engine.train import train
from socrates.experiment import Experiment, Part
from socrates.predictor import Weights

PRELOADED = ["socrates.engine.train", "lightning_fabric", "sklearn.datasets"]  # slow to import, and needed by each run
# A terminal sends these to the children too. Ours ends them by SIGTERM, on which they save what they have.
FOR_THE_PARENT = signals("SIGINT", "SIGHUP")
SECONDS_BETWEEN_EPOCHS_TOLD = 0.5
SECONDS_TO_DIE = 30.0  # an epoch that is nearly done is saved before its process ends
ATTEMPTS = 2  # of a run whose process is killed


@dataclass
class Training:
    """A process, our end of its pipe, and what it trains."""

    experiment: Experiment
    process: BaseProcess
    connection: Connection
    gpu: str | None = None  # that it has
    last: Event | None = None  # what it told last

    def hear(self) -> Event | None:
        """What it tells next; None when it is gone."""
        try:
            self.last = self.connection.recv()
        except (EOFError, OSError):
            self.connection.close()
            return None
        return self.last


@dataclass(frozen=True)
class EngineOptions:
    """Where the runs of a study go, and how they are trained."""

    out: Path
    data_root: Path | None = None
    processes: int | None = None  # at most so many runs at once; as many as there is room for if not given
    accelerator: str = "cpu"
    keep_weights: Weights = "none"  # of hundreds of runs nobody wants the models
    per_gpu: int = 1  # runs that share a GPU

    def __post_init__(self) -> None:
        if self.processes is not None and self.processes < 1:
            raise ValueError(f"training needs at least 1 process, got {self.processes}")
        if self.per_gpu < 1:
            raise ValueError(f"at least 1 run uses a GPU, got {self.per_gpu}")


@dataclass(frozen=True)
class LocalEngine(EngineOptions):
    """At most `processes` runs at once below `out`; a process that dies takes nothing but its own run along."""

    gpus: tuple[str, ...] | None = None  # by number or name; those that this process sees, if it is to use them

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gpus is None:
            object.__setattr__(self, "gpus", visible_gpus() if self.accelerator in ("auto", "gpu", "cuda") else ())

    @property
    def at_once(self) -> int:
        """How many runs go on together."""
        return self.processes or self.per_gpu * len(self.gpus or ()) or available_cores()

    def run(self, experiments: Sequence[Experiment], tell: Tell) -> None:
        """Train them all; each is told once as Finished or as Failed. Nothing is left behind, however this ends."""
        waiting, going = list(experiments), dict[Connection, Training]()
        loaded, attempts = set[Part](), Counter[Experiment]()
        # Being asked to end, or losing the terminal, ends a study like Ctrl-C: its processes save what they have.
        with handled(unhandled("SIGTERM", "SIGHUP"), leave):
            try:
                while waiting or going:
                    while len(going) < self.at_once and (chosen := _next(waiting, going, loaded)):
                        waiting.remove(chosen)
                        attempts[chosen] += 1
                        with later("SIGINT", "SIGTERM", "SIGHUP"):  # or a process is there that nobody ends
                            training = self._start(chosen, self._gpu(going))
                            going[training.connection] = training
                    for connection in wait(list(going)):
                        training = going[connection]  # pyright: ignore[reportArgumentType]
                        event = training.hear()
                        loaded.add(training.experiment.dataset)
                        if event is not None:
                            tell(event)
                            continue
                        del going[training.connection]
                        reason = _why_it_ended(training)
                        if reason and attempts[training.experiment] < ATTEMPTS:
                            tell(Retried(training.experiment, reason))
                            waiting.append(training.experiment)
                        elif reason:
                            tell(Failed(training.experiment, reason))
            finally:
                _end(going)

    def _gpu(self, going: dict[Connection, Training]) -> str | None:
        """The GPU with the fewest runs; None where there are none."""
        used = Counter(training.gpu for training in going.values())
        return min(self.gpus or (None,), key=lambda gpu: used[gpu])

    def _start(self, experiment: Experiment, gpu: str | None) -> Training:
        context = _processes()
        ours, theirs = context.Pipe(duplex=False)
        engine = replace(self, data_root=data_root(self.data_root))
        variables = {**os.environ, **ENVIRONMENT, **({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})}
        process = context.Process(target=_work, args=(theirs, variables, experiment, engine))
        process.start()
        theirs.close()
        return Training(experiment, process, ours, gpu)


def _next(waiting: list[Experiment], going: dict[Connection, Training], loaded: set[Part]) -> Experiment | None:
    """The first that waits; of a data set that nobody has loaded yet one run goes ahead, so that one fetches it."""
    being_loaded = {training.experiment.dataset for training in going.values()} - loaded
    return next((experiment for experiment in waiting if experiment.dataset not in being_loaded), None)


def _processes() -> Any:
    """Where processes come from: a server that has imported what is slow to import, so that each is there at once."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with environment(ENVIRONMENT), handled(FOR_THE_PARENT, signal.SIG_IGN):  # it must stand before torch is imported
        forkserver.ensure_running()
    return context


def leave(number: int, _: object) -> None:
    """End as a signal asks for it, by way of everything that has to be left in order."""
    raise SystemExit(128 + number)


def _end(going: dict[Connection, Training]) -> None:
    for training in going.values():
        training.process.terminate()
    for training in going.values():
        training.process.join(SECONDS_TO_DIE)
        if training.process.is_alive():
            training.process.kill()
            training.process.join()
        training.connection.close()


def _work(connection: Connection, variables: dict[str, str], experiment: Experiment, engine: LocalEngine) -> None:
    """What a process does: train one run, and tell of it."""
    for number in FOR_THE_PARENT:
        signal.signal(number, signal.SIG_IGN)
    os.environ.update(variables)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        train_and_tell(experiment, engine, connection.send)
    except Exception as error:
        connection.send(Failed(experiment, reason_of(error)))


def train_and_tell(experiment: Experiment, engine: EngineOptions, send: Callable[[Event], None]) -> None:
    """Train one run of an engine in one thread, and send what others want to know of it, not too often."""
    torch.set_num_threads(1)
    told = 0.0

    def tell(event: Event) -> None:
        nonlocal told
        match event:
            case EpochDone() if time.monotonic() - told > SECONDS_BETWEEN_EPOCHS_TOLD:
                told = time.monotonic()
                send(event)
            case Started():
                send(event)
            case Finished():  # it was not whole when this process was started for it
                send(Finished(event.experiment, event.run))

    place = {"data_root": engine.data_root, "accelerator": engine.accelerator}
    train(experiment, engine.out, **place, keep_weights=engine.keep_weights, on_nan="collapse", tell=tell)


def _leave_with_parent() -> None:
    """End at once when the parent is gone, even if it was killed hard: nobody waits for the result."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _why_it_ended(training: Training) -> str | None:
    """Why a process is gone that did not tell the end of its run; None if it did."""
    training.process.join()
    if isinstance(training.last, Finished | Failed):
        return None
    code = training.process.exitcode
    if training.last is None and code is not None and 0 < code < 128:
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


def visible_gpus() -> tuple[str, ...]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES spells them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return tuple(str(number) for number in range(torch.cuda.device_count()))
    return tuple(name for name in named.split(",") if name.strip()) if torch.cuda.device_count() else ()
