"""When a run is saved: every few seconds, at its end, and when a signal asks it to stop."""

import contextlib
import signal
import time
from collections.abc import Iterator

from socrates.engine.ranks import Ranks
from socrates.engine.state import State
from socrates.processes import handled, unhandled
from socrates.records import Run

SECONDS_BETWEEN_CHECKPOINTS = 10.0


class Saving:
    """Write checkpoints every ten seconds, unless that takes more than a twentieth of the time.

    Ctrl-C, SIGTERM and SIGHUP wait for the end of the step, the state is saved, training ends. A
    second signal does not wait: what came after the last checkpoint is lost. Signals that have
    another handler already, as Ctrl-C has in the processes of a pool, are left alone.

    Several ranks save, and stop, after the same step; the first of them writes.
    """

    def __init__(self, state: State, run: Run, ranks: Ranks) -> None:
        self.state = state
        self.run = run
        self.ranks = ranks
        self.last = time.monotonic()
        self.took = 0.0
        self.asked: int | None = None  # the signal
        self.agreed = False

    @property
    def due(self) -> bool:
        """Return whether it is time for a checkpoint, by the first rank's clock."""
        seconds = time.monotonic() - self.last
        is_late = seconds > SECONDS_BETWEEN_CHECKPOINTS * max(1.0, 2 * self.took)
        return bool(self.ranks.highest(is_late and self.ranks.first))

    def save(self) -> None:
        """Write a checkpoint now."""
        start = time.monotonic()
        if self.ranks.first:
            self.state.save(self.run.checkpoint)
        self.ranks.wait()
        self.last = time.monotonic()
        self.took = self.last - start

    def after_step(self) -> None:
        """Save after a step if it is time; a signal that came meanwhile ends training here."""
        self._leave_if_asked()
        if self.due:
            with self.uninterrupted():
                self.save()

    @contextlib.contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Let a signal wait while the state is changed or written.

        After an error in the block the state stays marked as changing: it must not be saved.
        """
        self.state.changing = True
        yield
        self.state.changing = False
        self._leave_if_asked()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals until training ends; an interruption says how much is saved, and where."""
        try:
            with handled(unhandled("SIGINT", "SIGTERM", "SIGHUP"), self._ask):
                try:
                    yield
                except (KeyboardInterrupt, SystemExit):
                    self._save_last_state()
                    raise
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self._what_is_saved()) from None
        except SystemExit as stop:
            stop.args = (stop.code, self._what_is_saved())
            raise

    def _ask(self, number: int, _: object) -> None:
        is_second = self.asked is not None
        self.asked = number
        if is_second or (self.ranks.alone and not self.state.changing):
            _leave(number)

    def _leave_if_asked(self) -> None:
        """End training if a signal asked any rank for it; all ranks call this after each step."""
        if number := int(self.ranks.highest(self.asked or 0)):
            self.agreed = True
            _leave(number)

    def _save_last_state(self) -> None:
        is_new = self.state.done != self.state.saved
        if self.ranks.first and not self.state.changing and is_new:
            self.state.save(self.run.checkpoint)
        if self.agreed:
            self.ranks.wait()  # until it is saved

    def _what_is_saved(self) -> str:
        epochs, steps = self.state.saved
        total = self.state.experiment.optimization.epochs
        more = f", and {steps} of {self.state.steps_per_epoch} steps of the next" if steps else ""
        return f"{epochs} of {total} epochs are done and saved in {self.run.directory}{more}"


def _leave(number: int) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
