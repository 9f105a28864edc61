"""The command line. Only `main` is here: the processes of a study import this too, and need nothing of the rest."""

import os
import signal
import sys
import warnings
from collections.abc import Sequence

# Before torch is imported: OpenMP threads that spin while they wait collapse when anything else uses the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__all__ = ["main"]

STOPPED = {128 + getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; errors that a user can mend are one line, without a traceback, and so is being stopped."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except KeyboardInterrupt as stop:
        return _stopped(words, f": {stop}" if str(stop) else "", 130, ends=argv is None)
    except SystemExit as stop:
        if not isinstance(stop.code, int):
            raise
        how_far = f": {stop.args[1]}" if len(stop.args) > 1 else ""
        return _stopped(words, how_far, stop.code, ends=argv is None) if stop.code in STOPPED else stop.code


def _run(words: list[str]) -> int:
    try:
        from .commands import COMMANDS, overview
        from .options import parse
        from .output import complain, console
    except ImportError as error:
        sys.exit(f"the command line needs more than the library ({error}): pip install 'socrates-loss[train]'")
    if not words or words[0] in ("-h", "--help"):
        console.print(overview())
        return 0
    if words[0] not in COMMANDS:
        complain(f"unknown command {words[0]!r}: choose from {', '.join(COMMANDS)}", "")
        return 2
    kind, action = COMMANDS[words[0]]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: complain(str(message), "warning: ", "yellow")
            action(parse(kind, words[1:], f"socrates {words[0]}"))
    except (ValueError, OSError, ImportError) as error:
        complain(str(error))
        return 1
    return 0


def _stopped(words: list[str], how_far: str, code: int, *, ends: bool) -> int:
    """One line, whatever else is pressed meanwhile, or until the end if the process `ends`."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    continues = words[:1] and words[0] in ("quickstart", "train", "tune", "sweep", "reproduce")
    print(f"stopped{how_far}{'; the same command continues' if continues else ''}", file=sys.stderr, flush=True)
    if not ends:
        signal.signal(signal.SIGINT, handler)
    return code
