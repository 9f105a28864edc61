"""What a person sees while a run goes on: a live display in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from socrates.engine.train import Watcher
from socrates.experiment import Experiment
from socrates.records import EpochRecord, Run

# Characters: "epoch 300 loss 0.123 acc 99.9% ECE 10.0%", a bar, and " 0:00:00 left".
DESCRIPTION_WIDTH, BAR_WIDTH, LEFT_WIDTH = 40, 12, 13


def watcher_for(console: Console, experiment: Experiment, log: str) -> Watcher:
    """The display that fits the console, with TensorBoard beside it if asked for."""
    display = Display(console, experiment) if console.is_terminal else Lines(console, experiment)
    return Both(display, TensorBoard()) if log == "tensorboard" else display


def describe(record: EpochRecord) -> str:
    """An epoch in a few words."""
    words = [f"loss {record.value('train_loss'):.4f}"]
    if "val_accuracy" in record.values:
        accuracy, ece = (100 * record.value(name) for name in ("val_accuracy", "val_ece"))
        words += [f"val accuracy {accuracy:.2f} %", f"ECE {ece:.2f} %"]
    if record.collapsed:
        words.append(f"[red]collapsed: {record.collapsed}[/]")
    return ", ".join(words)


def short(record: EpochRecord) -> str:
    """An epoch in as few characters as a narrow terminal has beside a bar."""
    if record.collapsed:
        return "[red]collapsed[/]"
    loss, accuracy, ece = (record.value(name) for name in ("train_loss", "val_accuracy", "val_ece"))
    return f"loss {loss:.3f} acc {100 * accuracy:.1f}% ECE {100 * ece:.1f}%"


class Lines(Watcher):
    """One line now and then, and at the end where the results are."""

    def __init__(self, console: Console, experiment: Experiment) -> None:
        self.console, self.experiment = console, experiment
        self.last = -1e9

    def started(self, run: Run, first_epoch: int, steps_per_epoch: int) -> None:
        if first_epoch:
            self.console.print(f"continuing after epoch {first_epoch}", highlight=False)

    def epoch_done(self, record: EpochRecord) -> None:
        now, last = time.monotonic(), record.epoch == self.experiment.optimization.epochs
        if last or now - self.last > 2.0:
            self.last = now
            self.console.print(
                f"epoch {record.epoch}/{self.experiment.optimization.epochs}: {describe(record)}", highlight=False
            )

    def finished(self, run: Run) -> None:
        collapsed = run.summary().get("collapsed")
        if collapsed:
            self.console.print(f"[bold red]this run collapsed:[/] {collapsed}", highlight=False)
        self.console.print(f"finished: {run.directory}", highlight=False, soft_wrap=True)

    def already_finished(self, run: Run, words: str) -> None:
        self.console.print(f"{words}: {run.directory}", highlight=False, soft_wrap=True, markup=False)


class Display(Lines):
    """A live bar: epoch, step, loss, accuracy, ECE and the time left."""

    progress: Progress | None = None  # until training starts
    bar: TaskID

    def started(self, run: Run, first_epoch: int, steps_per_epoch: int) -> None:
        super().started(run, first_epoch, steps_per_epoch)
        total = self.experiment.optimization.epochs * steps_per_epoch
        self.progress = Progress(*columns(self.console.width, total), console=self.console)
        label = f"epoch {min(first_epoch + 1, self.experiment.optimization.epochs)}"
        self.bar = self.progress.add_task(label, total=total, completed=first_epoch * steps_per_epoch)
        self.progress.start()

    def stepped(self, epoch: int, step: int) -> None:
        if self.progress is not None:
            self.progress.advance(self.bar)

    def epoch_done(self, record: EpochRecord) -> None:
        if self.progress is not None:
            self.progress.update(self.bar, description=f"epoch {record.epoch} {short(record)}")

    def closed(self) -> None:
        if self.progress is not None:
            self.progress.stop()


def columns(width: int, total: int) -> list[ProgressColumn]:
    """What fits a terminal: the epoch and the time left always, then the steps, then a bar.

    >>> [len(columns(width, total=105_600)) for width in (60, 70, 80)]
    [3, 4, 5]
    """
    whole = Column(no_wrap=True)
    steps = TextColumn("{task.completed}/{task.total}", table_column=whole)
    fixed = [TimeRemainingColumn(table_column=whole), TextColumn("left", table_column=whole)]
    without_bar = DESCRIPTION_WIDTH + 2 * len(str(total)) + 2 + LEFT_WIDTH
    middle: list[ProgressColumn] = [steps] if width >= without_bar else []
    middle = [BarColumn(BAR_WIDTH), *middle] if width > without_bar + BAR_WIDTH else middle
    described = Column(no_wrap=True, overflow="ellipsis", max_width=max(10, width - LEFT_WIDTH))
    return [TextColumn("{task.description}", table_column=described), *middle, *fixed]


class TensorBoard(Watcher):
    """Every number of an epoch's record as a curve."""

    writer: Any = None  # until training starts

    def __init__(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("--log tensorboard needs the package tensorboard: pip install tensorboard") from error
        self.make_writer = SummaryWriter

    def started(self, run: Run, first_epoch: int, steps_per_epoch: int) -> None:
        self.writer = self.make_writer(str(run.directory / "tensorboard"))

    def epoch_done(self, record: EpochRecord) -> None:
        for name, value in record.values.items():
            self.writer.add_scalar(name, value, record.epoch)
        self.writer.flush()

    def closed(self) -> None:
        if self.writer is not None:
            self.writer.close()


class Both(Watcher):
    """Two watchers at once."""

    def __init__(self, first: Watcher, second: Watcher) -> None:
        self.both = (first, second)

    def started(self, run: Run, first_epoch: int, steps_per_epoch: int) -> None:
        for watcher in self.both:
            watcher.started(run, first_epoch, steps_per_epoch)

    def stepped(self, epoch: int, step: int) -> None:
        for watcher in self.both:
            watcher.stepped(epoch, step)

    def epoch_done(self, record: EpochRecord) -> None:
        for watcher in self.both:
            watcher.epoch_done(record)

    def finished(self, run: Run) -> None:
        for watcher in self.both:
            watcher.finished(run)

    def already_finished(self, run: Run, words: str) -> None:
        for watcher in self.both:
            watcher.already_finished(run, words)

    def closed(self) -> None:
        for watcher in self.both:
            watcher.closed()
