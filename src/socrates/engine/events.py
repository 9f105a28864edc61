"""What runs and studies report while they run: `tell(event)` is the one way, for any listener."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from socrates.experiment import Experiment
from socrates.records import EpochRecord, Run


@dataclass(frozen=True)
class Planned:
    """A study begins: how many runs are wanted, and how many of them are finished already."""

    total: int
    finished: int


@dataclass(frozen=True)
class Embedded:
    """The features of this many images are known, after some seconds; not all were cached."""

    done: int
    total: int
    computed: int
    seconds: float


@dataclass(frozen=True)
class Started:
    """Training of a run starts, or continues after some epochs, on data that `data` describes.

    About how many seconds an epoch takes is NaN unless it was measured.
    """

    experiment: Experiment
    run: Run
    epochs_done: int
    steps_per_epoch: int
    data: str = ""
    seconds_per_epoch: float = math.nan
    image_shape: tuple[int, int, int] | None = None


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
    """The run is finished; if it was before, `already` says since when."""

    experiment: Experiment
    run: Run
    already: str = ""


@dataclass(frozen=True)
class Warned:
    """Python warned of something while a run of a study was trained."""

    experiment: Experiment
    message: str


@dataclass(frozen=True)
class Retried:
    """The process of a run died, and why; the run continues in another one."""

    experiment: Experiment
    reason: str


@dataclass(frozen=True)
class Busy:
    """Another process trains the run, as `reason` says; it is waited for, and looked at again."""

    experiment: Experiment
    reason: str


@dataclass(frozen=True)
class Failed:
    """The run ended before it was finished, and why."""

    experiment: Experiment
    reason: str


@dataclass(frozen=True)
class Closed:
    """No more events follow, whether runs are finished, stopped or failed."""


Event = (
    Planned
    | Embedded
    | Started
    | Stepped
    | EpochDone
    | Finished
    | Warned
    | Retried
    | Busy
    | Failed
    | Closed
)
Tell = Callable[[Event], None]


def to_nobody(event: Event) -> None:
    """Ignore an event, as the default listener; the warning of a run is one of this process."""
    if isinstance(event, Warned):
        warnings.warn(event.message, stacklevel=2)


def to_all(*listeners: Tell) -> Tell:
    """Return one `tell` for several listeners, which are called in their order.

    >>> heard = []
    >>> to_all(heard.append, heard.append)(Closed())
    >>> heard
    [Closed(), Closed()]
    """

    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return tell
