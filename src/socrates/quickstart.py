"""`socrates quickstart`: four losses on digits in a minute, a table, and what it means."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from socrates.engine import run_all
from socrates.engine.studies.display import StudyDisplay
from socrates.experiment import Experiment, Part, usual_optimization
from socrates.report.aggregate import group_runs, read_runs
from socrates.report.compare import Compared, ranked
from socrates.report.results import Results
from socrates.report.statistics import paired
from socrates.report.vocabulary import METRICS

METHODS = (Part("ce"), Part("focal", gamma=1.0), Part("brier"), Part("socrates", gamma=1.0, alpha=0.99))
SEEDS = range(1, 6)
COLUMNS = ("accuracy", "ece", "ada_ece", "nll")


def quickstart(out: Path, console: Console) -> None:
    """Train what is missing on all cores, print the table and its meaning."""
    how = usual_optimization("digits", "mlp", "ce")
    wanted = [
        Experiment(Part("digits"), Part("mlp"), method, seed, num_train=300, keep_every=how.epochs, optimization=how)
        for method in METHODS
        for seed in SEEDS
    ]
    runs = run_all(wanted, out, tell=StudyDisplay(console))
    results = next(iter(group_runs(read_runs([run.directory for run in runs])[0]).values()))
    console.print(table(results))
    for sentence in sentences(results):
        console.print(f"- {sentence}", highlight=True)
    console.print(f"runs: {out}", soft_wrap=True, markup=False)


def with_scaled(results: Sequence[Results]) -> dict[str, tuple[Results, str]]:
    """By label, the methods as they were trained, and the first with temperature scaling."""
    scaled = {f"{results[0].label} + TS": (results[0], "temperature")}
    return {one.label: (one, "none") for one in results} | scaled


def table(results: Sequence[Results]) -> Table:
    """Mean ± std over the seeds."""
    columns = [Compared(label, *measured) for label, measured in with_scaled(results).items()]
    cells = ranked(columns, COLUMNS)
    heads = [Column(METRICS[name].head, justify="right") for name in COLUMNS]
    made = Table("method", *heads, title=f"digits, 300 training images, MLP, {len(SEEDS)} seeds, mean ± std, test set")
    for column in columns:
        made.add_row(column.label, *(cells[column.label, name].text for name in COLUMNS))
    return made


def sentences(results: Sequence[Results]) -> list[str]:
    """What the numbers say, computed from them: which differences exceed the seeds' noise and the metric's floor."""
    base, ours = results[0], results[-1]
    ece, accuracy = (
        paired(*(dict(zip(one.seeds, 100 * one.values(name), strict=True)) for one in (ours, base)))
        for name in ("ece", "accuracy")
    )
    clear = "clearly" if ece.beyond_noise else "within the noise of the seeds"
    same = "a difference" if accuracy.beyond_noise else "no difference"
    values = {
        label: [100 * one.values(name, scaler).mean() for name in ("ece", "ece_floor")]
        for label, (one, scaler) in with_scaled(results).items()
    }
    lowest = min(values, key=lambda label: values[label][0])
    return [
        f"{ours.label} measures an ECE of {values[ours.label][0]:.2f} % against {values[base.label][0]:.2f} % for "
        f"{base.label}: {clear}, {'below' if ece.mean < 0 else 'above'}.",
        f"Its accuracy differs by {accuracy.mean:+.2f} points, {same} beyond the noise of the seeds.",
        f"The lowest ECE is that of {lowest} ({values[lowest][0]:.2f} %); a perfectly calibrated model would measure "
        f"{values[lowest][1]:.2f} % on this test set, so that much of every value is chance.",
    ]
