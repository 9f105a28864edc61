"""What the terminal shows of a long wait: features being computed, and how to shorten training."""

import math
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from socrates.engine.display import as_time
from socrates.engine.events import Closed, Embedded, Event, Started
from socrates.models import is_backbone
from socrates.prose import print_prose

from .choice import SIZES

LONG = 15 * 60  # seconds after which ways to shorten it are named
SHORT = 10  # minutes that are proposed
SECONDS_BETWEEN_LINES = 15.0
NOTICED = 5.0  # seconds after which a first estimate is worth something


class FeatureDisplay:
    """Show how far a backbone is with the features of the images: a bar, or a line now and then."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress: Progress | None = None
        self.last = time.monotonic()
        self.warned = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, Closed) and self.progress:
            self.progress.stop()
        if isinstance(event, Embedded):
            self.show(event)

    def show(self, event: Embedded) -> None:
        """Show how many images are done, and at the end how long it took."""
        if event.done == event.total:
            if self.progress:
                self.progress.stop()
            cached = event.total - event.computed
            took = f", {event.computed:,} computed in {as_time(event.seconds)}"
            words = f"{cached:,} from the cache{took if event.computed else ''}"
            print_prose(self.console, f"features of {event.total:,} images: {words}")
            return
        seconds = event.seconds / event.done * event.total
        if event.seconds > NOTICED and seconds > LONG and not self.warned:
            self.warned = True
            words = "a smaller --image-size, or a smaller --backbone, shortens it"
            print_prose(self.console, f"features take about {as_time(seconds)}: {words}")
        if self.console.is_terminal:
            self.advance(event)
        elif time.monotonic() - self.last > SECONDS_BETWEEN_LINES:
            self.last = time.monotonic()
            left = as_time(seconds - event.seconds)
            line = f"features of {event.done:,} of {event.total:,} images, about {left} left"
            print_prose(self.console, line)

    def advance(self, event: Embedded) -> None:
        """Move the bar, which is made when it is first needed."""
        if self.progress is None:
            columns = (TextColumn("features"), BarColumn(), MofNCompleteColumn())
            self.progress = Progress(
                *columns, TimeRemainingColumn(), console=self.console, transient=True
            )
            self.progress.add_task("", total=event.total)
            self.progress.start()
        self.progress.update(self.progress.task_ids[0], completed=event.done)


class TimeHint:
    """Name two options that shorten a training of more than a quarter of an hour."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Started):
            return
        epochs = event.experiment.optimization.epochs - event.epochs_done
        seconds = epochs * event.seconds_per_epoch
        if math.isnan(seconds) or seconds <= LONG:
            return
        first, second = shortcuts(event, seconds)[:2]
        print_prose(self.console, f"that is long; to shorten it: {first}, or {second}")


def shortcuts(event: Started, seconds: float) -> list[str]:
    """Return the options that shorten a training of so many seconds, the best ones first."""
    experiment = event.experiment
    names: list[str] = []
    learns = is_backbone(experiment.model.name)
    if learns:
        names.append("leave --finetune out, which trains the last layer only")
    elif event.image_shape:
        side = min(event.image_shape[1:])
        smaller = [size for size in SIZES if size < side]
        fits = [size for size in smaller if seconds * (size / side) ** 2 <= LONG]
        if smaller:
            size = max(fits, default=min(smaller))
            about = as_time(seconds * (size / side) ** 2)
            names.append(f"--image-size {size} (about {about})")
    names.append(f"--minutes {SHORT} (fewer epochs)")
    if not learns:
        names.append("--backbone FOLDER (a pretrained model, of which only a layer is trained)")
    return names
