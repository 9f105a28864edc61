"""The table of commands: the options of each, and what it does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .look import Evaluate, List, Show, run_evaluate, run_list, run_show
from .paper import Reproduce, run_reproduce
from .report import Quickstart, Report, run_quickstart, run_report
from .sweep import Sweep, run_sweep
from .train import Train, run_train
from .tune import Tune, run_tune

COMMANDS: dict[str, tuple[type, Callable[[Any], None]]] = {
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


def overview() -> str:
    """Each command with the first line of what it says of itself."""
    lines = [f"  {name:12s}{(inspect.getdoc(kind) or '').splitlines()[0]}" for name, (kind, _) in COMMANDS.items()]
    return "\n".join(["usage: socrates COMMAND ...", "", *lines, "", "socrates COMMAND --help tells more."])
