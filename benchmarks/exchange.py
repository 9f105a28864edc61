"""Count the bytes that ranks exchange in a training step, in a simulation of up to 1,024 ranks.

Each simulated rank is a thread with its own `SocratesLoss`. Only `torch.distributed` is replaced,
by a network that copies and counts. The script prints the tables of docs/scale.md, and writes them
there with --write.
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
    """Stand in for `torch.distributed`: gather among threads, and count what each receives."""

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

    def all_gather(self, gathered: list[Tensor], part: Tensor, group: Any) -> None:
        rank = self.place.rank
        self.sent[rank] = part
        self.barrier.wait()
        for row, other in zip(gathered, self.sent, strict=True):
            row.copy_(other)
        self.received[rank] += sum(other.nbytes for other in self.sent) - part.nbytes
        self.barrier.wait()


def batches(ranks: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return logits, labels and index of the whole batch of each step; some samples repeat."""
    rows = ranks * A_RANK
    steps = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        logits = torch.randn(rows, NUM_CLASSES + 1, generator=generator)
        labels = torch.randint(NUM_CLASSES, (rows,), generator=generator)
        steps.append((logits, labels, torch.randint(rows, (rows,), generator=generator)))
    return steps


def replicated(ranks: int) -> int:
    """Return the bytes that a rank receives in a step.

    It fails unless the targets of every rank are those of one process.
    """
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
    """Return the most bytes that a rank would receive if each target lived on one rank only.

    The owner of a target is its index modulo the number of ranks. A rank sends the owners the
    indices of its batch, receives the targets, and sends the new ones back.
    """
    most = 0
    for _, _, index in batches(ranks):
        parts, owners = index.view(ranks, A_RANK), index.view(ranks, A_RANK) % ranks
        received = torch.zeros(ranks, dtype=torch.int64)
        for rank in range(ranks):
            others = owners[rank][owners[rank] != rank]
            received[rank] += 4 * len(others)  # targets, in single precision
            # an index of 32 bits, later a target
            received += (4 + 4) * torch.bincount(others, minlength=ranks)
        assert parts.numel() == ranks * A_RANK
        most = max(most, int(received.max()))
    return most


def table() -> str:
    """Return the bytes that a rank receives in a step, as Markdown."""
    lines = [
        "| ranks | samples per step | a rank receives | per sample of the step | sharded, at most |"
    ]
    lines.append("|---:|---:|---:|---:|---:|")
    for ranks in RANKS:
        samples = ranks * A_RANK
        received = replicated(ranks)
        assert received == (ranks - 1) * (16 + 8 * A_RANK)  # as the docstring of SocratesLoss says
        lines.append(
            f"| {ranks:,} | {samples:,} | {received:,} bytes | {received / samples:.1f} bytes | "
            f"{sharded(ranks):,} bytes |"
        )
    return "\n".join(lines)


def state_table() -> str:
    """Return how much memory and disk the targets take, computed from the tensors of a loss."""
    loss = SocratesLoss(1000)
    held = sum(tensor.nbytes for tensor in loss.memory().values()) // 1000
    kept = sum(value.nbytes for value in loss.state_dict().values()) // 1000
    lines = ["| training samples | memory on each rank | in a checkpoint |", "|---:|---:|---:|"]
    lines += [
        f"| {samples:,} | {samples * held / 1e6:,.1f} MB | {samples * kept / 1e6:,.1f} MB |"
        for samples in (50_000, 1_281_167, 100_000_000, 1_000_000_000, 5_000_000_000)
    ]
    return f"{held} bytes per sample on each rank, {kept} in a checkpoint:\n\n" + "\n".join(lines)


if __name__ == "__main__":
    tables = (
        f"{state_table()}\n\nWhat a rank receives in a step with {A_RANK} samples per rank:\n\n"
        f"{table()}"
    )
    print(tables)
    if "--write" in sys.argv:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{tables}\n{END}{rest.partition(END)[2]}")
