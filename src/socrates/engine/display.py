"""Show running trainings: a live bar in a terminal, plain lines elsewhere, TensorBoard curves."""

import math
import re
import statistics
import time
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from socrates.engine.events import (
    Busy,
    Closed,
    EpochDone,
    Event,
    Failed,
    Finished,
    Planned,
    Retried,
    Started,
    Stepped,
    Warned,
)
from socrates.experiment import Experiment
from socrates.prose import print_prose, whole
from socrates.records import EpochRecord

# between lines, where there is no terminal
SECONDS_BETWEEN_EPOCHS = 2.0
SECONDS_BETWEEN_STATES = 15.0
BAR = TaskID(0)  # the only one of a Progress
# widths in characters
DESCRIPTION_WIDTH = 45  # "epoch 300/300 loss 0.123 acc 99.9% ECE 10.0%"
BAR_WIDTH = 12
LEFT_WIDTH = 13  # " 0:00:00 left"
STATE_WIDTH = 76  # "1234 of 5678 runs finished, 12 running, 0:00:00 elapsed, about 0:00:00 left"


class RunDisplay:
    """Show one run: a bar with loss, accuracy, ECE and time left, or a line now and then."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress: Progress | None = None
        self.last = -math.inf

    def __call__(self, event: Event) -> None:
        if self.progress and isinstance(event, Finished | Closed):
            self.progress.stop()
        match event:
            case Started():
                self.start(event)
            case Stepped() if self.progress:
                self.progress.advance(BAR)
            case EpochDone(experiment, record) if self.progress:
                epochs = experiment.optimization.epochs
                description = f"epoch {record.epoch}/{epochs} {describe_briefly(record)}"
                self.progress.update(BAR, description=description)
            case EpochDone(experiment, record):
                epochs = experiment.optimization.epochs
                if record.epoch == epochs or time.monotonic() - self.last > SECONDS_BETWEEN_EPOCHS:
                    self.last = time.monotonic()
                    self.console.print(f"epoch {record.epoch}/{epochs}: {describe(record)}")
            case Finished(run=run, already=already):
                if collapsed := run.summary().get("collapsed"):
                    print_prose(self.console, collapsed, "this run collapsed: ", "bold red")
                if scaler := run.summary().get("scaler"):
                    print_prose(self.console, scaler, "scaler kept: ", "")
                if novelty := run.summary().get("novelty"):
                    print_prose(self.console, novelty, "novelty kept: ", "")
                print_prose(self.console, whole(run.directory), f"{already or 'finished'}: ", "")

    def start(self, event: Started) -> None:
        """Print the plan, and start the bar from where the run continues."""
        done = event.epochs_done
        steps = event.steps_per_epoch
        epochs = event.experiment.optimization.epochs
        for line in plan(event):
            print_prose(self.console, line)
        if done:
            self.console.print(f"continuing after epoch {done}")
        if self.console.is_terminal:
            self.progress = Progress(*columns(self.console.width), console=self.console)
            first = f"epoch {min(done + 1, epochs)}/{epochs}"
            self.progress.add_task(first, total=epochs * steps, completed=done * steps)
            self.progress.start()


def plan(event: Started) -> list[str]:
    """Return lines that say what training found, and what it will do."""
    settings = event.experiment.optimization
    seconds = (settings.epochs - event.epochs_done) * event.seconds_per_epoch
    duration = "" if math.isnan(seconds) else f", about {as_time(max(1, seconds))}"
    steps = (
        f"{settings.epochs} epochs of {event.steps_per_epoch} steps, batch size "
        f"{settings.batch_size}, recipe {settings.recipe}{duration}"
    )
    return [event.data, steps] if event.data else [steps]


def as_time(seconds: float) -> timedelta:
    """Return a time that prints as hours, minutes and whole seconds.

    >>> print(as_time(65.2))
    0:01:05
    """
    return timedelta(seconds=round(seconds))


def describe(record: EpochRecord) -> str:
    """Describe an epoch in a few words.

    >>> describe(EpochRecord(3, {"train_loss": 0.51234, "val_accuracy": 0.9, "val_ece": 0.0123}))
    'loss 0.5123, val accuracy 90.00%, ECE 1.23%'
    """
    parts = [f"loss {record.value('train_loss'):.4f}"]
    if "val_accuracy" in record.values:
        parts.append(f"val accuracy {record.value('val_accuracy'):.2%}")
        parts.append(f"ECE {record.value('val_ece'):.2%}")
    if record.collapsed:
        parts.append(f"[red]collapsed: {escape(record.collapsed)}[/]")
    return ", ".join(parts)


def describe_briefly(record: EpochRecord) -> str:
    """Describe an epoch in as few characters as a narrow terminal has beside a bar."""
    if record.collapsed:
        return "[red]collapsed[/]"
    loss = record.value("train_loss")
    accuracy = record.value("val_accuracy")
    return f"loss {loss:.3f} acc {accuracy:.1%} ECE {record.value('val_ece'):.1%}"


def columns(width: int) -> list[ProgressColumn]:
    """Return the columns that fit a terminal: the epoch and the time left, then a bar.

    >>> len(columns(60)), len(columns(80))
    (3, 4)
    """
    whole = Column(no_wrap=True)
    described = Column(no_wrap=True, overflow="ellipsis", max_width=max(10, width - LEFT_WIDTH))
    bar = [BarColumn(BAR_WIDTH)] if width > DESCRIPTION_WIDTH + BAR_WIDTH + LEFT_WIDTH else []
    left = [TimeRemainingColumn(table_column=whole), TextColumn("left", table_column=whole)]
    return [TextColumn("{task.description}", table_column=described), *bar, *left]


class StudyDisplay:
    """Show many runs: how many are finished, failed and running, and times.

    A terminal has a live bar, other outputs a line now and then.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.total = self.finished = self.failed = 0
        self.epochs: dict[Experiment, int] = {}  # done by each running run
        self.epochs_here = 0  # done since the start, by all runs
        self.warned: dict[str, list[Warned]] = {}  # by what they have in common
        self.start = self.last = time.monotonic()
        bar = [BarColumn(20)] if console.width > STATE_WIDTH + 20 else []
        self.progress = Progress(*bar, StateColumn(self), console=console)
        self.progress.add_task("", total=None)

    def __call__(self, event: Event) -> None:
        match event:
            case Planned():
                self.total = event.total
                self.finished = event.finished
            case Started():
                self.epochs[event.experiment] = event.epochs_done
            case EpochDone():
                self.count(event.experiment, event.record.epoch)
            case Finished() if not event.already:
                self.count(event.experiment, event.experiment.optimization.epochs)
                self.epochs.pop(event.experiment, None)
                self.finished += 1
            case Warned():
                self.warned.setdefault(without_numbers(event.message), []).append(event)
            case Retried():
                self.epochs.pop(event.experiment, None)
                self.print_reason("again", "yellow", event)
            case Busy():
                self.print_reason("waiting", "yellow", event)
            case Failed():
                self.epochs.pop(event.experiment, None)
                self.failed += 1
                self.print_reason("failed", "red", event)
        self.refresh(event)
        if isinstance(event, Closed):
            self.print_warnings()

    def print_warnings(self) -> None:
        """Print one line for each kind of warning: the first one, and in how many runs it was."""
        for alike in self.warned.values():
            runs = len({event.experiment for event in alike})
            where = f"in {runs} of {self.total} runs" if runs > 1 else alike[0].experiment.name
            others = len({event.message for event in alike}) - 1
            more = f"; {others} more are like it" if others else ""
            text = f"{alike[0].message} ({where}{more})"
            print_prose(self.console, text, "warning: ", "yellow")
        self.warned.clear()

    def print_reason(self, what: str, style: str, event: Retried | Busy | Failed) -> None:
        """Print the run of an event, and its reason."""
        print_prose(self.console, f"{event.experiment.name}: {event.reason}", f"{what}: ", style)

    def refresh(self, event: Event) -> None:
        """Show the new state: in the bar, or in a line if the last one was some time ago."""
        begins = isinstance(event, Planned) and self.finished < self.total
        ends = isinstance(event, Closed)
        if self.console.is_terminal:
            if begins:
                self.progress.start()
            self.progress.update(BAR, total=self.total, completed=self.finished)
            if ends:
                self.progress.stop()
            return
        due = begins or ends or time.monotonic() - self.last > SECONDS_BETWEEN_STATES
        if due and self.total:
            self.last = time.monotonic()
            self.console.print(self.state())

    def count(self, experiment: Experiment, epoch: int) -> None:
        """Count the epochs of a run that were done here, not those it continued from."""
        self.epochs_here += epoch - self.epochs.get(experiment, epoch)
        self.epochs[experiment] = epoch

    def state(self) -> str:
        """Describe the study in one line; waiting runs count as long as the running ones."""
        elapsed = time.monotonic() - self.start
        num_open = self.total - self.finished - self.failed
        running = list(self.epochs.items())  # a copy: another thread may add a run meanwhile
        parts = [f"{self.finished} of {self.total} runs finished"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if running:
            parts.append(f"{len(running)} running")
        elif num_open > 0:
            parts.append("starting")
        parts.append(f"{as_time(elapsed)} elapsed")
        if running and self.epochs_here:
            length = statistics.mean(run.optimization.epochs for run, _ in running)
            epochs_left = num_open * length - sum(epochs for _, epochs in running)
            parts.append(f"about {as_time(elapsed * epochs_left / self.epochs_here)} left")
        return ", ".join(parts)


def without_numbers(message: str) -> str:
    """Return a message without the words that hold numbers, such as names of runs and files.

    >>> without_numbers("runs/ce-seed1/val-0025.npz is lost: again=True writes it again")
    '# is lost: again=True writes it again'
    """
    return re.sub(r"\S*\d\S*", "#", message)


class StateColumn(ProgressColumn):
    """Show the line of a study, whose times advance each second even if nothing happens."""

    max_refresh = 1.0

    def __init__(self, display: StudyDisplay) -> None:
        self.display = display
        super().__init__()

    def render(self, task: Task) -> Text:
        """Return the present state."""
        return Text(self.display.state())


class TensorBoard:
    """Write every number of an epoch's record as a curve, in a folder of the run."""

    def __init__(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "curves for TensorBoard need the package tensorboard: pip install tensorboard"
            ) from error
        self.make_writer = SummaryWriter
        self.writer: Any = None  # until training starts

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self.writer = self.make_writer(str(event.run.directory / "tensorboard"))
            case EpochDone():
                for name, value in event.record.values.items():
                    self.writer.add_scalar(name, value, event.record.epoch)
                self.writer.flush()
            case Closed() if self.writer:
                self.writer.close()
