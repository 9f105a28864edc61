"""Time a large report: 200 synthetic runs of 300 epochs, 10,000 test samples, 100 classes."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from report_runs import WITH_UNKNOWN, make_run

from socrates.experiment import Experiment, Optimization, Part

MODELS = ("vgg16", "resnet110", "resnet34", "vit", "cnn")
METHODS = ("ce", "brier", "focal", "flsd", "sat", "ccl_sc", "ce_dece", "socrates")
SEEDS = range(1, 6)
SIZES = {"val": 5_000, "test": 10_000}
CLASSES = 100
MUST_SECONDS, MUST_BYTES = 60, 2**30


def make_runs(root: Path, epochs: int) -> int:
    """Write runs of five settings, eight methods and five seeds, and return their number.

    The runs of a method share the same two files of logits.
    """
    count = 0
    for model in MODELS:
        for method in METHODS:
            base = Experiment(
                Part("cifar100"),
                Part(model),
                Part(method),
                keep_every=epochs,
                optimization=Optimization(epochs=epochs),
            )
            for seed in SEEDS:
                run = make_run(root, replace(base, seed=seed), num_test=200)
                share_logits(run, root / "logits", CLASSES + int(method in WITH_UNKNOWN))
                count += 1
    return count


def share_logits(run: Path, store: Path, outputs: int) -> None:
    """Replace the run's small predictions with large ones, written once per number of outputs."""
    store.mkdir(exist_ok=True)
    for path in (run / "predictions").glob("*.npz"):
        size = SIZES[path.name.split("-")[0]]
        shared = store / f"{size}-{outputs}.npz"
        if not shared.exists():
            random = np.random.default_rng(outputs)
            labels = random.integers(CLASSES, size=size)
            logits = random.standard_normal((size, outputs)).astype(np.float32)
            logits[np.arange(size), labels] += 3
            np.savez_compressed(
                shared, logits=2 * logits, labels=labels.astype(np.int32), num_classes=CLASSES
            )
        path.unlink()
        os.link(shared, path)


def main() -> None:
    """Make the runs, write the report in a separate process, and print its time and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=300)
    epochs = parser.parse_args().epochs
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        count = make_runs(root / "runs", epochs)
        start = time.perf_counter()
        words = ["report", str(root / "runs"), "--out", str(root / "report")]
        subprocess.run(
            [sys.executable, "-m", "socrates.cli", *words], check=True, stdout=subprocess.DEVNULL
        )
        seconds = time.perf_counter() - start
        peak = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        page = (root / "report" / "index.html").stat().st_size
    verdict = "met" if seconds < MUST_SECONDS and peak < MUST_BYTES else "MISSED"
    print(
        f"report of {count} runs x {epochs} epochs: {seconds:.1f} s (limit {MUST_SECONDS}), "
        f"peak memory of a process {peak / 2**20:.0f} MiB (limit {MUST_BYTES / 2**20:.0f}), "
        f"page {page / 2**20:.2f} MiB: {verdict}"
    )


if __name__ == "__main__":
    main()
