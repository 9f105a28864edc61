"""One process a run: two that write into one directory would damage it without a word."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on every system: there nothing is locked
    fcntl = None


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """A run directory for this process alone; the system frees it when the process ends, however that comes.

    >>> import tempfile
    >>> directory = Path(tempfile.mkdtemp())
    >>> with held(directory), held(directory):
    ...     pass
    Traceback (most recent call last):
    OSError: ... is already being trained by another process (pid ...): wait for it, or stop it
    >>> list(directory.iterdir())
    []
    """
    path = directory / "lock"
    file = _locked(path)
    try:
        yield
    finally:
        if file is not None:
            path.unlink(missing_ok=True)  # while it is locked: who waits for it sees that it is gone and makes another
            os.close(file)


def _locked(path: Path) -> int | None:
    """The lock file, open and locked; None where the system or the file system cannot lock."""
    if fcntl is None:
        return None
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(file, 20).decode(errors="replace").strip() or "unknown"
            os.close(file)
            raise OSError(
                f"{path.parent} is already being trained by another process (pid {owner}): wait for it, or stop it"
            ) from None
        except OSError:  # such as a network file system without locks
            os.close(file)
            return None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), os.stat(path)):
                os.ftruncate(file, 0)
                os.write(file, f"{os.getpid()}\n".encode())
                return file
        os.close(file)  # its owner removed it between our opening and our locking
