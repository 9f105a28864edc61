"""docs/reliability.md: what is promised, the test that shows it, and how many faults were survived."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

PROMISES = ""


def write_page(path: Path, kills: Any, mutations: Any, seconds: float) -> None:
    """Write it anew."""
    print(sum_of(kills.counts, "kill -9"), kills.counts, mutations.counts, seconds)


def sum_of(counts: Counter[tuple[str, str]], what: str) -> int:
    """Of all that were counted under a name."""
    return sum(count for (name, _), count in counts.items() if name == what)
