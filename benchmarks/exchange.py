"""What the ranks of a training tell each other in a step: bytes counted in a simulation of up to 1,024 of them.

Each simulated rank is a thread with a `SocratesLoss` of its own; only `torch.distributed` is replaced, by a network
that copies and counts. The script prints the tables of docs/scale.md, and writes them there with --write.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from socrates import SocratesLoss
from socrates.losses import exchange

RANKS = (2, 8, 64, 256, 1024)
A_RANK = 16  # samples of a rank in a step
STEPS, NUM_CLASSES = 2, 10
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
BEGIN, END = "<!-- written by benchmarks/exchange.py -->", "<!-- end -->"


class Network:
    """Stands in for `torch.distributed`: an all-gather among threads, and what each of them was sent by the others."""

    def __init__(self, ranks: int) -> None:
        self.group = SimpleNamespace(WORLD=self)
        self.ranks, self.place = ranks, threading.local()
        self.sent: list[Any] = [None] * ranks
        self.received = [0] * ranks
        self.barrier = threading.Barrier(ranks, timeout=600)

    def is_available(self) -> bool:
        return True

    is_initialized = is_available

    def get_world_size(self, group: Any) -> int:
        return self.ranks

    def all_gather(self, found: list[Tensor], own: Tensor, group: Any) -> None:
        rank = self.place.rank
        self.sent[rank] = own
        self.barrier.wait()
        for row, other in zip(found, self.sent, strict=True):
            row.copy_(other)
        self.received[rank] += sum(other.nbytes for other in self.sent) - own.nbytes
        self.barrier.wait()


def batches(ranks: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Logits, labels and index of the whole batch of each step; some samples come again."""
    rows = ranks * A_RANK
    made = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        logits = torch.randn(rows, NUM_CLASSES + 1, generator=generator)
        labels = torch.randint(NUM_CLASSES, (rows,), generator=generator)
        made.append((logits, labels, torch.randint(rows, (rows,), generator=generator)))
    return made


def replicated(ranks: int) -> int:
    """Bytes that a rank receives in a step; the targets of every rank are those of one process, or this fails."""
    network, steps = Network(ranks), batches(ranks)
    losses = [SocratesLoss(ranks * A_RANK, alpha=0.5) for _ in range(ranks)]

    def train(rank: int) -> None:
        network.place.rank = rank
        own = slice(rank * A_RANK, (rank + 1) * A_RANK)
        for logits, labels, index in steps:
            losses[rank](logits[own], labels[own], index[own])

    usual, exchange._dist = exchange._dist, network  # type: ignore[assignment]
    try:
        threads = [threading.Thread(target=train, args=(rank,)) for rank in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        exchange._dist = usual
    alone = SocratesLoss(ranks * A_RANK, alpha=0.5)
    for batch in steps:
        alone(*batch)
    assert all(torch.equal(loss.target, losses[0].target) for loss in losses)
    torch.testing.assert_close(losses[0].target, alone.target, rtol=0, atol=1e-6)
    assert len(set(network.received)) == 1
    return network.received[0] // STEPS


def sharded(ranks: int) -> int:
    """The most that a rank would receive if each sample's target lived on one rank only, index modulo ranks.

    It asks the owners for the targets of its batch (an index each), is told them, and tells the owners the new ones.
    """
    most = 0
    for _, _, index in batches(ranks):
        parts, owners = index.view(ranks, A_RANK), index.view(ranks, A_RANK) % ranks
        received = torch.zeros(ranks, dtype=torch.int64)
        for rank in range(ranks):
            others = owners[rank][owners[rank] != rank]
            received[rank] += 4 * len(others)  # targets, in single precision
            received += (4 + 4) * torch.bincount(others, minlength=ranks)  # an index of 32 bits, later a target
        assert parts.numel() == ranks * A_RANK
        most = max(most, int(received.max()))
    return most


def table() -> str:
    """Bytes that a rank receives in a step, as Markdown."""
    lines = ["| ranks | samples a step | a rank receives | for each sample of the step | sharded, at most |"]
    lines.append("|---:|---:|---:|---:|---:|")
    for ranks in RANKS:
        found, rows = replicated(ranks), ranks * A_RANK
        assert found == (ranks - 1) * (16 + 8 * A_RANK)  # what the docstring of SocratesLoss says
        each = found / rows
        lines.append(f"| {ranks:,} | {rows:,} | {found:,} bytes | {each:.1f} bytes | {sharded(ranks):,} bytes |")
    return "\n".join(lines)


def state_table() -> str:
    """What the targets of so many samples take on each rank and in a checkpoint, from the buffers of a loss."""
    loss = SocratesLoss(1000)
    held = sum(buffer.nbytes for buffer in loss.buffers()) // 1000
    kept = sum(value.nbytes for value in loss.state_dict().values()) // 1000
    lines = ["| training samples | memory on each rank | in a checkpoint |", "|---:|---:|---:|"]
    lines += [
        f"| {samples:,} | {samples * held / 1e6:,.1f} MB | {samples * kept / 1e6:,.1f} MB |"
        for samples in (50_000, 1_281_167, 100_000_000, 1_000_000_000, 5_000_000_000)
    ]
    return f"{held} bytes a sample on each rank, {kept} in a checkpoint:\n\n" + "\n".join(lines)


if __name__ == "__main__":
    made = f"{state_table()}\n\nA rank receives in a step of {A_RANK} samples of its own:\n\n{table()}"
    print(made)
    if "--write" in sys.argv:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}")
