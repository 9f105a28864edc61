"""Time SocratesLoss in a training step against cross-entropy and its readable twin, with memory.

The time in one process depends on where its allocator puts the large matrices. So several processes
measure, one after the other. A row shows the one with the median ratio, and the range of all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from timing import Row, in_pairs
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from socrates import SocratesLoss
from socrates.losses import socrates_loss_reference

NUM_SAMPLES = 50_000
PROCESSES = 5
# (batch, classes): how many times the time of cross-entropy is allowed, and how many are the aim.
SIZES = {
    (128, 10): (6.0, 3.0),
    (128, 100): (7.0, 3.0),
    (1024, 1000): (1.5, 1.2),
    (4096, 1000): (1.25, 1.0),
}


def steps(batch: int, classes: int) -> dict[str, Callable[[], object]]:
    """Return forward and backward passes of each loss on the logits of a half-trained model.

    The times include the checks of the input.
    """
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (batch,), generator=generator)
    index = torch.randperm(NUM_SAMPLES, generator=generator)[:batch]
    logits = 2 * torch.randn(batch, classes + 1, generator=generator)
    logits.scatter_add_(1, labels[:, None], torch.full((batch, 1), 4.0))
    known, all_columns = logits[:, :-1].contiguous().requires_grad_(), logits.requires_grad_()
    criterion, target = SocratesLoss(NUM_SAMPLES, gamma=2.0), torch.full((batch,), 0.9)

    def step(leaf: Tensor, loss: Callable[[], Tensor]) -> Callable[[], object]:
        def run() -> None:
            leaf.grad = None
            loss().backward()

        return run

    return {
        "SocratesLoss": step(all_columns, lambda: criterion(all_columns, labels, index)),
        "F.cross_entropy": step(known, lambda: F.cross_entropy(known, labels)),
        "readable twin": step(
            all_columns, lambda: socrates_loss_reference(all_columns, labels, target, 2.0).mean()
        ),
    }


def peak_bytes(run: Callable[[], object]) -> int:
    """Return the peak memory of torch's allocator in a step, beyond what it held before."""
    run()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    held = peak = 0
    events: list[Any] = recorded.profiler.kineto_results.events()  # pyright: ignore[reportOptionalMemberAccess]
    for event in sorted(events, key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def measure(quick: bool) -> list[tuple[int, int, str, float, float]]:
    """Return batch, classes, peer, our and the peer's milliseconds, measured in this process."""
    torch.set_num_threads(1)
    found: list[tuple[int, int, str, float, float]] = []
    for batch, classes in SIZES:
        contenders = steps(batch, classes)
        ours, repeats = (
            contenders.pop("SocratesLoss"),
            (400 if batch < 1000 else 40) // (8 if quick else 1),
        )
        found += [
            (batch, classes, peer, *times)
            for peer, times in in_pairs(ours, contenders, repeats).items()
        ]
    return found


def rows(quick: bool = False) -> list[Row]:
    """Return one row per size and peer: how many times as fast as the peer, and the goal."""
    command = [sys.executable, __file__, "--measure", *(["--quick"] if quick else [])]
    runs = [json.loads(subprocess.check_output(command)) for _ in range(PROCESSES)]
    table: list[Row] = []
    for same in zip(*runs, strict=True):  # the same size and peer in every process
        batch, classes, peer = same[0][:3]
        must, stretch = SIZES[batch, classes]
        goal = (1 / must, 1 / stretch) if peer == "F.cross_entropy" else (None, None)
        work = f"SocratesLoss step, {batch}x{classes}"
        several = sorted(
            (Row(work, ours, peer, theirs, *goal) for *_, ours, theirs in same),
            key=lambda row: row.ratio,
        )
        note = f"median of {PROCESSES} processes, {several[0].ratio:.3g} to {several[-1].ratio:.3g}"
        table.append(replace(several[PROCESSES // 2], note=note))
    return table


def memory_lines() -> list[str]:
    """Return the peak memory of a step at 4096x1000, in buffers of the size of the logits."""
    lines: list[str] = []
    for name, run in steps(4096, 1000).items():
        run()
        lines.append(
            f"peak memory of a step, 4096x1000, {name}: "
            f"{peak_bytes(run) / (4096 * 1001 * 4):.2f} x the logits"
        )
    return lines


if __name__ == "__main__":
    if "--measure" in sys.argv:
        print(json.dumps(measure("--quick" in sys.argv)))
    else:
        for row in rows("--quick" in sys.argv):
            times = (
                f"{row.ours_ms:.3f} ms, {row.peer} {row.peer_ms:.3f} ms, {row.ratio:.2f} "
                "times as fast"
            )
            print(f"{row.work}: {times} ({row.note})")
        print("\n".join(memory_lines()))
