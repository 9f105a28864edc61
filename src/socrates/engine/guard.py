"""What keeps a run safe: Ctrl-C without loss, an environment left as it was, room on the disk and in memory."""

import contextlib
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from socrates.contracts import Splits
from socrates.engine.ranks import Ranks
from socrates.engine.state import State
from socrates.records import Run

MEGABYTE = 2**20
SLACK = 64 * MEGABYTE
OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "std::bad_alloc")


@contextlib.contextmanager
def handled(numbers: Iterable[int], handler: Any) -> Iterator[None]:
    """Signals with another handler, where Python lets us: in the main thread."""
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in numbers if in_main}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables of the environment, of this process and of those that it starts meanwhile.

    >>> with environment({"SOCRATES_EXAMPLE": "1"}):
    ...     os.environ["SOCRATES_EXAMPLE"]
    '1'
    >>> "SOCRATES_EXAMPLE" in os.environ
    False
    """
    before = {name: os.environ.get(name) for name in values}
    os.environ |= values
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


@contextlib.contextmanager
def later(*names: str) -> Iterator[None]:
    """Signals that come meanwhile wait for its end, and are then handled as always."""
    noted: list[int] = []
    with handled(signals(*names), lambda number, _: noted.append(number)):
        yield
    for number in noted:
        signal.raise_signal(number)


def signals(*names: str) -> list[int]:
    """Those of the signals that this system has."""
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def unhandled(*names: str) -> list[int]:
    """Those that nobody handles in a way of his own."""
    usual: dict[int, Any] = {signal.SIGINT: signal.default_int_handler}
    return [number for number in signals(*names) if signal.getsignal(number) == usual.get(number, signal.SIG_DFL)]


class Stopping:
    """While it listens, Ctrl-C, SIGTERM and SIGHUP wait for the end of the step; then the state is saved, all ends.

    A second signal does not wait: what is lost is what came after the last checkpoint. Signals that somebody else
    handles, as the processes of a pool do with Ctrl-C, are left alone. Several ranks leave after the same step, if one
    of them was asked to.
    """

    def __init__(self, state: State, run: Run, ranks: Ranks) -> None:
        self.state, self.run, self.ranks = state, run, ranks
        self.asked: int | None = None  # the signal
        self.agreed = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Until the end of training, however that comes; who interrupts it is told how much is saved, and where."""
        try:
            with handled(unhandled("SIGINT", "SIGTERM", "SIGHUP"), self._ask):
                try:
                    yield
                except (KeyboardInterrupt, SystemExit):
                    if self.ranks.first and not self.state.changing and self.state.done != self.state.saved:
                        self.save()
                    if self.agreed:
                        self.ranks.wait()  # until it is saved
                    raise
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self._told()) from None
        except SystemExit as stop:
            stop.args = (stop.code, self._told())
            raise

    def save(self) -> None:
        """Write a checkpoint."""
        self.state.save(self.run.checkpoint)

    @contextlib.contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """In here the state is changed or written: a signal waits for the end; after an error it is not to be kept."""
        self.state.changing = True
        yield
        self.state.changing = False
        self.leave_if_asked()

    def _ask(self, number: int, _: object) -> None:
        again, self.asked = self.asked is not None, number
        if again or (self.ranks.alone and not self.state.changing):
            self._leave(number)

    def leave_if_asked(self) -> None:
        """End training if a signal asked for it, on any rank: all come here."""
        if number := int(self.ranks.highest(self.asked or 0)):
            self.agreed = True
            self._leave(number)

    def _leave(self, number: int) -> None:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    def _told(self) -> str:
        epochs, steps = self.state.saved
        then = f", and {steps} of {self.state.steps} steps of the next" if steps else ""
        total = self.state.experiment.optimization.epochs
        return f"{epochs} of {total} epochs are done and saved in {self.run.directory}{then}"


def check_writable(out: Path) -> None:
    """Refuse a folder that cannot be written, or not be made; nothing is left behind.

    >>> check_writable(Path(__file__))
    Traceback (most recent call last):
    OSError: runs cannot be written to ...guard.py: it is a file; choose another folder
    """
    folder = _nearest(out)
    if not folder.is_dir():
        raise OSError(
            f"runs cannot be written to {out}: {'it' if folder == out else folder} is a file; choose another folder"
        )
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        raise OSError(f"runs cannot be written to {out}: {error.strerror or error}; choose another folder") from error


def check_space(out: Path, splits: Splits, state: State) -> None:
    """Refuse before training if the disk cannot hold what the run writes: logits, checkpoints, the model."""
    experiment = state.experiment
    kept = experiment.optimization.epochs // experiment.keep_every + 1
    logits = 4 * (len(splits.val) + len(splits.test)) * (splits.num_classes + 1) * kept
    weights = sum(tensor.numel() * tensor.element_size() for tensor in state.model.state_dict().values())
    models = 1 if experiment.choose == "last" else 3  # the model itself; a checkpoint holds the chosen epoch's, too
    needed = logits + 3 * state.num_bytes + models * weights + SLACK  # two checkpoints, and one that is being written
    free = shutil.disk_usage(_nearest(out)).free
    if free < needed:
        raise OSError(
            f"{out} has {free / MEGABYTE:.0f} MB free, the run writes up to {needed / MEGABYTE:.0f} MB: "
            f"free some space, choose another folder, or keep fewer epochs by a larger keep_every"
        )


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


@contextlib.contextmanager
def enough_memory(what: str, advice: str) -> Iterator[None]:
    """Memory that is not to be had becomes one line that says what was too large.

    >>> with enough_memory("the model mlp", "make it smaller"):
    ...     raise MemoryError
    Traceback (most recent call last):
    ValueError: there is not enough memory for the model mlp: make it smaller
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        words = str(error).lower()  # torch tells it in a RuntimeError of its own on some devices, a plain one on others
        if isinstance(error, RuntimeError) and not any(sign in words for sign in OUT_OF_MEMORY):
            raise
        raise ValueError(f"there is not enough memory for {what}: {advice}") from error
