"""Vector and matrix scaling against temperature scaling on real predictions, at several sizes of the fit set.

`python benchmarks/scalers.py FOLDER` reads each FOLDER/*.npz (`probs` or `logits` of shape (N, C), and `labels`), fits
on random rows and measures the NLL on the others. A scaler that is worse than temperature scaling by more than 0.01 on
any split fails, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from socrates.scaling import MatrixScaling, TemperatureScaling, VectorScaling

SCALERS = {"TS": TemperatureScaling, "VS": VectorScaling, "MS": MatrixScaling}
SIZES = (500, 1000, 5000)
ALLOWED = 0.01


@dataclass(frozen=True)
class Trial:
    """Held-out NLL and seconds of each scaler on one split."""

    nll: dict[str, float]
    seconds: dict[str, float]

    def excess(self, scaler: str) -> float:
        """NLL above that of temperature scaling."""
        return self.nll[scaler] - self.nll["TS"]


def read(file: Path) -> tuple[Tensor, Tensor]:
    """Logits (N, C) and labels (N,) of a file; probabilities become their logarithms."""
    with np.load(file) as arrays:
        if "labels" not in arrays or not {"probs", "logits"} & set(arrays):
            raise SystemExit(f"{file} holds {sorted(arrays)}: expected labels, and probs or logits")
        labels = torch.tensor(arrays["labels"].astype(np.int64))
        if "logits" in arrays:
            return torch.tensor(arrays["logits"]), labels
        return torch.tensor(arrays["probs"]).clamp(min=1e-30).log(), labels


def trial(logits: Tensor, labels: Tensor, num_fit: int, seed: int) -> Trial:
    """Fits on num_fit random rows and measures on the others."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    fit, rest = order[:num_fit], order[num_fit:]
    nll: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for name, make in SCALERS.items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scaler = make().fit(logits[fit], labels[fit])
        seconds[name] = time.perf_counter() - start
        nll[name] = float(torch.nn.functional.cross_entropy(scaler(logits[rest]).double(), labels[rest]))
    return Trial(nll, seconds)


def line(name: str, num_fit: int, trials: list[Trial]) -> tuple[str, bool]:
    """One line of the table, and whether every split is within what is allowed."""
    cells = [f"{name:24} {num_fit:6} {np.mean([t.nll['TS'] for t in trials]):8.4f}"]
    worst = {scaler: max(t.excess(scaler) for t in trials) for scaler in ("VS", "MS")}
    cells += [f"{np.mean([t.excess(scaler) for t in trials]):+9.4f} {worst[scaler]:+9.4f}" for scaler in worst]
    cells += [f"{np.mean([t.seconds[scaler] for t in trials]):7.3f}" for scaler in SCALERS]
    good = all(value <= ALLOWED for value in worst.values())
    return "  ".join([*cells, "" if good else "WORSE THAN TS"]), good


def main() -> int:
    """Prints the table; 1 if a scaler failed anywhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="rows to fit on")
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    files = sorted(options.folder.glob("*.npz"))
    if not files:
        raise SystemExit(f"{options.folder} holds no .npz file: pass a folder of predictions")
    print(f"Held-out NLL; VS and MS as difference to TS over {options.splits} splits (allowed: +{ALLOWED})")
    print(
        f"{'file':24} {'rows':>6} {'TS':>8}  {'VS mean':>9} {'worst':>9}  {'MS mean':>9} {'worst':>9}  "
        "seconds TS, VS, MS"
    )
    all_good = True
    for file in files:
        logits, labels = read(file)
        for num_fit in [size for size in options.sizes if size < len(labels)]:
            seeds = range(options.first_seed, options.first_seed + options.splits)
            text, good = line(file.stem, num_fit, [trial(logits, labels, num_fit, seed) for seed in seeds])
            print(text, flush=True)
            all_good &= good
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
