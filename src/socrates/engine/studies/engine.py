"""What every engine has: its options, the runs that wait, and how one of them is trained."""

import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from socrates.engine.events import EpochDone, Event, Finished, Started, Warned
from socrates.engine.train import train
from socrates.experiment import Experiment, Part
from socrates.files import FOR_USERS, reason_of
from socrates.predictor import Weights

SECONDS_BETWEEN_EPOCH_EVENTS = 0.5


@dataclass(frozen=True)
class EngineOptions:
    """Where the runs of a study go, and how they are trained."""

    out: Path
    data_root: Path | None = None
    # the largest number of runs at once; None means as many as there is room for
    processes: int | None = None
    accelerator: str = "cpu"
    keep_weights: Weights = "none"  # a study has hundreds of runs, and their models are large
    per_gpu: int = 1  # runs that share a GPU

    def __post_init__(self) -> None:
        if self.processes is not None and self.processes < 1:
            raise ValueError(f"training needs at least 1 process, got {self.processes}")
        if self.per_gpu < 1:
            raise ValueError(f"at least 1 run uses a GPU, got {self.per_gpu}")


class WaitingRuns:
    """The runs of a study that have not started, in their order.

    Of a data set that is not loaded yet one run goes ahead, and downloads it for all.
    """

    def __init__(self, experiments: Sequence[Experiment]) -> None:
        self.runs = list(experiments)
        self.being_loaded: set[Part] = set()
        self.loaded: set[Part] = set()

    def take(self) -> Experiment | None:
        """Remove and return the first run that may start, if there is one."""
        free = (run for run in self.runs if run.dataset not in self.being_loaded)
        experiment = next(free, None)
        if experiment is not None:
            self.runs.remove(experiment)
            self.being_loaded |= {experiment.dataset} - self.loaded
        return experiment

    def note_loaded(self, dataset: Part) -> None:
        """Let all runs of a data set start, as one has loaded it, or has ended."""
        self.loaded.add(dataset)
        self.being_loaded.discard(dataset)


def exit_by_signal(number: int, _: object) -> None:
    """Handle a signal by an exception, so that everything is left in order."""
    raise SystemExit(128 + number)


def train_and_report(
    experiment: Experiment, engine: EngineOptions, send: Callable[[Event], None]
) -> None:
    """Train one run of an engine in one thread, and send its events, epochs not too often.

    Warnings are events too. They wait for the end of the run: an event means that its data are
    loaded, and other runs may start.
    """
    torch.set_num_threads(1)
    last_sent = 0.0
    messages: list[str] = []

    def send_warnings() -> None:
        for message in dict.fromkeys(messages):
            send(Warned(experiment, message))
        messages.clear()

    def tell(event: Event) -> None:
        nonlocal last_sent
        match event:
            case EpochDone() if time.monotonic() - last_sent > SECONDS_BETWEEN_EPOCH_EVENTS:
                last_sent = time.monotonic()
                send(event)
            case Started():
                send(event)
            case Finished():  # it was not whole when this process was started for it
                send_warnings()
                send(Finished(event.experiment, event.run))

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: messages.append(str(message))
        try:
            train(
                experiment,
                engine.out,
                data_root=engine.data_root,
                accelerator=engine.accelerator,
                keep_weights=engine.keep_weights,
                on_nan="collapse",
                tell=tell,
            )
        except Exception:
            send_warnings()
            raise


def reason_with_place(error: Exception) -> str:
    """Describe an error in one line, with its place in the code unless its message is for users.

    >>> reason_with_place(ValueError("gamma must be at least 0, got -1"))
    'gamma must be at least 0, got -1'
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or isinstance(error, FOR_USERS):
        return reason_of(error)
    return f"{reason_of(error)} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
