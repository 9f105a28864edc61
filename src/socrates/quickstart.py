"""`socrates quickstart`: four losses on digits in a minute, a table, and what it means."""

from __future__ import annotations

import statistics
from pathlib import Path

from rich.console import Console
from rich.table import Table

from socrates.engine import run_all
from socrates.engine.watch import study_watcher
from socrates.experiment import Experiment, Optimization, Part
from socrates.records import Run
from socrates.report.statistics import paired
from socrates.report.vocabulary import METRICS

METHODS = {
    "cross-entropy": Part("ce"),
    "focal 1": Part("focal", gamma=1.0),
    "Brier": Part("brier"),
    "Socrates 1, 0.99": Part("socrates", gamma=1.0, alpha=0.99),
}
SCALED = "cross-entropy + TS"
SEEDS = range(1, 6)
SETTINGS = Optimization(epochs=150, batch_size=64, learning_rate=0.1, weight_decay=0.0, halve_every=50)
COLUMNS = [METRICS[name] for name in ("accuracy", "ece", "ada_ece", "nll")]


def experiments() -> dict[str, list[Experiment]]:
    """What is trained: every method with every seed."""
    parts = Part("digits"), Part("mlp")
    return {
        name: [Experiment(*parts, method, seed, num_train=300, keep_every=150, optimization=SETTINGS) for seed in SEEDS]
        for name, method in METHODS.items()
    }


def quickstart(out: Path, console: Console) -> None:
    """Train what is missing on all cores, print the table and its meaning."""
    wanted = experiments()
    flat = [experiment for group in wanted.values() for experiment in group]
    runs = run_all(flat, out, watcher=study_watcher(console))
    by_method = {name: runs[5 * k : 5 * k + 5] for k, name in enumerate(wanted)}
    values = {name: [test_values(run, "none") for run in group] for name, group in by_method.items()}
    values[SCALED] = [test_values(run, "temperature") for run in by_method["cross-entropy"]]
    console.print(table(values))
    for sentence in sentences(values):
        console.print(f"- {sentence}")
    console.print(f"runs: {out}", highlight=False, soft_wrap=True)


def test_values(run: Run, scaler: str) -> dict[str, float]:
    """A run's test metrics, an unknown class read as an answer."""
    return run.evaluation().values(scaler, "test", "answer")


def table(values: dict[str, list[dict[str, float]]]) -> Table:
    """Mean ± std over the seeds."""
    result = Table(title=f"digits, 300 training images, MLP, {len(SEEDS)} seeds, mean ± std, test set")
    result.add_column("method")
    for metric in COLUMNS:
        result.add_column(metric.head, justify="right")
    for name, runs in values.items():
        cells = [mean_and_std([metric.factor * run[metric.name] for run in runs]) for metric in COLUMNS]
        result.add_row(name, *cells)
    return result


def mean_and_std(values: list[float]) -> str:
    """For a table cell; std with n - 1."""
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def sentences(values: dict[str, list[dict[str, float]]]) -> list[str]:
    """What the numbers say, computed from them: which differences exceed the seeds' noise and the metric's floor."""
    mean = {name: {key: statistics.mean(run[key] for run in runs) for key in runs[0]} for name, runs in values.items()}
    base, ours = "cross-entropy", "Socrates 1, 0.99"
    lowest = min(mean, key=lambda name: mean[name]["ece"])
    clear = "clearly" if exceeds_noise(values[base], values[ours], "ece") else "within the noise of the seeds"
    direction = "below" if mean[ours]["ece"] < mean[base]["ece"] else "above"
    accuracy_gap = 100 * (mean[ours]["accuracy"] - mean[base]["accuracy"])
    same = "a difference" if exceeds_noise(values[base], values[ours], "accuracy") else "no difference"
    return [
        f"Socrates measures an ECE of {100 * mean[ours]['ece']:.2f} % against {100 * mean[base]['ece']:.2f} % for "
        f"cross-entropy: {clear}, {direction}.",
        f"Its accuracy differs by {accuracy_gap:+.2f} points, {same} beyond the noise of the seeds.",
        f"The lowest ECE is that of {lowest} ({100 * mean[lowest]['ece']:.2f} %); a perfectly calibrated model would "
        f"measure {100 * mean[lowest]['ece_floor']:.2f} % on this test set, so that much of every value is chance.",
    ]


def exceeds_noise(one: list[dict[str, float]], other: list[dict[str, float]], key: str) -> bool:
    """Whether the difference, paired over the seeds, is larger than their noise."""
    first, second = (dict(enumerate(run[key] for run in runs)) for runs in (one, other))
    return paired(first, second).beyond_noise
