"""Reading and measuring predictions on disk: `python benchmarks/audit.py [--rows 10000000]` (needs pyarrow).

Synthetic predictions of 10 classes are written to a temporary folder: a Parquet file of that many rows and a CSV file
of a fifth of them. One pass for accuracy, NLL, Brier score, ECE and class-wise ECE, with a sample of 200,000 rows, is
compared with pyarrow reading the same columns to the end and throwing them away, each in one thread and in seconds of
the processor, which other work on the machine hardly changes. The peak memory is that of a process that does nothing
else, imports included.
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
from socrates.audit.read import open_predictions

NUM_CLASSES = 10
CHUNK = 1 << 18
MUST = {".parquet": 10.0, ".csv": 2.0}  # at most so many times as long as reading alone
MUST_MEGABYTES = 1000


def predictions(num_rows: int, generator: np.random.Generator) -> arrow.Table:
    """Labels and probabilities of a model that is right most of the time and too sure."""
    labels = generator.integers(0, NUM_CLASSES, num_rows)
    logits = 1.5 * generator.standard_normal((num_rows, NUM_CLASSES), np.float32)
    logits[np.arange(num_rows), labels] += 3 * np.abs(generator.standard_normal(num_rows, np.float32)) + 1.5
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = odds / odds.sum(axis=1, keepdims=True)
    return arrow.table({"label": labels, **{f"p{k}": probs[:, k] for k in range(NUM_CLASSES)}})


def write(path: Path, num_rows: int) -> None:
    """A file of predictions, some rows at a time."""
    generator = np.random.default_rng(0)
    sizes = [min(CHUNK, num_rows - start) for start in range(0, num_rows, CHUNK)]
    schema = predictions(1, generator).schema
    kind = parquet.ParquetWriter if path.suffix == ".parquet" else csv.CSVWriter
    with kind(path, schema) as writer:
        for size in sizes:
            writer.write_table(predictions(size, generator))


def read_alone(path: Path) -> None:
    """pyarrow to the end of a file."""
    if path.suffix == ".parquet":
        for _ in parquet.ParquetFile(path).iter_batches(use_threads=False):
            pass
    else:
        with csv.open_csv(path, csv.ReadOptions(use_threads=False)) as reader:
            for _ in reader:
                pass


def seconds(function: Callable[[], object]) -> float:
    """How long a call keeps the processor busy."""
    start = time.process_time()
    function()
    return time.process_time() - start


def peak_megabytes() -> float:
    """The peak memory of this process; where Linux tells it, without that of the process which started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def megabytes(path: Path) -> float:
    """The peak memory of a process that measures a file."""
    words = [sys.executable, __file__, "--measure", str(path)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def compare(path: Path, num_rows: int, repeats: int) -> bool:
    """Print a line about a file; whether it keeps its promise."""
    write(path, num_rows)
    times = [
        (seconds(lambda: read_alone(path)), seconds(lambda: measure(open_predictions(path)))) for _ in range(repeats)
    ]
    alone, ours = (statistics.median(column) for column in zip(*times, strict=True))
    memory = megabytes(path)
    kept = ours <= MUST[path.suffix] * alone and memory <= MUST_MEGABYTES
    print(
        f"{path.suffix:9} {num_rows:>11,} rows  read {alone:6.2f} s  measured {ours:6.2f} s  {ours / alone:5.2f} times "
        f"(must be at most {MUST[path.suffix]:g})  {memory:4.0f} MB (must be below {MUST_MEGABYTES})"
        + ("" if kept else "  MISSED")
    )
    return kept


def main() -> None:
    """Both formats; exit status 1 if a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
        kept = [compare(Path(folder, f"predictions{suffix}"), rows, options.repeats) for suffix, rows in files.items()]
    sys.exit(not all(kept))


if __name__ == "__main__":
    main()
