"""`socrates quickstart`: four losses on digits in a minute, and a table; the report says what it means."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from socrates.engine import run_all
from socrates.engine.studies.display import StudyDisplay
from socrates.experiment import Experiment, Part, usual_optimization
from socrates.report.aggregate import group_runs, read_runs
from socrates.report.compare import Compared, ranked
from socrates.report.results import Results
from socrates.report.vocabulary import METRICS

METHODS = (Part("ce"), Part("focal", gamma=1.0), Part("brier"), Part("socrates", gamma=1.0, alpha=0.99))
SEEDS = range(1, 6)
COLUMNS = ("accuracy", "ece", "ece_floor", "ada_ece", "nll")


def quickstart(out: Path, console: Console) -> None:
    """Train what is missing on all cores, print the table."""
    how = usual_optimization("digits", "mlp", "ce")
    wanted = [
        Experiment(Part("digits"), Part("mlp"), method, seed, num_train=300, keep_every=how.epochs, optimization=how)
        for method in METHODS
        for seed in SEEDS
    ]
    runs = run_all(wanted, out, tell=StudyDisplay(console))
    results = next(iter(group_runs(read_runs([run.directory for run in runs])[0]).values()))
    console.print(table(results))
    console.print(f"runs: {out}", soft_wrap=True, markup=False)


def with_scaled(results: Sequence[Results]) -> dict[str, tuple[Results, str]]:
    """By label, the methods as they were trained, and the first with temperature scaling."""
    scaled = {f"{results[0].label} + TS": (results[0], "temperature")}
    return {one.label: (one, "none") for one in results} | scaled


def table(results: Sequence[Results]) -> Table:
    """Mean ± std over the seeds; bold is what cannot be told from the best."""
    columns = [Compared(label, *measured) for label, measured in with_scaled(results).items()]
    cells = ranked(columns, COLUMNS)
    heads = [Column(METRICS[name].head, justify="right") for name in COLUMNS]
    made = Table("method", *heads, title=f"digits, 300 training images, MLP, {len(SEEDS)} seeds, mean ± std, test set")
    for column in columns:
        own = [cells[column.label, name] for name in COLUMNS]
        made.add_row(column.label, *(Text(cell.text, "bold" if cell.emphasis == "best" else "") for cell in own))
    return made
