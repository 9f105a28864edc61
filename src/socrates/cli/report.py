"""`socrates quickstart`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .shared import console


@dataclass
class Quickstart:
    """Compare four losses on digits, in a minute: a table, what it means, and two pictures."""

    out: Path = Path("runs/quickstart")
    """Where runs and pictures go."""


def run_quickstart(options: Quickstart, _: dict[str, str]) -> None:
    """`socrates quickstart`."""
    from socrates.quickstart import quickstart

    options.out.mkdir(parents=True, exist_ok=True)
    quickstart(options.out, console)
