"""Time reading and measuring predictions on disk: `python benchmarks/audit.py [--rows 10000000]`.

It needs pyarrow. Synthetic predictions of 10 classes are written to a temporary folder: a Parquet
file with this many rows, and a CSV file with a fifth of them. One pass computes accuracy, NLL,
Brier score, ECE and class-wise ECE, and keeps a sample of 200,000 rows. It is compared with pyarrow
reading the same columns to the end and discarding them. Both use one thread. Times are processor
seconds, because other work on the machine hardly changes those. The peak memory is that of a
process that does nothing else, with its imports.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as arrow
from pyarrow import csv, parquet

from socrates.audit.measure import measure
from socrates.audit.predictions import open_predictions

NUM_CLASSES = 10
CHUNK = 1 << 18
MUST = {".parquet": 10.0, ".csv": 2.0}  # at most this many times as long as reading alone
MUST_MEGABYTES = 1000


def predictions(num_rows: int, generator: np.random.Generator) -> arrow.Table:
    """Return labels and probabilities of an overconfident model that is mostly right."""
    labels = generator.integers(0, NUM_CLASSES, num_rows)
    logits = 1.5 * generator.standard_normal((num_rows, NUM_CLASSES), np.float32)
    logits[np.arange(num_rows), labels] += (
        3 * np.abs(generator.standard_normal(num_rows, np.float32)) + 1.5
    )
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = odds / odds.sum(axis=1, keepdims=True)
    return arrow.table({"label": labels, **{f"p{k}": probs[:, k] for k in range(NUM_CLASSES)}})


def write(path: Path, num_rows: int) -> None:
    """Write a file of predictions, some rows at a time."""
    generator = np.random.default_rng(0)
    sizes = [min(CHUNK, num_rows - start) for start in range(0, num_rows, CHUNK)]
    schema = predictions(1, generator).schema
    kind = parquet.ParquetWriter if path.suffix == ".parquet" else csv.CSVWriter
    with kind(path, schema) as writer:
        for size in sizes:
            writer.write_table(predictions(size, generator))


def read_alone(path: Path) -> None:
    """Read a file to its end with pyarrow."""
    if path.suffix == ".parquet":
        for _ in parquet.ParquetFile(path).iter_batches(use_threads=False):
            pass
    else:
        with csv.open_csv(path, csv.ReadOptions(use_threads=False)) as reader:
            for _ in reader:
                pass


def seconds(function: Callable[[], object]) -> float:
    """Return how long a call keeps the processor busy."""
    start = time.process_time()
    function()
    return time.process_time() - start


def peak_megabytes() -> float:
    """Return the peak memory of this process.

    Linux reports it without the memory of the process that started this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return next(
            int(line.split()[1]) / 1024
            for line in status.read_text().splitlines()
            if line.startswith("VmHWM")
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def megabytes(path: Path) -> float:
    """Return the peak memory of a process that measures a file."""
    words = [sys.executable, __file__, "--measure", str(path)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def compare(path: Path, num_rows: int, repeats: int) -> bool:
    """Print a line about a file, and return whether it meets its limits."""
    write(path, num_rows)
    times = [
        (seconds(lambda: read_alone(path)), seconds(lambda: measure(open_predictions(path))))
        for _ in range(repeats)
    ]
    alone, ours = (statistics.median(column) for column in zip(*times, strict=True))
    memory = megabytes(path)
    kept = ours <= MUST[path.suffix] * alone and memory <= MUST_MEGABYTES
    print(
        f"{path.suffix:9} {num_rows:>11,} rows  read {alone:6.2f} s  measured {ours:6.2f} s  "
        f"{ours / alone:5.2f} times as long (limit {MUST[path.suffix]:g})  "
        f"{memory:4.0f} MB (limit {MUST_MEGABYTES})" + ("" if kept else "  MISSED")
    )
    return kept


def main() -> None:
    """Measure both formats; the exit status is 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(open_predictions(options.measure))
        print(peak_megabytes())
        return
    with tempfile.TemporaryDirectory() as folder:
        files = {".parquet": options.rows, ".csv": max(1, options.rows // 5)}
        kept = [
            compare(Path(folder, f"predictions{suffix}"), rows, options.repeats)
            for suffix, rows in files.items()
        ]
    sys.exit(not all(kept))


if __name__ == "__main__":
    main()
