"""What a person sees while runs go on: a live bar in a terminal, plain lines elsewhere; and curves for TensorBoard."""

import math
import statistics
import time
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from socrates.engine.events import Closed, EpochDone, Event, Failed, Finished, Planned, Retried, Started, Stepped
from socrates.experiment import Experiment
from socrates.records import EpochRecord

SECONDS_BETWEEN_EPOCHS, SECONDS_BETWEEN_STATES = 2.0, 15.0  # where there is no terminal
BAR = TaskID(0)  # of a Progress that has no other
# Characters: "epoch 300/300 loss 0.123 acc 99.9% ECE 10.0%", a bar, and " 0:00:00 left".
DESCRIPTION_WIDTH, BAR_WIDTH, LEFT_WIDTH = 45, 12, 13
STATE_WIDTH = 76  # "1234 of 5678 runs finished, 12 running, 0:00:00 elapsed, about 0:00:00 left"


class RunDisplay:
    """One run: in a terminal a bar with loss, accuracy, ECE and the time left; elsewhere a line now and then."""

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
                self.progress.update(BAR, description=f"epoch {record.epoch}/{epochs} {short(record)}")
            case EpochDone(experiment, record):
                epochs = experiment.optimization.epochs
                if record.epoch == epochs or time.monotonic() - self.last > SECONDS_BETWEEN_EPOCHS:
                    self.last = time.monotonic()
                    self.console.print(f"epoch {record.epoch}/{epochs}: {describe(record)}")
            case Finished(run=run, already=already):
                if collapsed := run.summary().get("collapsed"):
                    self.console.print(f"[bold red]this run collapsed:[/] {escape(collapsed)}")
                self.console.print(f"{already or 'finished'}: {run.directory}", soft_wrap=True, markup=False)

    def start(self, event: Started) -> None:
        """The bar, from where the run continues."""
        done, steps, epochs = event.epochs_done, event.steps_per_epoch, event.experiment.optimization.epochs
        for line in plan(event):
            self.console.print(line, soft_wrap=True, markup=False)
        if done:
            self.console.print(f"continuing after epoch {done}")
        if self.console.is_terminal:
            self.progress = Progress(*columns(self.console.width), console=self.console)
            first = f"epoch {min(done + 1, epochs)}/{epochs}"
            self.progress.add_task(first, total=epochs * steps, completed=done * steps)
            self.progress.start()


def plan(event: Started) -> list[str]:
    """What training found, and what it will do."""
    how = event.experiment.optimization
    left = (how.epochs - event.epochs_done) * event.seconds_per_epoch
    long = "" if math.isnan(left) else f", about {timedelta(seconds=max(1, round(left)))}"
    steps = f"{how.epochs} epochs of {event.steps_per_epoch} steps, batch size {how.batch_size}, recipe {how.recipe}"
    return [*([event.found] if event.found else []), f"{steps}{long}"]


def describe(record: EpochRecord) -> str:
    """An epoch in a few words.

    >>> describe(EpochRecord(3, {"train_loss": 0.51234, "val_accuracy": 0.9, "val_ece": 0.0123}))
    'loss 0.5123, val accuracy 90.00 %, ECE 1.23 %'
    """
    words = [f"loss {record.value('train_loss'):.4f}"]
    if "val_accuracy" in record.values:
        accuracy, ece = (100 * record.value(name) for name in ("val_accuracy", "val_ece"))
        words += [f"val accuracy {accuracy:.2f} %", f"ECE {ece:.2f} %"]
    if record.collapsed:
        words.append(f"[red]collapsed: {escape(record.collapsed)}[/]")
    return ", ".join(words)


def short(record: EpochRecord) -> str:
    """An epoch in as few characters as a narrow terminal has beside a bar."""
    if record.collapsed:
        return "[red]collapsed[/]"
    loss, accuracy, ece = (record.value(name) for name in ("train_loss", "val_accuracy", "val_ece"))
    return f"loss {loss:.3f} acc {100 * accuracy:.1f}% ECE {100 * ece:.1f}%"


def columns(width: int) -> list[ProgressColumn]:
    """What fits a terminal: the epoch and the time left always, then a bar.

    >>> len(columns(60)), len(columns(80))
    (3, 4)
    """
    whole = Column(no_wrap=True)
    described = Column(no_wrap=True, overflow="ellipsis", max_width=max(10, width - LEFT_WIDTH))
    bar = [BarColumn(BAR_WIDTH)] if width > DESCRIPTION_WIDTH + BAR_WIDTH + LEFT_WIDTH else []
    left = [TimeRemainingColumn(table_column=whole), TextColumn("left", table_column=whole)]
    return [TextColumn("{task.description}", table_column=described), *bar, *left]


class StudyDisplay:
    """Many runs: how many are finished, failed and running, and times; in a live bar, or in a line now and then."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.total = self.finished = self.failed = 0
        self.epochs: dict[Experiment, int] = {}  # done by each run that goes on
        self.epochs_here = 0  # done since the start, by all runs
        self.start = self.last = time.monotonic()
        bar = [BarColumn(20)] if console.width > STATE_WIDTH + 20 else []
        self.progress = Progress(*bar, StateColumn(self), console=console)
        self.progress.add_task("", total=None)

    def __call__(self, event: Event) -> None:
        match event:
            case Planned():
                self.total, self.finished = event.total, event.finished
            case Started():
                self.epochs[event.experiment] = event.epochs_done
            case EpochDone():
                self.count(event.experiment, event.record.epoch)
            case Finished() if not event.already:
                self.count(event.experiment, event.experiment.optimization.epochs)
                del self.epochs[event.experiment]
                self.finished += 1
            case Retried():
                self.epochs.pop(event.experiment, None)
                self.console.print(f"[yellow]again:[/] {escape(f'{event.experiment.name}: {event.reason}')}")
            case Failed():
                self.epochs.pop(event.experiment, None)
                self.failed += 1
                self.console.print(f"[red]failed:[/] {escape(f'{event.experiment.name}: {event.reason}')}")
        begins = isinstance(event, Planned) and self.finished < self.total
        due = begins or isinstance(event, Closed) or time.monotonic() - self.last > SECONDS_BETWEEN_STATES
        if self.console.is_terminal:
            if begins:
                self.progress.start()
            self.progress.update(BAR, total=self.total, completed=self.finished)
            if isinstance(event, Closed):
                self.progress.stop()
        elif due and self.total:
            self.last = time.monotonic()
            self.console.print(self.state())

    def count(self, experiment: Experiment, epoch: int) -> None:
        """A run came this far; what it continued from was not done here."""
        self.epochs_here += epoch - self.epochs.get(experiment, epoch)
        self.epochs[experiment] = epoch

    def state(self) -> str:
        """Runs, and times: runs that wait are taken for as long as those that go on."""
        elapsed = time.monotonic() - self.start
        words = [f"{self.finished} of {self.total} runs finished"]
        words += [f"{self.failed} failed"] if self.failed else []
        running = list(self.epochs.items())  # whoever shows it may ask while others tell
        waits = not running and self.finished + self.failed < self.total
        words += [f"{len(running)} running"] if running else ["starting"] if waits else []
        words += [f"{timedelta(seconds=round(elapsed))} elapsed"]
        if running and self.epochs_here:
            lengths = [experiment.optimization.epochs for experiment, _ in running]
            done = sum(epochs for _, epochs in running)
            to_do = (self.total - self.finished - self.failed) * statistics.mean(lengths) - done
            words += [f"about {timedelta(seconds=round(elapsed * to_do / self.epochs_here))} left"]
        return ", ".join(words)


class StateColumn(ProgressColumn):
    """The words of a study, with times that go on each second whether or not anything happens."""

    max_refresh = 1.0

    def __init__(self, display: StudyDisplay) -> None:
        self.display = display
        super().__init__()

    def render(self, task: Task) -> Text:
        """What there is to say now."""
        return Text(self.display.state())


class TensorBoard:
    """Every number of an epoch's record as a curve, in a folder of the run."""

    def __init__(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("curves for TensorBoard need the package tensorboard: pip install tensorboard") from error
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
