"""Ctrl-C, and being asked to end, without losing a whole epoch and without saving half of one."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

from socrates.engine.state import State


class Stopped(KeyboardInterrupt):
    """Training was stopped by Ctrl-C; says how much is saved, and where."""


class Stopping:
    """While it is entered, Ctrl-C and SIGTERM wait for the end of an epoch if whole epochs are not saved yet.

    The loop then saves and calls `leave_if_asked`. A second signal, or one that comes when every whole epoch is saved,
    ends training at once: what is lost is the part of an epoch that no checkpoint can hold. Signals that somebody else
    handles, as the processes of a pool do with Ctrl-C, are left alone.
    """

    def __init__(self, state: State, directory: Path, epochs: int) -> None:
        self.state, self.directory, self.epochs = state, directory, epochs
        self.asked: int | None = None  # the signal
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():  # Python handles signals there only
            for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
                if signal.getsignal(number) == usual:
                    self.before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        if kind is KeyboardInterrupt:
            raise Stopped(
                f"{self.state.saved} of {self.epochs} epochs are done and saved in {self.directory}"
            ) from None

    def _ask(self, number: int, _: object) -> None:
        again, self.asked = self.asked is not None, number
        if again or self.state.saved == self.state.epoch:
            self.leave_if_asked()

    def leave_if_asked(self) -> None:
        """End training if a signal asked for it."""
        if self.asked == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM)
        if self.asked is not None:
            raise KeyboardInterrupt
