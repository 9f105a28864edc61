"""The command line: commands.py has the commands and their options, one module per group runs them.

It may import everything else in the package, and nothing imports it. Read commands.py first. Only
`main` is here, because the worker processes of a study import this module and need nothing more.
"""

import os
import signal
import sys
import warnings
from collections.abc import Sequence

import socrates

from .characters import speak_any_encoding

# Set before torch is imported: OpenMP threads that spin while they wait slow everything down when
# something else uses the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__all__ = ["main"]

STOPPED = {128 + getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)}
CONTINUED = ("quickstart", "train", "tune", "sweep", "reproduce")  # by the same command


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; an error that a user can mend is one line."""
    is_program = argv is None
    words = list(sys.argv[1:] if argv is None else argv)
    speak_any_encoding()
    try:
        return _run(words)
    except KeyboardInterrupt as stop:
        return _say_stopped(words, str(stop), 130, is_program)
    except SystemExit as stop:
        if not isinstance(stop.code, int):
            raise
        if stop.code not in STOPPED:
            return stop.code
        progress = str(stop.args[1]) if len(stop.args) > 1 else ""
        return _say_stopped(words, progress, stop.code, is_program)


def _run(words: list[str]) -> int:
    if words[:1] == ["--version"]:  # before anything slow is imported
        print(f"socrates {socrates.__version__}")
        return 0
    try:
        from .commands import COMMANDS
        from .options import parse
        from .output import complain, console
        from .texts import in_flags, overview
    except ImportError as error:
        sys.exit(
            f"the command line needs more packages than the library ({error}): "
            "pip install 'socrates-loss[train]'"
        )
    if not words or words[0] in ("-h", "--help"):
        console.print(overview())
        return 0
    if words[0] not in COMMANDS:
        complain(f"unknown command {words[0]!r}: choose from {', '.join(COMMANDS)}", "")
        return 2
    kind, action = COMMANDS[words[0]]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: complain(
                in_flags(str(message)), "warning: ", "yellow"
            )
            action(parse(kind, words[1:], f"socrates {words[0]}"))
    except (ValueError, OSError, ImportError) as error:
        complain(in_flags(str(error)))
        return 1
    return 0


def _say_stopped(words: list[str], progress: str, code: int, is_program: bool) -> int:
    """Print one line about a stopped command, even if Ctrl-C is pressed again meanwhile."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = f"stopped: {progress}" if progress else "stopped"
    if words and words[0] in CONTINUED:
        line += "; the same command continues"
    print(line, file=sys.stderr, flush=True)
    if not is_program:
        signal.signal(signal.SIGINT, handler)
    return code
