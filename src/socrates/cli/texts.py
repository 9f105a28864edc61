"""Texts about all commands: their overview, and errors that name options instead of keywords."""

import dataclasses
import inspect
import re

from .commands import COMMANDS
from .options import Switch, flag
from .output import in_lines


def overview() -> str:
    """Return the first line of the description of each command."""
    lines: list[str] = []
    for name, (kind, _) in COMMANDS.items():
        summary = (inspect.getdoc(kind) or "").splitlines()[0]
        lines.append(in_lines(f"  {name:12s}{summary}", indent=14 * " "))
    more = ("socrates COMMAND --help explains a command.", "socrates --version prints the version.")
    return "\n".join(["usage: socrates COMMAND ...", "", *lines, "", *more])


def in_flags(message: str) -> str:
    """Return an error with Python's keyword arguments spelled as options of the command line.

    >>> in_flags("pass kind='confidence' with columns=['score'], or unknown=False")
    'pass --kind confidence with --columns score, or --unknown no'
    >>> in_flags("num_bins=0, expected >= 1; train it with again=True, start=RUN")
    '--num-bins 0, expected >= 1; train it with --again, --from RUN'
    """
    fields = [item for kind, _ in COMMANDS.values() for item in dataclasses.fields(kind)]
    names = "|".join(sorted({item.name for item in fields} | {"start"}))
    switches = {item.name for item in fields if item.type is Switch}

    def spelled(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name in switches and value == "True":
            return flag(name)
        words = {"True": "yes", "False": "no"}.get(value, re.sub(r"[\[\]',]", "", value))
        return f"{flag('from' if name == 'start' else name)} {words}"

    # A match behind a slash, or one that continues after its value, is part of a file's name.
    pattern = rf"(?<![/\w-])({names})=('[^']*'|\[[^]]*\]|-?[\w.]*\w)(?![\w./-])"
    return re.sub(pattern, spelled, message)


def memory_advice(kind: type) -> str:
    """Return what to do when a command runs out of memory, by the options that it has.

    >>> from .commands import Predict
    >>> memory_advice(Predict)
    'close other programs, or choose a smaller --batch-size'
    """
    needing = ("batch_size", "sample", "workers", "processes")
    known = {item.name for item in dataclasses.fields(kind)}
    options = [flag(name) for name in needing if name in known]
    smaller = f", or choose a smaller {' or '.join(options)}" if options else ""
    return f"close other programs{smaller}"
