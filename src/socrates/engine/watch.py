"""What a person sees while many runs go on: a live bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from datetime import timedelta

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from socrates.engine.launch import Failure, StudyWatcher
from socrates.experiment import Experiment

SECONDS_BETWEEN_LINES = 15.0
NOT_TOLD = -1


def study_watcher(console: Console) -> StudyWatcher:
    """The display that fits the console."""
    return StudyBar(console) if console.is_terminal else StudyLines(console)


class StudyLines(StudyWatcher):
    """One line now and then, one for each failure, and one at the end."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.total = self.finished = self.failed = 0
        self.epochs: dict[Experiment, int] = {}  # done by each run that goes on
        self.epochs_here = 0  # done since the start, by all runs
        self.start = self.last = time.monotonic()

    def expected(self, total: int, finished: int) -> None:
        self.total, self.finished = total, finished
        if finished < total:
            self.show()

    def run_started(self, experiment: Experiment) -> None:
        self.epochs[experiment] = NOT_TOLD

    def epoch_done(self, experiment: Experiment, epoch: int) -> None:
        before = self.epochs.get(experiment, NOT_TOLD)
        self.epochs[experiment] = epoch
        self.epochs_here += epoch - before if before != NOT_TOLD else 0  # what it continues from is not of here
        self.tick()

    def run_finished(self, experiment: Experiment) -> None:
        self.epochs_here += experiment.optimization.epochs - max(0, self.epochs.pop(experiment, 0))
        self.finished += 1
        self.tick()

    def run_failed(self, failure: Failure) -> None:
        self.epochs.pop(failure.experiment, None)
        self.failed += 1
        self.console.print(f"[red]failed:[/] {failure.experiment.name}: {escape(failure.reason)}", highlight=False)
        self.tick()

    def closed(self) -> None:
        self.show()

    def tick(self) -> None:
        """Show the state if it was not shown lately."""
        if time.monotonic() - self.last > SECONDS_BETWEEN_LINES:
            self.show()

    def show(self) -> None:
        """Show the state."""
        self.last = time.monotonic()
        if self.total:
            self.console.print(self.state(), highlight=False)

    def state(self) -> str:
        """Runs, and times."""
        elapsed = time.monotonic() - self.start
        words = [f"{self.finished} of {self.total} runs finished"]
        words += [f"{self.failed} failed"] if self.failed else []
        words += [f"{len(self.epochs)} running"] if self.epochs else []
        left = time_left(elapsed, self.epochs_here, self.epochs_to_do()) if self.epochs else None
        return ", ".join([*words, f"{clock(elapsed)} elapsed", *([f"about {clock(left)} left"] if left else [])])

    def epochs_to_do(self) -> float:
        """Of the runs that go on, and of those that wait as if they were like these."""
        lengths = [experiment.optimization.epochs for experiment in self.epochs]
        done = sum(max(0, epoch) for epoch in self.epochs.values())
        waiting = self.total - self.finished - self.failed - len(lengths)
        return sum(lengths) - done + waiting * sum(lengths) / max(1, len(lengths))


class StudyBar(StudyLines):
    """A live bar with the same words."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.progress = Progress(BarColumn(20), TextColumn("{task.description}"), console=console)
        self.bar = self.progress.add_task("", total=None)

    def expected(self, total: int, finished: int) -> None:
        super().expected(total, finished)
        if finished < total:
            self.progress.start()

    def tick(self) -> None:
        self.show()

    def show(self) -> None:
        self.progress.update(self.bar, total=self.total, completed=self.finished, description=self.state())

    def closed(self) -> None:
        self.show()
        self.progress.stop()


def time_left(elapsed: float, done: float, to_do: float) -> float | None:
    """Seconds, if it goes on as it went; None before anything is done.

    >>> time_left(60.0, done=10, to_do=5)
    30.0
    """
    return elapsed * to_do / done if done > 0 else None


def clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> clock(3725.4)
    '1:02:05'
    """
    return str(timedelta(seconds=round(seconds)))
