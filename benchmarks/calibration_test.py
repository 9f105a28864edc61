"""Measure the power of `calibration_test`: `python benchmarks/calibration_test.py [--quick]`.

The logits of a model are drawn, and then which of its answers are right, for several kinds of
models: a calibrated one, two whose logits should be divided by a temperature, one whose answers
above 0.95 are right less often than they claim, and one whose answers below 0.9 are right more
often and less often in turns. Each entry is the percentage of sets of answers whose p-value is at
most 5%; the confidences of a cell are drawn once. The time of one test comes last.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time
from collections.abc import Callable

import numpy as np

from socrates.arrays.open import Array
from socrates.metrics import Top, ada_ece, calibration_test, debiased_ece, ece, smooth_ece

Statistic = Callable[..., float]
STATISTICS: tuple[Statistic, ...] = (ece, ada_ece, debiased_ece, smooth_ece)
SIZES = [(num_rows, num_classes) for num_classes in (10, 100) for num_rows in (500, 2_000, 5_000)]
LEVEL = 0.05


def softmax(logits: Array) -> Array:
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def model(num_rows: int, num_classes: int, rng: np.random.Generator) -> Array:
    """Return logits that are mostly sure of one class."""
    logits = rng.normal(size=(num_rows, num_classes))
    sure = 5 * np.abs(rng.normal(size=num_rows)) + 0.5 * np.log(num_classes)
    logits[np.arange(num_rows), rng.integers(0, num_classes, num_rows)] += sure
    return logits


def chances(logits: Array) -> dict[str, Array]:
    """Return how often each answer is right, by kind of model; the first kind is calibrated."""
    rows, answer = np.arange(len(logits)), logits.argmax(axis=1)
    confidence, warmer, hot = (
        softmax(logits / temperature)[rows, answer] for temperature in (1, 1.1, 1.3)
    )
    turns = confidence + 0.15 * np.sin(6 * np.pi * confidence) * (confidence < 0.9)
    return {
        "calibrated": confidence,
        "temperature 1.1": warmer,
        "temperature 1.3": hot,
        "sure ones wrong": confidence - 0.03 * (confidence > 0.95),
        "in turns": turns.clip(0, 1),
    }


def measured(
    statistic: Statistic, confidence: Array, chance: Array, num_sets: int, seed: int
) -> Array:
    """Return the statistic of each of `num_sets` sets of answers."""
    rng = np.random.default_rng(seed)
    return np.array(
        [statistic(Top(confidence, rng.random(len(chance)) < chance)) for _ in range(num_sets)]
    )


def power(num_rows: int, num_classes: int, num_sets: int) -> dict[str, list[str]]:
    """Return the percentage of sets of answers that each statistic rejects, by kind of model."""
    by_kind = chances(model(num_rows, num_classes, np.random.default_rng(num_rows)))
    confidence = by_kind["calibrated"]
    percentages: dict[str, list[str]] = {kind: [] for kind in by_kind}
    for statistic in STATISTICS:
        # All sets have the same confidences, so one set of draws serves all tests.
        limit = np.quantile(
            measured(statistic, confidence, confidence, num_sets, seed=1), 1 - LEVEL
        )
        for kind, chance in by_kind.items():
            share = np.mean(measured(statistic, confidence, chance, num_sets, seed=2) > limit)
            percentages[kind].append(f"{100 * share:.0f}")
    return percentages


def main(quick: bool) -> None:
    names = [statistic.__name__ for statistic in STATISTICS]
    print(f"| rows x classes | model | {' | '.join(names)} |")
    print("|---" * (2 + len(names)) + "|")
    for size in SIZES[:1] if quick else SIZES:
        for kind, shares in power(*size, 100 if quick else 1000).items():
            print(f"| {size[0]:,} x {size[1]} | {kind} | {' | '.join(shares)} |", flush=True)
    for num_rows in (10_000,) if quick else (10_000, 200_000):
        confidence = np.random.default_rng(0).beta(5, 1, num_rows)
        correct = np.random.default_rng(1).random(num_rows) < confidence
        for statistic in (ece, smooth_ece):
            start = time.perf_counter()
            calibration_test(confidence=confidence, correct=correct, metric=statistic)
            print(
                f"{statistic.__name__}: 1,000 draws of {num_rows:,} rows in "
                f"{time.perf_counter() - start:.2f} s"
            )


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
