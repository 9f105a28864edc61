"""How often an audit recommends a scaler, and what that does to the NLL of fresh rows.

    python benchmarks/simulate_scalers.py                 # 200 draws per cell
    python benchmarks/simulate_scalers.py --draws 1000 --rows 60 300

Each draw is a file of logits of a model whose probabilities are right at temperature T: T = 1 is a
calibrated model, T > 1 an overconfident one. What the audit recommends is applied to fresh rows of
the same model. A line of the table is one cell: how often a scaler was recommended, the mean change
of the fresh NLL where one was, with its standard error, and how often it rose by more than two
standard errors of the fresh rows' differences.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections import Counter

import numpy as np

from socrates import metrics
from socrates.arrays.open import Array
from socrates.audit import recalibrate as module
from socrates.audit.layout import Layout
from socrates.audit.recalibrate import recalibrate
from socrates.audit.rows import JudgedRows

NUM_CLASSES = 4
NUM_FRESH = 20_000
HEADS = ("T", "rows", "draws", "recommended", "change of fresh NLL", "rose", "which")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="+", default=[60, 300, 1000, 5000])
    parser.add_argument("--temperatures", type=float, nargs="+", default=[1.0, 1.3, 2.0])
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    module.NUM_DRAWS = 1  # the judgement of what is left is not looked at here
    print("|", " | ".join(HEADS), "|")
    print("|", " | ".join("---" for _ in HEADS), "|")
    for temperature in arguments.temperatures:
        for num_rows in arguments.rows:
            seeds = range(arguments.first_seed, arguments.first_seed + arguments.draws)
            print("|", " | ".join(cell(temperature, num_rows, seeds)), "|", flush=True)


def cell(temperature: float, num_rows: int, seeds: range) -> list[str]:
    """Return one line of the table."""
    changes: list[float] = []
    num_risen = 0
    names: Counter[str] = Counter()
    for seed in seeds:
        rng = np.random.default_rng([seed, num_rows, round(100 * temperature)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = recalibrate(rows_of(*drawn(temperature, num_rows, rng)))
        if result.scaler is None:
            continue
        names[result.winner] += 1
        logits, labels = drawn(temperature, NUM_FRESH, rng)
        difference = nll_of(result.scaler(logits), labels) - nll_of(logits, labels)
        changes.append(float(difference.mean()))
        num_risen += difference.mean() > 2 * difference.std() / math.sqrt(NUM_FRESH)
    change = "-"
    if changes:
        error = np.std(changes) / math.sqrt(len(changes))
        change = f"{np.mean(changes):+.4f} ± {error:.4f}, at most {max(changes):+.4f}"
    return [
        f"{temperature:g}",
        f"{num_rows:,}",
        f"{len(seeds):,}",
        f"{100 * len(changes) / len(seeds):.1f}%",
        change,
        f"{100 * num_risen / len(seeds):.1f}%",
        ", ".join(f"{name} {count}" for name, count in names.most_common()) or "-",
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
