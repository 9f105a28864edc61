"""Time contenders in turn, in one process; the median counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the benchmark table: our time, a peer's time, and the goals for their ratio."""

    work: str
    ours_ms: float
    peer: str
    peer_ms: float
    must: float | None
    stretch: float | None
    note: str = ""

    @property
    def ratio(self) -> float:
        """Return the peer's time divided by ours; below 1 the peer is faster."""
        return self.peer_ms / self.ours_ms


def interleaved(
    functions: dict[str, Callable[[], object]],
    repeats: int = 15,
    warmup: int = 2,
) -> dict[str, float]:
    """Return the median milliseconds of each function.

    They are called in turn, so that noise falls on all of them alike. Every other turn goes
    backwards, because the second function finds other caches than the first.

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
    """Return our and the peer's median milliseconds for each peer.

    Only two contenders take turns at a time: with more of them, what a third one leaves behind in
    caches and the allocator slows the next one down.

    >>> sorted(in_pairs(lambda: 1, {"a": lambda: 2}, repeats=3))
    ['a']
    """
    pairs = {
        name: interleaved({"ours": ours, "peer": peer}, repeats) for name, peer in peers.items()
    }
    return {name: (pair["ours"], pair["peer"]) for name, pair in pairs.items()}
