"""Timing shared by the benchmarks: contenders run in turn, in one process, and the median counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the benchmark table: our time, one peer's time, and the ratio that was promised."""

    work: str
    ours_ms: float
    peer: str
    peer_ms: float
    must: float | None
    stretch: float | None
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times faster than the peer we are (below 1 the peer wins)."""
        return self.peer_ms / self.ours_ms


def interleaved(
    functions: dict[str, Callable[[], object]],
    repeats: int = 15,
    warmup: int = 2,
) -> dict[str, float]:
    """Median milliseconds of each function; they are called in turn, so that noise falls on all of them alike.

    Every other turn goes backwards: whoever comes second finds other caches than who comes first.

    >>> sorted(interleaved({"a": lambda: 1, "b": lambda: sum(range(10))}, repeats=3))
    ['a', 'b']
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(warmup + repeats):
        for name, function in list(functions.items())[:: -1 if turn % 2 else 1]:
            start = time.perf_counter()
            function()
            elapsed = time.perf_counter() - start
            if turn >= warmup:
                times[name].append(1000 * elapsed)
    return {name: statistics.median(values) for name, values in times.items()}


def in_pairs(
    ours: Callable[[], object],
    peers: dict[str, Callable[[], object]],
    repeats: int = 15,
) -> dict[str, tuple[float, float]]:
    """Our and the peer's median milliseconds for each peer, two at a time.

    With more contenders in turn, what a third leaves behind in caches and allocator falls on whoever comes next.

    >>> sorted(in_pairs(lambda: 1, {"a": lambda: 2}, repeats=3))
    ['a']
    """
    pairs = {name: interleaved({"ours": ours, "peer": peer}, repeats) for name, peer in peers.items()}
    return {name: (pair["ours"], pair["peer"]) for name, pair in pairs.items()}
