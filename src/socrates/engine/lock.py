"""One process for each run directory, also on a file system that several machines share.

The system's lock (flock) guards against all processes of this machine; against other machines, or
where a file system has no locks, the owner's name in the file and its heartbeat do.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from socrates.files import is_alive, named_errors, remove_half_written

# filelock's SoftFileLease (4.2) fails two tests of tests/test_engine_robust.py: the empty lock that
# a power cut leaves is never taken over (test_a_lock_of_a_dead_process_*), and a process of this
# machine that was only suspended loses its lock (test_a_suspended_process_keeps_its_lock).
try:
    import fcntl
except ImportError:  # not on every system: there the content of the file decides
    fcntl = None

HOST = platform.node()
SECONDS_BETWEEN_BEATS = 5.0  # by which a process on another machine shows that it is alive
BEATS_UNTIL_DEAD = 3


class RunIsHeld(BlockingIOError):
    """Another process trains the run."""


class LockOwner(NamedTuple):
    """The process that trains a run, as the lock names it."""

    pid: int
    host: str

    def __str__(self) -> str:
        return f"pid {self.pid or 'unknown'}" + (f" on {self.host}" if self.host != HOST else "")


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold a run directory for this process alone.

    A process that is gone holds nothing, however it ended. Files that such processes had not
    written completely are removed.

    >>> import tempfile
    >>> directory = Path(tempfile.mkdtemp())
    >>> with held(directory), held(directory):
    ...     pass
    Traceback (most recent call last):
    socrates.engine.lock.RunIsHeld: ... is already being trained by another process (pid ...):
    wait for it, or stop it
    >>> list(directory.iterdir())
    []
    """
    path = directory / "lock"
    file = _locked(path)
    ended = threading.Event()
    threading.Thread(target=_beat, args=(path, ended), daemon=True).start()
    try:
        remove_half_written(directory)
        yield
    finally:
        ended.set()
        # while it is locked: who waits for it sees that it is gone and makes another
        path.unlink(missing_ok=True)
        os.close(file)


def is_held_here(directory: Path) -> bool:
    """Return whether a process of this machine holds a run directory, as far as can be seen.

    >>> import tempfile
    >>> directory = Path(tempfile.mkdtemp())
    >>> with held(directory):
    ...     is_held_here(directory)
    True
    >>> is_held_here(directory)
    False
    """
    try:
        file = os.open(directory / "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        owner = _owner(file)
        return owner is not None and owner.host == HOST and is_alive(owner.pid)
    except BlockingIOError:
        return True
    except OSError:  # such as a network file system without locks: who tries to hold it finds out
        return False
    finally:
        os.close(file)


def _locked(path: Path) -> int:
    """Return the lock file, open and locked by this process."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if _is_held(file, path):
                owner = _owner(file) or LockOwner(0, HOST)
                raise RunIsHeld(
                    f"{path.parent} is already being trained by another process ({owner}): "
                    "wait for it, or stop it"
                )
            if _is_at(file, path):
                with named_errors(path):
                    os.ftruncate(file, 0)
                    os.pwrite(file, f"{os.getpid()} {HOST}\n".encode(), 0)
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _is_held(file: int, path: Path) -> bool:
    """Return whether another process has the lock, by the system's word or else by the file's."""
    has_guard = False
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # against all processes of this machine; the system frees the lock of one that is gone
            has_guard = True
        except BlockingIOError:
            return True
        except OSError:  # such as a network file system without locks
            pass
    owner = _owner(file)
    if owner is None or owner.host == HOST:
        return owner is not None and not has_guard and is_alive(owner.pid)
    return _beats(path)


def _is_at(file: int, path: Path) -> bool:
    """Return whether the open file is still at its path.

    Its owner may have removed it after we opened it and before we locked it.
    """
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _owner(file: int) -> LockOwner | None:
    """Return who wrote the lock; earlier versions wrote no host."""
    words = os.pread(file, 300, 0).decode(errors="replace").split()
    if not words or not words[0].isdecimal():
        return None
    return LockOwner(int(words[0]), " ".join(words[1:]) or HOST)


def _beat(path: Path, ended: threading.Event) -> None:
    while not ended.wait(SECONDS_BETWEEN_BEATS):
        with contextlib.suppress(OSError):
            os.utime(path)


def _beats(path: Path) -> bool:
    """Return whether a process on another machine still touches its lock; clocks may differ."""
    try:
        before = path.stat().st_mtime_ns
        for _ in range(BEATS_UNTIL_DEAD):
            time.sleep(SECONDS_BETWEEN_BEATS)
            if path.stat().st_mtime_ns != before:
                return True
    except FileNotFoundError:
        pass
    return False
