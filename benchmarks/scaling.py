"""Time temperature scaling against scikit-learn on one thread.

Run on its own, the script also times the fits of the other scalers. netcal 1.4 has no row: its
temperature scaling leaves T = 1 on these logits.
"""

from __future__ import annotations

import math
import sys
import time
from typing import Any

import torch
from sklearn.calibration import _TemperatureScaling  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
from timing import Row, interleaved

from socrates.scaling import MatrixScaling, ReadoutScaling, TemperatureScaling, VectorScaling


def sampled(n: int, c: int, true_t: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return float32 logits (n, c) and labels drawn from softmax(logits / true_t)."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2.5 * torch.randn(n, c, generator=generator)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)
    return true_t * logits, labels


def rows(quick: bool = False) -> list[Row]:
    """Return one row per size; its note compares the NLLs of the two fits."""
    torch.set_num_threads(1)
    sizes = [(2000, 10)] if quick else [(10_000, 100), (50_000, 1000)]
    return [_row(n, c, quick) for n, c in sizes]


def _row(n: int, c: int, quick: bool) -> Row:
    logits, labels = sampled(n, c, 1.5)
    z, y = logits.numpy(), labels.numpy()
    ours = float(TemperatureScaling().fit(logits, labels).temperature)
    times = interleaved(
        {
            "ours": lambda: TemperatureScaling().fit(logits, labels),
            "scikit-learn": lambda: _TemperatureScaling().fit(z, y),
        },
        repeats=3 if quick or n * c > 10**7 else 15,
        warmup=1,
    )
    gap = _nll(logits, labels, 1 / float(_TemperatureScaling().fit(z, y).beta_)) - _nll(
        logits, labels, ours
    )
    note = f"scikit-learn's NLL - ours = {gap:.1e}"
    must, stretch = (None, None) if quick else (8.0, 15.0)
    return Row(
        f"temperature scaling {n} x {c}",
        times["ours"],
        "scikit-learn",
        times["scikit-learn"],
        must,
        stretch,
        note,
    )


def _nll(logits: torch.Tensor, labels: torch.Tensor, temperature: float) -> float:
    parts = zip(logits.split(1000), labels.split(1000), strict=True)
    total = sum(
        float(torch.nn.functional.cross_entropy(z.double() / temperature, y, reduction="sum"))
        for z, y in parts
    )
    return total / len(labels)


def fit_seconds() -> list[tuple[str, float, float]]:
    """Return the seconds and the final gradient norm of the scalers without a fast peer."""
    cases: list[tuple[str, Any, int, int, bool]] = [
        ("VectorScaling", VectorScaling(), 10_000, 10, False),
        ("VectorScaling", VectorScaling(), 5000, 100, False),
        ("VectorScaling", VectorScaling(), 50_000, 1000, False),
        ("MatrixScaling(None)", MatrixScaling(None), 10_000, 10, True),
        ("MatrixScaling()", MatrixScaling(), 50_000, 10, True),
        ("MatrixScaling()", MatrixScaling(), 5000, 100, True),
        ("ReadoutScaling", ReadoutScaling(), 5000, 100, False),
        ("ReadoutScaling", ReadoutScaling(), 50_000, 1000, False),
    ]
    out: list[tuple[str, float, float]] = []
    for name, scaler, n, c, leak in cases:
        logits, labels = sampled(n, c, 1.5)
        if leak:
            logits = logits @ (
                torch.eye(c) + 0.15 * torch.randn(c, c, generator=torch.Generator().manual_seed(1))
            )
        if name == "ReadoutScaling":
            logits = torch.cat([logits, logits.mean(dim=1, keepdim=True) + math.log(c)], dim=1)
        start = time.perf_counter()
        scaler.fit(logits, labels)
        out.append((f"{name} {n} x {c}", time.perf_counter() - start, scaler.report.gradient_norm))
    return out


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    for row in rows(quick):
        print(
            f"{row.work:32} {row.ours_ms:9.1f} ms  {row.peer:13} {row.peer_ms:9.1f} ms  "
            f"{row.ratio:5.1f}x  {row.note}"
        )
    for work, seconds, gradient_norm in [] if quick else fit_seconds():
        print(f"{work:32} {1000 * seconds:9.1f} ms  gradient norm {gradient_norm:.1e}")
