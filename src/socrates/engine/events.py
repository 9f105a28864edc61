"""What runs and studies tell while they go on: `tell(event)` is the one way, whoever listens."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from socrates.experiment import Experiment
from socrates.records import EpochRecord, Run


@dataclass(frozen=True)
class Planned:
    """So many runs are wanted, and so many are finished already."""

    total: int
    finished: int


@dataclass(frozen=True)
class Started:
    """Training of a run starts, or continues, after so many epochs, on data that `found` tells in words.

    About how many seconds an epoch takes is NaN unless it was tried.
    """

    experiment: Experiment
    run: Run
    epochs_done: int
    steps_per_epoch: int
    found: str = ""
    seconds_per_epoch: float = math.nan


@dataclass(frozen=True)
class Stepped:
    """A step is done; both numbers count from 0."""

    epoch: int
    step: int


@dataclass(frozen=True)
class EpochDone:
    """An epoch is done and its record written."""

    experiment: Experiment
    record: EpochRecord


@dataclass(frozen=True)
class Finished:
    """The run is whole; if it was before, `already` says since when."""

    experiment: Experiment
    run: Run
    already: str = ""


@dataclass(frozen=True)
class Retried:
    """The process of a run died, and why; the run goes on in another one."""

    experiment: Experiment
    reason: str


@dataclass(frozen=True)
class Failed:
    """The run ended before it was whole, and why."""

    experiment: Experiment
    reason: str


@dataclass(frozen=True)
class Closed:
    """Nothing more comes, be it finished, stopped or failed."""


Event = Planned | Started | Stepped | EpochDone | Finished | Retried | Failed | Closed
Tell = Callable[[Event], None]


def to_nobody(_: Event) -> None:
    """Nobody listens."""


def to_all(*listeners: Tell) -> Tell:
    """One `tell` for several listeners, in their order.

    >>> heard = []
    >>> to_all(heard.append, heard.append)(Closed())
    >>> heard
    [Closed(), Closed()]
    """

    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return tell
