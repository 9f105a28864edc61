"""The command line: one module a group of commands, and the table of them all."""

from __future__ import annotations

import os

# Before torch is imported: OpenMP threads that spin while they wait collapse when anything else uses the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

try:
    import rich.markup
    import tyro
except ImportError as error:
    sys.exit(f"the command line needs more than the library ({error}): pip install 'socrates-loss[train]'")

from .look import Evaluate, List, Show, run_evaluate, run_list, run_show
from .paper import Reproduce, run_reproduce
from .report import Quickstart, Report, run_quickstart, run_report
from .shared import console, errors, named_values
from .study import Sweep, Tune, run_sweep, run_tune
from .train import Train, run_train

__all__ = ["main"]

COMMANDS: dict[str, tuple[type, Callable[[Any, dict[str, str]], None]]] = {
    "quickstart": (Quickstart, run_quickstart),
    "train": (Train, run_train),
    "evaluate": (Evaluate, run_evaluate),
    "show": (Show, run_show),
    "list": (List, run_list),
    "tune": (Tune, run_tune),
    "sweep": (Sweep, run_sweep),
    "report": (Report, run_report),
    "reproduce": (Reproduce, run_reproduce),
}
CONTINUE = (Quickstart, Train, Tune, Sweep, Reproduce)  # where they were stopped
TAKES_OPTIONS = (Train, Tune)  # of a method or model, by their own names


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; errors that a user can mend are one line, without a traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        console.print(
            f"usage: socrates COMMAND ...\n\n{overview()}\n\nsocrates COMMAND --help tells more.", highlight=False
        )
        return 0
    if words[0] not in COMMANDS:
        say(f"unknown command {rich.markup.escape(repr(words[0]))}: choose from {', '.join(COMMANDS)}")
        return 2
    kind, action = COMMANDS[words[0]]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            options, rest = tyro.cli(kind, args=words[1:], prog=f"socrates {words[0]}", return_unknown_args=True)
            action(options, named_values(rest, allowed=kind in TAKES_OPTIONS))
    except (ValueError, OSError, ImportError) as error:
        say(f"[bold red]error:[/] {rich.markup.escape(str(error))}")
        return 1
    except KeyboardInterrupt as stop:
        how_far = f": {rich.markup.escape(str(stop))}" if str(stop) else ""
        say(f"stopped{how_far}{'; the same command continues' if kind in CONTINUE else ''}")
        return 130
    return 0


def say(text: str) -> None:
    """A line for people, beside the output: on stderr, and never broken into several."""
    errors.print(text, highlight=False, soft_wrap=True)


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning in one line, without the place in the source where it arose."""
    say(f"[yellow]warning:[/] {rich.markup.escape(str(message))}")


def overview() -> str:
    """Each command with the first line of what it says of itself."""
    return "\n".join(
        f"  {name:12s}{(inspect.getdoc(kind) or '').splitlines()[0]}" for name, (kind, _) in COMMANDS.items()
    )
