"""Simulate audits of several files: how often does chance alone make one of them "better"?

Every file is a classifier that sees each class through normal noise and states the probabilities
that follow from what it sees, so it is perfectly calibrated, whatever its accuracy. The verdicts
are those of `socrates.audit.compare` and `socrates.audit.choose`, with temperature scaling as the
scaler to use; only reading files and trying other scalers is left out.

    python benchmarks/simulate_audits.py            # prints the table
    python benchmarks/simulate_audits.py --write    # and writes it into docs/audit.md
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from socrates import metrics
from socrates.arrays.open import Array
from socrates.audit.choose import choose_file
from socrates.audit.compare import Contender, ece_differences
from socrates.audit.layout import Layout
from socrates.audit.recalibrate import fit_copy, halves
from socrates.audit.rows import JudgedRows
from socrates.scaling import TemperatureScaling

DOCS = Path(__file__).resolve().parent.parent / "docs" / "audit.md"
NUM_CLASSES = 10
NUM_DRAWS = 199  # of labels, for each calibration test
SHARED = 0.5  # of the noise: two models err on many of the same rows
CLASSES = tuple(map(str, range(NUM_CLASSES)))
LAYOUT = Layout("probabilities", CLASSES, CLASSES)


@dataclass(frozen=True)
class Cell:
    """Audits of files with these accuracies, in percent.

    The logits of each file are `sharper` than they should be by a factor, 1 for a calibrated one.
    The last file is told the answer to a share of the rows, `known`, and is sure of it.
    """

    num_rows: int
    accuracies: tuple[int, ...]
    sharper: tuple[float, ...] = ()
    known: float = 0.0

    @property
    def calibrated(self) -> bool:
        """Return whether no file is truly miscalibrated."""
        return all(factor == 1 for factor in self.sharper)


CELLS = (
    Cell(300, (66, 83)),
    Cell(1_000, (66, 83)),
    Cell(5_000, (66, 83)),
    Cell(1_000, (79, 90)),
    Cell(5_000, (79, 90)),
    Cell(1_000, (90, 97)),
    Cell(1_000, (60, 70, 80, 90)),
    Cell(1_000, (66, 66), known=0.9),
    Cell(5_000, (66, 66), known=0.9),
    Cell(300, (75, 75)),
    Cell(1_000, (75, 75)),
    Cell(5_000, (75, 75)),
    Cell(1_000, (95, 95)),
    Cell(1_000, (75, 75, 75, 75)),
    Cell(1_000, (80, 80), (1.0, 1.3)),
)


@lru_cache
def signal_of(accuracy: int) -> float:
    """Return how far a class stands out from the noise for an accuracy in percent."""
    noise = np.random.default_rng(0).normal(size=(200_000, NUM_CLASSES))
    best_other = noise[:, 1:].max(axis=1) - noise[:, 0]
    return float(np.quantile(best_other, accuracy / 100))


def simulated_files(cell: Cell, rng: np.random.Generator) -> list[Contender]:
    """Return files on the same rows, with p-values that call every one of them miscalibrated."""
    labels = rng.integers(0, NUM_CLASSES, cell.num_rows)
    shape = (cell.num_rows, NUM_CLASSES)
    common = rng.normal(size=shape)
    files: list[Contender] = []
    for place, accuracy in enumerate(cell.accuracies):
        signal = signal_of(accuracy)
        noise = np.sqrt(SHARED) * common + np.sqrt(1 - SHARED) * rng.normal(size=shape)
        logits = signal * (signal * (labels[:, None] == np.arange(NUM_CLASSES)) + noise)
        logits *= cell.sharper[place] if cell.sharper else 1.0
        files.append(contender(str(place), softmax(logits), labels))
    if cell.known:
        is_known = rng.random(cell.num_rows) < cell.known
        sure = np.where(np.eye(NUM_CLASSES)[labels] > 0, 1 - 9e-8, 1e-8)
        probs = np.where(is_known[:, None], sure, files[-1].rows.values)
        files[-1] = contender(files[-1].label, probs, labels)
    return files


def contender(label: str, probs: Array, labels: Array) -> Contender:
    """Return probabilities as a file that takes part in a comparison."""
    rows = JudgedRows(probs, labels, np.arange(len(labels)), {}, None, layout=LAYOUT, **AS_JUDGED)
    fit, held_out = halves(rows)
    scaler = fit_copy(TemperatureScaling(), fit)
    return Contender(label, rows, len(labels), 0.0, held_out, scaler)


AS_JUDGED = {"reading": None, "num_bins": 15}


def softmax(logits: Array) -> Array:
    """Return the probabilities of logits."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def any_better(files: Sequence[Contender]) -> bool:
    """Return whether any file is called better calibrated than another.

    The calibration tests are only run where the intervals alone would say so: they can take a
    verdict away, never add one.
    """
    for first in range(len(files) - 1):
        rotated = [*files[first:], *files[:first]]
        if not _has_verdict(rotated):
            continue
        tested = [replace(file, p_value=own_test(file)) for file in rotated]
        if _has_verdict(tested):
            return True
    return False


def _has_verdict(files: Sequence[Contender]) -> bool:
    return any(found.words in ("better", "worse") for found in ece_differences(files))


def own_test(file: Contender) -> float:
    """Return the p-value of a file's own calibration test."""
    return metrics.calibration_test(file.rows.top(), num_draws=NUM_DRAWS).p_value


def rates(cell: Cell, num_audits: int, seed: int = 0) -> tuple[float, float]:
    """Return how often a file is called better calibrated, and how often one is not to be used."""
    rng = np.random.default_rng(seed)
    num_better = 0
    num_chosen = 0
    for _ in range(num_audits):
        files = simulated_files(cell, rng)
        num_better += any_better(files)
        num_chosen += len(choose_file(files).use) < len(files)
    return num_better / num_audits, num_chosen / num_audits


def table(num_audits: int) -> str:
    """Return all cells as a Markdown table."""
    lines = [
        "| rows | accuracy of each file (%) | truth | one is “better calibrated” (%) "
        "| one is not to be used (%) |",
        "|---|---|---|---|---|",
    ]
    for cell in CELLS:
        better, chosen = rates(cell, num_audits)
        truth = "all calibrated" if cell.calibrated else "the last is overconfident"
        if len({*cell.accuracies}) > 1 or cell.known:
            truth += ", accuracies differ"
        accuracies = ", ".join(map(str, cell.accuracies))
        if cell.known:
            accuracies += f" (the last knows {100 * cell.known:g}% of the labels)"
        line = f"| {cell.num_rows:,} | {accuracies} | {truth} | {100 * better:.1f} "
        line += f"| {100 * chosen:.1f} |"
        print(line, flush=True)
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    """Simulate every cell, and write the table where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=1_000, help="audits per cell")
    parser.add_argument("--write", action="store_true", help="write the table into docs/audit.md")
    options = parser.parse_args()
    text = table(options.audits)
    if options.write:
        begin = "<!-- simulated audits: begin -->"
        end = "<!-- simulated audits: end -->"
        note = "Written by benchmarks/simulate_audits.py (`make simulate`): "
        note += f"{options.audits:,} audits per row, so 5% has a standard error of 0.7 points."
        page = DOCS.read_text(encoding="utf-8")
        block = f"{begin}\n{text}\n\n{note}\n{end}"
        page = re.sub(f"{begin}.*{end}", lambda _: block, page, flags=re.DOTALL)
        DOCS.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
