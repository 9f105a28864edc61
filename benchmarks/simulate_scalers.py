"""How often an audit recommends a scaler, and what that does to the NLL of fresh rows.

    python benchmarks/simulate_scalers.py                 # prints the table
    python benchmarks/simulate_scalers.py --write         # and writes it into docs/audit.md

Each draw is a file of logits of a model whose probabilities are right at temperature T: T = 1 is a
calibrated model, T > 1 an overconfident one. What the audit recommends is applied to fresh rows of
the same model. A line of the table is one cell: how often a scaler was recommended, the mean change
of the fresh NLL where one was, with its standard error, and how often it rose by more than two
standard errors of the fresh rows' differences.
"""

from __future__ import annotations

import argparse
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from socrates import metrics
from socrates.arrays.open import Array
from socrates.audit import recalibrate as module
from socrates.audit.layout import Layout
from socrates.audit.recalibrate import recalibrate
from socrates.audit.rows import JudgedRows

DOCS = Path(__file__).resolve().parent.parent / "docs" / "audit.md"
NUM_CLASSES = 4
NUM_FRESH = 20_000
CHUNK = 50  # draws, the work of a process at a time
CELLS = [(1.0, 300), (1.3, 300), (1.0, 60), (1.3, 1000), (1.0, 1000), (2.0, 60)]  # T and rows
HEADS = (
    "T", "rows", "recommended", "mean change of the NLL of fresh rows", "largest", "rose", "which",
)  # fmt: skip


@dataclass
class Tally:
    """What was recommended in some draws, and how it changed the NLL of fresh rows."""

    num_draws: int = 0
    num_risen: int = 0
    changes: list[float] = field(default_factory=list)
    names: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Count other draws, too."""
        self.num_draws += other.num_draws
        self.num_risen += other.num_risen
        self.changes += other.changes
        self.names += other.names


def main() -> None:
    """Print the table, and write it where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000, help="draws per cell")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the table into docs/audit.md")
    options = parser.parse_args()
    lines: list[Sequence[str]] = [HEADS, ["---"] * len(HEADS)]
    for line in table(options.draws, options.processes):
        lines.append(line)
        print(*line, sep=" | ", flush=True)
        if options.write:
            write(lines, options.draws)


def write(lines: list[Sequence[str]], num_draws: int) -> None:
    """Write the lines that are there by now into the page."""
    begin = "<!-- simulated scalers: begin -->"
    end = "<!-- simulated scalers: end -->"
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    note = "Written by benchmarks/simulate_scalers.py (`make simulate`): "
    note += f"{num_draws:,} draws per row."
    page = DOCS.read_text(encoding="utf-8")
    block = f"{begin}\n{text}\n\n{note}\n{end}"
    page = re.sub(f"{begin}.*{end}", lambda _: block, page, flags=re.DOTALL)
    DOCS.write_text(page, encoding="utf-8")


def table(num_draws: int, processes: int) -> Iterator[list[str]]:
    """Return the lines of all cells."""
    starts = range(0, num_draws, CHUNK)
    with ProcessPoolExecutor(processes) as pool:
        work = [
            pool.map(partial(tally, *cell), starts, [min(num_draws, CHUNK)] * len(starts))
            for cell in CELLS
        ]
        for cell, parts in zip(CELLS, work, strict=True):
            total = Tally()
            for part in parts:
                total.add(part)
            yield line_of(*cell, total)


def tally(temperature: float, num_rows: int, first_seed: int, num_draws: int) -> Tally:
    """Simulate some draws of one cell."""
    module.NUM_DRAWS = 1  # the judgement of what is left is not looked at here
    result = Tally(num_draws)
    for seed in range(first_seed, first_seed + num_draws):
        rng = np.random.default_rng([seed, num_rows, round(100 * temperature)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = recalibrate(rows_of(*drawn(temperature, num_rows, rng)))
        if found.scaler is None:
            continue
        result.names[found.winner] += 1
        logits, labels = drawn(temperature, NUM_FRESH, rng)
        difference = nll_of(found.scaler(logits), labels) - nll_of(logits, labels)
        result.changes.append(float(difference.mean()))
        result.num_risen += bool(difference.mean() > 2 * difference.std() / math.sqrt(NUM_FRESH))
    return result


def line_of(temperature: float, num_rows: int, total: Tally) -> list[str]:
    """Return one line of the table."""
    change = largest = "–"
    if total.changes:
        error = np.std(total.changes) / math.sqrt(len(total.changes))
        change = f"{np.mean(total.changes):+.4f} ± {error:.4f}"
        largest = f"{max(total.changes):+.4f}"
    return [
        f"{temperature:g}",
        f"{num_rows:,}",
        f"{100 * len(total.changes) / total.num_draws:.1f}%",
        change,
        largest,
        f"{100 * total.num_risen / total.num_draws:.1f}%",
        ", ".join(f"{name} {count:,}" for name, count in total.names.most_common()) or "–",
    ]


def drawn(temperature: float, num_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return logits, and labels drawn from their softmax at this temperature."""
    logits = 2 * rng.standard_normal((num_rows, NUM_CLASSES))
    probs = metrics.predict(logits).probs
    below = np.asarray(probs).cumsum(axis=1) < rng.random((num_rows, 1))
    return temperature * logits, below.sum(axis=1).clip(0, NUM_CLASSES - 1)


def rows_of(logits: Array, labels: Array) -> JudgedRows:
    """Return rows as an audit judges them."""
    names = tuple(map(str, range(NUM_CLASSES)))
    return JudgedRows(
        values=logits,
        labels=labels,
        positions=np.arange(len(labels)),
        groups={},
        layout=Layout("logits", names, names),
        reading=None,
        num_bins=15,
    )


def nll_of(logits: Array, labels: Array) -> Array:
    """Return the NLL of each row, (N,)."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]


if __name__ == "__main__":
    main()
