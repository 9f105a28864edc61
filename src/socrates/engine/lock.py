"""One process a run directory, also on a file system that several machines share."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from socrates.files import named_errors

try:
    import fcntl
except ImportError:  # not on every system: there only what stands in the file tells
    fcntl = None

HOST = platform.node()
SECONDS_BETWEEN_BEATS = 5.0  # by which a process on another machine shows that it lives
BEATS_UNTIL_DEAD = 3


class Owner(NamedTuple):
    """Who trains a run, as the lock says."""

    pid: int
    host: str

    def __str__(self) -> str:
        return f"pid {self.pid or 'unknown'}" + (f" on {self.host}" if self.host != HOST else "")


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """A run directory for this process alone; a process that is gone holds nothing, however it ended.

    What processes that are gone had not written to its end is removed.

    >>> import tempfile
    >>> directory = Path(tempfile.mkdtemp())
    >>> with held(directory), held(directory):
    ...     pass
    Traceback (most recent call last):
    BlockingIOError: ... is already being trained by another process (pid ...): wait for it, or stop it
    >>> list(directory.iterdir())
    []
    """
    path = directory / "lock"
    file = _locked(path)
    ended = threading.Event()
    threading.Thread(target=_beat, args=(path, ended), daemon=True).start()
    try:
        for half in directory.rglob("*.tmp"):
            pid = Path(half.stem).suffix[1:]  # that `replacing` wrote there
            if pid.isdecimal() and not alive(int(pid)):
                half.unlink(missing_ok=True)
        yield
    finally:
        ended.set()
        path.unlink(missing_ok=True)  # while it is locked: who waits for it sees that it is gone and makes another
        os.close(file)


def _locked(path: Path) -> int:
    """The lock file, open and ours."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if _is_held(file, path):
                raise BlockingIOError(
                    f"{path.parent} is already being trained by another process ({_owner(file) or Owner(0, HOST)}): "
                    f"wait for it, or stop it"
                )
            if _is_there(file, path):
                with named_errors(path):
                    os.ftruncate(file, 0)
                    os.pwrite(file, f"{os.getpid()} {HOST}\n".encode(), 0)
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _is_held(file: int, path: Path) -> bool:
    """Whether another process has the lock: the system says so or, where it cannot, what stands in the file."""
    guarded = False
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            guarded = True  # against all processes of this machine; it frees the lock of one that is gone
        except BlockingIOError:
            return True
        except OSError:  # such as a network file system without locks
            pass
    owner = _owner(file)
    if owner is None or owner.host == HOST:
        return owner is not None and not guarded and alive(owner.pid)
    return _beats(path)


def _is_there(file: int, path: Path) -> bool:
    """Whether it is the file under that name: its owner may have removed it between our opening and our locking."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _owner(file: int) -> Owner | None:
    """Who wrote the lock; earlier versions wrote no host."""
    words = os.pread(file, 300, 0).decode(errors="replace").split()
    return Owner(int(words[0]), " ".join(words[1:]) or HOST) if words and words[0].isdecimal() else None


def _beat(path: Path, ended: threading.Event) -> None:
    while not ended.wait(SECONDS_BETWEEN_BEATS):
        with contextlib.suppress(OSError):
            os.utime(path)


def _beats(path: Path) -> bool:
    """Whether a process on another machine still touches its lock; their clocks need not agree."""
    try:
        before = path.stat().st_mtime_ns
        for _ in range(BEATS_UNTIL_DEAD):
            time.sleep(SECONDS_BETWEEN_BEATS)
            if path.stat().st_mtime_ns != before:
                return True
    except FileNotFoundError:
        pass
    return False


def alive(pid: int) -> bool:
    """Whether another process of this machine is there.

    >>> alive(os.getpid()), alive(os.getppid())
    (False, True)
    """
    if pid == os.getpid() or os.name != "posix":  # elsewhere a signal to ask with would end it
        return pid != os.getpid()
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, PermissionError)  # of another user
    return True
