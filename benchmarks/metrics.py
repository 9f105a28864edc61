"""Compare calibration metrics with their peers: `python benchmarks/metrics.py [--quick]`.

It needs the `bench` extra. All contenders get the same float32 probabilities and labels, and run in
turn, in one process with one thread. torchmetrics gets tensors and the others get numpy arrays;
ours gets what its peer gets. Ours checks its input in every call. The predictions look like those
of a trained model: most are right, with high confidence. Rows that say "all threads" come from
another process (`--all-threads`), in which torch and numpy use as many threads as they like.
"""

from __future__ import annotations

import os
import sys

if "--all-threads" not in sys.argv:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import pickle
import statistics
import subprocess
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from timing import Row, in_pairs, interleaved

from socrates.metrics import CalibrationMeter, cw_ece, ece

NUM_BINS = 15
# (rows, classes, bins): how many times as fast as torchmetrics ece must be. It must not be slower
# than any other peer.
ECE_SIZES = {
    (1_000, 10, NUM_BINS): 1.0,
    (10_000, 10, NUM_BINS): 2.0,
    (10_000, 10, 1000): 1.0,
    (10_000, 100, NUM_BINS): 5.0,
    (50_000, 1000, NUM_BINS): 5.0,
}


def predictions(num_rows: int, num_classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return probabilities (num_rows, num_classes) and labels."""
    generator = torch.Generator().manual_seed(0)
    logits = 1.5 * torch.randn(num_rows, num_classes, generator=generator)
    labels = torch.randint(0, num_classes, (num_rows,), generator=generator)
    rows = torch.arange(num_rows)
    logits[rows, labels] += 3.5 * torch.randn(num_rows, generator=generator).abs() + 1.2 * np.log(
        num_classes
    )
    return logits.softmax(dim=1), labels


def plain_ece(probs: Any, labels: Any, num_bins: int) -> float:
    """Compute ECE as one writes it in numpy, without checking the input."""
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    index = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    return float(np.abs(np.bincount(index, confidence - correct)).sum() / len(labels))


def ece_peers(
    probs: torch.Tensor, labels: torch.Tensor, num_bins: int
) -> dict[str, Callable[[], Any]]:
    """Return functions that compute the same ECE with other packages."""
    import relplot
    from mapie.metrics.calibration import expected_calibration_error
    from netcal.metrics import ECE
    from torchmetrics.functional.classification import multiclass_calibration_error

    rows, truth, num_classes = probs.numpy(), labels.numpy(), probs.shape[1]
    netcal = ECE(num_bins)

    def by_relplot() -> Any:
        confidence, correct = relplot.multiclass_logits_to_confidences(rows, truth, probs=True)
        return relplot.metrics.binnedECE(confidence, correct, num_bins)

    def by_mapie() -> Any:
        # It takes the number of edges, not of bins, and which answers are right.
        correct = (rows.argmax(axis=1) == truth).astype(int)
        return expected_calibration_error(
            correct, rows, num_bins=num_bins + 1, split_strategy="uniform"
        )

    return {
        "torchmetrics": lambda: multiclass_calibration_error(
            probs, labels, num_classes, n_bins=num_bins
        ),
        "netcal": lambda: netcal.measure(rows, truth),
        "relplot": by_relplot,
        "MAPIE": by_mapie,
        "plain numpy, unchecked": lambda: plain_ece(rows, truth, num_bins),
    }


def ece_rows(quick: bool) -> list[Row]:
    """Time ece at five sizes.

    torchmetrics sums in float32, even for float64 rows: at 50,000 rows it is off by about 5e-6.
    """
    table: list[Row] = []
    for (num_rows, num_classes, num_bins), must in ECE_SIZES.items():
        if quick and num_classes == 1000:
            num_rows //= 5
        probs, labels = predictions(num_rows, num_classes)
        peers = ece_peers(probs, labels, num_bins)
        ours = ece(probs, labels, num_bins)
        agreement = {name: abs(float(peer()) - ours) for name, peer in peers.items()}
        repeats = 5 if quick else (101 if num_classes < 1000 else 9)
        pairs = {}
        for name, peer in peers.items():
            given = (probs, labels) if name == "torchmetrics" else (probs.numpy(), labels.numpy())
            pairs |= in_pairs(lambda given=given, n=num_bins: ece(*given, n), {name: peer}, repeats)
        work = f"ece {num_rows:,} x {num_classes}" + (
            f", {num_bins:,} bins" if num_bins != NUM_BINS else ""
        )
        for name, (our_time, peer_time) in pairs.items():
            goal = (must, 8.0) if name == "torchmetrics" else (None, 1.0)
            table.append(_row(work, our_time, name, peer_time, *goal, _agreement(agreement[name])))
    return table


def half_rows(quick: bool, threads: str = "") -> list[Row]:
    """Time ece in half precision against the same values in float32, and against torchmetrics."""
    from torchmetrics.functional.classification import multiclass_calibration_error

    table: list[Row] = []
    for dtype in (torch.float16, torch.bfloat16):
        wide, labels = predictions(10_000, 100)
        probs = wide.to(dtype)
        peers = {
            "ours in float32": lambda p=wide, y=labels: ece(p, y, NUM_BINS),
            "torchmetrics": lambda p=probs, y=labels: multiclass_calibration_error(
                p, y, 100, n_bins=NUM_BINS
            ),
        }
        difference = abs(ece(probs, labels, NUM_BINS) - ece(probs.float(), labels, NUM_BINS))
        notes = {
            "ours in float32": f"same values in float32: {_agreement(difference)}",
            "torchmetrics": "",
        }
        pairs = in_pairs(lambda p=probs, y=labels: ece(p, y, NUM_BINS), peers, 5 if quick else 101)
        work = f"ece 10,000 x 100, {str(dtype).removeprefix('torch.')}{threads}"
        table += [
            _row(work, our_time, name, time, None, 1.0, notes[name])
            for name, (our_time, time) in pairs.items()
        ]
    return table


def all_threads_rows(quick: bool) -> list[Row]:
    """Return the rows of the other process: see `of_all_threads`."""
    command = [sys.executable, __file__, "--all-threads", *(["--quick"] if quick else [])]
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    return [Row(**row) for row in json.loads(subprocess.check_output(command, env=environment))]


def of_all_threads(quick: bool) -> list[Row]:
    """Time the forward pass that follows an ece, and half precision against float32."""
    threads = f", all {torch.get_num_threads()} threads"
    probs, labels = predictions(10_000, 100)
    images, weights, large = torch.randn(256, 1024), torch.randn(1024, 1024), torch.randn(1 << 20)

    def forward() -> float:
        start = time.perf_counter()
        large.mul(2.0)
        (images @ weights).relu()
        return 1000 * (time.perf_counter() - start)

    alone: list[float] = []
    after: list[float] = []
    for _ in range(5 if quick else 101):
        alone.append(forward())
        ece(probs, labels, NUM_BINS)
        after.append(forward())
    work, times = (
        f"forward pass after ece 10,000 x 100{threads}",
        (statistics.median(after), statistics.median(alone)),
    )
    return [
        _row(work, times[0], "forward pass alone", times[1], None, 1.0, ""),
        *half_rows(quick, threads),
    ]


def cw_ece_rows(quick: bool) -> list[Row]:
    """Time cw_ece against MAPIE, and against reading the array once."""
    from mapie.metrics.calibration import expected_calibration_error

    num_rows, num_classes = (10_000, 200) if quick else (50_000, 1000)
    probs, labels = predictions(num_rows, num_classes)
    rows, truth = probs.numpy(), labels.numpy()
    options: dict[str, Any] = {
        "num_bins": NUM_BINS + 1,
        "split_strategy": "uniform",
        "classwise": True,
    }

    def by_mapie() -> Any:
        return expected_calibration_error(truth, rows, class_labels=truth, **options)

    def ours() -> float:
        return cw_ece(probs, labels, NUM_BINS)

    work = f"cw_ece {num_rows:,} x {num_classes}"
    agreement = _agreement(abs(float(by_mapie()) - ours()))
    slow = interleaved({"ours": ours, "MAPIE": by_mapie}, repeats=3, warmup=0)
    fast = interleaved({"ours": ours, "one pass": rows.sum}, repeats=5 if quick else 9)
    return [
        Row(work, slow["ours"], "MAPIE", slow["MAPIE"], 60.0, None, note=agreement),
        Row(
            work,
            fast["ours"],
            "one pass (numpy sum)",
            fast["one pass"],
            None,
            0.5,
            note="stretch goal: within 2x of it",
        ),
    ]


def meter_rows(quick: bool) -> list[Row]:
    """Time a million rows in batches, against the metric of torchmetrics, which keeps them all."""
    from torchmetrics.classification import MulticlassCalibrationError

    num_batches, batch, num_classes = (10, 10_000, 100) if quick else (100, 10_000, 100)
    probs, labels = predictions(batch, num_classes)

    def ours(count: int = num_batches) -> CalibrationMeter:
        meter = CalibrationMeter(NUM_BINS, num_classes)
        for _ in range(count):
            meter.update(probs, labels)
        meter.compute()
        return meter

    def by_torchmetrics(count: int = num_batches) -> Any:
        metric = MulticlassCalibrationError(num_classes, n_bins=NUM_BINS)
        for _ in range(count):
            metric.update(probs, labels)
        metric.compute()
        return metric

    times = interleaved(
        {"ours": ours, "torchmetrics": by_torchmetrics}, repeats=1 if quick else 3, warmup=0
    )
    early, late = (
        len(pickle.dumps(ours(count).state())) / 1e6 for count in (num_batches // 10, num_batches)
    )
    tracemalloc.start()
    peaks: list[float] = []
    for count in (num_batches // 10, num_batches):
        tracemalloc.reset_peak()
        ours(count)
        peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
    tracemalloc.stop()
    kept = sum(part.nbytes for part in by_torchmetrics().confidences) / 1e6
    note = (
        "ours also computes nll, brier, ada_ece and cw_ece; from a tenth of the rows to all: "
        f"state {early:.2f} -> {late:.2f} MB, peak {peaks[0]:.1f} -> {peaks[1]:.1f} MB; "
        f"torchmetrics keeps {2 * kept:.1f} MB and grows"
    )
    work = f"CalibrationMeter {num_batches * batch:,} x {num_classes}"
    return [
        Row(
            work,
            times["ours"],
            "torchmetrics (ECE only)",
            times["torchmetrics"],
            None,
            None,
            note=note,
        )
    ]


def rows(quick: bool = False) -> list[Row]:
    """Return all rows of this benchmark."""
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (
            ece_rows(quick)
            + half_rows(quick)
            + all_threads_rows(quick)
            + cw_ece_rows(quick)
            + meter_rows(quick)
        )


def _row(
    work: str,
    ours: float,
    peer: str,
    time: float,
    must: float | None,
    stretch: float | None,
    note: str,
) -> Row:
    """Return a row whose note says so where the peer is faster."""
    notes = [note, "the peer is faster" if time < ours else ""]
    return Row(work, ours, peer, time, must, stretch, note="; ".join(filter(None, notes)))


def _agreement(difference: float) -> str:
    return "same value" if difference < 2e-6 else f"values differ by {difference:.1e}"


if __name__ == "__main__" and "--all-threads" in sys.argv:
    print(json.dumps([asdict(row) for row in of_all_threads(quick="--quick" in sys.argv)]))
elif __name__ == "__main__":
    for row in rows(quick="--quick" in sys.argv[1:]):
        goals = f"must {row.must or '-'}, stretch {row.stretch or '-'}"
        times = f"{row.ours_ms:9.3f} ms  {row.peer:24} {row.peer_ms:9.3f} ms  {row.ratio:7.2f}x"
        print(f"{row.work:32} {times}  ({goals})  {row.note}")
